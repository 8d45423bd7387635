"""What a target is: a log density, and whatever is known exactly about it.

Consumes nothing; produces unnormalised log densities at T = 1 for one point; `path` says what level k makes of them.
A target may have a `reference`, a normalised distribution that its path starts from (`references`).
"""

from abc import abstractmethod

import equinox as eqx
import jax

from tempering.targets.path import ReferenceValues
from tempering.types import Array, Float, Key

__all__ = ["ExactTarget", "Target", "evaluate", "evaluate_many", "evaluate_reference"]


class Target(eqx.Module):
    """An unnormalised density on R^dim. Abstract: a concrete target gives `dim` and `log_density`."""

    dim: eqx.AbstractVar[int]

    @abstractmethod
    def log_density(self, x: Float[Array, " dim"]) -> Float[Array, ""]:
        """Unnormalised log density of one point at T = 1; -inf outside the support."""


class ExactTarget(Target):
    """A target whose samples, normaliser and moments are known: what benchmarks and tests stand on.

    A *region* is a soft or hard indicator function of one point, whose expectation under the target is known exactly:
    the posterior probability of a mixture component, or "this coordinate is in its right-hand well".
    `regions_partition` says whether the indicators sum to one, so that total variation between weights makes sense.
    """

    regions_partition: eqx.AbstractClassVar[bool]

    @abstractmethod
    def sample(self, key: Key, num: int) -> Float[Array, "num dim"]:
        """`num` independent exact samples."""

    @abstractmethod
    def log_z(self) -> float:
        """log of the integral of exp(log_density)."""

    @abstractmethod
    def mean(self) -> Float[Array, " dim"]:
        """E[x]."""

    @abstractmethod
    def second_moment(self) -> float:
        """E|x|^2."""

    @abstractmethod
    def region_weights(self) -> Float[Array, " region"]:
        """The exact expectation of every indicator of `region_indicators`."""

    @abstractmethod
    def region_indicators(self, x: Float[Array, " dim"]) -> Float[Array, " region"]:
        """The indicators of one point, each in [0, 1]."""


def evaluate(target, x: Float[Array, " dim"]) -> tuple[Float[Array, ""], Float[Array, " dim"]]:
    """Log density and its gradient at one point: one evaluation in the ledger."""
    return jax.value_and_grad(target.log_density)(x)


def evaluate_reference(target, x: Float[Array, " dim"]) -> ReferenceValues | None:
    """The same of the target's reference: no evaluation of the target. None where there is no reference."""
    reference = getattr(target, "reference", None)
    return None if reference is None else ReferenceValues(*jax.value_and_grad(reference.log_density)(x))


@eqx.filter_jit
def evaluate_many(
    target, x: Float[Array, "particle dim"], chunk_size: int = 10_000
) -> tuple[Float[Array, " particle"], Float[Array, "particle dim"]]:
    """Log densities and gradients of many points, exactly one evaluation each: no chunk is padded."""
    return jax.lax.map(lambda point: evaluate(target, point), x, batch_size=chunk_size)
