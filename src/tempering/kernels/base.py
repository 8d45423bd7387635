"""What a Markov kernel at a fixed beta is: its state, its diagnostics, its contract.

The state holds *untempered* values, so that a swap between temperatures is a permutation and tempering is a product
with beta at the point of use.
"""

from abc import abstractmethod
from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp

from tempering.compilation import quick
from tempering.targets.base import Target, evaluate, evaluate_reference
from tempering.targets.path import ReferenceValues, log_ratio, tempered
from tempering.targets.units import Units
from tempering.types import Array, Bool, Float, Key

__all__ = ["ChainState", "Kernel", "KernelInfo", "accept_or_stay", "init"]


class ChainState(eqx.Module):
    """What the next step needs: untempered values, `log_density` and its gradient at T = 1 and those of a reference."""

    position: Float[Array, "*batch dim"]
    log_density: Float[Array, "*batch"]
    log_density_grad: Float[Array, "*batch dim"]
    reference: ReferenceValues | None = None

    @property
    def log_ratio(self) -> Float[Array, "*batch"]:
        """What beta multiplies: the log density, relative to that of the reference."""
        return log_ratio(self.log_density, self.reference)

    def tempered(self, beta: Float[Array, ""]) -> Float[Array, "*batch"]:
        """Log density at inverse temperature beta."""
        return tempered(beta, self.log_density, self.reference and self.reference.log_density)

    def tempered_grad(self, beta: Float[Array, ""]) -> Float[Array, "*batch dim"]:
        """Gradient of the log density at inverse temperature beta."""
        return tempered(beta, self.log_density_grad, self.reference and self.reference.log_density_grad)

    @quick
    def in_units(self, units: Units) -> "ChainState":
        """The same states measured in `units`: positions, and gradients with respect to them."""
        return self._changed(units.inward, units.gradient)

    @quick
    def out_of_units(self, units: Units) -> "ChainState":
        """What `in_units` was given."""
        return self._changed(units.outward, units.gradient_outward)

    def _changed(self, position_fn: Callable[[Array], Array], gradient_fn: Callable[[Array], Array]) -> "ChainState":
        reference = self.reference
        if reference is not None:
            reference = ReferenceValues(reference.log_density, gradient_fn(reference.log_density_grad))
        return ChainState(position_fn(self.position), self.log_density, gradient_fn(self.log_density_grad), reference)


class KernelInfo(eqx.Module):
    """Diagnostics of one step. `is_nonfinite` marks a proposal whose density was NaN or +inf, or had no gradient."""

    acceptance_probability: Float[Array, "*batch"]
    is_accepted: Bool[Array, "*batch"]
    is_nonfinite: Bool[Array, "*batch"]


class Kernel(eqx.Module):
    """A transition that leaves the density at inverse temperature beta invariant."""

    evaluations_per_step: eqx.AbstractVar[int]
    optimal_acceptance: eqx.AbstractVar[float]
    scale_power: eqx.AbstractVar[float]
    """The step size scales with length to this power: 2 for MALA, 1 for HMC."""

    @abstractmethod
    def step(
        self, key: Key, state: ChainState, target: Target, *, beta: Float[Array, ""], step_size: Float[Array, ""]
    ) -> tuple[ChainState, KernelInfo]:
        """One transition of one chain at inverse temperature beta."""


def init(position: Float[Array, " dim"], target: Target) -> ChainState:
    """The state of a chain at `position`: one evaluation."""
    log_density, log_density_grad = evaluate(target, position)
    return ChainState(position, log_density, log_density_grad, evaluate_reference(target, position))


def accept_or_stay(
    uniform: Float[Array, ""], state: ChainState, proposal: ChainState, log_ratio: Float[Array, ""]
) -> tuple[ChainState, KernelInfo]:
    """The Metropolis-Hastings decision with the policy for non-finite values.

    -inf is legal (outside the support) and never accepted. NaN, +inf and a finite density without a finite gradient
    are never accepted either, and are counted: a chain that entered such a point could not leave it correctly.
    """
    is_outside = jnp.isneginf(proposal.log_density)
    is_finite = jnp.isfinite(proposal.log_density) & jnp.all(jnp.isfinite(proposal.log_density_grad))
    is_legal = is_finite & ~jnp.isnan(log_ratio)
    probability = jnp.where(is_legal, jnp.exp(jnp.minimum(log_ratio, 0.0)), 0.0)
    is_accepted = uniform < probability
    kept = jax.tree.map(lambda new, old: jnp.where(is_accepted, new, old), proposal, state)
    return kept, KernelInfo(probability, is_accepted, ~is_finite & ~is_outside)
