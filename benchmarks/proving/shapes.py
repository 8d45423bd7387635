"""Densities on R^dim with closed forms: funnels, valleys, spikes, tails and mixtures."""

import math

import jax
import jax.numpy as jnp
import numpy as np

from .record import Density, Tolerance, halves

__all__ = [
    "banana",
    "funnel",
    "gaussian",
    "gaussians40",
    "hybrid_rosenbrock",
    "mixture",
    "neal",
    "needle",
    "student",
]

_LOG_2PI = math.log(2.0 * math.pi)
_WIDE = Tolerance(log_z=0.1)


def _log_normal(x, mean, log_std):
    return -0.5 * jnp.sum(((x - mean) * jnp.exp(-log_std)) ** 2 + 2.0 * log_std + _LOG_2PI)


def funnel(dim: int = 10, width: float = 3.0) -> Density:
    """Neal's funnel: x0 ~ N(0, 3^2), the others N(0, exp(x0)); normalised."""

    def log_density(x):
        return _log_normal(x[0], 0.0, math.log(width)) + _log_normal(x[1:], 0.0, 0.5 * x[0])

    # The neck and the mouth: below and above one standard deviation of x0.
    below = 0.5 * math.erfc(math.sqrt(0.5))
    return Density(
        f"funnel-{dim}",
        dim,
        log_density,
        "the scale of nine coordinates changes by four powers of ten with the tenth",
        "closed form",
        log_z=0.0,
        shares=lambda x: jax.nn.one_hot(jnp.where(x[0] > width, 2, jnp.where(x[0] > -width, 1, 0)), 3),
        masses=np.array([below, 1.0 - 2.0 * below, below]),
        spread=width,
        budget=150_000,
        box=60.0,
        tolerance=_WIDE,
    )


def hybrid_rosenbrock() -> Density:
    """Pagani, Wiegand and Nadarajah (2022): a = 1/20, b = 5, mu = 1; two blocks of two after the first coordinate.

    -a (x0 - mu)^2 - b sum over the blocks of (y - x0^2)^2 + (z - y^2)^2.
    """
    a, b, mu = 1.0 / 20.0, 5.0, 1.0

    def log_density(x):
        first, second = x[1::2], x[2::2]
        return -a * (x[0] - mu) ** 2 - b * jnp.sum((first - x[0] ** 2) ** 2 + (second - first**2) ** 2)

    return Density(
        "hybrid-rosenbrock-5",
        5,
        log_density,
        "valleys whose last coordinates run to ten thousand and are half a unit wide",
        "closed form: a chain of normals",
        log_z=0.5 * math.log(math.pi / a) + 2.0 * math.log(math.pi / b),
        shares=lambda x: halves(x[0] - mu),
        masses=np.array([0.5, 0.5]),
        spread=math.sqrt(0.5 / a),
        budget=100_000,
        tolerance=_WIDE,
    )


def banana() -> Density:
    """Haario's twisted Gaussian: N(0, 10^2) and N(0, 1), the second bent by 0.03 (x0^2 - 100)."""
    bend, width = 0.03, 10.0

    def straight(x):
        return x[1] + bend * (x[0] ** 2 - width**2)

    def log_density(x):
        return _log_normal(x[0], 0.0, math.log(width)) + _log_normal(straight(x), 0.0, 0.0)

    def shares(x):
        return (halves(x[0])[:, None] * halves(straight(x))[None]).ravel()

    return Density(
        "banana",
        2,
        log_density,
        "a bent ridge ten times as long as wide",
        "closed form",
        log_z=0.0,
        shares=shares,
        masses=np.full(4, 0.25),
        spread=width,
        box=60.0,
    )


def gaussian(dim: int = 10) -> Density:
    """A rotated, off-centre Gaussian whose axes run from 0.1 to 10; unnormalised."""
    generator = np.random.default_rng(3)
    rotation = np.linalg.qr(generator.standard_normal((dim, dim)))[0]
    stds, mean = np.geomspace(0.1, 10.0, dim), generator.normal(0.0, 3.0, dim)
    whiten = (rotation / stds[None]).T

    def log_density(x):
        return -0.5 * jnp.sum((jnp.asarray(whiten, x.dtype) @ (x - jnp.asarray(mean, x.dtype))) ** 2)

    return Density(
        f"gaussian-{dim}",
        dim,
        log_density,
        "axes from 0.1 to 10, in no coordinate's direction",
        "closed form",
        log_z=0.5 * dim * _LOG_2PI + float(np.sum(np.log(stds))),
        shares=lambda x: halves(x[0] - float(mean[0])),
        masses=np.array([0.5, 0.5]),
        spread=float(np.sqrt(np.sum((rotation[0] * stds) ** 2))),
        box=60.0,
    )


def student(dim: int = 5, nu: float = 4.0) -> Density:
    """A multivariate Student distribution with four degrees of freedom, unnormalised."""
    mean = np.linspace(-2.0, 3.0, dim)

    def log_density(x):
        return -0.5 * (nu + dim) * jnp.log1p(jnp.sum((x - jnp.asarray(mean, x.dtype)) ** 2) / nu)

    log_z = math.lgamma(0.5 * nu) - math.lgamma(0.5 * (nu + dim)) + 0.5 * dim * math.log(nu * math.pi)
    # One coordinate is Student too. P(|t| < 1) with four degrees of freedom: s (1 - s^2 / 3) 3/2 with s = 1/sqrt(5).
    s = 1.0 / math.sqrt(5.0)
    middle = 1.5 * s * (1.0 - s**2 / 3.0)

    def shares(x):
        off = x[0] - float(mean[0])
        return (halves(off)[:, None] * halves(1.0 - jnp.abs(off))[None]).ravel()

    return Density(
        f"student-{dim}",
        dim,
        log_density,
        "heavy tails: p^(1/T) has no normaliser for a hot T",
        "closed form",
        log_z=log_z,
        shares=shares,
        masses=0.5 * np.array([middle, 1.0 - middle, middle, 1.0 - middle]),
        box=200.0,
    )


def mixture(name: str, means, roots, weights, hardness: str, log_z: float = 0.0, **how) -> Density:
    """A Gaussian mixture; `roots` are matrices R with covariance R R^T, axes (component, dim, dim) or (component,).

    The shares are the responsibilities of the components, whose means are the weights exactly, overlap or not.
    """
    means, weights, roots = np.asarray(means), np.asarray(weights), np.asarray(roots)
    dim = means.shape[1]
    if roots.ndim == 1:
        whiteners, log_dets = 1.0 / roots, dim * np.log(roots)
    else:
        whiteners, log_dets = np.linalg.inv(roots), np.linalg.slogdet(roots)[1]
    constants = np.log(weights) - log_dets - 0.5 * dim * _LOG_2PI + log_z

    def logs(x):
        off = x[None] - jnp.asarray(means, x.dtype)
        matrix = jnp.asarray(whiteners, x.dtype)
        white = matrix[:, None] * off if roots.ndim == 1 else jnp.einsum("kij,kj->ki", matrix, off)
        return jnp.asarray(constants, x.dtype) - 0.5 * jnp.sum(white**2, axis=1)

    return Density(
        name,
        dim,
        lambda x: jax.scipy.special.logsumexp(logs(x)),
        hardness,
        "closed form",
        log_z=log_z,
        shares=lambda x: jax.nn.softmax(logs(x)),
        masses=weights,
        **how,
    )


def needle() -> Density:
    """Weight 0.3 in a spike of std 0.1 beside weight 0.7 of std 3, five dimensions."""
    return mixture(
        "needle",
        [[0.0] * 5, [4.0, -3.0, 2.0, 0.0, 1.0]],
        [3.0, 0.1],
        [0.7, 0.3],
        "the spike fills 4e-8 of the volume of the rest, and nothing points to it",
        box=18.0,
        limit="a spike in many dimensions is found by luck alone",
    )


def neal() -> Density:
    """Neal's example for annealed importance sampling (2001): stds 0.1 and 0.05 in six dimensions, weights 1/3, 2/3."""
    log_z = 3.0 * _LOG_2PI + 6.0 * math.log(0.1) + math.log(3.0)
    return mixture(
        "neal-6",
        [[1.0] * 6, [-1.0] * 6],
        [0.1, 0.05],
        [1.0 / 3.0, 2.0 / 3.0],
        "the heavier mode is half as wide: at every hot temperature it is the lighter one",
        log_z=log_z,
        box=4.0,
    )


def gaussians40(dim: int) -> Density:
    """Forty equal Gaussians of std softplus(1), means uniform in [-40, 40]^dim (Midgley et al. 2023 in the plane)."""
    means = np.random.default_rng(40).uniform(-40.0, 40.0, (40, dim))
    return mixture(
        f"gaussians40-{dim}",
        means,
        np.full(40, math.log1p(math.e)),
        np.full(40, 1.0 / 40.0),
        "forty modes, far apart",
        box=50.0,
        budget=200_000 if dim == 50 else None,
    )
