"""The time that a fit may take. Consumes a limit in seconds; says to every stage whether its share of it is over."""

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field

__all__ = ["Clock"]


@dataclass
class Clock:
    """The time since the fit began, and what had to end because of its limit.

    Args:
        limit: seconds; None for no limit.
        hurried: what ended sooner than planned, in words, in order.
    """

    limit: float | None = None
    hurried: list[str] = field(default_factory=list)
    now: Callable[[], float] = time.monotonic
    began: float = field(init=False)

    def __post_init__(self) -> None:
        self.began = self.now()

    def left(self, share: float = 1.0) -> float:
        """Seconds until `share` of the limit is over; infinite without a limit."""
        return math.inf if self.limit is None else self.began + share * self.limit - self.now()

    def ends(self, what: str, share: float) -> bool:
        """Whether `what` must end, because `share` of the limit is over; it is then written down."""
        if self.left(share) > 0.0:
            return False
        if what not in self.hurried:
            self.hurried.append(what)
        return True
