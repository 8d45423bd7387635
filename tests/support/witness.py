"""Three witnesses of a run: the target that counts, a ledger held against it, and a sampler as comparable bits.

One target for all who use it: a new counter is a new program to compile.
"""

from collections import Counter

import jax

from support.counting import counting_target
from tempering.runs.ledger import Ledger
from tempering.runs.storage import arrays_of
from tempering.sampler import Sampler
from tempering.targets import anisotropic_gaussian

__all__ = ["COUNTER", "TARGET", "WitnessedLedger", "facts_and_arrays"]

TARGET, COUNTER = counting_target(anisotropic_gaussian())


class WitnessedLedger(Ledger):
    """A ledger that notes what the host really received between one entry and the next, by the stage that asked.

    Args:
        forgets: a stage that is not entered: the saboteur.
    """

    def __init__(self, budget=None, forgets=None):
        super().__init__(budget)
        COUNTER.reset()
        self.forgets, self.stage, self.seen = forgets, None, 0
        self.received: Counter[str] = Counter()

    def spend(self, stage, num_points, *, with_gradient=True):
        """Enter, after what was asked for before has arrived."""
        self.settle()
        self.stage = stage
        if stage != self.forgets:
            super().spend(stage, num_points, with_gradient=with_gradient)

    def settle(self) -> None:
        """Give the points received since the last entry to the stage that made it."""
        jax.block_until_ready(jax.live_arrays())
        if COUNTER.total > self.seen:
            self.received[self.stage] += COUNTER.total - self.seen
        self.seen = COUNTER.total


def facts_and_arrays(sampler: Sampler) -> tuple[dict, dict[str, bytes]]:
    """Everything of a sampler, to the last bit."""
    return sampler.facts(), {name: array.tobytes() for name, array in arrays_of(sampler.model).items()}
