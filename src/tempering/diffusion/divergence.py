"""Trace of a denoiser's Jacobian, in forward mode: value and trace in one pass, no activations stored."""

import jax
import jax.numpy as jnp

from tempering.types import Array, Denoise, Float, Key

__all__ = ["denoise_with_trace"]


def denoise_with_trace(
    denoise: Denoise, x: Float[Array, " dim"], sigma: Float[Array, ""], key: Key, *, divergence: str, num_probes: int
) -> tuple[Float[Array, " dim"], Float[Array, ""]]:
    """The denoised point and the trace of its Jacobian.

    Args:
        key: of the probes; unused unless `divergence` is hutchinson.
        divergence: exact pushes dim unit vectors through one linearisation; hutchinson averages v^T J v over
            `num_probes` Rademacher vectors; none returns 0, for samples without a density.
    """
    function = lambda point: denoise(point, sigma)  # noqa: E731
    if divergence == "none":
        return function(x), jnp.zeros(())
    if divergence == "exact":
        denoised, push = jax.linearize(function, x)
        return denoised, jnp.trace(jax.vmap(push)(jnp.eye(x.shape[0], dtype=x.dtype)))
    probes = jax.random.rademacher(key, (num_probes, x.shape[0]), x.dtype)
    denoised, push = jax.linearize(function, x)
    return denoised, jnp.mean(jax.vmap(lambda probe: jnp.vdot(probe, push(probe)))(probes))
