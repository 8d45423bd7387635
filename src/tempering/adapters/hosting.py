"""A run of a density on the host: its store of points opened, its workers watched, its hours forecast.

Targets without a black box go through: they have no boxes, and nothing is opened or said.
"""

import dataclasses
import logging
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tempering.adapters.black_box import BlackBox
from tempering.adapters.callback import boxes_of
from tempering.host.use import HostUse, forecast_words
from tempering.runs.points import has_points, read_points
from tempering.targets.base import Target
from tempering.types import Event, OnEvent

__all__ = ["Hosts", "hosted", "seconds_known"]

_EVERY = 2.0
"""Seconds between two words about workers while a compiled program waits for them."""
_SLOW = 0.01
"""Seconds: of a point that takes less, nobody wants to hear about workers."""
_LOGGER = logging.getLogger("tempering")


class Hosts:
    """The black boxes of a run."""

    def __init__(self, boxes: list[BlackBox], budget: int | None):
        self.boxes, self.budget = boxes, budget
        self._before = [(box.use.copy(), Counter(box.replayed_failures)) for box in boxes]
        self._is_kept = False
        self._told = -float("inf")
        self._has_forecast = False
        self._last: Event | None = None

    def use(self) -> HostUse | None:
        """The account of all boxes together since the run began; None without any.

        Failures are those of all processes of the run.
        """
        whole = None
        for box, (before, replayed) in zip(self.boxes, self._before, strict=True):
            part = box.use.since(before)
            if self._is_kept and box.store is not None:
                part.failed += box.store.rejected  # finished levels of a resumed run are not asked for again
            else:
                part.failed += box.replayed_failures - replayed
            whole = part.plus(whole)
        return whole

    def joined(self, earlier: HostUse | None) -> HostUse | None:
        """The account together with that of a sampler which the run goes on with."""
        now = self.use()
        return earlier if now is None else now.plus(earlier)

    def keep(self) -> None:
        """The run has a folder: what earlier processes rejected belongs to it."""
        self._is_kept = True

    @property
    def num_workers(self) -> int:
        """That evaluate now."""
        return max((box.num_workers for box in self.boxes), default=1)

    def seconds_per_point(self) -> float | None:
        """As measured in this process, else as the store of points knows it."""
        parts = [self.use(), *(box.use for box in self.boxes)]
        timed = next((part for part in parts if part is not None and part.points), None)
        if timed is not None:
            return timed.seconds_per_point
        return next((box.store.mean_seconds for box in self.boxes if box.store is not None), None)

    def telling(self, on_event: OnEvent) -> OnEvent:
        """An observer that gets every event with a word about the workers, and more of them while workers are busy."""
        if not self.boxes:
            return on_event

        def observe(event: Event) -> None:
            self._last = event
            on_event(self._noted(event))

        def tick() -> None:
            now = time.monotonic()
            if now - self._told < _EVERY:
                return
            self._told = now
            event = self._last or Event("first points", 0, 0, 0, 0, 0, self.budget or 0)
            on_event(self._noted(event))

        for box in self.boxes:
            box.on_tick(tick)
        if self.seconds_per_point() is not None:  # by a store, or an earlier run: the forecast need not wait for points
            tick()
        return observe

    def _noted(self, event: Event) -> Event:
        use, each = self.use(), self.seconds_per_point()
        if use is None or each is None or each < _SLOW:
            return event
        planned = event.planned or self.budget or 0
        # A resumed run has points of finished levels in its ledger that were not asked for in this process.
        left = max(0, planned - max(event.evaluations, use.points + use.replayed, self._num_kept()))
        workers, share = self.num_workers, use.utilisation or 1.0
        if not self._has_forecast and planned:
            self._has_forecast = True
            _LOGGER.info("%s", forecast_words(planned, workers, each))
        note = forecast_words(left, workers, each, share)
        note += "" if use.utilisation is None else f"; utilisation {share:.2f}"
        note += f"; {use.num_failed:,} failed" if use.num_failed else ""
        return dataclasses.replace(event, note=note, seconds_left=left * each / workers / share if left else None)

    def _num_kept(self) -> int:
        """Points that earlier processes of the run paid for."""
        stores = [box.store for box in self.boxes if box.store is not None]
        return sum(store.num_before for store in stores) if self._is_kept else 0

    def close(self) -> None:
        """Watch no longer, and let others have the stores of the run."""
        for box in self.boxes:
            box.on_tick(None)


def seconds_known(target: Target) -> tuple[float, int] | None:
    """Seconds of a point by the store that the target names, and its workers; None where nothing is known.

    Nothing is locked, and no worker is started.
    """
    for box in boxes_of(target):
        if isinstance(box.place, str | Path) and has_points(Path(box.place)):
            seconds = read_points(box.place).records["seconds"]
            if len(seconds):
                return float(seconds.mean()), box.num_workers
    return None


@contextmanager
def hosted(
    target: Target, folder: Path | None, budget: int | None = None, *, is_resumed: bool = False
) -> Iterator[Hosts]:
    """Open the stores of points of a run's folder, or those that the target names, and leave them at the end.

    Args:
        budget: points that the run may spend, as far as is known.
        is_resumed: whether the run may be one that earlier processes began: what they rejected then counts.

    Raises:
        RunFolderError: if a store is in use, or of another density or version.
    """
    boxes, opened = boxes_of(target), []
    hosts = Hosts(boxes, budget)
    try:
        for number, box in enumerate(boxes):
            if box.store is None:
                own = folder if folder is None or number == 0 else folder / f"points-{number + 1}"
                box.open_store(own)
                opened.append(box)
        if is_resumed:
            hosts.keep()
        yield hosts
    finally:
        hosts.close()
        for box in opened:
            if not isinstance(box.place, str | Path):  # one that the user named is kept until the target is closed
                box.close_store()
