r"""EDM's stochastic sampler (Algorithm 2, Karras et al. 2022), with importance weights in the space of its paths.

Consumes a denoiser and a start at the first node of a sigma grid; produces a point at the last node and the change of
"log q" along its path. Step i kicks the point up to sigma_hat >= sigma, x_hat = x + s eps, and carries it down to the
next node by a Heun step h. Kicks forget errors of earlier steps, and this is what they are for; but then the density
of the point at the end is an integral over all paths to it. A path has a density all the same,

    q(path) = q(x_0) prod_i N(x_hat_i; x_i, s_i^2 I) / |det h_i'|,

and the target p becomes a density of paths by any normalised way back: undo h_i, then draw x_i from B(. | x_hat_i).
What is called log q of a draw is therefore

    log q(x_0) + sum_i [log N(x_hat_i; x_i, s_i^2 I) - log B(x_i | x_hat_i) - log |det h_i'|].

The mean of p / q estimates Z without bias *for any denoiser* whose steps are one-to-one, as long as determinants are
exact; the closer B is to the posterior of x_i given x_hat_i, the less the weights vary. The log q of one draw is not
the sampler's density there.

B is the posterior's Gaussian to second order (Tweedie's formulas), with a = s^2 / (sigma^2 + s^2) and D at sigma_hat:

    mean x_hat + a (D(x_hat) - x_hat),    covariance s^2 [(1 - a) I + a D'(x_hat)].

Right for Gaussian data, where kicks then cost no effective size at all. With probes in place of determinants D' becomes
the mean of its eigenvalues times I. Neither end of that range serves: a kick of EDM's largest size has a = 1/2, so that
the covariance lies between s^2 / 2 (sigma above the data's scale) and s^2 (below), and the wrong end costs 0.1 nats
and more per dimension and step.
"""

import equinox as eqx
import jax
import jax.numpy as jnp

from tempering.diffusion.divergence import flow_step, probed_log_det
from tempering.diffusion.process import VariancePreserving
from tempering.numerics import compensated_add
from tempering.types import Array, Denoise, Float, Key

__all__ = ["Kicks", "churned", "kick_sizes"]

_LARGEST_GAMMA = 2.0**0.5 - 1.0
"""Algorithm 2: a kick never adds more noise than there is already."""


class Kicks(eqx.Module):
    """S_churn and S_max of Algorithm 2, with S_min = 0 and S_noise = 1; static, as `Method` is.

    `high` None has no upper limit.
    """

    churn: float = eqx.field(static=True)
    high: float | None = eqx.field(static=True)


def kick_sizes(sigmas: Float[Array, " node"], kicks: Kicks) -> tuple[Float[Array, " step"], Float[Array, " step"]]:
    """Where every step is kicked to, sigma_hat = (1 + gamma) sigma, and the standard deviation s of its kick.

    gamma = min(S_churn / num_steps, sqrt(2) - 1) for sigma <= S_max, else 0. Beyond Algorithm 2, sigma_hat
    stays within the grid: above its first node no denoiser was trained.
    """
    sigma = sigmas[:-1]
    gamma = min(kicks.churn / sigma.shape[0], _LARGEST_GAMMA)
    is_kicked = sigma <= (jnp.inf if kicks.high is None else kicks.high)
    raised = jnp.where(is_kicked, jnp.minimum((1.0 + gamma) * sigma, sigmas[0]), sigma)
    return raised, jnp.sqrt((raised - sigma) * (raised + sigma))


def _log_kick_ratio(noise: Array, pull: Array, share: Array, jacobian: Array | None, mean_eigenvalue: Array) -> Array:
    """log N(x_hat; x, s^2 I) - log B(x | x_hat), from x_hat - x = s eps: s itself drops out, and may be 0.

    Args:
        noise: eps.
        pull: a (D(x_hat) - x_hat) / s.
        share: a.
        jacobian: D'(x_hat), if it is known.
        mean_eigenvalue: of D'(x_hat).
    """
    dim, back = noise.shape[0], noise + pull  # -(x - B's mean) / s
    # A denoiser's eigenvalues are those of a covariance over sigma^2; a network's estimated mean need not be.
    variance = 1.0 - share + share * jnp.clip(mean_eigenvalue, 0.0, 1.0)
    way_back = jnp.vdot(back, back) / variance + dim * jnp.log(variance)
    if jacobian is not None:
        covariance = (1.0 - share) * jnp.eye(dim, dtype=noise.dtype) + share * 0.5 * (jacobian + jacobian.T)
        factor = jnp.linalg.cholesky(covariance)
        white = jax.scipy.linalg.solve_triangular(factor, back, lower=True)
        full = jnp.vdot(white, white) + 2.0 * jnp.sum(jnp.log(jnp.diag(factor)))
        # A network's Jacobian may be far from any covariance. The choice depends on x_hat alone, so B stays normalised.
        is_covariance = jnp.all(jnp.isfinite(factor))
        way_back = jnp.where(is_covariance, full, way_back)
    return 0.5 * (way_back - jnp.vdot(noise, noise))


def churned(
    denoise: Denoise,
    x: Float[Array, " dim"],
    sigmas: Float[Array, " node"],
    key: Key,
    kicks: Kicks,
    *,
    divergence: str,
    num_probes: int,
    process: VariancePreserving | None = None,
) -> tuple[Float[Array, " dim"], Float[Array, ""]]:
    """Carry one point down the nodes with a kick before every Heun step. Without kicks this is Heun's solver.

    A step costs what Heun's costs: B takes the denoiser and its Jacobian from the step's own first evaluation.

    Args:
        divergence, num_probes: as for `step_with_log_det`. The points do not depend on them.
        process: whose steps those of Heun are; a kick is the same in all.

    Returns:
        The point at the last node and the path's change of log q (0 for divergence none).
    """
    dim, num_steps = x.shape[0], sigmas.shape[0] - 1
    key_kicks = jax.random.fold_in(key, num_steps)  # the steps' probes have their indices, as in Heun's solver

    def one_step(carry, nodes):
        x, total, compensation, scale = carry
        index, sigma, raised, size, sigma_next = nodes
        noise = jax.random.normal(jax.random.fold_in(key_kicks, index), x.shape, x.dtype)
        kicked = x + size * noise

        def heun(point: Array) -> tuple[Array, Array]:
            return flow_step(denoise, point, raised, sigma_next, is_second_order=True, process=process)

        if divergence == "none":
            return (heun(kicked)[0], total, compensation, scale), None
        (moved, denoised), push = jax.linearize(heun, kicked)
        if divergence == "exact":
            of_step, jacobian = jax.vmap(push)(jnp.eye(dim, dtype=x.dtype))
            log_det, mean_eigenvalue = jnp.linalg.slogdet(of_step)[1], jnp.trace(jacobian) / dim
        else:
            probes = jax.random.rademacher(jax.random.fold_in(key, index), (num_probes, dim), x.dtype)
            log_det, scale = probed_log_det(lambda probe: push(probe)[0], probes, scale)
            jacobian = None
            mean_eigenvalue = jnp.mean(jax.vmap(lambda probe: jnp.vdot(probe, push(probe)[1]))(probes)) / dim
        spread = sigma**2 + size**2
        ratio = _log_kick_ratio(noise, size / spread * (denoised - kicked), size**2 / spread, jacobian, mean_eigenvalue)
        for term in (ratio, -log_det):
            total, compensation = compensated_add(total, compensation, term)
        return (moved, total, compensation, scale), None

    nodes = (jnp.arange(num_steps), sigmas[:-1], *kick_sizes(sigmas, kicks), sigmas[1:])
    (x, total, _, _), _ = jax.lax.scan(one_step, (x, jnp.zeros(()), jnp.zeros(()), jnp.ones(())), nodes)
    return x, total
