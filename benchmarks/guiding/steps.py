"""One step down in temperature with exact denoisers: the effective share of the draws, by way, ratio and dimension.

A level at T is reached from models of r T and r^2 T. Ways are the model of r T as it is, guidance linear in T or in
log T, of second order in log T (from r^3 T too), and the exact model of T: what solver and start alone cost.
"""

from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from guiding.exact import LINES, Line, PlaneDenoiser
from tempering.diffusion import DiffusionModel, NoiseLevels, Prior
from tempering.diffusion.noise import sigma_grid
from tempering.diffusion.solve import draw, method_of
from tempering.guidance.extrapolate import Guided, extrapolation_weights
from tempering.settings import Sampling
from tempering.targets import mog40
from tempering.types import Denoise
from tempering.weights.ess import ess_fraction

__all__ = ["RATIOS", "WAYS", "gaussian_rows", "gaussian_share", "line_rows", "line_step", "plane_rows", "ratio_for"]

WAYS = ("none", "T", "log_T", "second order", "own")
RATIOS = (1.05, 1.1, 1.2, 1.35, 1.5, 1.75, 2.0, 2.5, 3.0, 4.0, 6.0, 8.0)
TEMPERATURES = (1.0, 4.0)
_SAMPLING = Sampling("heun", 64, divergence="exact", chunk_size=2048, is_quasi_random=False)
_SPREADS = 20.0
"""sigma_max over the spread: the noised density is Gaussian to 1e-4 there, and so is the start."""
_FRACTION = 0.01
"""sigma_min over the smallest width: variances are inflated by 1e-4."""


def _nodes(temperature: float, ratio: float, way: str) -> list[float]:
    """The temperatures of the models that a way asks, coldest first."""
    if way == "own":
        return [temperature]
    number = {"none": 1, "second order": 3}.get(way, 2)
    return [temperature * ratio**power for power in range(1, number + 1)]


def _denoise(models: list[Denoise], temperature: float, nodes: list[float], way: str) -> Denoise:
    if len(models) == 1:
        return models[0]
    coordinate = "T" if way == "T" else "log_T"
    weights = extrapolation_weights(jnp.asarray(temperature), jnp.asarray(nodes), coordinate)
    return Guided(tuple(models), weights)


def gaussian_share(ratio: float, way: str, dim: int = 1) -> float:
    """In closed form, of a Gaussian: the draws are Gaussian too, with v times the variance of the level.

    v is T1^(1 + w) T2^-w / T for guidance of weight w, and r without guidance. E_q[w^2] = v / sqrt(2 v - 1).
    """
    if way == "none":
        variance = ratio
    elif way == "T":
        variance = ratio ** (1.0 - 1.0 / ratio)
    else:
        variance = 1.0
    return (np.sqrt(2.0 * variance - 1.0) / variance) ** dim if variance > 0.5 else 0.0


def gaussian_rows() -> list[dict[str, Any]]:
    """Shares of one coordinate of a Gaussian."""
    return [
        {"density": "gaussian", "temperature": 1.0, "ratio": ratio, "way": way, "share": gaussian_share(ratio, way)}
        for ratio in RATIOS
        for way in WAYS
    ]


def line_step(line: Line, temperature: float, ratio: float, way: str, num: int = 1201) -> dict[str, float]:
    """Of one coordinate. The flow of a line is a map, and shares are integrals over its start: nothing is random.

    `dim` independent coordinates have the share to the power of `dim`. `seen` is the mass that the draws found over
    that which there is; `right` the weight of x > 0 among draws without weights, `exact_right` its true one.
    """
    nodes = _nodes(temperature, ratio, way)
    here = line.facts(temperature)
    # Without guidance the draws are those of the hotter level, from its own start.
    start = line.facts(nodes[0]) if way == "none" else here
    spread = max(start["std"], here["std"])
    sigma_max, sigma_min = _SPREADS * spread, _FRACTION * np.sqrt(temperature) * _smallest_width(line)
    width = np.sqrt(start["std"] ** 2 + sigma_max**2)
    prior = Prior.diagonal(jnp.full((1,), start["mean"], jnp.float32), jnp.full((1,), width, jnp.float32))
    denoise = _denoise([line.denoiser(node) for node in nodes], temperature, nodes, way)
    levels = NoiseLevels(jnp.asarray(sigma_min, jnp.float32), jnp.asarray(sigma_max, jnp.float32))
    z = np.linspace(-6.0, 6.0, num)
    x, log_q = draw(
        jax.random.key(0),
        num,
        denoise,
        prior,
        sigma_grid(levels, _SAMPLING.num_steps),
        method_of(_SAMPLING, with_density=True, dim=1),
        chunk_size=num,
        normals=jnp.asarray(z[:, None], jnp.float32),
    )
    share_of_start = np.exp(-0.5 * z**2) * (z[1] - z[0]) / np.sqrt(2.0 * np.pi)
    value = np.asarray(jax.vmap(line.log_density)(x[:, 0]), np.float64) / temperature
    weight = np.exp(value - np.asarray(log_q, np.float64) - here["log_z"])
    first, second = share_of_start @ weight, share_of_start @ weight**2
    return {
        "share": float(first**2 / second),
        "seen": float(first),
        "right": float(share_of_start[np.asarray(x)[:, 0] > 0].sum()),
        "exact_right": here["right"],
    }


def _smallest_width(line: Line) -> float:
    """1 / sqrt of the largest curvature where the density is not negligible, at T = 1."""
    x, value = line.nodes, line.log_values()
    curvature = -np.gradient(np.gradient(value, x), x)
    return float(1.0 / np.sqrt(curvature[value > value.max() - 10.0].max()))


def line_rows(only: tuple[str, ...] = tuple(LINES)) -> Iterator[dict[str, Any]]:
    """Shares of one coordinate of each density on a line."""
    for name in only:
        for temperature in TEMPERATURES:
            for ratio in RATIOS:
                for way in WAYS:
                    if max(_nodes(temperature, ratio, way)) <= LINES[name].hottest:
                        found = line_step(LINES[name], temperature, ratio, way)
                        yield {"density": name, "temperature": temperature, "ratio": ratio, "way": way, **found}


def plane_rows(
    ratios: tuple[float, ...] = (2.0, 3.0), num: int = 256, reach: float = 80.0, num_nodes: int = 192
) -> Iterator[dict[str, Any]]:
    """Shares on MoG-40 at T = 1, of draws from Sobol points; `mode_tv` of draws without weights beside it."""
    target = mog40()
    for ratio in ratios:
        for way in ("none", "T", "log_T", "own"):
            nodes = _nodes(1.0, ratio, way)
            models = [PlaneDenoiser.of(target, node, reach, num_nodes) for node in nodes]
            start = models[0] if way == "none" else PlaneDenoiser.of(target, 1.0, reach, num_nodes)
            mean, covariance = _moments(start)
            sigma_max = 5.0 * float(np.sqrt(np.max(np.diag(covariance))))
            prior = Prior(jnp.asarray(mean), jnp.linalg.cholesky(jnp.asarray(covariance) + sigma_max**2 * jnp.eye(2)))
            levels = NoiseLevels(jnp.asarray(0.02), jnp.asarray(sigma_max, jnp.float32))
            model = DiffusionModel(_denoise(list(models), 1.0, nodes, way), prior, levels)
            x, log_q = model.draw(jax.random.key(1), num, _SAMPLING, with_density=True, is_quasi_random=True)
            log_weight = jax.vmap(target.log_density)(x) - log_q
            raw = np.asarray(jax.vmap(target.region_indicators)(x)).mean(axis=0)
            yield {
                "density": "mog40",
                "temperature": 1.0,
                "ratio": ratio,
                "way": way,
                "share": float(ess_fraction(log_weight)),
                "seen": float(jnp.exp(jax.nn.logsumexp(log_weight) - np.log(num))),
                "mode_tv": float(0.5 * np.abs(raw - np.asarray(target.region_weights())).sum()),
            }


def _moments(denoiser: PlaneDenoiser) -> tuple[np.ndarray, np.ndarray]:
    """Mean and covariance of the tempered density, on the lattice."""
    mass, nodes = np.asarray(denoiser.mass, np.float64), np.asarray(denoiser.nodes, np.float64)
    mass /= mass.sum()
    margins = [mass.sum(axis=1), mass.sum(axis=0)]
    mean = np.array([margin @ nodes for margin in margins])
    centred = nodes[None] - mean[:, None]
    first, second = (margin @ own**2 for margin, own in zip(margins, centred, strict=True))
    across = centred[0] @ mass @ centred[1]
    covariance = np.array([[first, across], [across, second]])
    return mean.astype(np.float32), covariance.astype(np.float32)


def ratio_for(rows: list[dict[str, Any]], dim: int, least: float = 0.2) -> float | None:
    """The largest ratio of temperatures at which `dim` coordinates keep a share of `least`: between rows, even in logs.

    None where the share is below it at the smallest ratio already, infinite where it is above it at the largest. The
    rows are of one density, temperature and way.
    """
    ordered = sorted(rows, key=lambda row: row["ratio"])
    lost = [-dim * np.log(min(max(row["share"], 1e-30), 1.0 - 1e-12)) for row in ordered]
    most = -np.log(least)
    if lost[0] > most:
        return None
    for before, after, low, high in zip(ordered, ordered[1:], lost, lost[1:], strict=False):
        if high > most:
            part = np.log(most / low) / np.log(high / low)
            step = np.log(np.log(after["ratio"]) / np.log(before["ratio"]))
            return float(np.exp(np.log(before["ratio"]) * np.exp(part * step)))
    return float("inf")
