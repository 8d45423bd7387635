"""Is a denoiser better that starts from a mixture of Gaussians, one at each mode? Raw draws and weights, by training.

    python benchmarks/known_modes.py mog40 many_well-8 --steps 0 250 1000 --out results/known-modes.json

A network of default size learns from exact samples of a density and their gradients in two ways:

    linear     from the best linear denoiser, as with `network.is_on_modes = False`
    mixture    from the denoiser of a mixture with a component at each optimum

The mixture starts from Laplace's approximations at the optima, as the search of a fit finds them, and is moved to the
means and covariances that the samples show, by the code of a fit. Raw draws (32 Heun steps) are compared with exact
samples by their energies, in multiples of what as many exact samples get; the effective share is that of the weights
of the same draws. A row that is in the file is not made again.
"""

import argparse
import json
import statistics
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from measure import commit
from paper_model import buffer_of
from raw_draws import METRICS, energies

from tempering.atlas.mixture import StudentMixture, mixture_of
from tempering.diffusion import DiffusionModel, fit_networks
from tempering.diffusion.calibrate import dataset_of, denoiser_of, noise_levels, prior_of, stack, unstack
from tempering.methods.known_modes import mixture_of_buffer, places_for, with_mixture
from tempering.methods.learn import new_networks
from tempering.registry import make_target
from tempering.settings import Noise, PTSDSettings
from tempering.settings.defaults import resolved
from tempering.weights.ess import ess_fraction

NUM_DATA, NUM_STARTS, NUM_REFERENCE = 15_000, 4_000, 100_000
NU, WIDENING = 8.0, 1.15
"""Of a fit's first reference."""
SIGMA_SPREADS = 5.0
"""sigma_max over the spread, as in a fit."""
APART = 0.1
"""Optima that are closer are one."""


def reference_of(target) -> StudentMixture:
    """Laplace's approximations at the optima, which Newton's method finds from exact samples."""
    climb = jax.jit(jax.vmap(lambda x: _climbed(target.log_density, x)))
    ends = np.asarray(climb(target.sample(jax.random.key(3), NUM_STARTS)), np.float64)
    found: list[np.ndarray] = []
    for end in ends:
        if np.all(np.isfinite(end)) and all(np.linalg.norm(end - other) > APART for other in found):
            found.append(end)
    mean = jnp.asarray(np.asarray(found), jnp.float32)
    precision = np.asarray(-jax.vmap(jax.hessian(target.log_density))(mean), np.float64)
    slope = np.linalg.norm(np.asarray(jax.vmap(jax.grad(target.log_density))(mean)), axis=1)
    is_peak = (np.linalg.eigvalsh(precision)[:, 0] > 0) & (slope < 1e-2)
    mean, precision = np.asarray(mean, np.float64)[is_peak], precision[is_peak]
    log_weight = np.asarray(jax.vmap(target.log_density)(jnp.asarray(mean, jnp.float32)), np.float64)
    log_weight = log_weight - 0.5 * np.linalg.slogdet(precision)[1]
    return mixture_of(np.exp(log_weight - log_weight.max()), mean, np.linalg.inv(precision), NU, WIDENING)


def _climbed(log_density, x):
    """Damped Newton steps uphill; where they do not end at a summit is sorted out later."""

    def step(_, x):
        value, vector = jnp.linalg.eigh(-jax.hessian(log_density)(x))
        move = vector @ ((vector.T @ jax.grad(log_density)(x)) / jnp.maximum(jnp.abs(value), 1e-3))
        return x + move * jnp.minimum(1.0, 0.5 / jnp.maximum(jnp.linalg.norm(move), 1e-9))

    return jax.lax.fori_loop(0, 60, step, x)


def row_of(name: str, way: str, steps: int, num: int, num_sets: int) -> dict[str, Any]:
    """One density, one way, one length of training."""
    kind, _, dim = name.partition("-")
    target: Any = make_target(kind, **({"dim": int(dim)} if dim else {}))
    settings = resolved(PTSDSettings(), target.dim)
    assert settings.network is not None and settings.training is not None and settings.sampling is not None
    buffer, noise, network = buffer_of(target, jax.random.key(0), NUM_DATA), settings.noise or Noise(), settings.network
    sigma_max = SIGMA_SPREADS * jnp.max(jnp.std(buffer.position, axis=0))
    reference = energies(target, target.sample(jax.random.key(10_001), NUM_REFERENCE))
    exact = [energies(target, target.sample(jax.random.key(20_000 + i), num)) for i in range(num_sets)]
    floor = {key: statistics.fmean(metric(e, reference) for e in exact) for key, metric in METRICS.items()}
    row: dict[str, Any] = {"density": name, "way": way, "steps": steps}
    begun = time.perf_counter()
    if way == "mixture":
        laplace = reference_of(target)
        num_modes = laplace.mean.shape[0]
        network = replace(network, num_components=places_for(num_modes, target.dim))
        networks = new_networks(jax.random.key(1), target.dim, network, 1)
        networks = with_mixture(networks, mixture_of_buffer(laplace, buffer, network.num_components))
        row["num_modes"] = num_modes
    else:
        networks = new_networks(jax.random.key(1), target.dim, network, 1)
    row["seconds_of_modes"], begun = round(time.perf_counter() - begun, 1), time.perf_counter()
    data, stacked = dataset_of(noise, (buffer,), jnp.ones((1,)), sigma_max, use_gradients=True), stack(*networks)
    if steps:
        keys = jax.random.split(jax.random.key(2), 1)
        stacked, _ = fit_networks(keys, stacked, stack(data), settings.training, num_steps=steps)
        jax.block_until_ready(jax.tree.leaves(stacked)[0])
    row["seconds_of_training"] = round(time.perf_counter() - begun, 1)
    denoiser = denoiser_of(unstack(stacked, 1)[0], noise, buffer, jnp.ones(()))
    levels = noise_levels(noise, buffer, jnp.ones(()), sigma_max)
    model = DiffusionModel(denoiser, prior_of(noise, buffer, sigma_max), levels)
    drawn = [model.draw(jax.random.key(30_000 + i), num, settings.sampling, with_density=True) for i in range(num_sets)]
    found = [energies(target, x) for x, _ in drawn]
    log_weights = [jnp.asarray(-e - np.asarray(q), jnp.float32) for e, (_, q) in zip(found, drawn, strict=True)]
    for key, metric in METRICS.items():
        row[f"{key}_floors"] = statistics.fmean(metric(e, reference) for e in found) / floor[key]
    row["num_beyond"] = float(np.mean([np.sum(e > reference.max()) for e in found]))
    return row | {"ess_fraction": float(np.mean([float(ess_fraction(own)) for own in log_weights])), "commit": commit()}


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("densities", nargs="+", help="mog40, or many_well-8 with its dimension")
    options.add_argument("--ways", nargs="+", choices=("linear", "mixture"), default=["linear", "mixture"])
    options.add_argument("--steps", type=int, nargs="+", default=[0, 250, 1000], help="of training")
    options.add_argument("--num", type=int, default=6_000)
    options.add_argument("--sets", type=int, default=2)
    options.add_argument("--out", type=Path, required=True)
    given = options.parse_args()
    rows = json.loads(given.out.read_text())["rows"] if given.out.exists() else []
    known = {(row["density"], row["way"], row["steps"]) for row in rows}
    wanted = [(name, way, steps) for name in given.densities for way in given.ways for steps in given.steps]
    for name, way, steps in wanted:
        if (name, way, steps) in known or (way, steps) == ("linear", 0):  # a linear denoiser draws a Gaussian
            continue
        rows.append(row_of(name, way, steps, given.num, given.sets))
        print(json.dumps(rows[-1]), flush=True)
        content: dict[str, Any] = {"command": " ".join(["python", "benchmarks/known_modes.py", *sys.argv[1:]])}
        content |= {"commits": sorted({row["commit"] for row in rows})}
        content |= {"device": jax.devices()[0].device_kind, "num": given.num, "sets": given.sets, "rows": rows}
        given.out.write_text(json.dumps(content, indent=1) + "\n")


if __name__ == "__main__":
    main()
