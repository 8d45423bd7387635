"""How long must the paper's network train for LJ-55? On exact samples, so that nothing but training is at fault.

    python benchmarks/lj_training.py [--steps 1000 4000 12000] [--batch 256] [--draws 4000] [--solver-steps 200]
        [--seeds 0] [--data samples.npy] [--out results/lj55-training.json]

Network, noise, learning rate and solver are those of the preset `lj55-paper`. Every length is a training of its own,
from the same weights, on samples at T = 1: those of `tempering reference lj55`, made if there are none, or of `--data`,
an npy of shape (num, 165). The figure is the energy TVD of raw draws against these samples, with that of one half of
them against the other as the floor, and the median excess of the energy in k_B T. `lj55-paper` itself has no exact
samples to learn from, but guided draws of models that were trained as long.
"""

import dataclasses
import time
from pathlib import Path

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from measure import finish, parser

from tempering.buffer import Buffer, from_states, subsample
from tempering.diffusion.calibrate import dataset_of, denoiser_of, largest_sigma, noise_levels, prior_of, stack, unstack
from tempering.diffusion.fit import fit_networks
from tempering.diffusion.model import DiffusionModel
from tempering.diffusion.networks import make_network
from tempering.kernels import ChainState
from tempering.lab.metrics.energy import energy_tvd
from tempering.lab.presets import preset
from tempering.lab.reference import cached_reference, load_reference
from tempering.registry import target_of
from tempering.targets import in_inner_coordinates
from tempering.targets.base import evaluate_many

NAME = "lj55-paper"
NUM_SAMPLES = 10_000


def samples_of(target, data: Path | None) -> Buffer:
    """Exact samples in random order, with log densities and gradients."""
    if data is None:
        found = load_reference(NAME, NUM_SAMPLES) or cached_reference(NAME, NUM_SAMPLES)[0]
        positions = found.positions
    else:
        positions = np.load(data, allow_pickle=False)
    inner = jax.jit(jax.vmap(target.chart.restrict))(jnp.asarray(positions, jnp.float32))
    buffer = from_states(ChainState(inner, *evaluate_many(target, inner)), "initial_pt")
    return subsample(jax.random.key(1), buffer, buffer.size)


def one(num_steps: int, seed: int, target, buffer: Buffer, options) -> dict:
    """A training of that length, and what its draws are worth."""
    settings, key = preset(NAME).settings, jax.random.key(seed)
    sigma_max = largest_sigma(settings.noise, buffer)
    training = dataclasses.replace(
        settings.training, num_steps=num_steps, batch_size=options.batch, check_every=max(1, min(500, num_steps // 2))
    )
    made = eqx.filter_jit(make_network)(key, target.dim, settings.network)
    data = dataset_of(settings.noise, (buffer,), jnp.ones((1,)), sigma_max, use_gradients=training.use_gradients)
    begun = time.perf_counter()
    keys = jax.random.split(jax.random.fold_in(key, 1), 1)
    fitted, info = fit_networks(keys, stack(made), stack(data), training, num_steps=num_steps)
    network = unstack(fitted, 1)[0]
    seconds = time.perf_counter() - begun
    denoiser = denoiser_of(network, settings.noise, buffer, 1.0)
    levels = noise_levels(settings.noise, buffer, jnp.ones(()), sigma_max)
    model = DiffusionModel(denoiser, prior_of(settings.noise, buffer, sigma_max), levels)
    sampling = dataclasses.replace(
        settings.sampling, num_steps=options.solver_steps, chunk_size=min(options.draws, settings.sampling.chunk_size)
    )
    draws, _ = model.draw(jax.random.fold_in(key, 2), options.draws, sampling, with_density=False)
    energies = -np.asarray(evaluate_many(target, draws)[0], np.float64)
    trusted = -np.asarray(buffer.log_density, np.float64)
    return {
        "seed": seed,
        "steps": num_steps,
        "validation_loss": float(info.validation_loss[0]),
        "energy_tvd": energy_tvd(energies, trusted),
        "energy_excess": float(np.median(energies) - np.median(trusted)),
        "training_seconds": round(seconds, 1),
    }


def main() -> None:
    made = parser(__doc__)
    made.add_argument("--steps", type=int, nargs="+", default=[1_000, 4_000, 12_000], help="iterations, each by itself")
    made.add_argument("--batch", type=int, default=256)
    made.add_argument("--draws", type=int, default=4_000)
    made.add_argument("--solver-steps", type=int, default=200)
    made.add_argument("--seeds", type=int, nargs="+", default=[0])
    made.add_argument("--data", type=Path, default=None, help="npy of shape (num, 165)")
    options = made.parse_args()
    if options.quick:
        options.steps, options.batch, options.draws, options.solver_steps = [2, 4], 4, 8, 3
    target = in_inner_coordinates(target_of(preset(NAME)))
    buffer = samples_of(target, options.data)
    halves = np.array_split(-np.asarray(buffer.log_density, np.float64), 2)
    figures: dict = {"floor": energy_tvd(*halves), "runs": []}
    for seed in options.seeds:
        for num_steps in options.steps:
            row = one(num_steps, seed, target, buffer, options)
            print(row, flush=True)
            figures["runs"].append(row)
            settings = {"steps": options.steps, "batch": options.batch, "draws": options.draws}
            finish(options, figures, **settings, solver_steps=options.solver_steps, num_samples=buffer.size)


if __name__ == "__main__":
    main()
