"""Truths of the proving ground that have no closed form, measured: `python benchmarks/proving_references.py`.

Importance sampling where a good proposal can be built by hand (sensors, mRNA, logistic regression); tempered sequential
Monte Carlo, six runs of 12 million evaluations, where it cannot (galaxies, lattices). Lattices are run without their
tilt, where the two vacua are equal by symmetry, and tilted by reweighting: no chain has to cross between them. Written
to results/proving/references.json; what is there is not measured again.
"""

import argparse
import json
import math
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from proving.models import galaxy, logistic, mrna, sensor_regions, sensors
from proving.physics import LATTICES, lattice_log_density
from proving.record import Density
from proving.references import REFERENCES
from scipy.optimize import minimize
from scipy.stats import t as student

NUM_DRAWS, NUM_RUNS, NUM_STEPS = 400_000, 6, 1500


def summary(log_ratio: np.ndarray) -> dict:
    """log of a mean of weights, its standard error, and the effective share."""
    peak = log_ratio.max()
    weights = np.exp(log_ratio - peak)
    mean, error = weights.mean(), weights.std() / math.sqrt(len(weights))
    ess = weights.sum() ** 2 / np.sum(weights**2) / len(weights)
    return {"log_z": peak + math.log(mean), "error": error / mean, "ess_fraction": ess, "num": len(weights)}


def many(log_density, points: np.ndarray) -> np.ndarray:
    call = jax.jit(jax.vmap(log_density))
    return np.concatenate([np.asarray(call(part)) for part in np.array_split(points, max(1, len(points) // 50_000))])


def laplace(density: Density, log_density, start: np.ndarray, mirror: np.ndarray | None = None) -> dict:
    """Importance sampling from a Student distribution with the curvature of an optimum, and of its mirror image."""
    gradient, hessian = jax.jit(jax.grad(log_density)), jax.hessian(log_density)
    found = minimize(lambda x: -float(log_density(x)), start, jac=lambda x: -np.asarray(gradient(x)), method="BFGS")
    root = np.linalg.cholesky(np.linalg.inv(-np.asarray(hessian(found.x)))) * 1.1
    generator, nu, dim = np.random.default_rng(0), 8.0, density.dim
    scale = np.sqrt(generator.chisquare(nu, (NUM_DRAWS, 1)) / nu)
    draws = found.x[None] + (generator.standard_normal((NUM_DRAWS, dim)) / scale) @ root.T
    if mirror is not None:
        draws = np.where(generator.random((NUM_DRAWS, 1)) < 0.5, draws[:, mirror], draws)

    def log_proposal(x):
        white = np.linalg.solve(root, (x - found.x[None]).T)
        constant = math.lgamma(0.5 * (nu + dim)) - math.lgamma(0.5 * nu) - 0.5 * dim * math.log(nu * math.pi)
        return constant - np.sum(np.log(np.diag(root))) - 0.5 * (nu + dim) * np.log1p(np.sum(white**2, axis=0) / nu)

    log_q = log_proposal(draws)
    if mirror is not None:
        log_q = np.logaddexp(log_q, log_proposal(draws[:, mirror])) - math.log(2.0)
    log_ratio = many(log_density, draws) - log_q
    weights = np.exp(log_ratio - log_ratio.max())
    weights /= weights.sum()
    mean = weights @ draws[:, 0]
    return summary(log_ratio) | {"spread": [math.sqrt(weights @ (draws[:, 0] - mean) ** 2)]}


def of_logistic() -> dict:
    density = logistic()
    prior = lambda x: jnp.sum(-0.5 * (x / 2.5) ** 2 - math.log(2.5) - 0.5 * math.log(2 * math.pi))  # noqa: E731
    return laplace(density, lambda x: density.log_density(x) + prior(x), np.zeros(density.dim))


def of_mrna() -> dict:
    density = mrna()
    low, high = np.array(density.prior.low), np.array(density.prior.high)  # pyright: ignore
    volume = float(np.prod(high - low))
    start = np.log10([2.0, 5.0, 0.7, 0.2, 0.1])

    def log_density(x):
        inside = jnp.all((x > low) & (x < high))
        return jnp.where(inside, density.log_density(x), -jnp.inf) - math.log(volume)

    return laplace(density, log_density, start, mirror=np.array([0, 1, 3, 2, 4]))


def of_sensors() -> dict:
    """Sensors 1 and 3 from the two crossings of their circles, 2 on a circle about 3, 4 on a circle about 1."""
    generator, num = np.random.default_rng(0), 20 * NUM_DRAWS
    known = np.array([(0.5, 0.3), (0.3, 0.7)])

    def crossing(radii):
        along = known[1] - known[0]
        length = np.linalg.norm(along)
        x = (radii[0] ** 2 - radii[1] ** 2 + length**2) / (2 * length)
        y = math.sqrt(max(radii[0] ** 2 - x**2, 0.0))
        along, across = along / length, np.array([-along[1], along[0]]) / length
        centres = np.stack([known[0] + x * along + sign * y * across for sign in (1, -1)])
        noise = student.rvs(4, size=(num, 2), random_state=generator) * 0.03
        draws = centres[generator.integers(0, 2, num)] + noise
        log_q = [np.sum(student.logpdf((draws - c) / 0.03, 4) - math.log(0.03), axis=1) for c in centres]
        return draws, np.logaddexp(*log_q) - math.log(2.0)

    def circle(centre, radius):
        noise = student.rvs(4, size=num, random_state=generator)
        length, angle = radius + 0.025 * noise, generator.uniform(0, 2 * math.pi, num)
        draws = centre + length[:, None] * np.stack([np.cos(angle), np.sin(angle)], axis=1)
        # A length below zero is a point on the other side: either sign may have made a point.
        signs = [student.logpdf((sign * length - radius) / 0.025, 4) for sign in (1, -1)]
        log_q = np.logaddexp(*signs) - math.log(0.025) - np.log(2 * math.pi * np.abs(length))
        return draws, log_q

    one, log_one = crossing((0.6103, 0.3631))
    three, log_three = crossing((0.2995, 0.5656))
    two, log_two = circle(three, 0.2970)
    four, log_four = circle(one, 0.9266)
    draws = np.concatenate([one, two, three, four], axis=1)
    density = sensors()
    prior = -0.005 * np.sum(draws**2, axis=1) - 8 * math.log(10.0) - 4 * math.log(2 * math.pi)
    log_ratio = many(density.log_density, draws) + prior - log_one - log_two - log_three - log_four
    log_ratio[~np.isfinite(log_ratio)] = -np.inf
    weights = np.exp(log_ratio - log_ratio.max())
    weights /= weights.sum()
    shares = many(sensor_regions, draws)
    return summary(log_ratio) | {"masses": (weights @ shares).tolist(), "spread": _spread(draws[:, 0], weights)}


def _spread(values: np.ndarray, weights: np.ndarray) -> list[float]:
    mean = weights @ values
    return [math.sqrt(weights @ (values - mean) ** 2)]


@partial(jax.jit, static_argnames=("log_density", "dim", "num"))
def annealed(key, log_density, dim: int, num: int, scale: float, lambdas):
    """One run of tempered SMC from N(0, scale^2) along fixed steps, two moves of MALA at each: log Z and its points.

    Step sizes are a share of the inverse root mean square gradient of each coordinate; the share follows acceptance.
    """

    def gaussian(x):
        return jnp.sum(-0.5 * (x / scale) ** 2 - jnp.log(scale) - 0.5 * math.log(2.0 * math.pi))

    evaluate = jax.vmap(jax.value_and_grad(log_density))

    def move(key, x, value, gradient, weights, beta, factor):
        tempered = lambda y, v, g: (beta * v + (1 - beta) * jax.vmap(gaussian)(y), beta * g - (1 - beta) * y / scale**2)  # noqa: E731
        log_p, drift = tempered(x, value, gradient)
        width = factor / jnp.sqrt(jnp.sum(weights[:, None] * drift**2, axis=0) + 1e-9)
        key_noise, key_accept = jax.random.split(key)
        noise = jax.random.normal(key_noise, x.shape)
        y = x + 0.5 * width**2 * drift + width * noise
        new_value, new_gradient = evaluate(y)
        new_log_p, new_drift = tempered(y, new_value, new_gradient)
        back = (x - y - 0.5 * width**2 * new_drift) / width
        log_ratio = new_log_p - log_p - 0.5 * jnp.sum(back**2 - noise**2, axis=1)
        accept = jnp.log(jax.random.uniform(key_accept, (num,))) < log_ratio
        pick = lambda new, old: jnp.where(accept.reshape(-1, *[1] * (old.ndim - 1)), new, old)  # noqa: E731
        factor = factor * jnp.exp(0.3 * (jnp.mean(accept) - 0.574))
        return pick(y, x), pick(new_value, value), pick(new_gradient, gradient), factor

    def step(carry, inputs):
        x, value, gradient, log_weights, log_z, factor = carry
        key, before, beta = inputs
        log_weights = log_weights + (beta - before) * (value - jax.vmap(gaussian)(x))
        total = jax.nn.logsumexp(log_weights) - math.log(num)
        weights = jax.nn.softmax(log_weights)
        key_pick, *keys = jax.random.split(key, 3)
        places = (jnp.arange(num) + jax.random.uniform(key_pick)) / num
        chosen = jnp.clip(jnp.searchsorted(jnp.cumsum(weights), places), 0, num - 1)
        is_poor = 1.0 / jnp.sum(weights**2) < 0.7 * num
        chosen = jnp.where(is_poor, chosen, jnp.arange(num))
        x, value, gradient = x[chosen], value[chosen], gradient[chosen]
        log_z = log_z + jnp.where(is_poor, total, 0.0)
        log_weights = jnp.where(is_poor, 0.0, log_weights)
        weights = jax.nn.softmax(log_weights)
        for part in keys:
            x, value, gradient, factor = move(part, x, value, gradient, weights, beta, factor)
        return (x, value, gradient, log_weights, log_z, factor), None

    key, key_start = jax.random.split(key)
    x = scale * jax.random.normal(key_start, (num, dim))
    start = (x, *evaluate(x), jnp.zeros(num), jnp.zeros(()), jnp.asarray(0.8))
    keys = jax.random.split(key, len(lambdas) - 1)
    (x, _, _, log_weights, log_z, _), _ = jax.lax.scan(step, start, (keys, lambdas[:-1], lambdas[1:]))
    return log_z + jax.nn.logsumexp(log_weights) - math.log(num), x, jax.nn.softmax(log_weights)


def by_smc(log_density, dim: int, scale: float, power: float, num: int = 4000) -> list[tuple[float, Any, Any]]:
    """log Z, points and weights of several runs. A large power has most steps at the hot end."""
    lambdas = jnp.linspace(0.0, 1.0, NUM_STEPS + 1) ** power
    found = []
    for seed in range(NUM_RUNS):
        log_z, points, weights = annealed(jax.random.key(seed), log_density, dim, num, scale, lambdas)
        found.append((float(log_z), np.asarray(points, np.float64), np.asarray(weights, np.float64)))
        print(f"  run {seed}: {found[-1][0]:.4f}", flush=True)
    return found


def _of_runs(runs: list[float]) -> dict:
    return {"log_z": float(np.mean(runs)), "error": float(np.std(runs, ddof=1) / math.sqrt(len(runs))), "runs": runs}


def of_galaxy() -> dict:
    # In units of the prior, so that one Gaussian is near it: the path begins wide.
    centre, width = np.array([20.0] * 3 + [-2.0] * 3 + [-0.7, 0.0]), np.array([8.0] * 3 + [0.7] * 3 + [1.2, 1.4])
    log_density = galaxy().log_density
    scaled = lambda z: log_density(jnp.asarray(centre, z.dtype) + jnp.asarray(width, z.dtype) * z)  # noqa: E731
    runs = by_smc(scaled, 8, 1.5, 3.0)
    return _of_runs([run + float(np.sum(np.log(width))) for run, *_ in runs])


def of_lattice(side: int) -> dict:
    tilt = LATTICES[side][0]
    tilted, positive = [], []
    for run, draws, weights in by_smc(lattice_log_density(side, 0.0), side**2, 0.8, 1.0):
        field = tilt * np.abs(draws.sum(axis=1))
        down, up = weights @ np.exp(-field), weights @ np.exp(field)
        tilted.append(run + math.log(0.5 * (down + up)))
        positive.append(float(down / (down + up)))
    spread = float(np.std(positive, ddof=1) / math.sqrt(len(positive)))
    return _of_runs(tilted) | {"positive": [float(np.mean(positive)), spread]}


MEASURES = {
    "logistic-10": of_logistic,
    "mrna": of_mrna,
    "sensors": of_sensors,
    "galaxy": of_galaxy,
    "phi4-6": lambda: of_lattice(6),
    "phi4-8": lambda: of_lattice(8),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--names", nargs="+", choices=list(MEASURES), default=list(MEASURES))
    names = parser.parse_args().names
    kept = json.loads(REFERENCES.read_text())["references"] if REFERENCES.exists() else {}
    for name in names:
        if name in kept:
            continue
        with jax.enable_x64(name in ("logistic-10", "mrna", "sensors")):
            kept[name] = MEASURES[name]()
        print(name, kept[name], flush=True)
        content = {"command": "python benchmarks/proving_references.py", "references": kept}
        REFERENCES.parent.mkdir(parents=True, exist_ok=True)
        REFERENCES.write_text(json.dumps(content, indent=1) + "\n")


if __name__ == "__main__":
    main()
