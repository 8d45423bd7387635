"""Posteriors of known models, on published or simulated data."""

import math

import jax
import jax.numpy as jnp
import numpy as np

from .record import Box, Density, Gaussian, halves
from .references import measured, reference

__all__ = ["GALAXIES", "galaxy", "logistic", "mrna", "sensors"]

_LOG_2PI = math.log(2.0 * math.pi)

# Positions and observed distances of the sensors (Ihler et al. 2005; Ahn et al. 2013; Tak, Meng and van Dyk 2018).
_KNOWN = ((0.5, 0.3), (0.3, 0.7))
_TO_KNOWN = {(0, 0): 0.6103, (0, 1): 0.3631, (2, 0): 0.2995, (2, 1): 0.5656}
_BETWEEN = {(0, 3): 0.9266, (1, 2): 0.2970, (1, 3): 0.8524}
SENSORS = ((0.5748, 0.9069), (0.0991, 0.3651), (0.2578, 0.1350), (0.8546, 0.0392))
"""Where they were."""
_RANGE, _NOISE = 0.3, 0.02


def sensors() -> Density:
    """Four unknown sensors from a few noisy distances; a pair is seen with chance exp(-d^2 / 2 R^2)."""
    pairs = [(i, k) for i in range(4) for k in range(i + 1, 4)]
    to_known = [(i, k) for i in range(4) for k in range(2)]
    seen = np.array([*(pair in _TO_KNOWN for pair in to_known), *(pair in _BETWEEN for pair in pairs)])
    given = np.array([*(_TO_KNOWN.get(pair, 1.0) for pair in to_known), *(_BETWEEN.get(pair, 1.0) for pair in pairs)])
    first = np.array([*(i for i, _ in to_known), *(i for i, _ in pairs)])
    second = np.array([*(4 + k for _, k in to_known), *(k for _, k in pairs)])

    def log_likelihood(x):
        places = jnp.concatenate([x.reshape(4, 2), jnp.asarray(_KNOWN, x.dtype)])
        square = jnp.sum((places[first] - places[second]) ** 2, axis=1) + 1e-12
        scaled = 0.5 * square / _RANGE**2
        off = (jnp.sqrt(square) - jnp.asarray(given, x.dtype)) / _NOISE
        observed = -scaled - 0.5 * off**2 - math.log(_NOISE) - 0.5 * _LOG_2PI
        return jnp.sum(jnp.where(jnp.asarray(seen), observed, jnp.log(-jnp.expm1(-scaled))))

    log_z, error = reference("sensors")
    masses = measured("sensors", "masses")
    return Density(
        "sensors",
        8,
        log_likelihood,
        "mirror images of the sensors, of unlike weight; a ring for one of them",
        "measured: importance sampling along the graph of the distances",
        prior=Gaussian((0.0,) * 8, (10.0,) * 8),
        log_z=log_z,
        log_z_error=error,
        shares=None if masses is None else sensor_regions,
        masses=None if masses is None else np.array(masses),
    )


def sensor_regions(x: jax.Array) -> jax.Array:
    """Sensor 1 on either side of the line through the known ones, sensor 3 on either side, sensor 4 on either of 1."""
    first, third = halves(_side(x[:2])), halves(_side(x[4:6]))
    fourth = halves(x[6] - x[0])
    return (first[:, None, None] * third[None, :, None] * fourth[None, None]).ravel()


def _side(place):
    """Positive on one side of the line through the two known sensors."""
    (ax, ay), (bx, by) = _KNOWN
    return (bx - ax) * (ay - place[1]) - (by - ay) * (ax - place[0])


def mrna_data() -> tuple[np.ndarray, np.ndarray]:
    """150 simulated rows: t0 = 2, km0 = 5, beta = 0.7, delta = 0.2, noise 0.1."""
    generator = np.random.default_rng(11)
    times = np.linspace(0.2, 30.0, 150)
    after = np.maximum(times - 2.0, 0.0)
    clean = 5.0 * (np.exp(-0.7 * after) - np.exp(-0.2 * after)) / (0.2 - 0.7)
    return times, clean + 0.1 * generator.standard_normal(150)


def mrna() -> Density:
    """mRNA transfection (Ballnus et al. 2017, M1a) on simulated data: log10 of t0, km0, beta, delta, sigma in boxes."""
    times, observed = mrna_data()

    def log_likelihood(x):
        start, strength, beta, delta, noise = (10.0 ** x[k] for k in range(5))
        after = jnp.maximum(jnp.asarray(times, x.dtype) - start, 0.0)
        # (e^{-b t} - e^{-d t}) / (d - b) as t e^{-(b + d) t / 2} sinhc((d - b) t / 2), without dividing by zero.
        half = 0.5 * (delta - beta) * after
        near = jnp.abs(half) < 1e-2
        safe = jnp.where(near, 1.0, half)
        mean_rate = 0.5 * (beta + delta) * after
        size = jnp.abs(safe)
        far_ratio = jnp.exp(size - mean_rate) * -jnp.expm1(-2.0 * size) / (2.0 * size)
        ratio = jnp.where(near, jnp.exp(-mean_rate) * (1.0 + half**2 / 6.0), far_ratio)
        off = (jnp.asarray(observed, x.dtype) - strength * after * ratio) / noise
        return -0.5 * jnp.sum(off**2) - len(times) * (jnp.log(noise) + 0.5 * _LOG_2PI)

    log_z, error = reference("mrna")
    return Density(
        "mrna",
        5,
        log_likelihood,
        "two narrow mirror modes in wide boxes",
        "the weights by symmetry; log Z measured",
        prior=Box((-2.0, -5.0, -5.0, -5.0, -2.0), (1.0, 5.0, 5.0, 5.0, 2.0)),
        log_z=log_z,
        log_z_error=error,
        shares=lambda x: halves(x[2] - x[3]),
        masses=np.array([0.5, 0.5]),
    )


# Velocities of 82 galaxies in units of 1,000 km/s (Postman et al. 1986; Roeder 1990).
_VELOCITIES = """
9172 9350 9483 9558 9775 10227 10406 16084 16170 18419 18552 18600 18927 19052 19070 19330 19343 19349 19440 19473 19529
19541 19547 19663 19846 19856 19863 19914 19918 19973 19989 20166 20175 20179 20196 20215 20221 20415 20629 20795 20821
20846 20875 20986 21137 21492 21701 21814 21921 21960 22185 22209 22242 22249 22314 22374 22495 22746 22747 22888 22914
23206 23241 23263 23484 23538 23542 23666 23706 23711 24129 24285 24289 24366 24717 24990 25633 26960 26995 32065 32789
34279
"""
GALAXIES = np.array([int(word) for word in _VELOCITIES.split()]) / 1000.0


def galaxy() -> Density:
    """Three normals for the galaxies under Chib's prior (1995), without order: means, log precisions, two stick logits.

    Means N(20, 10^2), precisions Gamma(3, rate 20), weights Dirichlet(1, 1, 1). Neal (1999) found log Z = -226.803 +-
    0.040 from a hundred million draws of the prior.
    """

    def log_density(x):
        means, log_precision, logits = x[:3], x[3:6], x[6:]
        log_off, log_on = jax.nn.log_sigmoid(-logits), jax.nn.log_sigmoid(logits)
        zero = jnp.zeros((), x.dtype)
        log_weights = jnp.stack([log_on[0], log_off[0] + log_on[1], log_off[0] + log_off[1] + zero])
        prior = jnp.sum(-0.5 * ((means - 20.0) / 10.0) ** 2 - math.log(10.0) - 0.5 * _LOG_2PI)
        # Gamma(3, 20) with the Jacobian of the logarithm; Dirichlet(1, 1, 1), which is 2, with that of the sticks.
        prior += jnp.sum(3.0 * math.log(20.0) - math.log(2.0) + 3.0 * log_precision - 20.0 * jnp.exp(log_precision))
        prior += math.log(2.0) + log_on[0] + 2.0 * log_off[0] + log_on[1] + log_off[1]
        off = jnp.asarray(GALAXIES, x.dtype)[:, None] - means[None]
        logs = (log_weights + 0.5 * log_precision)[None] - 0.5 * jnp.exp(log_precision)[None] * off**2
        return prior + jnp.sum(jax.scipy.special.logsumexp(logs, axis=1)) - 0.5 * len(GALAXIES) * _LOG_2PI

    def shares(x):
        order = jnp.argsort(x[:3])
        # The six orders of three means: which label is the lowest, and whether the other two are turned.
        return jax.nn.one_hot(2 * order[0] + jnp.where(order[1] > order[2], 1, 0), 6)

    log_z, error = reference("galaxy")
    return Density(
        "galaxy",
        8,
        log_density,
        "six equal modes of swapped labels, each with side modes of its own",
        "the weights by symmetry; log Z measured, and published",
        log_z=log_z,
        log_z_error=error,
        shares=shares,
        masses=np.full(6, 1.0 / 6.0),
    )


def logistic(dim: int = 10, num_rows: int = 200) -> Density:
    """Logistic regression on simulated data, coefficients N(0, 2.5^2)."""
    generator = np.random.default_rng(21)
    covariates = np.concatenate([np.ones((num_rows, 1)), generator.standard_normal((num_rows, dim - 1))], axis=1)
    coefficients = generator.normal(0.0, 1.0, dim)
    labels = generator.random(num_rows) < 1.0 / (1.0 + np.exp(-covariates @ coefficients))
    signed = np.where(labels, 1.0, -1.0)[:, None] * covariates

    def log_likelihood(x):
        return jnp.sum(jax.nn.log_sigmoid(jnp.asarray(signed, x.dtype) @ x))

    log_z, error = reference(f"logistic-{dim}")
    spread = measured(f"logistic-{dim}", "spread")
    return Density(
        f"logistic-{dim}",
        dim,
        log_likelihood,
        "nothing: what everybody must get right",
        "measured: importance sampling from a Laplace approximation",
        prior=Gaussian((0.0,) * dim, (2.5,) * dim),
        log_z=log_z,
        log_z_error=error,
        spread=None if spread is None else spread[0],
    )
