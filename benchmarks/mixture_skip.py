"""Would raw draws be better if the denoiser began as that of a mixture of Gaussians, one at each mode?

    python benchmarks/mixture_skip.py mog40 many_well-8 --steps 500 2000 --out results/mixture-skip.json

A network of default size learns from exact samples of the density and their gradients in two ways:

    linear     D(x; sigma) = the best linear denoiser + c_out F: what `tp.fit` does
    mixture    D(x; sigma) = the exact denoiser of a mixture of Gaussians + c_out F

The mixture has a component at each optimum, with Laplace's weight and covariance: what the search for modes of a fit
knows before anything is learned. Zero steps show the mixture alone. Raw draws (32 Heun steps) are compared with exact
samples by their energies; the effective share is that of the weights of the same draws.
"""

import argparse
import json
import statistics
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from measure import commit
from paper_model import buffer_of
from raw_draws import METRICS, energies

from tempering.diffusion import DiffusionModel, LevelData, fit_networks
from tempering.diffusion.calibrate import dataset_of, denoiser_of, noise_levels, prior_of, stack, unstack
from tempering.diffusion.objective import denoising_loss
from tempering.diffusion.precondition import Denoiser, output_scale
from tempering.methods.learn import new_networks
from tempering.registry import make_target
from tempering.settings import Noise, PTSDSettings
from tempering.settings.defaults import resolved
from tempering.weights.ess import ess_fraction

NUM_DATA = 12_000
SIGMA_SPREADS = 5.0
"""sigma_max over the spread, as in a fit."""


class Mixture(eqx.Module):
    """Gaussians: log weights, means, and covariances by eigenvalues and eigenvectors (columns)."""

    log_weight: Any
    mean: Any
    value: Any
    vector: Any

    def denoise(self, x, sigma):
        """E[x0 | x] of the mixture."""
        off = jnp.einsum("kij,ki->kj", self.vector, x[None] - self.mean)
        total = self.value + sigma**2
        log_share = self.log_weight - 0.5 * jnp.sum(off**2 / total + jnp.log(total), axis=1)
        pulled = self.mean + jnp.einsum("kij,kj->ki", self.vector, self.value / total * off)
        return jax.nn.softmax(log_share) @ pulled


class SkipDenoiser(Denoiser):
    """The mixture's denoiser in place of the linear one; the network sees and says the same as before."""

    mixture: Mixture

    def __call__(self, x_noisy, sigma):
        """E[x0 | x_noisy]."""
        raw = self.network(
            (x_noisy - self.location) / jnp.sqrt(sigma**2 + self.sigma_data**2)[0],
            jnp.log(sigma) / 4.0,
            self.c_temperature,
        )
        return self.mixture.denoise(x_noisy, sigma) + output_scale(sigma, self.sigma_data) * raw


class SkipData(LevelData):
    """Samples of one level that train a `SkipDenoiser`."""

    mixture: Mixture

    def loss(self, network, key, place, index):
        """Of one sample that has a gradient."""
        denoiser = SkipDenoiser(
            network, self.location[place], self.sigma_data[place], self.c_temperature[place], self.mixture
        )
        noise = jax.tree.map(lambda leaf: leaf[place], self.noise)
        x, gradient = self.position[place, index], self.tempered_grad[place, index]
        return denoising_loss(denoiser, key, x, gradient, noise, self.blend_variance[place])


def modes_of(target) -> Mixture:
    """Laplace's mixture at the optima, which are found from 4,000 exact samples by Newton's method."""
    climb = jax.jit(jax.vmap(lambda x: _newton(target.log_density, x)))
    ends = np.asarray(climb(target.sample(jax.random.key(3), 4_000)), np.float64)
    found: list[np.ndarray] = []
    for end in ends:
        if np.all(np.isfinite(end)) and all(np.linalg.norm(end - other) > 0.1 for other in found):
            found.append(end)
    mean = jnp.asarray(np.asarray(found), jnp.float32)
    precision, vector = jnp.linalg.eigh(-jax.vmap(jax.hessian(target.log_density))(mean))
    is_peak = jnp.all(precision > 0, axis=1)
    mean, precision, vector = mean[is_peak], precision[is_peak], vector[is_peak]
    log_weight = jax.vmap(target.log_density)(mean) - 0.5 * jnp.sum(jnp.log(precision), axis=1)
    # Up to a constant the weight of `denoise` is that of a normalised component: log det is added there.
    return Mixture(log_weight, mean, 1.0 / precision, vector)


def _newton(log_density, x):
    """Damped steps uphill; they end at the summit of the sample's own mode, or somewhere that is sorted out later."""

    def step(_, x):
        value, vector = jnp.linalg.eigh(-jax.hessian(log_density)(x))
        move = vector @ ((vector.T @ jax.grad(log_density)(x)) / jnp.maximum(jnp.abs(value), 1e-3))
        return x + move * jnp.minimum(1.0, 0.5 / jnp.maximum(jnp.linalg.norm(move), 1e-9))

    return jax.lax.fori_loop(0, 60, step, x)


def case_of(name: str, all_steps: list[int], num: int, num_sets: int) -> dict[str, Any]:
    """Both ways on one density."""
    kind, _, dim = name.partition("-")
    target = make_target(kind, **({"dim": int(dim)} if dim else {}))
    settings = resolved(PTSDSettings(), target.dim)
    assert settings.network is not None and settings.training is not None and settings.sampling is not None
    buffer, noise = buffer_of(target, jax.random.key(0), NUM_DATA), settings.noise or Noise()
    sigma_max = SIGMA_SPREADS * jnp.max(jnp.std(buffer.position, axis=0))
    reference = energies(target, target.sample(jax.random.key(10_001), 100_000))
    exact = [energies(target, target.sample(jax.random.key(20_000 + i), num)) for i in range(num_sets)]
    floor = {key: statistics.fmean(metric(e, reference) for e in exact) for key, metric in METRICS.items()}
    mixture = modes_of(target)
    data = dataset_of(noise, (buffer,), jnp.ones((1,)), sigma_max, use_gradients=True)
    fields = {key: getattr(data.levels, key) for key in LevelData.__dataclass_fields__}
    skipping = eqx.tree_at(lambda data: data.levels, data, SkipData(**fields, mixture=mixture))
    rows = []
    for way, steps in [("mixture", 0), *((way, steps) for steps in all_steps for way in ("linear", "mixture"))]:
        own, begun = data if way == "linear" else skipping, time.perf_counter()
        networks = stack(*new_networks(jax.random.key(1), target.dim, settings.network, 1))
        if steps:
            keys, training = jax.random.split(jax.random.key(2), 1), replace(settings.training, patience=0)
            networks, _ = fit_networks(keys, networks, stack(own), training, num_steps=steps)
            jax.block_until_ready(networks)
        seconds, (network,) = time.perf_counter() - begun, unstack(networks, 1)
        denoiser = denoiser_of(network, noise, buffer, jnp.ones(()))
        if way == "mixture":
            fields = (denoiser.network, denoiser.location, denoiser.sigma_data, denoiser.c_temperature)
            denoiser = SkipDenoiser(*fields, mixture)
        levels = noise_levels(noise, buffer, jnp.ones(()), sigma_max)
        model = DiffusionModel(denoiser, prior_of(noise, buffer, sigma_max), levels)
        drawn = [
            model.draw(jax.random.key(30_000 + i), num, settings.sampling, with_density=True) for i in range(num_sets)
        ]
        found = [energies(target, x) for x, _ in drawn]
        shares = [
            ess_fraction(jnp.asarray(-e - np.asarray(q), jnp.float32)) for e, (_, q) in zip(found, drawn, strict=True)
        ]
        row: dict[str, Any] = {"way": way, "steps": steps, "seconds_of_training": round(seconds, 1)}
        for key, metric in METRICS.items():
            row[f"{key}_floors"] = statistics.fmean(metric(e, reference) for e in found) / floor[key]
        rows.append(row | {"ess_fraction": float(np.mean(np.asarray(shares)))})
        print(json.dumps({"density": name, **rows[-1]}), flush=True)
    return {"density": name, "num_modes": int(mixture.mean.shape[0]), "floor": floor, "rows": rows}


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("densities", nargs="+", help="mog40, or many_well-8 with its dimension")
    options.add_argument("--steps", type=int, nargs="+", default=[500, 2000], help="of training")
    options.add_argument("--num", type=int, default=5_000)
    options.add_argument("--sets", type=int, default=2)
    options.add_argument("--out", type=Path, default=None)
    given = options.parse_args()
    content: dict[str, Any] = {"command": " ".join(["python", "benchmarks/mixture_skip.py", *sys.argv[1:]])}
    content |= {"commit": commit(), "device": jax.devices()[0].device_kind, "num": given.num, "sets": given.sets}
    content["cases"] = []
    for name in given.densities:
        content["cases"].append(case_of(name, given.steps, given.num, given.sets))
        if given.out is not None:
            given.out.write_text(json.dumps(content, indent=1) + "\n")


if __name__ == "__main__":
    main()
