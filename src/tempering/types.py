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
    """A report of progress: what a fit is doing now. A field is None if nothing is known about it.

    Args:
        stage: the name of the stage, such as "training".
        level: the level, counted from 0 at the hottest one.
        num_levels: the number of levels that are planned now.
        done, total: how many of the stage's own units are done, and how many there are: steps, samples or training
            steps.
        evaluations: the number of evaluations so far.
        planned: the number of evaluations that the whole run is going to spend.
        temperature: the temperature of the level.
        ess_fraction: the effective share of the level's weights.
        acceptance: the acceptance rate of the chains.
        loss: the loss of training.
        seconds_left: the seconds until the end of the fit. It is known if a similar fit was made on this machine.
        note: a remark about the workers, if workers evaluate the density.
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
