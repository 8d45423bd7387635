"""Nasty posteriors: jumps, a choice of models, a number without a slope, and times that single precision blurs.

Written before any of them was fitted, by somebody who had not seen a fit. Truths are in double precision, from NumPy
and SciPy. The comment above a density says how its truth was made and by which second method it was checked:
- SMC: tempered sequential Monte Carlo from the prior, or from a wide normal, of the very JAX function that is handed
  over. log Z agreed within 0.05 or so, masses within 0.03 or so;
- grid 2: the same quadrature with other numbers of nodes.
"""

import itertools
import math
from collections.abc import Callable

import jax.numpy as jnp
import numpy as np
from scipy import special

import tempering as tp

from .classic import legendre
from .conjugate import log_marginal
from .grids import axis, log_sum, on_grid, posterior
from .handed import bins, by_name
from .record import Density

__all__ = ["SWITCHES"]

_LOG_2PI = math.log(2.0 * math.pi)


# Truth: rates by hand, quadrature over two times in cells that end at events. Second: SMC; grid 2.
def coal(per_gap: int = 10) -> Density:
    """Accidents in a hundred years with two changes of their rate, whose order is free: jumps at every event."""
    generator = np.random.default_rng(91)
    years = np.sort(
        np.concatenate([generator.uniform(0, 38, 16), generator.uniform(38, 70, 8), generator.uniform(70, 100, 16)])
    )
    span, a, b = 100.0, 2.0, 5.0

    def log_likelihood(x, xp):
        first, last = xp.minimum(x[0], x[1]), xp.maximum(x[0], x[1])
        before, after = (xp.sum(xp.where(years < cut[..., None], 1.0, 0.0), axis=-1) for cut in (first, last))
        counts = [before, after - before, len(years) - after]
        lengths = [first, last - first, span - last]
        return sum(n * xp.log(r) - r * length for n, r, length in zip(counts, x[2:], lengths, strict=True))

    cuts = (30.0, 50.0, 65.0)
    edges = np.sort(np.concatenate([[0.0, span], years, cuts]))
    parts = [legendre(low, high, per_gap) for low, high in itertools.pairwise(edges)]
    t, w = (np.concatenate([part[k] for part in parts]) for k in range(2))
    below = np.searchsorted(years, t)
    first, last = np.minimum.outer(t, t), np.maximum.outer(t, t)
    before, after = np.minimum.outer(below, below), np.maximum.outer(below, below)
    logs = 0.0
    for n, length in ((before, first), (after - before, last - first), (len(years) - after, span - last)):
        logs = logs + special.gammaln(a + n) - math.lgamma(a) + a * math.log(b) - (a + n) * np.log(b + length)
    mass = np.exp(logs - logs.max()) * np.outer(w, w) / span**2
    line = mass.sum(axis=1)
    mean = line @ t / line.sum()
    prior = [*[tp.Uniform(0.0, span)] * 2, *[tp.Gamma(a, b)] * 3]
    return posterior(
        "coal-5",
        prior,
        log_likelihood,
        "two changes in no order: a jump at every event, a mirror, and one change that may be idle",
        "conjugacy, quadrature between events",
        log_z=float(logs.max() + math.log(mass.sum())),
        region=lambda x, xp: bins(x[0], cuts, xp),
        num_regions=4,
        masses=np.bincount(np.searchsorted(cuts, t), line, 4) / line.sum(),
        spread=math.sqrt(float(line @ (t - mean) ** 2 / line.sum())),
    )


# Truth: two linear models by hand. Second: SMC; the Bayes factor through the marginal covariance.
def two_models() -> Density:
    """Two models of the same data in one density: a number below a half means a line, else a curve; the other idles."""
    covariate = np.linspace(-1.5, 1.5, 12)
    noise = 0.4
    values = (
        0.3 + 0.75 * covariate + 0.3 * np.sin(3.0 * covariate) + noise * np.random.default_rng(97).standard_normal(12)
    )
    line = np.stack([np.ones(12), covariate], axis=1)
    curve = np.stack([np.ones(12), np.sin(3.0 * covariate), covariate**3], axis=1)

    def log_likelihood(x, xp):
        first = x[1][..., None] + x[2][..., None] * covariate
        second = sum(x[3 + k][..., None] * curve[:, k] for k in range(3))
        off = (values - xp.where(x[0][..., None] < 0.5, first, second)) / noise
        return -0.5 * xp.sum(off**2, axis=-1) - len(values) * (math.log(noise) + 0.5 * _LOG_2PI)

    logs = np.array([float(log_marginal(m, values, noise, s)[0]) for m, s in ((line, 2.0), (curve, 1.0))])
    weights = np.exp(logs - log_sum(logs))
    mean = weights @ [0.25, 0.75]
    return posterior(
        "two-models-6",
        [tp.Uniform(0.0, 1.0), *[tp.Normal(0.0, 2.0)] * 2, *[tp.Normal(0.0, 1.0)] * 3],
        log_likelihood,
        "a switch without slope between two models, each wide where the other is narrow",
        "conjugacy",
        log_z=float(log_sum(logs)) - math.log(2.0),
        region=lambda x, xp: xp.where(x[0] < 0.5, 0, 1),
        num_regions=2,
        masses=weights,
        spread=math.sqrt(float(weights @ (np.array([0.25, 0.75]) ** 2 + 0.25 / 12.0) - mean**2)),
    )


# Truth: quadrature in 5 dimensions, thrice. Second: SMC; grid 2.
def quartet(nodes: int = 19) -> Density:
    """The tree of four species: a number whose third says which of three trees, and five branch lengths."""
    counts = np.array([30.0, 6.0, 6.0, 5.0, 7.0, 7.0, 8.0, 3.0])  # patterns of species 2 to 4 against species 1
    signs = np.array(list(itertools.product([1.0, -1.0], repeat=3)))
    signs = np.concatenate([np.ones((8, 1)), signs], axis=1)
    trees = [(0, 1, 2, 3), (0, 2, 1, 3), (0, 3, 1, 2)]

    def log_tree(tree, x, xp):
        """x: five branch lengths, four of the species and one inside."""
        keep = [xp.exp(-2.0 * each) for each in x]
        total = 0.0
        i, j, k, m = tree
        left, right = keep[i] * keep[j], keep[k] * keep[m]
        for n, s in zip(counts, signs, strict=True):
            across = (s[i] * keep[i] + s[j] * keep[j]) * (s[k] * keep[k] + s[m] * keep[m])
            chance = (
                1.0 + s[i] * s[j] * left + s[k] * s[m] * right + keep[4] * across + float(np.prod(s)) * left * right
            )
            total = total + n * xp.log(xp.maximum(chance, 1e-30) / 8.0)
        return total

    def log_likelihood(x, xp):
        each = [log_tree(tree, x[1:], xp) for tree in trees]
        return xp.where(x[0] < 1.0 / 3.0, each[0], xp.where(x[0] < 2.0 / 3.0, each[1], each[2]))

    rate = tp.Exponential(5.0)
    outer, inner = axis(rate, nodes, 2e-4, 1.4), axis(rate, nodes, 1e-7, 1.2)
    axes = [outer] * 4 + [inner]
    logs = np.array([on_grid(axes, lambda x, xp, tree=tree: log_tree(tree, x, xp)).log_z for tree in trees])
    weights = np.exp(logs - log_sum(logs))
    thirds = np.array([1.0, 3.0, 5.0]) / 6.0
    return posterior(
        "quartet-6",
        [tp.Uniform(0.0, 1.0), *[rate] * 5],
        log_likelihood,
        "three trees side by side along a coordinate without slope",
        "quadrature over five branch lengths",
        log_z=float(log_sum(logs)) - math.log(3.0),
        region=lambda x, xp: bins(x[0], (1.0 / 3.0, 2.0 / 3.0), xp),
        num_regions=3,
        masses=weights,
        spread=math.sqrt(float(weights @ (thirds**2 + 1.0 / 108.0) - (weights @ thirds) ** 2)),
    )


# Truth: quadrature (means of a grid; the epoch's prior is cut where nothing is left). Second: grid 2; SMC.
def ephemeris(sizes: tuple[int, int] = (240, 8000)) -> Density:
    """Transits on days near 24,530, where single precision has steps of 1/512: an epoch, and aliases of a period.

    The times are whole steps, so they are exact in single precision; the epoch is some six steps wide.
    """
    generator = np.random.default_rng(94)
    cycles = np.array([-41.0, -40.0, -38.0, -2.0, 0.0, 1.0, 37.0, 39.0])
    times = 24_530.3 + 0.8163 * cycles + 0.05 * generator.standard_normal(len(cycles))
    times = np.round(512.0 * times) / 512.0
    sharp = 9.0
    low, high = 24_530.0, 24_530.625

    def log_likelihood(x, xp):
        phase = 2.0 * math.pi * (times - x[0][..., None]) / x[1][..., None]
        return sharp * xp.sum(xp.cos(phase) - 1.0, axis=-1)

    prior = [tp.Uniform(low, high), tp.Uniform(0.7, 0.95)]
    bounds = (0.765, 0.79, 0.807, 0.826, 0.85)
    at = low + (high - low) * (np.arange(sizes[0]) + 0.5) / sizes[0]
    periods = 0.7 + 0.25 * (np.arange(sizes[1]) + 0.5) / sizes[1]
    parts = [log_likelihood([at[:, None], block[None]], np) for block in np.array_split(periods, 80)]
    logs = np.concatenate(parts, axis=1)
    mass = np.exp(logs - logs.max())
    line, column = mass.sum(axis=1), mass.sum(axis=0)
    mean = line @ (at - low) / line.sum()
    return posterior(
        "ephemeris-2",
        prior,
        log_likelihood,
        "an epoch of which single precision sees six steps, and aliases of a period",
        "quadrature",
        log_z=float(logs.max() + math.log(mass.mean())),
        region=lambda x, xp: bins(x[1], bounds, xp),
        num_regions=len(bounds) + 1,
        masses=np.bincount(np.searchsorted(bounds, periods), column, len(bounds) + 1) / column.sum(),
        spread=math.sqrt(float(line @ (at - low - mean) ** 2 / line.sum())),
        **by_name("epoch period", prior, log_likelihood),
    )


# Truth: the amplitude by hand (log_ndtr), quadrature over the place. Second: SMC; grid 2.
def faint(nodes: int = 360) -> Density:
    """Is there a star on nine by nine pixels? Either no light anywhere, or a star at one of two places."""
    size, blur, rate = 9, 0.8, 0.5
    rows, columns = (each.ravel() + 0.5 for each in np.meshgrid(np.arange(size), np.arange(size), indexing="ij"))

    def star(a, b, xp):
        return xp.exp(-0.5 * ((rows - a) ** 2 + (columns - b) ** 2) / blur**2)

    pixels = np.random.default_rng(96).standard_normal(size**2) + 2.2 * star(6.3, 2.7, np) + 1.4 * star(2.0, 7.1, np)

    def log_likelihood(x, xp):
        """Against an empty image."""
        shape = x[0][..., None] * star(x[1][..., None], x[2][..., None], xp)
        return xp.sum(pixels * shape - 0.5 * shape**2, axis=-1)

    edges = np.array([0.0, 1.0, 3.0, 5.3, 6.1, 7.3, 8.1, 9.0])
    at = np.concatenate(
        [low + (high - low) * (np.arange(nodes // 7) + 0.5) / (nodes // 7) for low, high in itertools.pairwise(edges)]
    )
    step = np.repeat(np.diff(edges) / (nodes // 7), nodes // 7)
    logs = np.empty((len(at), len(at)))
    for k, a in enumerate(at):
        shape = star(a, at[:, None], np)
        s, q = shape @ pixels - rate, np.sum(shape**2, axis=-1)
        logs[k] = math.log(rate) + 0.5 * s**2 / q + special.log_ndtr(s / np.sqrt(q)) + 0.5 * np.log(2.0 * math.pi / q)
    mass = np.exp(logs) * np.outer(step, step) / size**2

    def spot(a, b, xp):
        bright = (a > 5.3) & (a < 7.3) & (b > 1.0) & (b < 5.3)
        return xp.where(bright, 1, xp.where((a < 3.0) & (b > 6.1), 2, 0))

    number = spot(at[:, None], at[None], np)
    masses = np.bincount(number.ravel(), mass.ravel(), 3)
    prior = [tp.Exponential(rate), tp.Uniform(0.0, float(size)), tp.Uniform(0.0, float(size))]
    return posterior(
        "faint-3",
        prior,
        log_likelihood,
        "a plateau without a star, whose place is free, beside two peaks with one",
        "amplitude by hand, quadrature over the place",
        log_z=math.log(float(mass.sum())),
        region=lambda x, xp: spot(x[1], x[2], xp),
        num_regions=3,
        masses=masses / masses.sum(),
    )


# Truth: even steps in two angles (exact for periodic functions). Second: Singh's Bessel series without the tilt; SMC.
def sine(nodes: int = 400) -> Density:
    """Two pairs of torsions with two states each (Singh's sine model, tilted), near the ends of their intervals."""
    first, second, tie, tilt = (5.0, 4.0), (4.0, 5.0), (9.0, -8.0), (0.35, 0.6)
    centres = np.array([3.0, -2.9, 0.4, 3.1])

    def log_pair(k, a, b, xp):
        return first[k] * xp.cos(a) + second[k] * xp.cos(b) + tie[k] * xp.sin(a) * xp.sin(b) + tilt[k] * xp.sin(a)

    at = -math.pi + 2.0 * math.pi * (np.arange(nodes) + 0.5) / nodes
    log_z, ups, spread = 0.0, [], 0.0
    for k in range(2):
        mass = np.exp(log_pair(k, at[:, None], at[None], np)) / nodes**2
        log_z += math.log(float(mass.sum()))
        line = mass.sum(axis=1) / mass.sum()
        ups.append(float(line[at > 0.0].sum()))
        if k == 0:
            place = np.mod(at + centres[0] + math.pi, 2.0 * math.pi) - math.pi
            spread = math.sqrt(float(line @ place**2 - (line @ place) ** 2))

    def log_likelihood(x, xp):
        return sum(log_pair(k, x[2 * k] - centres[2 * k], x[2 * k + 1] - centres[2 * k + 1], xp) for k in range(2))

    def region(x, xp):
        return 2 * xp.where(xp.sin(x[0] - centres[0]) > 0.0, 0, 1) + xp.where(xp.sin(x[2] - centres[2]) > 0.0, 0, 1)

    pairs = [np.array([up, 1.0 - up]) for up in ups]
    return posterior(
        "sine-4",
        [tp.Uniform(-math.pi, math.pi)] * 4,
        log_likelihood,
        "four states of two pairs of torsions, most of them cut by the ends of an interval",
        "even steps in two angles",
        log_z=log_z,
        region=region,
        num_regions=4,
        masses=np.outer(*pairs).ravel(),
        spread=spread,
        handed=lambda: lambda x: log_likelihood(x, jnp),
        handed_as="likelihood",
        how={"dim": 4, "prior": tp.Uniform(-math.pi, math.pi)},
    )


SWITCHES: dict[str, Callable[[], Density]] = {
    "coal-5": coal,
    "two-models-6": two_models,
    "quartet-6": quartet,
    "ephemeris-2": ephemeris,
    "faint-3": faint,
    "sine-4": sine,
}
