"""How maps change volume, in forward mode: value and Jacobian products in one pass, no activations stored.

Two quantities: the trace of a denoiser's Jacobian, for solvers that follow the continuous flow closely, and the log
determinant of one discrete step, which is what the density of a discretely integrated sample really changes by.
"""

from collections.abc import Callable

import jax
import jax.numpy as jnp

from tempering.types import Array, Denoise, Float, Key

__all__ = ["denoise_with_trace", "step_with_log_det"]


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


def step_with_log_det(
    step: Callable[[Float[Array, " dim"]], Float[Array, " dim"]],
    x: Float[Array, " dim"],
    key: Key,
    *,
    divergence: str,
    num_probes: int,
) -> tuple[Float[Array, " dim"], Float[Array, ""]]:
    """One step of a solver and log |det| of its Jacobian I + B.

    Integrating the divergence instead is off by the square of the step: on 32 dimensions with 32 Heun steps, log Z came
    out 0.4 too large or small, and no weight could mend it.

    Args:
        key: of the probes; unused unless `divergence` is hutchinson.
        divergence: exact takes the determinant of the Jacobian, dim forward-mode products. hutchinson averages
            v^T B v - |B v|^2 / 2 over `num_probes` Rademacher vectors: the series tr B - tr B^2 / 2 of the log
            determinant, which needs B symmetric (a score's Jacobian is) and drops terms of third order in the step.
            none returns 0.
    """
    if divergence == "none":
        return step(x), jnp.zeros(())
    moved, push = jax.linearize(step, x)
    if divergence == "exact":
        jacobian = jax.vmap(push)(jnp.eye(x.shape[0], dtype=x.dtype))
        return moved, jnp.linalg.slogdet(jacobian)[1]

    def one_probe(probe: Array) -> Array:
        change = push(probe) - probe
        return jnp.vdot(probe, change) - 0.5 * jnp.vdot(change, change)

    return moved, jnp.mean(jax.vmap(one_probe)(jax.random.rademacher(key, (num_probes, x.shape[0]), x.dtype)))
