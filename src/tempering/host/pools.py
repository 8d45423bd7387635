"""What is known of pools of other libraries: how many workers, how they end, and why one cannot be used, in words."""

import os
from concurrent.futures import Executor
from typing import Any

from tempering.errors import SettingsError, first_line, what_is

__all__ = [
    "ALLOWED",
    "NOT_FOUND",
    "client_of",
    "end_of",
    "is_closed",
    "says_closed",
    "shut",
    "size_of",
    "unfit",
    "way_of",
    "words_of",
]

ALLOWED = (
    "a number of processes; an executor such as concurrent.futures.ProcessPoolExecutor, "
    "mpi4py.futures.MPIPoolExecutor or Dask's client.get_executor(); an object with .map such as multiprocessing.Pool; "
    "or a function without arguments that makes one of these"
)


NOT_FOUND = (
    "a function that was written in a notebook or at a prompt must be in a module, because workers import it, and a "
    "script must do its work under `if __name__ == '__main__':`"
)


def way_of(pool: Any) -> str | None:
    """How a pool takes tasks: submit, apply_async or map. None: it is a function or a class, which may make a pool.

    Raises:
        SettingsError: for what is neither.
    """
    if isinstance(pool, type):
        return None
    found = next((name for name in ("submit", "apply_async", "map") if callable(getattr(pool, name, None))), None)
    if found is None and not callable(pool):
        raise SettingsError(f"pool is {what_is(pool)} without .submit or .map; give {ALLOWED}")
    return found


def client_of(pool: Any) -> Any:
    """The client of Dask that a pool is or has; None of other pools."""
    client = getattr(pool, "_client", pool)
    return client if hasattr(client, "nthreads") else None


def size_of(pool: Any) -> int:
    """Workers of a pool, from whatever it says about itself."""
    client = client_of(pool)
    if client is not None:
        return sum(client.nthreads().values())
    for name in ("num_workers", "_max_workers", "_processes", "size"):
        number = getattr(pool, name, None)
        if isinstance(number, int) and number > 0:
            return number
    return os.cpu_count() or 1


def end_of(pool: Any) -> None:
    """End a pool that was made for a fit."""
    if isinstance(pool, Executor) or hasattr(pool, "shutdown"):
        try:
            pool.shutdown(wait=False, cancel_futures=True)  # nobody waits for what is in its queue
        except TypeError:  # loky and others do not know the word
            pool.shutdown(wait=False)
    elif hasattr(pool, "terminate"):
        pool.terminate()


def words_of(error: BaseException) -> str:
    """The first line of what an error says."""
    return first_line(error) if isinstance(error, Exception) else repr(error)


def is_closed(error: Exception) -> bool:
    """Whether a pool refuses work because it is closed: every library has an exception of its own for it."""
    return isinstance(error, RuntimeError | ValueError) or "Closed" in type(error).__name__


def says_closed(error: Exception) -> bool:
    """The same of a pool whose exceptions may mean anything else as well."""
    return is_closed(error) and any(word in str(error).lower() for word in ("closed", "not running", "shut"))


def shut(error: BaseException) -> SettingsError:
    """That a pool takes no work, in words."""
    return SettingsError(
        f"the pool takes no work ({words_of(error)}): it is closed, or was not started; give one that is open, such as "
        "inside its `with` block"
    )


def unfit(error: BaseException) -> Exception:
    """Why a pool cannot evaluate the functions, in words."""
    words, lacking = f"{type(error).__name__}: {words_of(error)}", getattr(error, "name", None)
    if isinstance(error, ImportError):
        return SettingsError(
            f"a worker of the pool cannot import {lacking or 'what it needs'} ({words}); install tempering, and what "
            "the function imports, in the workers' environment, and put the function into a module that they can import"
        )
    if "pickle" in words.lower() or isinstance(error, AttributeError | TypeError):
        return SettingsError(
            f"the function cannot be sent to the pool's workers ({words}); put it at the top of a module that workers "
            "can import, or take a pool that sends functions by value (Dask, loky)"
        )
    return error if isinstance(error, Exception) else RuntimeError(words)
