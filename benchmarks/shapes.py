"""How well a chart is learned: funnels, valleys, and densities that it must leave as they are.

    python benchmarks/shapes.py --seeds 3 --out results/shapes.json
    python benchmarks/shapes.py --only funnel_last --seeds 10

Starting points are N(0, 1). For every density and seed: the effective share, log Z off by how much, the spread of the
first coordinate over the exact one, evaluations and seconds; and share and log Z of 10,000 fresh draws in the chart,
which are not among the evaluations and on which nothing was fitted.
"""

import argparse
import json
import math
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from measure import commit

from tempering.adapters import as_target
from tempering.runs.ledger import Ledger
from tempering.runs.records import finite_or_none
from tempering.shape import LearnedShape, Spread, learned_shape
from tempering.targets import Shaped, Target
from tempering.weights.ess import ess_fraction
from tempering.weights.log_z import log_z_with_tail

LOG_2PI = math.log(2.0 * math.pi)
NUM_FRESH = 10_000


def funnel(neck: int, dim: int = 10) -> Callable:
    """Neal's: v ~ N(0, 9) at place `neck`, the others N(0, e^v)."""
    others = np.delete(np.arange(dim), neck)

    def log_density(x):
        v, rest = x[neck], x[others]
        log_others = -0.5 * jnp.sum(rest**2) * jnp.exp(-v) - 0.5 * len(others) * (v + LOG_2PI)
        return log_others - v**2 / 18.0 - 0.5 * (LOG_2PI + math.log(9.0))

    return log_density


def hybrid_rosenbrock(x):
    """Two blocks of length 3 that share x0: a = 1/20, b = 5, mu = 1."""
    walls = sum((x[i] - x[j] ** 2) ** 2 for i, j in ((1, 0), (2, 1), (3, 0), (4, 3)))
    return -((x[0] - 1.0) ** 2) / 20.0 - 5.0 * walls


def pocomc_rosenbrock(x):
    """pocoMC's quick start: five pairs, prior N(0, 3^2)."""
    a, b = x.reshape((5, 2)).T
    log_likelihood = -jnp.sum(10.0 * (a**2 - b) ** 2 + (a - 1.0) ** 2)
    return log_likelihood - jnp.sum(x**2) / 18.0 - 5.0 * (LOG_2PI + math.log(9.0))


def banana(x):
    """Normal along the first coordinate, bent by its square."""
    return -0.5 * (x[0] / 2.0) ** 2 - 0.5 * ((x[1] - 0.5 * x[0] ** 2 + 2.0) / 0.3) ** 2 - LOG_2PI - math.log(0.6)


def correlated(dim: int = 10) -> tuple[Callable, float]:
    """A normal whose axes differ in length by tens, off the origin; and the spread of its first coordinate."""
    rng = np.random.default_rng(5)
    factor, mean = rng.normal(size=(dim, dim)), jnp.asarray(3.0 * rng.normal(size=dim), jnp.float32)
    covariance = factor @ factor.T + 0.05 * np.eye(dim)
    precision = jnp.asarray(np.linalg.inv(covariance), jnp.float32)
    constant = 0.5 * float(np.linalg.slogdet(2.0 * np.pi * covariance)[1])
    return lambda x: -0.5 * (x - mean) @ precision @ (x - mean) - constant, float(np.sqrt(covariance[0, 0]))


def student(x):
    """nu = 3 in five dimensions."""
    constant = math.lgamma(4.0) - math.lgamma(1.5) - 2.5 * math.log(3.0 * math.pi)
    return constant - 4.0 * jnp.log1p(jnp.sum(x**2) / 3.0)


def two_modes(x):
    """0.3 of width 0.5 and 0.7 of width 1 in five dimensions, 11 apart."""
    narrow = math.log(0.3) - 2.0 * jnp.sum((x - 2.5) ** 2) + 5.0 * math.log(2.0)
    wide = math.log(0.7) - 0.5 * jnp.sum((x + 2.5) ** 2)
    return jnp.logaddexp(narrow, wide) - 2.5 * LOG_2PI


def densities() -> dict[str, tuple[Callable, int, float, float]]:
    """Log density, dimension, exact log Z, exact spread of the first coordinate (NaN: not compared)."""
    normal, spread = correlated()
    mouth = math.exp(9.0 / 4.0)
    log_z_hybrid = 0.5 * math.log(20.0 * math.pi) + 2.0 * math.log(math.pi / 5.0)
    return {
        "funnel_first": (funnel(0), 10, 0.0, 3.0),
        "funnel_last": (funnel(9), 10, 0.0, mouth),
        "funnel_20": (funnel(7, 20), 20, 0.0, mouth),
        "hybrid_rosenbrock": (hybrid_rosenbrock, 5, log_z_hybrid, math.sqrt(10.0)),
        "pocomc_rosenbrock": (pocomc_rosenbrock, 10, -21.4021, math.nan),
        "banana": (banana, 2, 0.0, 2.0),
        "normal": (normal, 10, 0.0, spread),
        "student": (student, 5, 0.0, math.sqrt(3.0)),
        "two_modes": (two_modes, 5, 0.0, math.nan),
    }


def fresh(key: Any, target: Target, shape: LearnedShape) -> tuple[float, float]:
    """Effective share and log Z of new draws in the chart."""
    spread, shaped = Spread.close(target.dim), Shaped(target, shape.chart)
    y = spread.sample(key, NUM_FRESH)
    log_weights = jax.jit(jax.vmap(lambda point: shaped.log_density(point) - spread.log_density(point)))(y)
    log_weights = jnp.where(jnp.isfinite(log_weights), log_weights, -jnp.inf)
    return float(ess_fraction(log_weights)), log_z_with_tail(log_weights)[0]


def measured(name: str, seed: int, most: int) -> dict[str, Any]:
    """One density, one seed."""
    log_density, dim, log_z, spread = densities()[name]
    key_start, key, key_fresh = jax.random.split(jax.random.key(seed), 3)
    target = as_target(log_density, dim)
    ledger, begin = Ledger(), time.perf_counter()
    starts = jax.random.normal(key_start, (128, dim))
    shape = learned_shape(key, target, starts, ledger, most)
    seconds = time.perf_counter() - begin
    fresh_share, fresh_log_z = fresh(key_fresh, target, shape)
    weights = np.asarray(jax.nn.softmax(shape.log_weights), np.float64)
    first = np.asarray(shape.points[:, 0], np.float64)
    mean = weights @ first
    return {
        "density": name,
        "seed": seed,
        "effective_share": shape.effective_share,
        "is_settled": shape.is_settled,
        "log_z_off": shape.log_z - log_z,
        "log_z_error": shape.log_z_error,
        "spread_ratio": float(np.sqrt(weights @ (first - mean) ** 2)) / spread,
        "pareto_k": shape.pareto_k,
        "effective_points": float(1.0 / np.sum(weights**2)),
        "evaluations": ledger.total,
        "seconds": seconds,
        "fresh_share": fresh_share,
        "fresh_log_z_off": fresh_log_z - log_z,
        "order": np.asarray(shape.chart.order).tolist(),
        "reason": shape.reason,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="*", default=list(densities()), choices=list(densities()))
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--most", type=int, default=30_000, help="evaluations at the most")
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    rows, began_at = [], commit()
    for name in given.only:
        for seed in range(given.seeds):
            row = measured(name, seed, given.most)
            rows.append(
                {key: finite_or_none(value) if isinstance(value, float) else value for key, value in row.items()}
            )
            shown = {key: round(value, 3) if isinstance(value, float) else value for key, value in row.items()}
            print(*shown.values(), flush=True)
    if given.out is not None:
        given.out.write_text(json.dumps({"commit": began_at, "most": given.most, "rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
