"""Which network for a molecule in Cartesian coordinates? Each is trained on the same samples of alanine dipeptide.

    python benchmarks/bench_molecule_networks.py [--steps 20000] [--batch 512] [--seeds 0 1] [--samples 20000]
        [--data samples.npz] [--draws 1000] [--networks NAME ...] [--out results/molecule-networks.json]

Samples at 300 K come from parallel tempering (HMC, eight temperatures up to 1500 K, from the shipped structure), or
from `--data`, an npz with `positions` (num, 66) in nm; `--keep` writes those that were made. A tenth is held out. For
every network and seed: milliseconds a step; the held-out loss by sigma, relative to that of the best linear denoiser (1
says nothing was learned; the blend with gradients is what is regressed on); and of `--draws` draws with exact
divergence the effective share of their weights, the energy TVD against held-out samples, the median excess of the
energy in units of k_B T, and the share of L-forms. Weights and energies are those of the density with both hands:
samples are L-forms all, and networks without `hands` cannot know.

`--quick` takes small networks and short chains: it shows that the script runs.
"""

import argparse
import time
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from measure import finish, parser

from tempering.buffer import Buffer, from_states, subsample
from tempering.diffusion.calibrate import (
    dataset_of,
    denoiser_of,
    inner_scale,
    largest_sigma,
    noise_levels,
    prior_of,
    stack,
    unstack,
)
from tempering.diffusion.fit import fit_networks
from tempering.diffusion.model import DiffusionModel
from tempering.diffusion.networks import make_network
from tempering.diffusion.objective import regression_target
from tempering.diffusion.precondition import Denoiser, output_scale
from tempering.kernels import ChainState, kernel_of
from tempering.lab.metrics.energy import energy_tvd
from tempering.molecules import MoleculeTarget, alanine_dipeptide, is_mirrored
from tempering.parallel_tempering import betas_of
from tempering.parallel_tempering.initial import initial_draws, rows_start
from tempering.runs.ledger import Ledger
from tempering.settings import Exploration, Initial, Network, Noise, Sampling, Training
from tempering.targets import Inner, Scaled, in_inner_coordinates
from tempering.targets.base import evaluate_many
from tempering.targets.units import chosen_units
from tempering.transforms.centred import Centred
from tempering.weights.ess import ess_fraction

NOISE = Noise(is_isotropic=True, prior="isotropic")
TEMPERATURES = tuple(float(t) for t in np.geomspace(5.0, 1.0, 8))
SIGMAS = (3e-4, 1e-3, 3e-3, 1e-2, 3e-2, 0.1, 0.3)  # nm
CHUNK = 100
"""Draws at a time: an exact Jacobian of a network on all pairs takes 16 MB."""
NUM_CHAINS, BURN_IN, THIN, NUM_LEAPFROG = 40, 300, 4, 16


def networks_of(target: Inner, widths: tuple[int, int], depth: int) -> dict[str, tuple[Network, float]]:
    """The networks compared, with the learning rate of each."""
    assert isinstance(target.chart, Centred)
    alike: dict[str, Any] = {"num_particles": target.chart.num_particles, "coordinate_width": 0, "is_shared": False}
    atoms = {**alike, "atoms": target.atom_kinds}
    bonds = {**atoms, "bonds": target.bonds}
    egnn = {"kind": "egnn", "width": widths[0], "depth": 3}
    transformer = {"kind": "particle_transformer", "width": widths[1], "depth": depth, "unit": 0.1}
    return {
        "egnn-alike": (Network(**egnn, **alike), 2e-3),
        "egnn": (Network(**egnn, **bonds), 2e-3),
        "transformer-alike": (Network(**transformer, **alike), 1e-3),
        "transformer-atoms": (Network(**transformer, **atoms), 1e-3),
        "transformer-bonds": (Network(**transformer, **bonds), 1e-3),
        "transformer-hands": (Network(**transformer, **bonds, is_chiral=True), 1e-3),
    }


def made_samples(target: Inner, num: int, is_quick: bool) -> ChainState:
    """At least `num` states at 300 K, of axes (draw, chain)."""
    num_chains, burn_in = (8, 60) if is_quick else (NUM_CHAINS, BURN_IN)
    num_steps = burn_in + THIN * -(-num // num_chains)
    units = chosen_units(target, "automatic", None)
    assert target.init is not None
    start_fn = rows_start(units.inward(target.init))
    exploration = Exploration(kernel="hmc", num_leapfrog=NUM_LEAPFROG, swap_interval=2)
    result = initial_draws(
        jax.random.key(0),
        Scaled(target, units),
        kernel_of(exploration, target.dim),
        start_fn,
        betas_of(TEMPERATURES),
        Initial(num_chains=num_chains, num_steps=num_steps, burn_in=burn_in, thin=THIN),
        exploration,
        ledger=Ledger(),
    )
    return jax.tree.map(lambda leaf: leaf[-1], result.draws).out_of_units(units)


def samples_of(target: Inner, options: argparse.Namespace) -> Buffer:
    """Samples at 300 K in random order, with log densities and gradients."""
    if options.data is None:
        buffer = from_states(made_samples(target, options.samples, options.quick), "initial_pt")
        if options.keep is not None:
            np.savez(options.keep, positions=np.asarray(jax.vmap(target.chart.embed)(buffer.position)))
    else:
        with np.load(options.data, allow_pickle=False) as archive:
            positions = jax.jit(jax.vmap(target.chart.restrict))(jnp.asarray(archive["positions"], jnp.float32))
        buffer = from_states(ChainState(positions, *evaluate_many(target, positions)), "initial_pt")
    return subsample(jax.random.key(1), buffer, min(options.samples, buffer.size))


@eqx.filter_jit
def loss_at(denoiser: Denoiser, key, buffer: Buffer, sigma, blend):
    """Mean held-out loss at one noise level, over that of the best linear denoiser."""
    data_scale = denoiser.sigma_data

    def one(key, x, gradient):
        x_noisy = x + sigma * jax.random.normal(key, x.shape)
        wanted = regression_target(x, x_noisy, gradient, sigma, blend)
        linear = data_scale**2 / (sigma**2 + data_scale**2) * x_noisy
        found = jnp.stack([denoiser(x_noisy, sigma), linear])
        return jnp.mean(((found - wanted[None]) / output_scale(sigma, data_scale)[None]) ** 2, axis=1)

    keys = jax.random.split(key, buffer.size)
    losses = jnp.mean(jax.vmap(one)(keys, buffer.position, buffer.log_density_grad), axis=0)
    return losses[0] / losses[1]


def trained(network: Network, rate: float, seed: int, buffer: Buffer, sigma_max, options) -> tuple[object, dict]:
    """The network after training, and how it went."""
    key = jax.random.key(seed)
    made = eqx.filter_jit(make_network)(key, buffer.position.shape[1], network)
    beta = jnp.ones((1,))
    data = stack(dataset_of(NOISE, (buffer,), beta, sigma_max, use_gradients=True))
    every = max(1, min(500, options.steps // 2))
    training = Training(
        num_steps=options.steps, batch_size=options.batch, learning_rate=rate, check_every=every, patience=6
    )
    keys, ticks = jax.random.split(jax.random.fold_in(key, 1), 1), []
    fitted, info = fit_networks(
        keys,
        stack(made),
        data,
        training,
        num_steps=options.steps,
        on_check=lambda step, loss: ticks.append((step, time.perf_counter())),
    )
    (first, begin), (last, end) = ticks[0], ticks[-1]  # the first block compiles
    speed = 1e3 * (end - begin) / (last - first) if last > first else None
    num = sum(leaf.size for leaf in jax.tree.leaves(eqx.filter(made, eqx.is_inexact_array)))
    facts = {"parameters": num, "ms_a_step": speed, "steps": int(info.num_steps[0])}
    return unstack(fitted, 1)[0], {**facts, "validation_loss": float(info.validation_loss[0])}


def judged(denoiser: Denoiser, both: Inner, buffer: Buffer, held_out: Buffer, sigma_max, options) -> dict:
    """Draws and their weights."""
    beta = jnp.ones(())
    model = DiffusionModel(denoiser, prior_of(NOISE, buffer, sigma_max), noise_levels(NOISE, buffer, beta, sigma_max))
    sampling = Sampling(num_steps=options.solver_steps, divergence="exact", chunk_size=min(CHUNK, options.draws))
    draws, log_q = model.draw(jax.random.key(7), options.draws, sampling, with_density=True)
    values, _ = evaluate_many(both, draws)
    positions = jax.jit(jax.vmap(both.chart.embed))(draws)
    assert isinstance(both.target, MoleculeTarget)
    chiral_centres = both.target.chiral_centres
    mirrored = jax.jit(jax.vmap(lambda x: is_mirrored(x, chiral_centres)))(positions)
    energies, trusted = -np.asarray(values, np.float64), -np.asarray(held_out.log_density, np.float64)
    return {
        "ess_fraction": float(ess_fraction(values - log_q)),
        "energy_tvd": energy_tvd(energies, trusted),
        "energy_excess": float(np.median(energies) - np.median(trusted)),
        "left_share": 1.0 - float(jnp.mean(mirrored)),
    }


def compare(options: argparse.Namespace) -> dict:
    """Every network and seed."""
    target, both = in_inner_coordinates(alanine_dipeptide(chirality="L")), in_inner_coordinates(alanine_dipeptide())
    assert isinstance(target, Inner) and isinstance(both, Inner)
    begin = time.perf_counter()
    samples = samples_of(target, options)
    num = samples.size // 10
    held_out, buffer = samples.take(jnp.arange(num)), samples.take(jnp.arange(num, samples.size))
    sigma_max = largest_sigma(NOISE, buffer)
    levels = noise_levels(NOISE, buffer, jnp.ones(()), sigma_max)
    scales = inner_scale(buffer, jnp.ones(()))
    facts = {
        "num_samples": buffer.size,
        "num_held_out": num,
        "seconds": round(time.perf_counter() - begin, 1),
        "sigma_min": float(levels.sigma_min),
        "sigma_max": float(sigma_max),
        "inner_scale": [float(jnp.min(scales)), float(jnp.max(scales))],
        "sigma_data": float(denoiser_of(None, NOISE, buffer, 1.0).sigma_data[0]),
    }
    print("samples:", ", ".join(f"{name} {value}" for name, value in facts.items()))
    blend = jnp.full_like(scales, 1.0 / jnp.mean(1.0 / scales**2))
    widths, depth = ((16, 32), 2) if options.quick else ((64, 128), 4)
    rows: dict[str, list[dict]] = {}
    for name, (network, rate) in networks_of(target, widths, depth).items():
        if options.networks and name not in options.networks:
            continue
        for seed in options.seeds:
            fitted, row = trained(network, rate, seed, buffer, sigma_max, options)
            denoiser = denoiser_of(fitted, NOISE, buffer, 1.0)
            key = jax.random.key(3)
            row["loss"] = {str(s): float(loss_at(denoiser, key, held_out, jnp.asarray(s), blend)) for s in SIGMAS}
            if options.draws:
                row |= judged(denoiser, both, buffer, held_out, sigma_max, options)
            rows.setdefault(name, []).append({"seed": seed, **row})
            print(name, seed, {key: shortened(value) for key, value in row.items()}, flush=True)
    return {"samples": facts, "networks": rows}


def shortened(value):
    """Numbers to three digits."""
    if isinstance(value, dict):
        return {key: shortened(inner) for key, inner in value.items()}
    return float(f"{value:.3g}") if isinstance(value, float) else value


def main() -> None:
    made = parser(__doc__)
    made.add_argument("--steps", type=int, default=20_000, help="optimiser steps")
    made.add_argument("--batch", type=int, default=512)
    made.add_argument("--seeds", type=int, nargs="+", default=[0])
    made.add_argument("--samples", type=int, default=20_000, help="conformations, held-out ones included")
    made.add_argument("--data", type=Path, default=None, help="npz with positions (num, 66), nm")
    made.add_argument("--keep", type=Path, default=None, help="where to write the conformations that were made")
    made.add_argument("--draws", type=int, default=1_000, help="draws that are weighted; 0 for none")
    made.add_argument("--solver-steps", type=int, default=40)
    made.add_argument("--networks", nargs="+", default=None, help="only these")
    options = made.parse_args()
    figures = compare(options)
    sizes = {name: getattr(options, name) for name in ("steps", "batch", "seeds", "samples", "draws", "solver_steps")}
    finish(options, figures, **sizes)


if __name__ == "__main__":
    main()
