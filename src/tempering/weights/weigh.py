"""Model samples weighed by the target: one evaluation per sample, then `Weighted`."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from tempering.adapters import reporting
from tempering.devices import on_devices
from tempering.devices.mesh import active_mesh
from tempering.errors import DensityError
from tempering.kernels import ChainState
from tempering.runs.ledger import Ledger
from tempering.targets.base import evaluate_many, evaluate_reference
from tempering.targets.cost import spend
from tempering.targets.rows import evaluate_rows
from tempering.types import Array, Float
from tempering.weights.ess import share_of
from tempering.weights.log_z import log_z_with_tail
from tempering.weights.pareto import pareto_k, unseen_mass

__all__ = ["Weighted", "weigh"]


class Weighted(eqx.Module):
    """Samples with their untempered log densities and gradients, and their log weights for one beta.

    The log weights are raw, and log Z is right, unless `truncate.truncated` made them.
    """

    states: ChainState
    log_weights: Float[Array, " particle"]
    num_nonfinite: int

    @property
    def ess_fraction(self) -> float:
        """The effective share of the weights."""
        return share_of(self.log_weights)

    @property
    def log_z(self) -> tuple[float, float]:
        """log Z of the level and its standard error, which allows for the weights' tail."""
        return log_z_with_tail(self.log_weights)

    @property
    def pareto_k(self) -> float:
        """The tail index of the weights."""
        return pareto_k(self.log_weights)

    @property
    def unseen(self) -> float:
        """The share of the mass beyond the largest weight."""
        return unseen_mass(self.log_weights)

    def require_weight(self) -> None:
        """Raise a DensityError if no sample has a positive weight."""
        if np.any(np.asarray(self.log_weights) > -np.inf):
            return
        raise DensityError(
            f"none of the {self.log_weights.shape[0]} samples of the model has a usable density ({self.num_nonfinite} "
            "NaN, +inf or without a finite gradient or log q, the rest outside the support); one at least is needed: "
            "train longer, take more levels, or fix the density"
        )


def weigh(
    target,
    x: Float[Array, "particle dim"],
    log_q: Float[Array, " particle"],
    beta: Float[Array, ""],
    *,
    ledger: Ledger,
    stage: str,
) -> Weighted:
    """log w = log p_beta(x) - log q(x), up to the normaliser of p_beta.

    A sample outside the support weighs nothing. So does one whose density is NaN or +inf, whose gradient is not finite
    or whose own log q is not: these are counted, because they should not happen.
    """
    spend(ledger, stage, target, x.shape[0])
    with reporting(target):
        if target.reference is None and active_mesh() is None:
            return _weighed_on_host(target, x, log_q, beta)
        states, log_weights, num_nonfinite = _weighed(target, x, log_q, beta)
        return Weighted(states, log_weights, int(num_nonfinite))


def _weighed_on_host(target, x: Array, log_q: Array, beta: Array) -> Weighted:
    """The same without a program for each number of samples; the target has no reference."""
    own, log_model, power = np.asarray(x), np.asarray(log_q), np.asarray(beta)
    log_density, gradient = evaluate_rows(target, own)
    with np.errstate(invalid="ignore", over="ignore"):
        tempered, slope = power * log_density, power * gradient
        is_usable = np.isfinite(log_density) & np.isfinite(log_model) & np.all(np.isfinite(slope), axis=-1)
        log_weights = np.where(is_usable, tempered - log_model, -np.inf).astype(np.float32)
    is_outside = np.isneginf(log_density) & np.isfinite(log_model)
    states = ChainState(jax.device_put(own), *jax.device_put((log_density, gradient)))
    return Weighted(states, jax.device_put(log_weights), int(np.sum(~is_usable & ~is_outside)))


@on_devices
def _weighed(target, x: Array, log_q: Array, beta: Array) -> tuple[ChainState, Array, Array]:
    """The samples with their values, their log weights, and the number of those that should not happen."""
    reference = jax.vmap(lambda point: evaluate_reference(target, point))(x)
    log_density, gradient = evaluate_many(target, x)
    states = ChainState(x, log_density, gradient, reference)
    is_usable = jnp.isfinite(states.log_density) & jnp.isfinite(log_q)
    is_usable &= jnp.all(jnp.isfinite(states.tempered_grad(beta)), axis=-1)
    is_outside = jnp.isneginf(states.log_density) & jnp.isfinite(log_q)
    log_weights = jnp.where(is_usable, states.tempered(beta) - log_q, -jnp.inf)
    return states, log_weights, jnp.sum(~is_usable & ~is_outside)
