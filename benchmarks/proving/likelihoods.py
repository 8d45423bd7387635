"""Posteriors of a few parameters under priors by name, as users of Bayesian software write them; truths by grids."""

import math

import numpy as np

import tempering as tp

from .grids import axis, on_grid, posterior
from .record import Density

__all__ = ["GRID_POSTERIORS"]

_LOG_2PI = math.log(2.0 * math.pi)


def _sum(parts):
    """The sum of a list of arrays, which keeps the kind of its first."""
    total = parts[0]
    for part in parts[1:]:
        total = total + part
    return total


def gaussian_process() -> Density:
    """Length, height and noise of a Gaussian process with seven data: a wiggle without noise, or noise alone."""
    times = np.array([-5.2, -3.1, -2.4, -0.3, 0.8, 2.9, 4.4])
    values = np.array([1.1, -0.6, 0.5, -1.2, 0.9, -0.4, -1.0])
    square = (times[:, None] - times[None]) ** 2

    def log_likelihood(x, xp):
        length, height, noise = (each[..., None, None] for each in (x[0], x[1], x[2]))
        eye = np.eye(len(times))
        shape = x[0][..., None, None] * 0.0 + square
        covariance = height**2 * xp.exp(-0.5 * shape / length**2) + (noise**2 + 1e-6) * eye
        root = xp.linalg.cholesky(covariance)
        # Forward substitution by hand, which runs for numbers and for grids alike.
        white = []
        for row in range(len(times)):
            before = sum((root[..., row, k] * white[k] for k in range(row)), 0.0 * x[0])
            white.append((values[row] - before) / root[..., row, row])
        log_det = _sum([xp.log(root[..., k, k]) for k in range(len(times))])
        return -0.5 * _sum([each**2 for each in white]) - log_det - 0.5 * len(times) * _LOG_2PI

    prior = [tp.LogNormal(0.5, 1.0), tp.HalfNormal(2.0), tp.LogNormal(-1.5, 1.2)]
    axes = [axis(prior[0], 120), axis(prior[1], 80), axis(prior[2], 100, cuts=[0.5])]
    return posterior(
        "gaussian-process-3",
        prior,
        log_likelihood,
        "two explanations of the data: a short length with little noise, or noise alone",
        "quadrature",
        axes=axes,
        region=lambda x, xp: xp.where(x[2] > 0.5, 1, 0),
        num_regions=2,
    )


def separated() -> Density:
    """Logistic regression whose data a line separates; heavy-tailed priors hold what the likelihood does not."""
    covariate = np.array([-2.1, -1.7, -1.2, -0.8, -0.5, 0.3, 0.7, 1.1, 1.6, 2.4])
    sign = np.where(covariate > 0.0, 1.0, -1.0)

    def log_likelihood(x, xp):
        margins = sign * (x[0][..., None] + x[1][..., None] * covariate)
        return -xp.sum(xp.logaddexp(0.0 * margins, -margins), axis=-1)

    prior = [tp.StudentT(0.0, 10.0, 3.0), tp.StudentT(0.0, 2.5, 1.5)]
    # Slopes of a Student have heavy tails, so that quartiles and not moments are asked for.
    return posterior(
        "separated-2",
        prior,
        log_likelihood,
        "the data do not bound the slope: the posterior has the tails of its prior, in a wedge",
        "quadrature",
        axes=[axis(prior[0], 1500), axis(prior[1], 1500, cuts=[6.0, 20.0])],
        region=lambda x, xp: xp.where(x[1] > 6.0, 1, 0) + xp.where(x[1] > 20.0, 1, 0),
        num_regions=3,
        with_spread=False,
    )


def either_rate() -> Density:
    """Two error rates that explain the same counts either way, under Jeffreys priors, which are infinite at 0 and 1."""
    trials, positive = 60.0, 21.0

    def log_likelihood(x, xp):
        chance = x[0] * (1.0 - x[1]) + x[1] * (1.0 - x[0])
        chance = xp.clip(chance, 1e-7, 1.0 - 1e-7)
        return positive * xp.log(chance) + (trials - positive) * xp.log1p(-chance)

    prior = [tp.Beta(0.5, 0.5), tp.Beta(0.5, 0.5)]
    return posterior(
        "either-rate-2",
        prior,
        log_likelihood,
        "four arms of a ridge that run into the corners of a prior that is infinite there",
        "quadrature",
        axes=[axis(prior[0], 2000), axis(prior[1], 2000)],
        region=lambda x, xp: 2 * xp.where(x[0] > 0.5, 1, 0) + xp.where(x[1] > 0.5, 1, 0),
        num_regions=4,
    )


def not_a_number() -> Density:
    """log(a - b^2) and a normal, as a user writes them: NaN where b^2 exceeds a, on most of the prior."""

    def log_likelihood(x, xp):
        room = x[0] - x[1] ** 2
        return 2.0 * xp.log(room) - 0.5 * ((x[0] - 2.0) / 0.7) ** 2 - 3.0 * room

    prior = [tp.Normal(0.0, 3.0), tp.Normal(0.0, 3.0)]
    return posterior(
        "not-a-number-2",
        prior,
        log_likelihood,
        "the likelihood is NaN on two thirds of the prior",
        "quadrature",
        axes=[axis(prior[0], 3000), axis(prior[1], 3000)],
        region=lambda x, xp: xp.where(x[1] > 0.0, 1, 0),
        num_regions=2,
    )


def enzyme() -> Density:
    """Michaelis and Menten's law far below saturation: the ratio of two parameters is known, and neither of them."""
    dose = np.array([0.1, 0.2, 0.4, 0.8, 1.5, 3.0])
    rates = np.array([0.12, 0.02, 0.27, 0.31, 0.72, 1.22])

    def log_likelihood(x, xp):
        top, half, noise = (each[..., None] for each in (x[0], x[1], x[2]))
        off = (rates - top * dose / (half + dose)) / noise
        return -0.5 * xp.sum(off**2, axis=-1) - len(dose) * (xp.log(x[2]) + 0.5 * _LOG_2PI)

    prior = [tp.LogNormal(1.0, 3.0), tp.LogNormal(1.0, 3.0), tp.Gamma(2.0, 20.0)]
    axes = [axis(prior[0], 900, 0.3), axis(prior[1], 900, 0.3, cuts=[30.0, 300.0]), axis(prior[2], 60, 1e-3, 1.5)]
    return posterior(
        "enzyme-3",
        prior,
        log_likelihood,
        "a ridge over three powers of ten, a hundredth as wide, that only the priors end",
        "quadrature",
        axes=axes,
        region=lambda x, xp: xp.where(x[1] > 30.0, 1, 0) + xp.where(x[1] > 300.0, 1, 0),
        num_regions=3,
        with_spread=False,
    )


def conflict() -> Density:
    """Three Student means whose priors and data disagree by twelve: each believes the one or the other."""
    data = np.array([12.0, -11.0, 9.0])
    nus, offsets, scales = np.array([3.0, 2.0, 4.0]), np.array([0.0, 1.0, -0.5]), np.array([0.6, 1.5, 0.8])
    constants = [math.lgamma(0.5 * (nu + 1)) - math.lgamma(0.5 * nu) - 0.5 * math.log(nu * math.pi) for nu in nus]

    def one(x, k, xp):
        tail = xp.log1p(((data[k] - x) / scales[k]) ** 2 / nus[k])
        return constants[k] - math.log(scales[k]) - 0.5 * (nus[k] + 1.0) * tail

    prior = [tp.StudentT(float(off), 1.0, float(nu)) for off, nu in zip(offsets, nus, strict=True)]
    near = [
        on_grid(
            [axis(prior[k], 20_000)],
            lambda x, xp, k=k: one(x[0], k, xp),
            lambda x, xp, k=k: xp.where(abs(x[0] - data[k]) < abs(x[0] - offsets[k]), 1, 0),
            2,
        )
        for k in range(3)
    ]
    masses = np.einsum("i,j,k->ijk", *(each.masses for each in near)).ravel()

    def region(x, xp):
        sides = [xp.where(abs(x[k] - data[k]) < abs(x[k] - offsets[k]), 1, 0) for k in range(3)]
        return 4 * sides[0] + 2 * sides[1] + sides[2]

    return posterior(
        "conflict-3",
        prior,
        lambda x, xp: one(x[0], 0, xp) + one(x[1], 1, xp) + one(x[2], 2, xp),
        "eight modes of unlike weight joined by heavy tails",
        "a product of three quadratures",
        region=region,
        num_regions=8,
        masses=masses,
        log_z=sum(each.log_z for each in near),
        spread=near[0].spread,
    )


def angles() -> Density:
    """Three coupled angles, uniform on the circle: modes lie across the cut at ±pi."""

    def log_likelihood(x, xp):
        pairs = 6.0 * xp.cos(x[0] - x[1]) + 5.0 * xp.cos(x[1] - x[2] - 2.0)
        return pairs + 4.0 * xp.cos(2.0 * (x[0] - 1.5)) + 0.5 * xp.cos(x[0] - 3.0)

    prior = [tp.Uniform(-math.pi, math.pi)] * 3
    return posterior(
        "angles-3",
        prior,
        log_likelihood,
        "angles: each mode is cut by the ends of a prior into as many as four",
        "quadrature",
        axes=[axis(prior[0], 240)] * 3,
        region=lambda x, xp: xp.where(xp.cos(x[0] - 1.5) > 0.0, 1, 0) + 2 * xp.where(x[1] > 0.0, 1, 0),
        num_regions=4,
    )


def decays() -> Density:
    """The sum of two decays with amplitudes: labels are free, and one decay may do the work of both."""
    times = np.linspace(0.2, 6.0, 14)
    clean = 1.6 * np.exp(-1.4 * times) + 1.0 * np.exp(-0.35 * times)
    values = clean + 0.08 * np.random.default_rng(8).standard_normal(len(times))
    noise, width = 0.08, 2.0

    def log_likelihood(x, xp):
        each = [x[2 + k][..., None] * xp.exp(-x[k][..., None] * times) for k in range(2)]
        off = (values - each[0] - each[1]) / noise
        return -0.5 * xp.sum(off**2, axis=-1) - len(times) * (math.log(noise) + 0.5 * _LOG_2PI)

    def marginal(x, xp):
        """Over the two amplitudes, N(0, width^2), in closed form."""
        a, b = (xp.exp(-x[k][..., None] * times) for k in range(2))
        aa, ab, bb = ((u * v).sum(axis=-1) / noise**2 for u, v in ((a, a), (a, b), (b, b)))
        ya, yb = ((u * values).sum(axis=-1) / noise**2 for u in (a, b))
        aa, bb = aa + 1.0 / width**2, bb + 1.0 / width**2
        det = aa * bb - ab**2
        fit = (bb * ya**2 - 2.0 * ab * ya * yb + aa * yb**2) / det
        base = -0.5 * float(np.sum(values**2)) / noise**2 - len(times) * (math.log(noise) + 0.5 * _LOG_2PI)
        return base + 0.5 * fit - 0.5 * xp.log(det) - 2.0 * math.log(width)

    prior = [tp.LogNormal(0.0, 1.0), tp.LogNormal(0.0, 1.0), tp.Normal(0.0, width), tp.Normal(0.0, width)]
    region = lambda x, xp: xp.where(x[0] > x[1], 1, 0)  # noqa: E731
    found = on_grid([axis(prior[0], 2500)] * 2, marginal, region, 2)
    return posterior(
        "decays-4",
        prior,
        log_likelihood,
        "swapped labels, and rates and amplitudes that trade against each other",
        "conjugacy, and quadrature over the two rates",
        region=region,
        num_regions=2,
        found=found,
        masses=found.masses,
    )


def waves(dim: int = 3) -> Density:
    """Rastrigin's function at a temperature of three on its usual box: eleven wells a side."""
    prior = [tp.Uniform(-5.12, 5.12)] * dim

    def one(x, xp):
        return -(10.0 + (x - 0.4) ** 2 - 10.0 * xp.cos(2.0 * math.pi * (x - 0.4))) / 3.0

    region = lambda x, xp: xp.clip(xp.floor(x[0] - 0.4 + 0.5), -3, 3).astype(xp.int32) + 3  # noqa: E731
    found = on_grid([axis(prior[0], 20_000)], lambda x, xp: one(x[0], xp), region, 7)
    return posterior(
        f"rastrigin-{dim}",
        prior,
        lambda x, xp: _sum([one(x[k], xp) for k in range(dim)]),
        "a thousand wells, of which some dozens count",
        "a one-dimensional quadrature",
        region=region,
        num_regions=7,
        masses=found.masses,
        log_z=dim * found.log_z,
        spread=found.spread,
    )


GRID_POSTERIORS = {
    "gaussian-process-3": gaussian_process,
    "separated-2": separated,
    "either-rate-2": either_rate,
    "not-a-number-2": not_a_number,
    "enzyme-3": enzyme,
    "conflict-3": conflict,
    "angles-3": angles,
    "decays-4": decays,
    "rastrigin-3": waves,
}
