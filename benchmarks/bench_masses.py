"""Gradients that alanine dipeptide takes to forget a conformation, by kernel and by the masses that chains move with.

    python benchmarks/bench_masses.py [--quick] [--temperature 600] [--seed 0] [--out results/masses-cpu.json]

Every side starts from the same conformations, which HMC of another key has brought to equilibrium, adapts its step size
and then spends the same number of gradients. The figure is the lag, in gradients, at which the autocorrelation of an
observable falls to 1/e, of cosine or sine of an angle the longer one; where that is beyond half a chain it is
extrapolated from there by an exponential, a rough number, and marked. The effective number of samples of chains that
are not much longer says nothing: it is never below the number of chains. Evaluations are compared, not seconds.
"""

import time

import jax
import jax.numpy as jnp
import numpy as np
from measure import finish, parser

from tempering.kernels import HMC, MALA
from tempering.molecules import alanine_dipeptide, phi_psi
from tempering.parallel_tempering import Rules, run, start
from tempering.runs.ledger import Ledger
from tempering.targets import Scaled, Units, in_inner_coordinates
from tempering.targets.units import force_masses, units_of_masses

NUM_LEAPFROG, NUM_KEPT = 20, 1000


def masses_of(target, states) -> dict[str, Units]:
    """Every choice of masses, all of one structure, so that a kernel is compiled once."""
    geometry, record = target.geometry, target.target.record
    choices = {
        "unit": np.ones(record.num_atoms),
        "those of the atoms": record.masses,
        "hydrogens 4": target.masses,
        "by mean squared force": force_masses(geometry, states.log_density_grad.reshape((-1, target.dim))),
    }
    return {name: units_of_masses(masses, target.dim, geometry) for name, masses in choices.items()}


def sides(units: dict[str, Units]) -> dict[str, tuple]:
    """What is compared: kernel and units by name."""
    hmc, mala = HMC(num_leapfrog=NUM_LEAPFROG), MALA()  # pyright: ignore[reportCallIssue]
    return {"MALA, masses: unit": (mala, units["unit"])} | {
        f"HMC, masses: {name}": (hmc, of) for name, of in units.items()
    }


def chains(key, target, kernel, units, positions, num_adapt: int, num_steps: int):
    """Chains at T = 1 of the target: the kept states, acceptance, the step size, and what the kept part cost."""
    betas, ledger, scaled = jnp.ones((1,)), Ledger(), Scaled(target, units)
    state, _ = start(key, scaled, kernel, units.inward(positions)[None], betas, ledger, "initial_pt")
    rules = Rules.of(kernel.optimal_acceptance, 10**6, num_adapt, "even_odd")
    state, kept = run(
        key, scaled, kernel, state, betas, rules, burn_in=num_adapt, num_draws=NUM_KEPT, thin=num_steps // NUM_KEPT,
        ledger=ledger, stage="initial_pt",
    )  # fmt: skip
    spent = ledger.total - len(positions) * (1 + num_adapt * kernel.evaluations_per_step)
    kept = jax.tree.map(lambda leaf: leaf[0], kept).out_of_units(units)
    return kept, float(state.tally.acceptance_rate[0]), float(jnp.exp(state.step_sizes.log_step_size[0])), spent


def relaxation(target, kept, gradients_of_chain: int) -> tuple[dict[str, float], list[str]]:
    """By observable the gradients until its autocorrelation is 1/e, and the names of those extrapolated."""
    angles = np.asarray(jax.vmap(jax.vmap(lambda y: phi_psi(target.chart.embed(y))))(kept.position), np.float64)
    values = {"energy": [np.asarray(kept.log_density, np.float64)]}
    for place, name in enumerate(("phi", "psi")):
        values[name] = [np.cos(angles[..., place]), np.sin(angles[..., place])]
    found = {name: max(_lag(column) for column in columns) for name, columns in values.items()}
    each = gradients_of_chain / NUM_KEPT
    return {name: lag * each for name, lag in found.items()}, [of for of, lag in found.items() if lag > NUM_KEPT // 2]


def _lag(values: np.ndarray) -> float:
    """Draws until the autocorrelation of (draw, chain) falls to 1/e; one mean serves all, as chains start from it."""
    num = len(values)
    centred = values - values.mean()
    spectrum = np.abs(np.fft.rfft(centred, 2 * num, axis=0)) ** 2
    covariance = np.fft.irfft(spectrum, axis=0)[:num].mean(axis=1) / (num - np.arange(num))
    rho = covariance[: num // 2 + 1] / covariance[0]
    below = np.flatnonzero(rho < np.exp(-1.0))
    if len(below):
        after = below[0]
        return float(after - (np.exp(-1.0) - rho[after]) / (rho[after - 1] - rho[after]))
    return (num // 2) / -np.log(min(rho[-1], 0.999))


def main() -> None:
    made = parser(__doc__)
    made.add_argument("--temperature", type=float, default=600.0, help="kelvin")
    made.add_argument("--chains", type=int, default=64)
    made.add_argument("--gradients", type=int, default=20_000, help="of every chain, after adaptation")
    made.add_argument("--seed", type=int, default=0)
    options = made.parse_args()
    num_chains, num = (8, 20_000) if options.quick else (options.chains, options.gradients)
    target = in_inner_coordinates(alanine_dipeptide(options.temperature, "L"))
    key = jax.random.key(options.seed)
    key_start, key_equilibrate, key_run = jax.random.split(key, 3)
    first = target.init[0]
    positions = first[None] + 0.002 * jax.random.normal(key_start, (num_chains, target.dim))
    hmc = HMC(num_leapfrog=NUM_LEAPFROG)  # pyright: ignore[reportCallIssue]
    heavy = units_of_masses(target.masses, target.dim, target.geometry)
    num_steps = num // NUM_LEAPFROG
    settled, *_ = chains(key_equilibrate, target, hmc, heavy, positions, num_steps // 2, num_steps)
    figures = {}
    print(f"{'':40} gradients to relax of energy, phi, psi")
    for name, (kernel, units) in sides(masses_of(target, settled)).items():
        num_steps, last = num // kernel.evaluations_per_step, settled.position[-1]
        began = time.perf_counter()
        kept, acceptance, step_size, spent = chains(key_run, target, kernel, units, last, num_steps // 5, num_steps)
        lags, beyond = relaxation(target, kept, num)
        figures[name] = {
            "gradients_to_relax": {of: round(number) for of, number in lags.items()},
            "extrapolated": beyond,
            "gradients": spent,
            "acceptance": round(acceptance, 3),
            "step_size": float(f"{step_size:.4g}"),
            "seconds": round(time.perf_counter() - began, 1),
        }
        print(f"{name:40}", *(f"{value:>10,.0f}" for value in lags.values()))
    finish(
        options, figures, temperature=options.temperature, num_chains=num_chains, gradients_of_chain=num,
        num_leapfrog=NUM_LEAPFROG, seed=options.seed,
    )  # fmt: skip


if __name__ == "__main__":
    main()
