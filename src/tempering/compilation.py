"""What XLA compiles: quickly where a program runs seldom, only once where it can be kept between processes.

`plain_jax` is what every program is written for. `quick` is for programs that take longer to compile than to
run. `keep_programs` turns on JAX's persistent cache in the user's cache folder. `Ahead` compiles on another thread what
will be needed later.
"""

import contextlib
import contextvars
import functools
import hashlib
import os
import platform
import sys
import time
import warnings
from collections.abc import Callable, Hashable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from pathlib import Path
from typing import Any, TypeVar

import equinox as eqx
import jax
import numpy as np
from jax.core import Tracer

__all__ = [
    "MOST_BYTES",
    "SWITCH",
    "Ahead",
    "cache_folder",
    "host",
    "keep_programs",
    "methods_in_plain_jax",
    "on_device",
    "plain_jax",
    "prune",
    "quick",
    "rounded_up",
    "single",
    "spare_threads",
    "unbound",
    "user_folder",
]

Function = TypeVar("Function", bound=Callable)
Class = TypeVar("Class", bound=type)

SWITCH = "TEMPERING_CACHE"
"""The environment variable: a folder for compiled programs, or "off"."""
MOST_BYTES = 512 * 2**20
"""What all compiled programs together may take; those used longest ago go first."""
_OFF = ("off", "0", "no", "none", "")
_ENTRY = "*-cache"
_FATAL = 3
"""XLA's log level that leaves out false alarms."""


@contextlib.contextmanager
def plain_jax() -> Iterator[None]:
    """JAX inside as programs here are written for it, whatever a user has switched on outside.

    That is single precision (`jax_enable_x64` is off): a density is traced in it, and what it holds in double precision
    is rounded. And nothing ends at a NaN or an infinity (`jax_debug_nans`, `jax_debug_infs`), which are counted here.
    """
    if not any(jax.config.values[name] for name in ("jax_enable_x64", "jax_debug_nans", "jax_debug_infs")):
        yield
        return
    with jax.enable_x64(False), jax.debug_nans(False), jax.debug_infs(False), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Explicitly requested dtype (float64|int64|uint64|complex128)")
        yield


def single(tree: Any) -> Any:
    """The tree with JAX's arrays of 64 bits rounded to 32; itself where it has none."""
    narrow = {"float64": np.float32, "int64": np.int32, "uint64": np.uint32}

    def is_wide(leaf: Any) -> bool:
        return isinstance(leaf, jax.Array) and not isinstance(leaf, Tracer) and str(leaf.dtype) in narrow

    def one(leaf: Any) -> Any:
        return jax.device_put(np.asarray(leaf).astype(narrow[str(leaf.dtype)])) if is_wide(leaf) else leaf

    return jax.tree.map(one, tree) if any(map(is_wide, jax.tree.leaves(tree))) else tree


def methods_in_plain_jax(cls: Class) -> Class:
    """A class whose public methods and properties run in plain JAX; a decorator."""
    shown = {"__repr__", "_repr_html_"}
    for name, member in list(vars(cls).items()):
        if name.startswith("_") and name not in shown:
            continue
        if isinstance(member, property) and member.fget is not None:
            setattr(cls, name, property(plain_jax()(member.fget), doc=member.__doc__))
        elif callable(member) and not isinstance(member, type):
            setattr(cls, name, plain_jax()(member))
    return cls


def quick(function: Function) -> Function:
    """`eqx.filter_jit` for a program that runs a few times in a fit: on the host, compiled without optimisation.

    That takes a quarter of the time, and the program runs up to four times as long. For a GPU a small program takes ten
    times as long to compile as for the host, and its arrays are quickly there and back. Inside another program the
    function is part of that one.
    """
    compiled = functools.cache(lambda: eqx.filter_jit(function, **{"compiler_options": _options()}))  # pyright: ignore

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        if any(isinstance(leaf, Tracer) for leaf in jax.tree.leaves((args, kwargs))):
            return function(*args, **kwargs)
        try:
            with jax.default_device(host()):
                return compiled()(*args, **kwargs)
        except ValueError as error:
            if "compiler_options" not in str(error):  # known numbers, but inside another program
                raise
            return function(*args, **kwargs)

    return call  # pyright: ignore[reportReturnType]


@functools.cache
def host() -> Any:
    """The host as a device; JAX's default where it may not be used."""
    try:
        return jax.local_devices(backend="cpu")[0]
    except RuntimeError:
        return None


def on_device(tree: Any) -> Any:
    """The tree with its arrays where long programs run: they travel once, and not with every call."""
    device = jax.config.values["jax_default_device"] or jax.local_devices()[0]
    if device == host():
        return tree
    arrays, rest = eqx.partition(tree, eqx.is_array)
    return eqx.combine(jax.device_put(arrays, device), rest)


def unbound(tree: Any) -> Any:
    """The tree with its arrays where JAX's default is, and bound to no device.

    An array that was put on a device draws all that it meets there: small programs of the host would be its own, too.
    """
    arrays, rest = eqx.partition(tree, eqx.is_array)
    return eqx.combine(jax.device_put(jax.device_get(arrays)), rest)


def _options() -> dict[str, Any]:
    """Options of the compiler for a program that runs seldom."""
    if host() is None:
        return {}
    options: dict[str, Any] = {"xla_backend_optimization_level": 0}
    if jax.__version_info__[:2] == (0, 10):  # an option that XLA does not know is an error
        # Parts of a program that are compiled side by side cost more than they save where nothing is optimised.
        options |= {"xla_cpu_use_fusion_emitters": False, "xla_cpu_parallel_codegen_split_count": 1}
    return options


def rounded_up(num: int, least: int = 128) -> int:
    """The next power of two: sizes that differ a little share one program."""
    return max(least, 1 << (num - 1).bit_length())


class Ahead:
    """Compiles programs on other threads while the caller does something else.

    They come back through JAX's own memory of programs, or through the cache that is kept between processes: without
    one nothing is compiled ahead. What fails here is compiled, and fails, where it is needed.

    It may be entered again: an exception while it is open gives up what was not begun. A process waits at its end for
    all the rest.
    """

    def __init__(self, num_threads: int = 1) -> None:
        # Processes that joined compile together, in one order.
        is_alone = jax.process_count() == 1
        self._pool = ThreadPoolExecutor(num_threads, "compile-ahead") if _is_kept() and is_alone else None
        self._named: dict[Hashable, Future] = {}

    def compile(self, work: Callable[[], Any], name: Hashable = None) -> None:
        """Run `work`, which lowers and compiles a program; it begins after all that was handed over before it.

        Args:
            name: by which `wait` knows it.
        """
        if self._pool is not None:
            # With the devices that are active here.
            self._named[name] = self._pool.submit(contextvars.copy_context().run, plain_jax()(work))

    def wait(self, name: Hashable) -> None:
        """Wait for a program that is being compiled: a second time would take as long. One not begun is given up."""
        future = self._named.get(name)
        if future is not None and not future.cancel():
            wait([future])

    def __enter__(self) -> "Ahead":
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        # What was handed over is still compiled, unless nothing comes of it.
        if self._pool is not None:
            self._pool.shutdown(wait=False, cancel_futures=kind is not None)


def spare_threads() -> int:
    """Threads for programs that are compiled ahead: the caller and XLA need processors too."""
    return int(np.clip((os.cpu_count() or 1) // 4, 1, 3))


def cache_folder() -> Path | None:
    """Where compiled programs are kept: $TEMPERING_CACHE, or the user's cache folder; None if switched off.

    One folder for each version of JAX and each kind of processor: machine code of another one may crash.
    """
    root = user_folder()
    return None if root is None else root / f"jax-{jax.__version__}-{_processor()}"


def user_folder() -> Path | None:
    """The folder for all that is kept between processes; None where that is switched off or the user has no home."""
    given = os.environ.get(SWITCH)
    if given is not None and given.lower() in _OFF:
        return None
    try:
        return Path(given).expanduser() if given is not None else _user_cache() / "tempering"
    except RuntimeError:
        return None


def _user_cache() -> Path:
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA", Path.home() / "AppData" / "Local"))
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")


def _processor() -> str:
    """A few letters that tell one kind of processor from another."""
    words = f"{platform.machine()} {platform.processor()}"
    with contextlib.suppress(OSError), open("/proc/cpuinfo") as lines:
        words += next((line for line in lines if line.startswith(("flags", "Features"))), "")
    return hashlib.sha256(words.encode()).hexdigest()[:8]


def _is_kept() -> bool:
    return jax.config.values["jax_compilation_cache_dir"] is not None


def keep_programs() -> Path | None:
    """Keep compiled programs between processes, and say where; None where they are not kept.

    A cache that the user has set up by JAX's own settings is left as it is. A folder that cannot be written, and
    entries that are damaged, cost only the time to compile: JAX reads what it can, and warns of the rest, which is left
    out here.
    """
    if _is_kept() or not jax.config.values["jax_enable_compilation_cache"]:
        return None
    try:
        folder = cache_folder()
        if folder is None:
            return None
        folder.mkdir(parents=True, exist_ok=True)
        prune(folder.parent)
        if not os.access(folder, os.R_OK | os.X_OK):
            return None
    except OSError:
        return None
    jax.config.update("jax_compilation_cache_dir", str(folder))
    # The hundreds of small programs too: read back, they save half of what a fit costs before it trains.
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
    warnings.filterwarnings("ignore", message="Error (reading|writing) persistent compilation cache entry")
    _quieten()
    return folder


def _quieten() -> None:
    """Keep XLA's false alarms off the terminal.

    For every CPU program that comes from the cache XLA logs kilobytes: it takes its own tuning hints (prefer-no-gather)
    for features that the processor lacks. TF_CPP_MIN_LOG_LEVEL=0, which asks for the whole log, is respected.
    """
    if os.environ.get("TF_CPP_MIN_LOG_LEVEL") == "0" or jax.default_backend() != "cpu":
        return
    with contextlib.suppress(ImportError, AttributeError):
        from jaxlib import utils  # pyright: ignore[reportAttributeAccessIssue]

        utils.absl_set_min_log_level(_FATAL)


def prune(root: Path, most_bytes: int = MOST_BYTES) -> None:
    """Delete empty entries, and those used longest ago until all take at most `most_bytes`.

    Another process may do the same at the same time, or have an entry open: both are harmless.
    """
    entries = []
    for path in root.glob(f"jax-*/{_ENTRY}"):
        with contextlib.suppress(OSError):
            facts = path.stat()
            entries.append((facts.st_size > 0, max(facts.st_atime, facts.st_mtime), facts.st_size, path))
    entries.sort(key=lambda entry: entry[:3])
    excess = sum(entry[2] for entry in entries) - most_bytes
    for is_whole, used, size, path in entries:
        is_new = time.time() - used < 60.0  # perhaps being written just now
        if (is_whole or is_new) and excess <= 0:
            continue
        with contextlib.suppress(OSError):
            path.unlink()
        excess -= size
