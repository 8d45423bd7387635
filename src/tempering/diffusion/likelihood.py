"""log q(x) of given points: the probability flow upwards, from sigma_min to the prior."""

from collections.abc import Callable

import equinox as eqx
import jax

from tempering.diffusion.noise import Prior
from tempering.diffusion.solve import Method, flow, in_chunks
from tempering.types import Array, Denoise, Float, Key, Keys

__all__ = ["log_likelihood"]


@eqx.filter_jit
def _likelihood_chunk(
    keyed: tuple[Keys, Array], denoise: Denoise, prior: Prior, sigmas: Array, method: Method
) -> Array:
    def one(key: Key, x: Array) -> Array:
        # What is gained on the way up is lost on the way down.
        noisy, change = flow(denoise, x, sigmas[::-1], key, method)
        return prior.log_prob(noisy) - change

    return jax.vmap(one)(*keyed)


def log_likelihood(
    key: Key,
    x: Float[Array, "particle dim"],
    denoise: Denoise,
    prior: Prior,
    sigmas: Float[Array, " node"],
    method: Method,
    *,
    chunk_size: int,
    on_chunk: Callable[[int], None] = lambda done: None,
) -> Float[Array, " particle"]:
    """Normalised log density of the sampler at every point, by the same solver and grid as `draw`.

    Churn has densities of paths, which a given point does not tell: its kicks are left out, and what is returned is the
    density of the probability flow by Heun's solver.
    """
    start = (jax.random.split(key, x.shape[0]), x)
    return in_chunks(lambda part: _likelihood_chunk(part, denoise, prior, sigmas, method), start, chunk_size, on_chunk)
