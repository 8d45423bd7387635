r"""The log-variance loss of a process, with a trust region on the change of its path measure (TR-LV).

Consumes trajectories of the process as it is, with their log weights; produces a process whose log weights vary less.
After "Trust Region Constrained Measure Transport in Path Space" (Blessing et al., 2025): to minimise KL(P | Q) subject
to KL(P | P_i) <= epsilon has the solution

    P_{i+1} \propto P_i^{1 - lambda} Q^lambda,      dP_{i+1} / dP_i \propto w^lambda,

a geometric path from the process to the target's measure Q, with w = dQ/dP_i the path weight. Lambda is the largest for
which KL(P_{i+1} | P_i) <= epsilon, taken on the batch with self-normalised weights, by bisection. The loss is the
variance, over trajectories of P_i, of log dP_theta / dP_{i+1}, that is of

    log w_theta - (1 - lambda) log w_i,

which is 0 for P_theta = P_{i+1}. Trajectories and evaluations are kept for all updates of one region, and nothing is
differentiated through them: no Hessian-vector product. In DDS Q does not depend on what is learned, and the two lines
above are the same statement. In CMCD the backward kernels are learned as well; there the second line is the definition.

What is ours: the batch takes the place of a buffer over several iterations, and bisection that of a dual solver.
Lambda = 1 throughout is the log-variance loss itself (Richter and Berner, 2024).
"""

from collections.abc import Callable

import jax
import jax.numpy as jnp

from tempering.baselines.paths import Process, Trajectory, log_weight
from tempering.types import Array, Float

__all__ = ["divergence", "log_variance", "region"]

_NUM_HALVINGS = 30
"""Of [0, 1]: lambda is known to 1e-9, beyond float32."""


def divergence(log_weights: Float[Array, " batch"], power: Float[Array, ""]) -> Float[Array, ""]:
    """KL(P' | P) of P' proportional to P w^power, from draws of P; those without a finite weight count for nothing."""
    is_finite = jnp.isfinite(log_weights)
    scaled = jnp.where(is_finite, power * jnp.where(is_finite, log_weights, 0.0), -jnp.inf)
    shares = jax.nn.softmax(scaled)
    num = jnp.maximum(jnp.sum(is_finite), 1).astype(log_weights.dtype)
    return jnp.sum(jnp.where(shares > 0, shares * jnp.log(jnp.where(shares > 0, shares, 1.0) * num), 0.0))


def region(log_weights: Float[Array, " batch"], bound: float) -> Float[Array, ""]:
    """The largest power in [0, 1] whose divergence is at most `bound`."""

    def halve(ends: tuple[Array, Array], _: None) -> tuple[tuple[Array, Array], None]:
        low, high = ends
        middle = 0.5 * (low + high)
        is_inside = divergence(log_weights, middle) <= bound
        return (jnp.where(is_inside, middle, low), jnp.where(is_inside, high, middle)), None

    one = jnp.ones((), log_weights.dtype)
    (low, _), _ = jax.lax.scan(halve, (jnp.zeros_like(one), one), None, length=_NUM_HALVINGS)
    return jnp.where(divergence(log_weights, one) <= bound, one, low)


def log_variance(
    process: Process,
    trajectories: Trajectory,
    old: Float[Array, " batch"],
    power: Float[Array, ""],
    weigh: Callable[[Process, Trajectory], Array] = log_weight,
) -> Float[Array, ""]:
    """The variance of log w_theta - (1 - power) old over the trajectories that have a finite weight."""
    is_finite = jnp.isfinite(old)
    residual = jax.vmap(lambda one: weigh(process, one))(trajectories) - (1.0 - power) * jnp.where(is_finite, old, 0.0)
    residual = jnp.where(is_finite, residual, 0.0)
    num = jnp.maximum(jnp.sum(is_finite), 2).astype(residual.dtype)
    mean = jnp.sum(residual) / num
    return jnp.sum(jnp.where(is_finite, (residual - mean) ** 2, 0.0)) / (num - 1.0)
