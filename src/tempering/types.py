"""Axis words, array aliases and the protocols that cross rooms.

Axis words are singular: ``level chain draw particle batch step dim``. The core is unbatched (``" dim" -> ""``);
batching is the caller's explicit ``vmap``.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray
from jaxtyping import Key as KeyArray

__all__ = ["Array", "Bool", "Denoise", "Event", "Float", "Int", "Key", "Keys", "OnEvent", "TargetLike", "ignore_event"]

Key = PRNGKeyArray
Keys = KeyArray[Array, "_"]
"""One key for each of a batch."""


@runtime_checkable
class TargetLike(Protocol):
    """What a user's own target object must have; a plain function is wrapped into one by `tempering.adapters`."""

    dim: int

    def log_density(self, x: Float[Array, " dim"]) -> Float[Array, ""]:
        """Unnormalised log density of one point at T = 1."""
        ...


@runtime_checkable
class Denoise(Protocol):
    """Anything that maps a noised point and its noise level to E[x0 | x_noisy]: a network, guidance, an oracle."""

    def __call__(self, x_noisy: Float[Array, " dim"], sigma: Float[Array, ""]) -> Float[Array, " dim"]: ...


@dataclass(frozen=True)
class Event:
    """One line of progress: what a long computation is doing now.

    `done` and `total` count the stage's own units (steps, samples, training steps). `evaluations` is what the ledger
    holds, `planned` what the whole run is going to spend. `seconds_left` is known where a like run was made before.
    `note` is a word about workers, where they evaluate the density.
    """

    stage: str
    level: int
    num_levels: int
    done: int
    total: int
    evaluations: int
    planned: int
    temperature: float | None = None
    ess_fraction: float | None = None
    acceptance: float | None = None
    loss: float | None = None
    seconds_left: float | None = None
    note: str | None = None


OnEvent = Callable[[Event], None]


def ignore_event(event: Event) -> None:
    """The observer that watches nothing."""
    del event
