"""Who evaluates, behind one small interface: tasks in, what became of them out.

An engine knows nothing of points, tries or files; `dealing` does. `processes` has own workers, `foreign` those of
users.
"""

from typing import Any, Protocol, runtime_checkable

import numpy as np

from tempering.errors import SettingsError, what_is
from tempering.host.kinds import kind_of
from tempering.host.pools import ALLOWED
from tempering.host.processes import Processes, Returned
from tempering.host.work import Shipped, evaluate

__all__ = ["Engine", "Here", "engine_of"]


@runtime_checkable
class Engine(Protocol):
    """What `dealing` asks of a pool."""

    @property
    def keeps_time(self) -> bool:
        """Whether a point can be found to take too long."""
        ...

    @property
    def num_workers(self) -> int:
        """Workers as far as is known now."""
        ...

    @property
    def num_ready(self) -> int:
        """Those of them that have begun."""
        ...

    def check(self) -> None:
        """Refuse what can be seen to fail, without waiting for a worker."""

    def room(self, num_flying: int) -> int:
        """Tasks that may be handed over now."""
        ...

    def submit(self, key: int, which: int, rows: np.ndarray) -> None:
        """Hand over a task."""

    def collect(self, seconds: float | None) -> list[Returned]:
        """What has come back; waits for something to, `seconds` at the most."""
        ...

    def abandon(self, key: int) -> bool:
        """Give up on a task; whether its worker is free again."""
        ...

    def holds(self, key: int) -> bool:
        """Whether a task that was given up may still keep a worker busy."""
        ...

    def close(self, at_once: bool = False) -> None:
        """End what was started here."""


class Here:
    """No pool: points are evaluated in this process when they are waited for."""

    num_workers = num_ready = 1
    keeps_time = False

    def __init__(self, shipped: Shipped):
        self.shipped, self.halts = shipped, True
        self._tasks: list[tuple[int, int, np.ndarray]] = []

    def check(self) -> None:
        """Nothing can be wrong."""

    def room(self, num_flying: int) -> int:
        """One task at a time."""
        return 1 - num_flying

    def submit(self, key: int, which: int, rows: np.ndarray) -> None:
        """Note a task."""
        self._tasks.append((key, which, rows))

    def collect(self, seconds: float | None) -> list[Returned]:
        """Carry the tasks out."""
        del seconds
        tasks, self._tasks = self._tasks, []
        token = self.shipped.token
        return [
            Returned(key, evaluate(token, self.shipped, which, rows, is_apart=False, halts=self.halts))
            for key, which, rows in tasks
        ]

    def abandon(self, key: int) -> bool:
        """Never asked for: there is no time limit without a pool."""
        return False

    def holds(self, key: int) -> bool:
        """Nothing runs while nobody waits."""
        return False

    def close(self, at_once: bool = False) -> None:
        """Nothing to end."""


def engine_of(pool: Any, shipped: Shipped) -> Any:
    """The `Engine` for what a user gave as `pool`.

    Raises:
        SettingsError: for what is no pool, or one that is closed.
        DensityError: if the functions cannot be sent to processes.
    """
    if pool is None or (isinstance(pool, int | np.integer) and not isinstance(pool, bool) and pool == 0):
        return Here(shipped)
    if isinstance(pool, int | np.integer) and not isinstance(pool, bool):
        if pool < 0:
            raise SettingsError(f"pool = {pool} is not allowed: give {ALLOWED}")
        engine: Any = Processes(shipped, int(pool))
    else:
        kind = kind_of(pool)
        if kind is None:
            engine = _Made(pool, shipped)
        else:
            engine = kind(pool, shipped, None)
    engine.check()
    return engine


class _Made:
    """An engine that is made when it is first needed, by a function of the user's, and again when it broke."""

    def __init__(self, make: Any, shipped: Shipped):
        self._make, self._shipped = make, shipped
        self._engine: Any = None

    def _now(self) -> Any:
        if self._engine is None:
            pool = self._make()
            kind = kind_of(pool)
            if kind is None:
                raise SettingsError(f"pool is a function that returned {what_is(pool)}; it must make a pool")
            self._engine = kind(pool, self._shipped, self._make)
        return self._engine

    def check(self) -> None:
        """Nothing is made yet."""

    def close(self, at_once: bool = False) -> None:
        """End the pool that was made."""
        if self._engine is not None:
            engine, self._engine = self._engine, None
            engine.close(at_once)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(self._now(), name)
