"""What a baseline is: one object a method, of pure functions over a state of arrays. The trainer does all the rest.

A baseline knows its algorithm and what a step costs. It knows no ledger, no files, no clock: `train.py` books
evaluations before every block of steps, keeps checkpoints and reports progress, and `sampler.py` draws.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import jax
import jax.numpy as jnp

from tempering.targets.base import Target
from tempering.types import Array, Float, Key, Keys

__all__ = ["Baseline", "Cost", "Drawn", "Info", "State", "row_keys"]

Info = dict[str, Float[Array, ""]]
"""Numbers of one step by name. `loss` is always there; the trainer reports means over a block.

`left_out` may be there: the share of the step's own updates that were not finite and were left out.
"""


@dataclass(frozen=True)
class Cost:
    """Evaluations of the target, exact and known before they are made.

    Args:
        points: at which the target is evaluated; value and gradient together count once.
        value_only: those of `points` that ask for no gradient.
        hessian_vector: products of the target's Hessian with a vector, counted beside the points.
    """

    points: int = 0
    value_only: int = 0
    hessian_vector: int = 0

    def __add__(self, other: "Cost") -> "Cost":
        return Cost(*(a + b for a, b in zip(self.counts, other.counts, strict=True)))

    def __sub__(self, other: "Cost") -> "Cost":
        return Cost(*(a - b for a, b in zip(self.counts, other.counts, strict=True)))

    def __mul__(self, times: int) -> "Cost":
        return Cost(*(times * count for count in self.counts))

    @property
    def counts(self) -> tuple[int, int, int]:
        """All three."""
        return self.points, self.value_only, self.hessian_vector

    def in_points(self, per_gradient: int) -> int:
        """Points in all, where a value with its gradient takes `per_gradient` of them (`points_per_gradient`)."""
        return (self.points - self.value_only) * per_gradient + self.value_only


class Drawn(NamedTuple):
    """Weighted draws: places, log weights, and the target's log density there."""

    position: Float[Array, "num dim"]
    log_weight: Float[Array, " num"]
    log_density: Float[Array, " num"]


class State(Protocol):
    """What one step hands to the next: an `eqx.Module` whose changing parts are arrays, and no random keys.

    Attributes:
        model: what draws need, and all that a finished sampler keeps.
    """

    @property
    def model(self) -> Any: ...


class Baseline(ABC):
    """One method. Settings are static; `target` is in the method's own coordinates, in units of `settings.scale`."""

    title: str
    """Its name in tables."""
    has_weights: bool = False
    """Whether `draw_weighted` is there: draws with log weights whose mean weight is Z without bias."""

    @abstractmethod
    def check(self, settings: Any, target: Target) -> None:
        """Refuse a target that the method cannot serve, before anything is spent.

        Raises:
            SettingsError: saying why, and what to do.
        """

    @abstractmethod
    def init(self, key: Key, target: Target, settings: Any) -> Any:
        """The first state: networks, optimiser, a first buffer. Costs `init_cost`. Runs under `jit`."""

    def init_cost(self, settings: Any, dim: int) -> Cost:
        """Of `init`."""
        del settings, dim
        return Cost()

    @abstractmethod
    def step(self, key: Key, state: Any, target: Target, settings: Any) -> tuple[Any, Info]:
        """One iteration of training, or one outer loop. Pure; runs inside a compiled loop. Costs `step_cost`."""

    @abstractmethod
    def step_cost(self, settings: Any, dim: int) -> Cost:
        """Of every `step`: the same for all."""

    @abstractmethod
    def draw(self, keys: Keys, model: Any, target: Target, settings: Any) -> Float[Array, "num dim"]:
        """One draw a key, each a function of its key alone. Costs `draw_cost` a draw. Runs under `jit`.

        A method whose `draw_cost` is nothing must not touch `target`: it is None for a sampler loaded without one.
        """

    def draw_cost(self, settings: Any, dim: int) -> Cost:
        """Of one draw. Nothing for most methods."""
        del settings, dim
        return Cost()

    def draw_weighted(self, keys: Keys, model: Any, target: Target, settings: Any) -> Drawn:
        """The draws of `draw`, with log weights. Costs `weigh_cost` a draw. Only where `has_weights`."""
        raise NotImplementedError(f"{self.title} has no weights")

    def weigh_cost(self, settings: Any, dim: int) -> Cost:
        """Of one weighted draw, everything included."""
        return self.draw_cost(settings, dim) + Cost(1, 1)

    def log_prob(self, model: Any, x: Float[Array, " dim"], settings: Any) -> Float[Array, ""] | None:
        """Normalised log density of the model at one point; None where there is none. Evaluates no target."""
        del model, x, settings
        return None


def row_keys(key: Key, num: int, first: int = 0) -> Keys:
    """Keys of rows `first`, `first` + 1, ...: row i has the same one whatever `num` is."""
    return jax.vmap(lambda row: jax.random.fold_in(key, row))(first + jnp.arange(num))
