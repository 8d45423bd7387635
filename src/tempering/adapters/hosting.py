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
    """The black boxes of a run.

    Args:
        failed: points that failed before this process, by kind: the verdict must go on telling of them.
    """

    def __init__(self, boxes: list[BlackBox], budget: int | None, failed: Counter | None = None):
        self.boxes, self.budget = boxes, budget
        self._failed_before, self._failed_elsewhere = failed or Counter(), [Counter(box.use.failed) for box in boxes]
        self._told = -float("inf")
        self._has_forecast = False
        self._last: Event | None = None

    def use(self) -> HostUse | None:
        """The account of all boxes together; None without any. Points that failed are those of this run alone."""
        if not self.boxes:
            return None
        parts = [box.use for box in self.boxes]
        own = (part.failed - others for part, others in zip(parts, self._failed_elsewhere, strict=True))
        whole = HostUse(failed=sum(own, self._failed_before))
        for name in ("points", "replayed", "batches", "retried", "busy", "available", "waited"):
            setattr(whole, name, sum(getattr(part, name) for part in parts))
        whole.workers = max(part.workers for part in parts)
        return whole

    @property
    def num_workers(self) -> int:
        """That evaluate now."""
        return max((box.num_workers for box in self.boxes), default=1)

    def seconds_per_point(self) -> float | None:
        """As measured in this process, else as the store of points knows it."""
        use = self.use()
        if use is not None and use.points:
            return use.seconds_per_point
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
        return observe

    def _noted(self, event: Event) -> Event:
        use = self.use()
        each = None if use is None else use.seconds_per_point
        if use is None or each is None or each < _SLOW:
            return event
        planned = event.planned or self.budget or 0
        # A resumed run has points of finished levels in its ledger that were not asked for in this process.
        left = max(0, planned - max(event.evaluations, use.points + use.replayed))
        workers, share = self.num_workers, use.utilisation or 1.0
        if not self._has_forecast and planned:
            self._has_forecast = True
            _LOGGER.info("%s", forecast_words(planned, workers, each))
        note = f"{forecast_words(left, workers, each, share)}; utilisation {share:.2f}"
        note += f"; {use.num_failed:,} failed" if use.num_failed else ""
        return dataclasses.replace(event, note=note, seconds_left=left * each / workers / share if left else None)

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
    target: Target, folder: Path | None, budget: int | None = None, failed: Counter | None = None
) -> Iterator[Hosts]:
    """Open the stores of points of a run's folder, or those that the target names, and leave them at the end.

    Args:
        budget: points that the run may spend, as far as is known.
        failed: points that failed before, by kind, as a sampler that is improved knows them. The folder may know more.

    Raises:
        RunFolderError: if a store is in use, or of another density or version.
    """
    boxes, opened, stored = boxes_of(target), [], Counter()
    hosts = Hosts(boxes, budget)
    try:
        for number, box in enumerate(boxes):
            if box.store is None:
                own = folder if folder is None or number == 0 else folder / f"points-{number + 1}"
                box.open_store(own)
                opened.append(box)
                if box.store is not None and not box.is_store_named:
                    stored += box.store.failed
        hosts = Hosts(boxes, budget, stored | (failed or Counter()))
        yield hosts
    finally:
        hosts.close()
        for box in opened:
            if not box.is_store_named:  # one that the user named is kept until the target is closed
                box.close_store()
