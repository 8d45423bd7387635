"""The paper's network and solver fitted to exact samples, to see them apart from how samples were found.

Answers four questions about the `*-paper` presets: why E|x|^2 of MoG-40 is 2 % off, why log likelihoods of Many-Well-32
are -1e5 and below, what the reverse SDE gives in place of the probability flow, and what the paper's integrated
divergence does to importance weights.

    python benchmarks/paper_model.py mog40 --oracle --out results/paper-model-oracle.json
    python benchmarks/paper_model.py mog40 --train 10000 --out results/paper-model-mog40.json
    python benchmarks/paper_model.py many_well --train 10000 --out results/paper-model-mw32.json
"""

# pyright: reportArgumentType=false
# Words for solvers come from tables here; `Sampling` checks them.

import argparse
import json
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

from tempering.buffer import Buffer, covariance
from tempering.diffusion import DiffusionModel, NoiseLevels, Prior, fit_networks
from tempering.diffusion.calibrate import dataset_of, denoiser_of, noise_levels, prior_of, stack, unstack
from tempering.methods.learn import new_networks
from tempering.registry import make_target
from tempering.settings import Noise, PTSDSettings, Sampling
from tempering.weights.ess import ess_fraction

NUM_DATA = 12_000


def commit() -> str:
    """From git, with a mark where files were changed."""
    return subprocess.run(
        ["git", "describe", "--always", "--dirty"], capture_output=True, text=True, check=True
    ).stdout.strip()


def buffer_of(target, key, num: int) -> Buffer:
    """Exact samples as the buffer of T = 1."""
    x = target.sample(key, num)
    value, gradient = jax.lax.map(jax.value_and_grad(target.log_density), x, batch_size=1000)
    return Buffer(x, value, gradient, jnp.zeros((num,), jnp.int32), jnp.zeros((num,)))


def exact_denoiser(target):
    """E[x0 | x] of a mixture of equal, round Gaussians."""
    means, variance = target.means, (target.choleskys[0, 0, 0]) ** 2

    def denoise(x, sigma):
        total = variance + sigma**2
        share = jax.nn.softmax(-0.5 * jnp.sum((x[None] - means) ** 2, axis=1) / total)
        return share @ (means + variance / total * (x[None] - means))

    return denoise


def fitted(target, settings: PTSDSettings, buffer: Buffer, num_steps: int, seed: int):
    """The paper's network after `num_steps` on exact samples."""
    noise, training = settings.noise, replace(settings.training, num_steps=num_steps)
    sigma_max = jnp.asarray(noise.sigma_max, jnp.float32)
    data = dataset_of(noise, (buffer,), jnp.ones((1,)), sigma_max, use_gradients=False)
    networks = stack(*new_networks(jax.random.key(seed), target.dim, settings.network, 1))
    keys = jax.random.split(jax.random.key(seed + 1), 1)
    networks, info = fit_networks(keys, networks, stack(data), training, num_steps=num_steps)
    (network,) = unstack(networks, 1)
    return denoiser_of(network, noise, buffer, jnp.ones(())), float(info.validation_loss[0])


def draws_row(target, model: DiffusionModel, sampling: Sampling, num: int, seed: int) -> dict:
    """E|x|^2 and region weights of unweighted draws; ESS and log Z where the solver has a density."""
    has_density = sampling.solver != "sde"
    x, log_q = model.draw(jax.random.key(seed), num, sampling, with_density=has_density)
    square = np.sum(np.asarray(x, np.float64) ** 2, axis=1)
    truth = float(target.second_moment())
    row = {
        "second_moment": float(square.mean()),
        "second_moment_bias": float(square.mean() - truth),
        "standard_error": float(square.std() / np.sqrt(num)),
        "truth": truth,
    }
    value = np.asarray(jax.lax.map(target.log_density, x, batch_size=2000), np.float64)
    row["mean_log_density"] = float(value.mean())
    if has_density:
        log_weight = jnp.asarray(value - np.asarray(log_q, np.float64))
        row["ess_fraction"] = float(ess_fraction(log_weight))
        row["log_z_error"] = float(jax.nn.logsumexp(log_weight) - np.log(num)) - float(target.log_z())
    return row


def likelihood_row(target, model: DiffusionModel, sampling: Sampling, x, seed: int) -> dict:
    """Log likelihoods of exact samples: the mean, the median, and how many lie far below."""
    log_q = np.asarray(model.log_prob(jax.random.key(seed), x, sampling), np.float64)
    exact = np.asarray(jax.lax.map(target.log_density, x, batch_size=2000), np.float64) - float(target.log_z())
    return {
        "mean": float(log_q.mean()),
        "median": float(np.median(log_q)),
        "exact": float(exact.mean()),
        "share_100_nats_below": float(np.mean(log_q < exact - 100.0)),
        "lowest": float(log_q.min()),
        "mean_of_the_rest": float(np.mean(log_q[log_q >= exact - 100.0])),
    }


def priors(settings: PTSDSettings, buffer: Buffer) -> dict[str, tuple[Prior, jax.Array]]:
    """The starts of the oracle: the preset's, the paper's, and the preset's from four times the noise."""
    found = {}
    for name, kind, sigma_max in (("matched", "matched", 40.0), ("noise", "noise", 40.0), ("far", "matched", 160.0)):
        largest = jnp.asarray(sigma_max)
        found[name] = prior_of(Noise(prior=kind), buffer, largest), largest
    return found


def oracle_rows(target, settings: PTSDSettings, buffer: Buffer, num: int) -> dict:
    """With the exact denoiser: what start, solver and end alone do."""
    rows = {}
    denoise = exact_denoiser(target)
    for name, (prior, sigma_max) in priors(settings, buffer).items():
        model = DiffusionModel(denoise, prior, NoiseLevels(jnp.asarray(0.002), sigma_max))
        for solver, steps in (("euler", 1000), ("heun", 64), ("sde", 1000)):
            sampling = Sampling(solver, steps, chunk_size=20_000, is_quasi_random=False)
            rows[f"{name}, {solver} {steps}"] = draws_row(target, model, sampling, num, 3)
    prior, levels = priors(settings, buffer)["matched"][0], NoiseLevels(jnp.asarray(0.002), jnp.asarray(40.0))
    model = DiffusionModel(denoise, prior, levels)
    for divergence in ("hutchinson", "integrated"):
        for steps in (100, 1000):
            sampling = Sampling("euler", steps, divergence=divergence, num_probes=1, chunk_size=20_000)
            rows[f"matched, euler {steps}, {divergence}"] = draws_row(target, model, sampling, min(num, 10_000), 4)
    return rows


def trained_rows(target, settings: PTSDSettings, buffer: Buffer, num_steps: int, num: int, seed: int) -> dict:
    """With a trained network: solvers, densities and likelihoods."""
    denoiser, loss = fitted(target, settings, buffer, num_steps, seed)
    sigma_max = jnp.asarray(40.0)
    prior = Prior(
        jnp.mean(buffer.position, axis=0), jnp.linalg.cholesky(covariance(buffer) + 1600.0 * jnp.eye(target.dim))
    )
    model = DiffusionModel(denoiser, prior, noise_levels(settings.noise, buffer, jnp.ones(()), sigma_max))
    rows = {"validation_loss": loss, "draws": {}, "likelihood": {}}
    few = {"chunk_size": 5_000, "num_probes": 1, "is_quasi_random": False}
    for solver, steps, divergence in (
        ("euler", 250, "hutchinson"),
        ("euler", 250, "integrated"),
        ("heun", 64, "hutchinson"),
        ("sde", 250, "hutchinson"),
        ("sde", 1000, "hutchinson"),
    ):
        sampling = Sampling(solver, steps, divergence=divergence, **few)
        rows["draws"][f"{solver} {steps}, {divergence}"] = draws_row(target, model, sampling, num, 3)
    x = target.sample(jax.random.key(9), 500)
    for solver, steps in (("euler", 250), ("euler", 1000), ("heun", 64)):
        sampling = Sampling(solver, steps, divergence="hutchinson", **few)
        rows["likelihood"][f"{solver} {steps}"] = likelihood_row(target, model, sampling, x, 5)
    # The same network, asked only down to a noise level that is small against the wells and not against nothing.
    for sigma_min in (0.01, 0.03):
        higher = DiffusionModel(denoiser, prior, NoiseLevels(jnp.asarray(sigma_min), sigma_max))
        sampling = Sampling("heun", 64, divergence="hutchinson", **few)
        rows["likelihood"][f"heun 64 from sigma_min {sigma_min}"] = likelihood_row(target, higher, sampling, x, 5)
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("target", choices=("mog40", "many_well"))
    parser.add_argument("--oracle", action="store_true", help="the exact denoiser of MoG-40 in place of a network")
    parser.add_argument("--train", type=int, default=1000, help="optimiser steps (the paper: 10,000)")
    parser.add_argument("--num", type=int, default=10_000, help="draws of each row")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    began = time.monotonic()
    target = make_target(given.target, **({"dim": 32} if given.target == "many_well" else {}))
    settings = PTSDSettings.paper()
    buffer = buffer_of(target, jax.random.key(given.seed), NUM_DATA)
    if given.oracle:
        rows = oracle_rows(target, settings, buffer, given.num)
    else:
        rows = trained_rows(target, settings, buffer, given.train, given.num, given.seed)
    record = {
        "command": " ".join(["python", *sys.argv]),
        "commit": commit(),
        "seed": given.seed,
        "device": jax.devices()[0].device_kind,
        "seconds": round(time.monotonic() - began, 1),
        "rows": rows,
    }
    text = json.dumps(record, indent=1)
    print(text)
    if given.out:
        given.out.write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
