r"""Sequential Monte Carlo along the diffusion path: samples of a product of powers of models. No target evaluations.

Consumes diffusion models q_k and exponents a_k that sum to one; produces weighted particles of
p_sigma(x) = prod_k q_k(x; sigma)^(a_k) at the last node of a sigma grid, and the integral of that product. For two
levels and (a_1, a_2) = (1 + w, -w) this is what temperature guidance means to sample and, without weights, does not.

Derivation. Let tau = sigma^2. A noised density solves the heat equation d q_k / d tau = 1/2 Laplace q_k, so with its
score s_k = grad log q_k

    d log q_k / d tau = 1/2 (div s_k + |s_k|^2).

The product has the score s = sum_k a_k s_k, the guided one, and therefore

    d log p / d tau = 1/2 (div s + sum_k a_k |s_k|^2).

Particles that follow the probability flow of s, dx / d tau = -s / 2, and between flows are diffused forwards, have by
continuity a density rho that, once equal to p, changes by d log rho / d tau = 1/2 (div s + |s|^2): the heat equation
again, whichever of the two moves is made. What p changes by beyond that is the weight. Because sum_k a_k = 1,

    d log weight / d tau = 1/2 (sum_k a_k |s_k|^2 - |s|^2) = 1/2 sum_k a_k |s_k - s|^2,

no divergence and no constant left over: the mean weight is the integral of p. For two models the sum is
-w (1 + w) |s_1 - s_2|^2, so on the way down, d tau = -2 sigma |d sigma|, weights *grow* by
w (1 + w) |s_1 - s_2|^2 sigma |d sigma|. With s_k = (D_k - x) / sigma^2 and ln sigma as the clock the rate is

    d log weight / d ln sigma = r(x; sigma) = sum_k a_k |D_k - D|^2 / sigma^2.

A step from sigma to sigma' goes down by Heun's method to some sigma_down below sigma' and up again by noise of
variance sigma'^2 - sigma_down^2, which is exact; r is integrated by the trapezoid on both legs, with its sign. (The
ancestral step is of first order. From sigma = 40 to 0.03 in 100 steps it leaves a Gaussian of standard deviation 2 with
7 % too little variance, which no weight gives back; these steps err by 0.3 %, and by 0.9 % with 60.)

Assumes that the models' scores solve the heat equation. Trained ones do so nearly: the particles then are nearly those
of the product, and the weights of a final correction by `Product.log_density` do not see the rest. Importance weights
of the probability flow have no such gap, because its density is that of the map itself.
"""

import equinox as eqx
import jax
import jax.numpy as jnp

from tempering.diffusion import DiffusionModel, Prior
from tempering.errors import SettingsError
from tempering.numerics import log_mean_exp
from tempering.resampling import ess_fraction, indices_by_weight
from tempering.settings import Sampling
from tempering.types import Array, Float, Int, Key

__all__ = ["PathParticles", "Product", "draw_path"]


class Product(eqx.Module):
    """prod_k q_k^(a_k), not normalised: (1 + w, -w) for guidance, coldest first.

    With w linear in 1/T the product of exact models at sigma = 0 is the next level's density itself.

    Raises:
        SettingsError: unless there is one exponent a model and they sum to one.
    """

    models: tuple[DiffusionModel, ...]
    exponents: Float[Array, " node"]

    def __check_init__(self):
        if self.exponents.shape != (len(self.models),) or abs(float(jnp.sum(self.exponents)) - 1.0) > 1e-3:
            raise SettingsError(
                f"the exponents are {self.exponents.tolist()} for {len(self.models)} models; give one for each, with a "
                "sum of 1 (`extrapolation_weights` does), because the path's weights hold for no other"
            )

    def log_density(self, key: Key, x: Float[Array, "particle dim"], sampling: Sampling) -> Float[Array, " particle"]:
        """sum_k a_k log q_k(x) by the models' probability flows.

        All models see the same probes: their errors are alike and cancel in part, where independent ones would be
        added up and multiplied by the exponents.
        """
        each = jnp.stack([model.log_prob(key, x, sampling) for model in self.models])
        return jnp.tensordot(self.exponents, each, axes=1)

    def at_start(self, x: Float[Array, " dim"]) -> Float[Array, ""]:
        """log of the product of the models' priors at one point: the path's first density."""
        return jnp.dot(self.exponents, jnp.stack([model.prior.log_prob(x) for model in self.models]))

    def denoise(
        self, x: Float[Array, " dim"], sigma: Float[Array, ""]
    ) -> tuple[Float[Array, " dim"], Float[Array, ""]]:
        """The guided denoiser D of one point and the rate r = sum_k a_k |D_k - D|^2 / sigma^2."""
        each = jnp.stack([model.denoise(x, sigma) for model in self.models])
        denoised = each[0] + jnp.tensordot(self.exponents[1:], each[1:] - each[:1], axes=1)
        square = jnp.sum((each - denoised[None]) ** 2, axis=1)
        return denoised, jnp.dot(self.exponents, square) / sigma**2


class PathParticles(eqx.Module):
    """Particles at the last node, with the log weights since the last resampling.

    `log_normaliser` estimates the log integral of the product (its exponential is unbiased but for the steps' error).
    `ess_fractions` are those before every step's decision to resample; `num_resamplings` says how often it was yes.
    """

    x: Float[Array, "particle dim"]
    log_weights: Float[Array, " particle"]
    log_normaliser: Float[Array, ""]
    ess_fractions: Float[Array, " step"]
    num_resamplings: Int[Array, ""]

    def log_proposal(self, log_density: Float[Array, " particle"]) -> Float[Array, " particle"]:
        """The log q that `importance.weigh` needs: the product's density, normalised, less the weights so far."""
        spare = self.log_weights - log_mean_exp(self.log_weights)
        return log_density - self.log_normaliser - spare


def _step(product: Product, noise_share: Array, key: Key, x: Array, rate: tuple[Array, Array], nodes: tuple) -> tuple:
    """One particle one node down: its place, what its log weight changes by, and D and r there."""
    (denoised, rate_here), (sigma, sigma_next) = rate, nodes
    sigma_down = sigma_next * jnp.sqrt(1.0 - noise_share * (1.0 - (sigma_next / sigma) ** 2))
    slope = (x - denoised) / sigma
    moved = x + (sigma_down - sigma) * slope
    denoised, rate_down = product.denoise(moved, sigma_down)
    x = x + 0.5 * (sigma_down - sigma) * (slope + (moved - denoised) / sigma_down)
    # max: a difference of squares that are equal without noise may round below 0.
    x = x + jnp.sqrt(jnp.maximum(sigma_next**2 - sigma_down**2, 0.0)) * jax.random.normal(key, x.shape, x.dtype)
    denoised, rate_next = product.denoise(x, sigma_next)
    down = 0.5 * (rate_here + rate_down) * jnp.log(sigma_down / sigma)
    up = 0.5 * (rate_down + rate_next) * jnp.log(sigma_next / sigma_down)
    return x, down + up, (denoised, rate_next)


@eqx.filter_jit
def _run(
    key: Key, num: int, product: Product, start: Prior, sigmas: Array, min_ess: Array, noise_share: Array
) -> PathParticles:
    key_start, key_path = jax.random.split(key)
    x = jax.vmap(start.sample)(jax.random.split(key_start, num))
    log_weights = jax.vmap(product.at_start)(x) - jax.vmap(start.log_prob)(x)
    rates = jax.vmap(lambda point: product.denoise(point, sigmas[0]))(x)

    def spread_evenly(key: Key, particles: tuple, log_weights: Array, log_normaliser: Array) -> tuple:
        indices = indices_by_weight(key, log_weights, num, "systematic")
        taken = jax.tree.map(lambda leaf: leaf[indices], particles)
        return taken, jnp.zeros_like(log_weights), log_normaliser + log_mean_exp(log_weights)

    def one_node(carry: tuple, inputs: tuple) -> tuple:
        particles, log_weights, log_normaliser = carry
        index, nodes = inputs
        key_resample, key_noise = jax.random.split(jax.random.fold_in(key_path, index))
        ess = ess_fraction(log_weights)
        is_poor = ess < min_ess
        (x, rates), log_weights, log_normaliser = jax.lax.cond(
            is_poor,
            spread_evenly,
            lambda key, *same: same,
            key_resample,
            particles,
            log_weights,
            log_normaliser,
        )
        x, change, rates = jax.vmap(lambda key, x, rate: _step(product, noise_share, key, x, rate, nodes))(
            jax.random.split(key_noise, num), x, rates
        )
        return ((x, rates), log_weights + change, log_normaliser), (ess, is_poor)

    nodes = (jnp.arange(sigmas.shape[0] - 1), (sigmas[:-1], sigmas[1:]))
    carry, (ess, is_poor) = jax.lax.scan(one_node, ((x, rates), log_weights, jnp.zeros(())), nodes)
    (x, _), log_weights, log_normaliser = carry
    total = log_normaliser + log_mean_exp(log_weights)
    return PathParticles(x, log_weights, total, ess, jnp.sum(is_poor.astype(jnp.int32)))


def draw_path(
    key: Key,
    num: int,
    product: Product,
    start: Prior,
    sigmas: Float[Array, " node"],
    *,
    min_ess: float = 0.5,
    noise_share: float = 1.0,
) -> PathParticles:
    """`num` weighted particles of the product at the last of `sigmas`, which fall.

    Particles are not independent once they have been resampled. None is resampled at the last node, so no two of them
    coincide and each is worth an evaluation of its own.

    Args:
        start: what particles are drawn from at the first node; weights make up for what it differs by from the product
            of the models' priors.
        min_ess: resample (systematically) before a step where the effective share is below; 0 never does.
        noise_share: of the reverse SDE's noise. 1 is the SDE whose steps forget most, 0 the probability flow, where
            resampled copies never part.
    """
    return _run(key, num, product, start, sigmas, jnp.asarray(min_ess), jnp.asarray(noise_share))
