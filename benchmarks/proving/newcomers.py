"""Posteriors as newcomers bring them: simulators without gradients, trees of parameters, a sky, a small network.

Written before any of them was fitted. Conjugacy, sums over hidden states and grids in double precision are the truth.
"""

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
from scipy import stats
from scipy.special import betaln

import tempering as tp

from .classic import legendre
from .conjugate import log_marginal
from .grids import axis, log_sum, on_grid, posterior
from .record import Density

__all__ = ["NEWCOMERS", "Sky"]

_LOG_2PI = math.log(2.0 * math.pi)


def _rows(log_likelihood: Callable) -> Callable:
    """A likelihood of coordinates as a function of NumPy of many points, axes (point, dim)."""
    return lambda points: log_likelihood(list(points.T), np)


@dataclass(frozen=True)
class Sky:
    """Right ascension, declination, distance and the cosine of the inclination, as a map of the unit cube."""

    farthest: float = 10.0

    def from_cube(self, u):
        distance = (1.0 + (self.farthest**3 - 1.0) * u[2]) ** (1.0 / 3.0)
        return jnp.stack([2.0 * math.pi * u[0], jnp.arcsin(2.0 * u[1] - 1.0), distance, 2.0 * u[3] - 1.0])

    def from_normal(self, z):
        return self.from_cube(jax.scipy.special.ndtr(z))

    def to_normal(self, x):
        cube = (x[2] ** 3 - 1.0) / (self.farthest**3 - 1.0)
        return jax.scipy.special.ndtri(
            jnp.stack([x[0] / (2.0 * math.pi), 0.5 * (1.0 + jnp.sin(x[1])), cube, 0.5 * (1.0 + x[3])])
        )


def sky(sizes: tuple[int, int, int, int] = (20, 240, 80, 40)) -> Density:
    """Where a signal comes from that two detectors heard: a thin ring on the sky, with mirrored modes of two senses.

    A delay tells the angle to the line between the detectors; two amplitudes tell direction, distance and inclination.
    """
    delay, delay_width, noise, heard = 0.3, 0.02, 0.06, (0.62, 0.3)
    frame = np.linalg.qr(np.array([[1.0, 0.4, 0.2], [-0.5, 1.0, 0.3], [0.6, -0.2, 1.0]]))[0].T  # baseline, and across
    prior = Sky()

    def amplitudes(across, other, distance, lean, xp):
        plus = (1.0 - 0.7 * across**2 + 0.12 * across) * 0.5 * (1.0 + lean**2) * 2.0 / distance
        cross = other * lean * 2.0 / distance
        return -0.5 * ((plus - heard[0]) / noise) ** 2 - 0.5 * ((cross - heard[1]) / noise) ** 2

    u, w = legendre(delay - 9.0 * delay_width, delay + 9.0 * delay_width, sizes[0])
    angle = 2.0 * math.pi * (np.arange(sizes[1]) + 0.5) / sizes[1]
    r, v = legendre(1.0, prior.farthest, sizes[2])
    halves = legendre(-1.0, 0.0, sizes[3]), legendre(0.0, 1.0, sizes[3])
    lean, q = (np.concatenate([half[k] for half in halves]) for k in range(2))
    wide = np.sqrt(1.0 - u**2)[:, None]
    across, other = wide * np.cos(angle), wide * np.sin(angle)
    ring = w * np.exp(-0.5 * ((u - delay) / delay_width) ** 2)
    inner = (3.0 * r**2 / (prior.farthest**3 - 1.0) * v)[:, None] * (0.5 * q)[None]
    masses = np.zeros(4)
    for i, j in np.ndindex(across.shape):
        mass = inner * np.exp(amplitudes(across[i, j], other[i, j], r[:, None], lean[None], np))
        senses = np.array([mass[:, lean < 0.0].sum(), mass[:, lean > 0.0].sum()])
        masses[2 * int(across[i, j] > 0.0) :][:2] += ring[i] * senses
    masses *= 0.5 / sizes[1]

    def direction(x):
        cos = jnp.cos(x[1])
        return jnp.asarray(frame, x.dtype) @ jnp.stack([cos * jnp.cos(x[0]), cos * jnp.sin(x[0]), jnp.sin(x[1])])

    def log_likelihood(x):
        n = direction(x)
        return -0.5 * ((n[0] - delay) / delay_width) ** 2 + amplitudes(n[1], n[2], x[2], x[3], jnp)

    return Density(
        "sky-4",
        4,
        log_likelihood,
        "a thin ring on the sky, with mirrored modes of two inclinations",
        "quadrature",
        prior=prior,
        log_z=math.log(float(masses.sum())),
        shares=lambda x: jax.nn.one_hot(2 * jnp.where(direction(x)[1] > 0.0, 1, 0) + jnp.where(x[3] > 0.0, 1, 0), 4),
        masses=masses / masses.sum(),
    )


def predators(nodes: int = 420) -> Density:
    """Prey and predators counted six times in thirty years: two rates, and a period for every number of cycles."""
    times, step, noise = np.array([3.0, 9.5, 14.0, 19.5, 25.0, 30.0]), 0.125, 0.45
    places = np.round(times / step).astype(int)

    def slopes(state, rate, death, xp):
        prey, hunters = xp.exp(xp.minimum(state[0], 30.0)), xp.exp(xp.minimum(state[1], 30.0))
        return rate - 0.4 * hunters, 0.25 * prey - death

    def paths(rate, death, xp):
        """Logarithms of the prey at the times of the data, by the rule of Runge and Kutta."""

        def onward(state):
            move = lambda d, by: (state[0] + by * d[0], state[1] + by * d[1])  # noqa: E731
            a = slopes(state, rate, death, xp)
            b = slopes(move(a, 0.5 * step), rate, death, xp)
            c = slopes(move(b, 0.5 * step), rate, death, xp)
            d = slopes(move(c, step), rate, death, xp)
            return tuple(state[k] + step / 6.0 * (a[k] + 2.0 * b[k] + 2.0 * c[k] + d[k]) for k in range(2))

        state = (0.0 * rate + math.log(6.0), 0.0 * rate + math.log(1.5))
        if xp is not np:
            found = jax.lax.scan(lambda state, _: (onward(state), onward(state)[0]), state, None, length=places[-1])[1]
            return found[places - 1]
        found = []
        for _ in range(places[-1]):
            state = onward(state)
            found.append(state[0])
        return np.stack([found[place - 1] for place in places])

    values = paths(np.array(0.8), np.array(0.9), np) + noise * np.random.default_rng(71).standard_normal(len(times))

    def log_likelihood(x, xp):
        off = [(path - value) / noise for path, value in zip(paths(x[0], x[1], xp), values, strict=True)]
        return -0.5 * sum(each**2 for each in off) - len(times) * (math.log(noise) + 0.5 * _LOG_2PI)

    prior = [tp.LogNormal(-0.3, 0.5), tp.LogNormal(-0.3, 0.5)]
    cuts = (0.5, 0.93, 1.2)
    return posterior(
        "predators-2",
        prior,
        log_likelihood,
        "a simulator of NumPy with finite differences: a mode for every number of cycles",
        "quadrature",
        axes=[axis(prior[0], nodes, cuts=cuts), axis(prior[1], nodes)],
        region=lambda x, xp: sum(xp.where(x[0] > cut, 1, 0) for cut in cuts),
        num_regions=4,
        handed=lambda: tp.from_callable(_rows(log_likelihood), dim=2, gradient="finite", batched=True),
        handed_as="black box",
        how={"prior": prior},
    )


def growth(nodes: int = 160) -> Density:
    """Logistic growth seen in its first days: the ceiling, near 100,000 or above, the rate and the first number."""
    days, noise = np.array([0.0, 1.0, 2.0, 3.0, 4.0, 5.0]), 0.12
    values = np.log([1050.0, 1890.0, 3050.0, 5900.0, 9300.0, 15_700.0])

    def log_likelihood(x, xp):
        total = 0.0
        for day, value in zip(days, values, strict=True):
            size = x[0] / (1.0 + (x[0] / x[2] - 1.0) * xp.exp(-x[1] * day))
            total = total - 0.5 * ((value - xp.log(xp.maximum(size, 1e-30))) / noise) ** 2
        return total - len(days) * (math.log(noise) + 0.5 * _LOG_2PI)

    prior = [tp.LogNormal(math.log(1e5), 1.5), tp.HalfNormal(1.0), tp.LogNormal(math.log(1e3), 0.7)]
    cuts = (4e4, 2e5)
    axes = [
        axis(prior[0], 2 * nodes, cuts=cuts),
        axis(prior[1], nodes, low=0.25, high=1.3),
        axis(prior[2], nodes, low=500.0, high=2000.0),
    ]
    return posterior(
        "growth-3",
        prior,
        log_likelihood,
        "no gradient; a ceiling of 100,000 that the data bound on one side, beside a rate of 1",
        "quadrature",
        axes=axes,
        region=lambda x, xp: sum(xp.where(x[0] > cut, 1, 0) for cut in cuts),
        num_regions=3,
        with_spread=False,
        handed=lambda: tp.from_callable(_rows(log_likelihood), dim=3, batched=True),
        handed_as="black box",
        how={"prior": prior},
    )


def student_lines(nodes: int = 320) -> Density:
    """A line with Student's noise through data that lie on two lines, in NumPyro: a narrow mode for either."""
    x_values = np.array([-2.0, -1.7, -1.3, -1.0, -0.6, -0.3, 0.2, 0.5, 0.9, 1.3, 1.7, 2.2])
    y_values = np.array([-2.62, 2.75, -1.27, 1.66, -0.02, 1.1, 1.42, -0.12, 2.58, -1.1, 4.1, -1.9])
    nu = 1.5
    constant = math.lgamma(0.5 * (nu + 1.0)) - math.lgamma(0.5 * nu) - 0.5 * math.log(nu * math.pi)

    def model(values=y_values):
        import numpyro
        import numpyro.distributions as dist

        offset = numpyro.sample("offset", dist.Normal(0.0, 3.0))
        slope = numpyro.sample("slope", dist.Normal(0.0, 3.0))
        width = numpyro.sample("width", dist.LogNormal(-1.9, 0.5))
        with numpyro.plate("data", len(x_values)):
            centre = offset + slope * jnp.asarray(x_values, jnp.float32)
            numpyro.sample("y", dist.StudentT(nu, centre, width), obs=values)

    def log_likelihood(x, xp):
        total = 0.0
        for at, value in zip(x_values, y_values, strict=True):
            off = (value - x[0] - x[1] * at) / x[2]
            total = total + constant - xp.log(x[2]) - 0.5 * (nu + 1.0) * xp.log1p(off**2 / nu)
        return total

    prior = [tp.Normal(0.0, 3.0), tp.Normal(0.0, 3.0), tp.LogNormal(-1.9, 0.5)]
    axes = [
        axis(prior[0], nodes, -2.5, 5.0),
        axis(prior[1], nodes, -4.5, 5.0, cuts=[0.3]),
        axis(prior[2], nodes // 5, cuts=[0.3]),
    ]
    region = lambda x, xp: 2 * xp.where(x[1] > 0.3, 1, 0) + xp.where(x[2] > 0.3, 1, 0)  # noqa: E731
    return posterior(
        "student-lines-3",
        prior,
        log_likelihood,
        "a robust line through data on two lines: two modes, each with a tail of wide noise",
        "quadrature",
        axes=axes,
        region=region,
        num_regions=4,
        handed=lambda: tp.from_numpyro(model, jnp.asarray(y_values, jnp.float32)),
        flat=lambda tree: np.stack([np.asarray(tree[name]) for name in ("offset", "slope", "width")], axis=1),
    )


def hidden_states() -> Density:
    """A chain of two hidden states behind eleven data: levels, and how long each state lasts; priors are a dict."""
    values = np.array([0.4, -0.3, 2.1, 1.4, 2.6, 0.9, -0.8, 0.2, 1.2, 2.9, 1.7])
    width, sticky = 2.0, (4.0, 1.5)
    like = {"level": jnp.zeros(2), "stay": jnp.full(2, 0.5)}
    prior = {"level": tp.Normal(0.0, width), "stay": tp.Beta(*sticky)}

    def log_likelihood(x, xp):
        """The forward recursion, from either state with equal chance."""
        fit = [[-0.5 * (value - x[k]) ** 2 - 0.5 * _LOG_2PI for k in range(2)] for value in values]
        keep, leave = ([xp.log(x[2 + k]) for k in range(2)], [xp.log1p(-x[2 + k]) for k in range(2)])
        logs = [fit[0][k] - math.log(2.0) for k in range(2)]
        for row in fit[1:]:
            logs = [row[k] + xp.logaddexp(logs[k] + keep[k], logs[1 - k] + leave[1 - k]) for k in range(2)]
        return xp.logaddexp(*logs)

    paths = np.array(list(itertools.product([0, 1], repeat=len(values))))
    logs, means, variances, above, edge = -math.log(2.0) + np.zeros(len(paths)), [], [], 1.0, 0.75
    for k in range(2):
        is_k = paths == k
        count, total, square = is_k.sum(axis=1), is_k @ values, is_k @ values**2
        precision = count + 1.0 / width**2
        logs += 0.5 * total**2 / precision - 0.5 * square - 0.5 * count * _LOG_2PI
        logs += -0.5 * np.log(precision) - math.log(width)
        means.append(total / precision)
        variances.append(1.0 / precision)
        kept = sticky[0] + np.sum(is_k[:, :-1] & is_k[:, 1:], axis=1)
        left = sticky[1] + np.sum(is_k[:, :-1] & ~is_k[:, 1:], axis=1)
        logs += betaln(kept, left) - betaln(*sticky)
        above = stats.beta.sf(edge, kept, left) if k == 0 else above
    log_z = float(log_sum(logs))
    weights = np.exp(logs - log_z)
    ordered = stats.norm.cdf((means[1] - means[0]) / np.sqrt(variances[0] + variances[1]))
    masses = [weights @ (a * b) for a in (1.0 - ordered, ordered) for b in (1.0 - above, above)]
    mean = weights @ means[0]
    return posterior(
        "hidden-states-4",
        [tp.Normal(0.0, width)] * 2 + [tp.Beta(*sticky)] * 2,
        log_likelihood,
        "two hidden states whose labels are free; a state may last for a single datum",
        "a sum over all 2,048 paths",
        region=lambda x, xp: 2 * xp.where(x[1] > x[0], 1, 0) + xp.where(x[2] > edge, 1, 0),
        num_regions=4,
        masses=np.array(masses),
        log_z=log_z,
        spread=math.sqrt(float(weights @ (variances[0] + means[0] ** 2) - mean**2)),
        handed=lambda: lambda tree: log_likelihood([*tree["level"], *tree["stay"]], jnp),
        handed_as="likelihood of a tree",
        how={"like": like, "prior": prior},
        flat=lambda tree: np.concatenate([np.asarray(tree["level"]), np.asarray(tree["stay"])], axis=1),
    )


def network(nodes: int = 500) -> Density:
    """Two hidden units and nine data: signs and order are free, and one unit may do the work of both."""
    inputs = np.array([-2.2, -1.6, -1.0, -0.5, 0.1, 0.6, 1.1, 1.7, 2.3])
    outputs = np.array([-0.75, -0.6, -0.95, -1.0, 0.2, 1.25, 0.9, 0.75, 0.6])
    noise, steep, wide = 0.2, 3.0, 1.5

    def log_likelihood(x):
        """x: two weights in, two weights out, a bias."""
        hidden = jnp.tanh(jnp.asarray(inputs, x.dtype)[:, None] * x[None, :2])
        off = (jnp.asarray(outputs, x.dtype) - hidden @ x[2:4] - x[4]) / noise
        return -0.5 * jnp.sum(off**2) - len(inputs) * (math.log(noise) + 0.5 * _LOG_2PI)

    def marginal(x, xp):
        hidden = [np.tanh(x[k][..., None] * inputs) for k in range(2)]
        columns = np.stack([*hidden, np.ones_like(hidden[0])], axis=-1)
        return log_marginal(columns, outputs, noise, wide)[0]

    each = axis(tp.Normal(0.0, steep), nodes, cuts=[0.0])
    found = on_grid([each, each], marginal)

    def region(x, xp):
        return 4 * xp.where(x[0] > 0, 1, 0) + 2 * xp.where(x[1] > 0, 1, 0) + xp.where(abs(x[0]) > abs(x[1]), 1, 0)

    return posterior(
        "network-5",
        [tp.Normal(0.0, steep)] * 2 + [tp.Normal(0.0, wide)] * 3,
        lambda x, xp: log_likelihood(xp.asarray(x)),
        "a small network: eight mirror images of curved modes, joined where two units are alike",
        "conjugacy, and quadrature over two weights; the masses by symmetry",
        found=found,
        region=region,
        num_regions=8,
        masses=np.full(8, 0.125),
        handed=lambda: lambda tree: log_likelihood(jnp.concatenate([tree["in"], tree["out"], tree["bias"][None]])),
        handed_as="likelihood of a tree",
        how={
            "like": {"in": jnp.zeros(2), "out": jnp.zeros(2), "bias": 0.0},
            "prior": {"in": tp.Normal(0.0, steep), "out": tp.Normal(0.0, wide), "bias": tp.Normal(0.0, wide)},
        },
        flat=lambda tree: np.concatenate(
            [np.asarray(tree["in"]), np.asarray(tree["out"]), np.asarray(tree["bias"])[:, None]], axis=1
        ),
    )


def distances(nodes: int = 400) -> Density:
    """Densities of matter and of the vacuum from ten supernovae: a banana that ends where there was no beginning."""
    shifts = np.array([0.05, 0.15, 0.3, 0.45, 0.6, 0.75, 0.9, 1.05, 1.2, 1.4])
    values = np.array([-6.2, -4.0, -2.0, -0.95, -0.15, 0.45, 0.95, 1.5, 1.85, 2.6])
    noise, offset_width = 0.25, 0.5
    at, parts = legendre(0.0, 1.0, 12)

    def moduli(matter, vacuum, xp):
        """5 log10 of the distance for every supernova, and whether there was a beginning."""
        curved = 1.0 - matter - vacuum
        root = xp.sqrt(xp.abs(curved) + 1e-8)
        is_real, logs = True, []
        for shift in shifts:
            way = 0.0 * curved
            for node, part in zip(at, parts, strict=True):
                up = 1.0 + shift * node
                square = matter * up**3 + curved * up**2 + vacuum
                is_real = is_real & (square > 0.0)
                way = way + shift * part / xp.sqrt(xp.where(square > 0.0, square, 1.0))
            bent = xp.where(curved > 0.0, xp.sinh(root * way), xp.sin(root * way)) / root
            logs.append(5.0 / math.log(10.0) * xp.log((1.0 + shift) * xp.abs(bent) + 1e-12))
        return logs, is_real

    def log_likelihood(x, xp):
        logs, is_real = moduli(x[0], x[1], xp)
        square = sum(((value - x[2] - one) / noise) ** 2 for value, one in zip(values, logs, strict=True))
        constant = len(values) * (math.log(noise) + 0.5 * _LOG_2PI)
        return xp.where(is_real, -0.5 * square - constant, -xp.inf)

    def marginal(x, xp):
        logs, is_real = moduli(x[0], x[1], xp)
        off = values[:, None, None] - np.stack(logs)
        one, total = np.sum(off**2, axis=0) / noise**2, np.sum(off, axis=0) / noise**2
        precision = len(values) / noise**2 + 1.0 / offset_width**2
        constant = len(values) * (math.log(noise) + 0.5 * _LOG_2PI) + math.log(offset_width)
        logs = -0.5 * one + 0.5 * total**2 / precision - 0.5 * math.log(precision) - constant
        return np.where(is_real, logs, -np.inf)

    prior = [tp.Uniform(0.0, 2.0), tp.Uniform(-1.0, 3.5), tp.Normal(0.0, offset_width)]
    cuts = (0.6, 1.1)
    region = lambda x, xp: sum(xp.where(x[1] > cut, 1, 0) for cut in cuts)  # noqa: E731
    found = on_grid([axis(prior[0], nodes), axis(prior[1], nodes, cuts=cuts)], marginal, region, 3)
    return posterior(
        "distances-3",
        prior,
        log_likelihood,
        "a bent valley along the end of the prior, with -inf at its other side",
        "conjugacy, and quadrature over two densities",
        region=region,
        num_regions=3,
        found=found,
        masses=found.masses,
    )


NEWCOMERS: dict[str, Callable[[], Density]] = {
    "sky-4": sky,
    "predators-2": predators,
    "growth-3": growth,
    "student-lines-3": student_lines,
    "hidden-states-4": hidden_states,
    "network-5": network,
    "distances-3": distances,
}
