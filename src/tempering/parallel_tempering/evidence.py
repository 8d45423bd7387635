"""log Z ratios along the ladder from draws of every level. No evaluations: the log densities are stored.

Each step uses the geometric bridge between neighbours, the symmetric form of the stepping stone:
Z_{k+1} / Z_k = E_k[exp(d l / 2)] / E_{k+1}[exp(-d l / 2)], with d = beta_{k+1} - beta_k and l the log density,
relative to that of a reference where there is one.
"""

import jax
import jax.numpy as jnp

from tempering.compilation import quick
from tempering.numerics import log_mean_exp
from tempering.types import Array, Float

__all__ = ["stepping_stone"]


def _log_ratios(log_density: Float[Array, "level n"], betas: Float[Array, " level"]) -> Float[Array, " pair"]:
    def one(hot: Array, cold: Array, difference: Array) -> Array:
        return log_mean_exp(0.5 * difference * hot) - log_mean_exp(-0.5 * difference * cold)

    return jax.vmap(one)(log_density[:-1], log_density[1:], betas[1:] - betas[:-1])


@quick
def stepping_stone(
    log_density: Float[Array, "level draw chain"], betas: Float[Array, " level"]
) -> tuple[Float[Array, ""], Float[Array, ""]]:
    """log Z(beta = 1) - log Z(beta_0), and its standard error by the jackknife over chains.

    Chains are independent ladders, so leaving one out at a time covers autocorrelation within them. With a single
    chain the standard error is NaN: it is not known.
    """
    num_levels, _, num_chains = log_density.shape
    total = jnp.sum(_log_ratios(log_density.reshape((num_levels, -1)), betas))
    if num_chains < 2:
        return total, jnp.full((), jnp.nan)

    def without(chain: Array) -> Array:
        kept = jnp.delete(log_density, chain, axis=2, assume_unique_indices=True)
        return jnp.sum(_log_ratios(kept.reshape((num_levels, -1)), betas))

    partial = jax.lax.map(without, jnp.arange(num_chains)[:, None])
    variance = (num_chains - 1) / num_chains * jnp.sum((partial - jnp.mean(partial)) ** 2)
    return total, jnp.sqrt(variance)
