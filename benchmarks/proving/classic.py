"""Densities that users of nested sampling know: likelihoods under a prior, whose log Z is an evidence."""

import math

import jax
import jax.numpy as jnp
import numpy as np
from scipy.special import gammaln, ndtr, roots_legendre

from .record import Box, Density, Gaussian, Goal, halves

__all__ = [
    "eggbox",
    "legendre",
    "loggamma",
    "loggamma_free",
    "pathology",
    "rosenbrock",
    "rosenbrock_pairs",
    "shells",
    "unid",
]

_LOG_2PI = math.log(2.0 * math.pi)


def legendre(low: float, high: float, num: int) -> tuple[np.ndarray, np.ndarray]:
    """Nodes and weights of Gauss-Legendre quadrature on an interval."""
    nodes, weights = roots_legendre(num)
    return 0.5 * (low + high) + 0.5 * (high - low) * nodes, 0.5 * (high - low) * weights


def eggbox() -> Density:
    """(2 + cos(x/2) cos(y/2))^5 as a log likelihood on [0, 10 pi]^2 (Feroz and Hobson 2008)."""
    side = 10.0 * math.pi
    # [0, 10 pi] is five half-periods of cos(x/2), and by symmetry every half-period has the same mean. So the mean over
    # one period is the evidence, and there the midpoint rule is exact.
    angle = 2.0 * math.pi * (np.arange(4096) + 0.5) / 4096
    values = (2.0 + np.cos(angle)[:, None] * np.cos(angle)[None]) ** 5
    log_z = float(243.0 + np.log(np.mean(np.exp(values - 243.0))))
    peaks = np.array([(k, m) for k in range(6) for m in range(6) if (k + m) % 2 == 0])
    is_edge = (peaks == 0) | (peaks == 5)
    masses = 0.08 * 0.5 ** is_edge.sum(axis=1)
    places = 2.0 * math.pi * peaks

    def log_likelihood(x):
        return (2.0 + jnp.cos(0.5 * x[0]) * jnp.cos(0.5 * x[1])) ** 5

    def shares(x):
        distance = jnp.sum((x[None] - jnp.asarray(places, x.dtype)) ** 2, axis=1)
        return jax.nn.one_hot(jnp.argmin(distance), len(places))

    return Density(
        "eggbox",
        2,
        log_likelihood,
        "18 narrow peaks, ten of them cut by the edges; the values reach 243",
        "quadrature; the weights 0.08, 0.04 and 0.02 by symmetry",
        prior=Box.cube(0.0, side, 2),
        log_z=log_z,
        shares=shares,
        masses=masses,
        goal=Goal(log_z=0.03, largest_weight=0.01),
    )


def shells(dim: int) -> Density:
    """Two Gaussian shells of radius 2 and width 0.1 at +-3.5 on the first axis, uniform on [-6, 6]^dim."""
    radius, width, shift = 2.0, 0.1, 3.5
    nodes, weights = legendre(radius - 10 * width, radius + 10 * width, 200)
    log_sphere = math.log(2.0) + 0.5 * dim * math.log(math.pi) - float(gammaln(0.5 * dim))
    shell = weights @ (nodes ** (dim - 1) * np.exp(-0.5 * ((nodes - radius) / width) ** 2))
    log_shell = log_sphere + math.log(float(shell)) - 0.5 * _LOG_2PI - math.log(width)

    def log_likelihood(x):
        centre = jnp.zeros(dim, x.dtype).at[0].set(shift)
        # The floor keeps the gradient of a norm finite at the centre of a shell.
        distance = jnp.stack([jnp.sqrt(jnp.sum((x - s * centre) ** 2) + 1e-12) for s in (1.0, -1.0)])
        logs = -0.5 * ((distance - radius) / width) ** 2 - 0.5 * _LOG_2PI - math.log(width)
        return jax.scipy.special.logsumexp(logs)

    return Density(
        f"shells-{dim}",
        dim,
        log_likelihood,
        "thin curved shells; none of it lies where its centre of mass is",
        "a radial integral; the weights 1/2 by symmetry",
        prior=Box.cube(-6.0, 6.0, dim),
        log_z=math.log(2.0) + log_shell - dim * math.log(12.0),
        shares=lambda x: halves(x[0]),
        masses=np.array([0.5, 0.5]),
    )


# LogGamma (Beaujean and Caldwell 2013), in the unit cube as UltraNest has it: places 1/3 and 2/3, scale 1/30.
_PLACES, _SCALE = (1.0 / 3.0, 2.0 / 3.0), 1.0 / 30.0


def _log_gamma_pdf(x, place):
    scaled = (x - place) / _SCALE
    return scaled - jnp.exp(scaled) - math.log(_SCALE)


def _log_normal_pdf(x, place):
    return -0.5 * ((x - place) / _SCALE) ** 2 - 0.5 * _LOG_2PI - math.log(_SCALE)


def _gamma_cdf(x: float, place: float) -> float:
    return -math.expm1(-math.exp(min((x - place) / _SCALE, 700.0)))


def _normal_cdf(x: float, place: float) -> float:
    return float(ndtr((x - place) / _SCALE))


def _num_gamma(dim: int) -> int:
    """Of the coordinates after the second so many are log-gamma, the rest normal."""
    return (dim + 2) // 2 - 2


def _loggamma(name: str, dim: int, low: float, high: float, **how) -> Density:
    num_gamma = _num_gamma(dim)

    def log_likelihood(x):
        first = jnp.logaddexp(*(_log_gamma_pdf(x[0], place) for place in _PLACES))
        second = jnp.logaddexp(*(_log_normal_pdf(x[1], place) for place in _PLACES))
        gammas = jnp.sum(_log_gamma_pdf(x[2 : 2 + num_gamma], _PLACES[1]))
        normals = jnp.sum(_log_normal_pdf(x[2 + num_gamma :], _PLACES[1]))
        return first + second - 2.0 * math.log(2.0) + gammas + normals

    def mass(cdf, low: float, high: float) -> float:
        return 0.5 * sum(cdf(high, place) - cdf(low, place) for place in _PLACES)

    ends = ((low, 0.5), (0.5, high))
    quarters = np.array([mass(_gamma_cdf, *a) * mass(_normal_cdf, *b) for a in ends for b in ends])
    rest = (_gamma_cdf(high, _PLACES[1]) - _gamma_cdf(low, _PLACES[1])) ** num_gamma
    rest *= (_normal_cdf(high, _PLACES[1]) - _normal_cdf(low, _PLACES[1])) ** (dim - 2 - num_gamma)

    def shares(x):
        upper = jnp.where(x[:2] > 0.5, 1, 0)
        return jax.nn.one_hot(2 * upper[0] + upper[1], 4)

    return Density(
        name,
        dim,
        log_likelihood,
        truth="distribution functions",
        log_z=math.log(float(quarters.sum()) * rest),
        shares=shares,
        masses=quarters / quarters.sum(),
        **how,
    )


def loggamma(dim: int) -> Density:
    """Four modes, half of the coordinates skewed, in the unit cube."""
    hardness = "four modes of skewed tails"
    return _loggamma(f"loggamma-{dim}", dim, 0.0, 1.0, prior=Box.cube(0.0, 1.0, dim), hardness=hardness)


def loggamma_free(dim: int) -> Density:
    """The same without a box: the tails fall as exp(-exp(30 x)), and their gradients overflow."""
    hardness = "tails of exp(-exp(30 x)): values and gradients overflow a few steps away"
    return _loggamma(f"loggamma-{dim}-free", dim, -40.0, 40.0, hardness=hardness, box=1.0)


def rosenbrock(dim: int) -> Density:
    """The valley -sum 100 (x_{i+1} - x_i^2)^2 + (1 - x_i)^2, uniform on [-5, 5]^dim."""
    side = 5.0
    nodes, weights = legendre(-side, side, 3000)
    step = np.exp(-100.0 * (nodes[None] - nodes[:, None] ** 2) ** 2 - (1.0 - nodes[:, None]) ** 2) * weights[None]
    onward = np.ones(len(nodes))  # the integral over all later coordinates, as a function of one
    for _ in range(dim - 1):
        onward = step @ onward

    def log_likelihood(x):
        return -jnp.sum(100.0 * (x[1:] - x[:-1] ** 2) ** 2 + (1.0 - x[:-1]) ** 2)

    return Density(
        f"rosenbrock-{dim}",
        dim,
        log_likelihood,
        "a curved valley, a thousandth as wide as the box",
        "a chain of one-dimensional integrals",
        prior=Box.cube(-side, side, dim),
        log_z=math.log(float(weights @ onward)) - dim * math.log(2 * side),
        spread=_spread_of_first(nodes, weights * onward),
    )


def _spread_of_first(nodes: np.ndarray, masses: np.ndarray) -> float:
    masses = masses / masses.sum()
    mean = masses @ nodes
    return float(np.sqrt(masses @ (nodes - mean) ** 2))


def rosenbrock_pairs() -> Density:
    """pocoMC's quick start: five pairs of -10 (x^2 - y)^2 - (x - 1)^2 under N(0, 3^2) in ten dimensions.

    Of pocoMC's documentation: log Z = -21.430 +- 0.027 with 51,456 calls.
    """
    nodes, weights = legendre(-12.0, 12.0, 4000)
    prior = np.exp(-0.5 * (nodes / 3.0) ** 2) / (3.0 * math.sqrt(2.0 * math.pi))
    # Over y in closed form: N(y; x^2, 1/20) against N(y; 0, 9).
    variance = 9.0 + 1.0 / 20.0
    inner = math.sqrt(math.pi / 10.0) * np.exp(-0.5 * nodes**4 / variance) / math.sqrt(2.0 * math.pi * variance)
    masses = weights * prior * np.exp(-((nodes - 1.0) ** 2)) * inner

    def log_likelihood(x):
        return -jnp.sum(10.0 * (x[::2] ** 2 - x[1::2]) ** 2 + (x[::2] - 1.0) ** 2)

    return Density(
        "rosenbrock-10",
        10,
        log_likelihood,
        "five bananas; pocoMC's own example, with a published number of calls",
        "a one-dimensional integral for each pair",
        prior=Gaussian((0.0,) * 10, (3.0,) * 10),
        log_z=5.0 * math.log(float(masses.sum())),
        spread=_spread_of_first(nodes, masses),
        budget=51_456,
        goal=Goal(log_z=0.03),
    )


def unid() -> Density:
    """Pigeons' `unid`: 50,000 successes of Binomial(100,000, p q), p and q uniform. A ridge p q = 1/2."""
    num = 100_000
    log_peak = float(gammaln(num + 1) - 2.0 * gammaln(num // 2 + 1)) - num * math.log(2.0)
    # The product r = p q has density -log r; the binomial is narrow in r.
    nodes, weights = legendre(0.48, 0.52, 2000)
    values = np.exp(0.5 * num * np.log1p(-((1.0 - 2.0 * nodes) ** 2)))

    def log_likelihood(x):
        # log(4 r (1 - r)) without the cancellation of two numbers of the size of 35,000.
        off = 1.0 - 2.0 * x[0] * x[1]
        return 0.5 * num * jnp.log1p(-(off**2)) + log_peak

    # Given r = 1/2 the density of p is proportional to 1/p on [1/2, 1].
    return Density(
        "unid",
        2,
        log_likelihood,
        "a curved ridge: only the product of the parameters is known",
        "a one-dimensional integral; the halves by symmetry of p and q",
        prior=Box.cube(0.0, 1.0, 2),
        log_z=log_peak + math.log(float(weights @ (values * -np.log(nodes)))),
        shares=lambda x: halves(x[0] - x[1]),
        masses=np.array([0.5, 0.5]),
        spread=_spread_of_reciprocal(),
    )


def _spread_of_reciprocal() -> float:
    """Standard deviation of 1/p on [1/2, 1]."""
    mean, square = 0.5 / math.log(2.0), 0.375 / math.log(2.0)
    return math.sqrt(square - mean**2)


def pathology() -> Density:
    """dynesty's pathology: 1 / max(|x|, 1e-8) in the first coordinate, uniform on [-1, 1]^2."""
    floor = 1e-8
    total = 1.0 - math.log(floor)
    edges = np.array([1e-6, 1e-3])
    below = (1.0 + np.log(edges / floor)) / total

    def log_likelihood(x):
        return -jnp.log(jnp.maximum(jnp.abs(x[0]), floor))

    def shares(x):
        return jax.nn.one_hot(jnp.sum(jnp.where(jnp.abs(x[0]) > jnp.asarray(edges, x.dtype), 1, 0)), 3)

    return Density(
        "pathology",
        2,
        log_likelihood,
        "an extreme spike: the mass is spread evenly over eight powers of ten",
        "closed form",
        prior=Box.cube(-1.0, 1.0, 2),
        log_z=math.log(total),
        shares=shares,
        masses=np.array([below[0], below[1] - below[0], 1.0 - below[1]]),
        limit="half of the mass lies within a ten-thousandth of the middle",
    )
