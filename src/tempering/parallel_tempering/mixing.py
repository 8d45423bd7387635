"""Have the chains of one level forgotten where they started, and do they stay? No evaluations."""

import jax.numpy as jnp

from tempering.compilation import quick
from tempering.types import Array, Float

__all__ = ["drift", "split_rhat", "virial"]


@quick
def split_rhat(draws: Float[Array, "draw chain dim"]) -> Float[Array, " dim"]:
    """Split R-hat of every coordinate (Gelman et al. 2013): the two halves of each chain must agree.

    A coordinate that never moved gives NaN, or inf where chains sit at different values; both read as "not mixed".
    """
    num_half = draws.shape[0] // 2
    halves = jnp.concatenate([draws[:num_half], draws[num_half : 2 * num_half]], axis=1)
    within = jnp.mean(jnp.var(halves, axis=0, ddof=1), axis=0)
    between = jnp.var(jnp.mean(halves, axis=0), axis=0, ddof=1)
    return jnp.sqrt((num_half - 1) / num_half + between / within)


@quick
def virial(
    position: Float[Array, "draw chain dim"], gradient: Float[Array, "draw chain dim"]
) -> tuple[Float[Array, ""], Float[Array, ""]]:
    """-E[(x - c) . g] / dim over all draws, and its standard error over chains.

    With g the gradient of the log density that the chains follow it is 1, by integration by parts, whatever the density
    and c: in equilibrium, and if nothing is lost at infinity or at a hard wall. Below 1 chains are narrower than where
    they go to, and stay below for ever where there is no such place: for p^(1/T) of a Student with nu degrees of
    freedom it is (nu + dim) / (T dim) far out, which has no normaliser where that is below 1.
    """
    # Any c will do; the median stays with the bulk where a few chains are on the run.
    centred = position - jnp.median(position, axis=(0, 1))[None, None]
    of_chain = -jnp.mean(jnp.sum(centred * gradient, axis=2), axis=0) / position.shape[2]
    return jnp.mean(of_chain), jnp.std(of_chain, ddof=1) / jnp.sqrt(of_chain.shape[0])


@quick
def drift(draws: Float[Array, "draw chain dim"]) -> tuple[Float[Array, ""], Float[Array, ""]]:
    """What the two halves of the draws differ by: the largest shift of a mean, and the largest growth of a spread.

    The shift is in standard errors, which chains give as they are independent; the growth is a ratio of standard
    deviations of a coordinate, later over earlier. A coordinate that never moved counts for nothing.
    """
    num_half, num_chains = draws.shape[0] // 2, draws.shape[1]
    early, late = draws[:num_half], draws[num_half : 2 * num_half]
    change = jnp.mean(late - early, axis=0)
    error = jnp.std(change, axis=0, ddof=1) / jnp.sqrt(num_chains)
    shift = jnp.where(error > 0, jnp.abs(jnp.mean(change, axis=0)) / error, 0.0)
    before, after = jnp.std(early, axis=(0, 1)), jnp.std(late, axis=(0, 1))
    return jnp.max(shift), jnp.max(jnp.where(before > 0, after / before, 1.0))
