"""Parallel tempering and nothing else: the states of the T = 1 chains are the result.

Consumes a target, a ladder and a budget; produces correlated points at T = 1. Every level costs as much as T = 1
does, so of L levels one evaluation in L lands on a state that is kept.
"""

import math

import jax
import jax.numpy as jnp

from baselines.drawn import Drawn
from tempering.errors import BudgetError
from tempering.kernels import Kernel, kernel_of
from tempering.numerics import log_mean_exp
from tempering.parallel_tempering import betas_of, stepping_stone
from tempering.parallel_tempering.initial import initial_draws, normal_start
from tempering.runs.ledger import Ledger
from tempering.settings import Exploration, Initial
from tempering.targets.base import Target
from tempering.types import Array, Float, Key
from tempering.weights.ess import ess_fraction

__all__ = ["log_normaliser", "samples", "schedule"]

_MIN_STEPS = 20
"""Fewer steps a chain than this neither adapt step sizes nor exchange states."""
_MIN_SHARE = 0.05
"""Below this effective share of the hottest level's normaliser log Z is not told. A Gaussian gives about 0.5."""


_stepping_stone = jax.jit(stepping_stone)  # its jackknife would else be compiled at every call


def samples(
    target: Target,
    key: Key,
    budget: int,
    *,
    temperatures: tuple[float, ...],
    scale: float = 1.0,
    num_chains: int = 100,
    burn_in_fraction: float = 0.3,
    exploration: Exploration | None = None,
    max_kept: int = 10_000,
    ledger: Ledger | None = None,
) -> Drawn:
    """The T = 1 states of `num_chains` ladders, after burn-in, as evenly thinned as `max_kept` asks.

    Args:
        budget: evaluations at most; chains run as many steps as it pays for.
        temperatures: hottest first, ending at 1.
        scale: standard deviation of the starting points around the origin.
        num_chains: independent ladders side by side; fewer where the budget does not pay for 20 steps of each.
        burn_in_fraction: share of the steps that adapt and are thrown away.
        max_kept: points given back at most; it bounds memory.

    Returns:
        Points without weights. log_z is stepping stones from the hottest level, whose own normaliser comes from
        `log_normaliser`; both read stored log densities only. None where the latter says nothing.

    Raises:
        BudgetError: if the budget does not pay for a single chain of 20 steps.
    """
    exploration = exploration or Exploration(kernel="mala")
    ledger = ledger or Ledger(budget)
    kernel = kernel_of(exploration, target.dim)
    initial = schedule(
        budget,
        len(temperatures),
        kernel,
        scale=scale,
        num_chains=num_chains,
        burn_in_fraction=burn_in_fraction,
        max_kept=max_kept,
    )
    betas = betas_of(temperatures)
    start_fn = normal_start(target.dim, scale)
    result = initial_draws(key, target, kernel, start_fn, betas, initial, exploration, ledger=ledger)
    points = result.draws.position[-1].reshape((-1, target.dim))
    log_ratio, _ = _stepping_stone(result.draws.log_ratio, betas)
    hottest = result.draws.position[0].reshape((-1, target.dim))
    log_hot, share = log_normaliser(hottest, result.draws.tempered(betas[0])[0].reshape(-1))
    log_z = float(log_hot + log_ratio)
    can_be_told = math.isfinite(log_z) and float(share) >= _MIN_SHARE
    return Drawn(points, None, log_z if can_be_told else None, ledger.total)


def schedule(
    budget: int,
    num_levels: int,
    kernel: Kernel,
    *,
    scale: float = 1.0,
    num_chains: int = 100,
    burn_in_fraction: float = 0.3,
    max_kept: int = 10_000,
) -> Initial:
    """The longest run that the budget pays for, without a step that is neither adapted on nor kept.

    Arguments and refusals are those of `samples`.
    """
    cost_of_step = num_levels * kernel.evaluations_per_step
    least = num_levels + _MIN_STEPS * cost_of_step
    if budget < least:
        raise BudgetError(
            f"a budget of {budget:,} does not pay for one ladder of {num_levels} temperatures over {_MIN_STEPS} steps; "
            f"give at least {least:,}"
        )
    num_chains = min(num_chains, budget // least)
    num_steps = (budget // num_chains - num_levels) // cost_of_step
    to_keep = num_steps - int(burn_in_fraction * num_steps)
    thin = min(to_keep, max(1, math.ceil(to_keep * num_chains / max_kept)))
    num_draws = to_keep // thin
    if num_draws > 10:
        num_draws -= num_draws % 10  # ten equal blocks compile once
    burn_in = num_steps - num_draws * thin
    return Initial(num_chains=num_chains, num_steps=num_steps, burn_in=burn_in, thin=thin, scale=scale)


@jax.jit
def log_normaliser(
    points: Float[Array, "draw dim"], log_density: Float[Array, " draw"]
) -> tuple[Float[Array, ""], Float[Array, ""]]:
    r"""log Z of a density of which there are samples, at no evaluation, and the effective share of these samples.

    Reciprocal importance sampling:

    1 / Z = E_p[q(x) / exp(log_density(x))] for any normalised q inside the support of p. Here q is the Gaussian of the
    samples' mean and covariance, cut to the ball of Mahalanobis radius sqrt(dim) (about half its mass), so that the
    ratio is bounded where p has lighter tails (Gelfand and Dey 1994; Robert and Wraith 2009). Good for one wide mode,
    which is what the hottest level should be; where it is not, the effective share is small and the value worth little.
    """
    num, dim = points.shape
    mean = jnp.mean(points, axis=0)
    centred = points - mean[None]
    covariance = jnp.einsum("ni,nj->ij", centred, centred, precision=jax.lax.Precision.HIGHEST) / num
    cholesky = jnp.linalg.cholesky(covariance)
    whitened = jax.scipy.linalg.solve_triangular(cholesky, centred.T, lower=True)
    squares = jnp.sum(whitened**2, axis=0)
    log_inside = jnp.log(jax.scipy.special.gammainc(dim / 2.0, dim / 2.0))
    log_det = jnp.sum(jnp.log(jnp.diagonal(cholesky)))
    log_q = -0.5 * squares - log_det - 0.5 * dim * math.log(2.0 * math.pi) - log_inside
    log_ratios = jnp.where(squares < dim, log_q - log_density, -jnp.inf)
    return -log_mean_exp(log_ratios), ess_fraction(log_ratios)
