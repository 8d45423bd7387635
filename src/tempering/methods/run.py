"""What every stage of a method needs besides the levels: the problem, the settings, the start, and the account.

Checkpoints, records and progress live here, round the stages, so that a method reads as its algorithm.
"""

import functools
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from tempering.buffer import Levels, blank_buffer
from tempering.compilation import Ahead
from tempering.devices.keys import folded, split
from tempering.guidance.choose import WAYS, Ways
from tempering.kernels import Kernel, kernel_of
from tempering.methods.budget import Plan
from tempering.methods.pilot import Start
from tempering.runs.checkpoint import Journal
from tempering.runs.records import LevelRecord
from tempering.targets import Target
from tempering.targets.cost import has_gradient
from tempering.types import Event, Key, OnEvent

__all__ = ["Run", "finds_levels", "keeps_levels", "keeps_networks"]

_FIRST = ("explore", "network", "learn", "finish")
_LATER = ("guide", "draw", "resample", "refine")


@dataclass
class Run:
    """One run of a method.

    Args:
        target: the density, in the coordinates that the method works in.
        key: everything random follows from it.
        settings: with every number settled.
        plan: what the run will spend, and the most levels that it may have.
        journal: ledger, records and store.
        on_event: called with every event.
        ways: to the next temperature, by `guidance.kind`.
        start: the ladder, the starting points and the units of the chains, once they are settled.
        networks: untrained networks, the structure of those that are kept.
        ahead: what is being compiled for later.
    """

    target: Target
    key: Key
    settings: Any
    plan: Plan
    journal: Journal
    on_event: OnEvent
    ways: Ways = field(default_factory=lambda: WAYS)
    start: Start = field(init=False)
    networks: tuple = field(init=False)
    ahead: Ahead = field(init=False)
    _spent_before: dict[str, int] = field(default_factory=dict)

    @property
    def kernel(self) -> Kernel:
        """The Markov kernel of the settings."""
        return kernel_of(self.settings.exploration, self.target.dim)

    def key_of(self, level: int, stage: str) -> Key:
        """The key of a stage at a level: used once."""
        key = folded(self.key, level)
        if level == 1:
            return split(key, len(_FIRST))[_FIRST.index(stage)]
        key_buffer, key_learn = split(key)
        return key_learn if stage == "learn" else split(key_buffer, len(_LATER))[_LATER.index(stage)]

    def tell(self, stage: str, level: int, done: int, total: int, **numbers) -> None:
        """Report progress: one event, with the level count and the evaluations that are spent and planned."""
        spent, plan = self.journal.ledger.total, self.plan
        planned = max(spent, plan.evaluations) if plan.evaluations else 0  # a second look is in no plan
        self.on_event(Event(stage, level, plan.num_levels, done, total, spent, planned, **numbers))

    def expect(self, num_levels: int) -> None:
        """Note how many levels the run is going to have, as far as is known."""
        self.plan = replace(self.plan, num_levels=num_levels)

    def open(self, level: int, temperature: float) -> LevelRecord:
        """The record of a level that begins."""
        self._spent_before = dict(self.journal.ledger.points)
        self.journal.levels[level] = LevelRecord(level, temperature)
        return self.journal.levels[level]

    def record(self, level: int) -> LevelRecord:
        """The record of a level."""
        return self.journal.levels[level]

    def _close(self, level: int) -> None:
        """Write into the record of a level what it has spent since it was opened."""
        points, before = self.journal.ledger.points, self._spent_before
        spent = {stage: num - before.get(stage, 0) for stage, num in points.items()}
        self.record(level).evaluations = {stage: num for stage, num in spent.items() if num > 0}


def _part(levels: Levels) -> dict[str, Any]:
    """What is kept of the levels at every step: the two coldest buffers, or the only one."""
    hot = {"hot": levels.buffers[-2]} if levels.num_done > 1 else {}
    return {**hot, "cold": levels.buffers[-1], "step_size": levels.step_size, "sigma_max": levels.sigma_max}


def _found(run: Run, level: int, num_kept: int) -> dict[str, Any] | None:
    blank, numbers = (
        blank_buffer(run.target.dim, has_reference=run.target.reference is not None),
        np.zeros(2, np.float32),
    )
    hot = {"hot": blank} if num_kept > 1 else {}
    return run.journal.find(level, "buffer", {**hot, "cold": blank, "step_size": numbers, "sigma_max": numbers[0]})


def finds_levels(explore: Callable[..., Levels]) -> Callable[..., Levels]:
    """Round the exploration: levels that an earlier process finished are found again, as far as it came."""

    @functools.wraps(explore)
    def stage(run: Run, temperatures: tuple[float, ...], keep: int) -> Levels:
        level, keep = len(temperatures) - 1, min(keep, len(temperatures))
        part = _found(run, level, keep)
        if part is None:
            levels = explore(run, temperatures, keep)
            run.journal.keep(level, "buffer", _part(levels))
            return levels
        coldest = temperatures[-keep:]
        buffers = (part["hot"], part["cold"]) if keep > 1 else (part["cold"],)
        levels = Levels(coldest, buffers, part["step_size"], part["sigma_max"], run.networks, has_gradient(run.target))
        while part is not None:
            networks = run.journal.find(level, "model", {"all": levels.networks})
            levels = levels if networks is None else replace(levels, networks=networks["all"])
            level += 1
            part = _found(run, level, 2)
            if part is not None:
                levels = replace(
                    levels,
                    temperatures=(*levels.temperatures, run.record(level).temperature),
                    buffers=(*levels.buffers[:-1], part["hot"], part["cold"]),
                    step_size=part["step_size"],
                )
        return levels

    return stage


def keeps_levels(refine: Callable[..., Levels]) -> Callable[..., Levels]:
    """Round the last stage of a level: what it spent is written down, and the level is kept."""

    @functools.wraps(refine)
    def stage(run: Run, levels: Levels, *rest) -> Levels:
        new = refine(run, levels, *rest)
        level = new.num_done - 1
        run._close(level)
        run.journal.keep(level, "buffer", _part(new))
        return new

    return stage


def keeps_networks(learn: Callable[..., tuple]) -> Callable[..., Levels]:
    """Round the learning: networks that were kept are found again."""

    @functools.wraps(learn)
    def stage(run: Run, levels: Levels) -> Levels:
        level = max(run.journal.levels)
        like = {"all": run.networks}
        networks = run.journal.part(level, "model", like, lambda: {"all": learn(run, levels)})
        return replace(levels, networks=networks["all"])

    return stage
