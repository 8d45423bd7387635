"""Energy and forces of alanine dipeptide in single precision: JAX in batches against OpenMM one by one.

    python benchmarks/bench_molecules.py [--quick] [--batches 256 10000] [--out results/molecules.json]

The aims, on two CPU cores: at least 60 times OpenMM's Reference platform and 8 times its CPU platform; a step of
parallel tempering (MALA, two levels of 512 chains) at most 1.2 times the bare energies and forces of its chains. Where
OpenMM is not installed, as on a machine with a GPU, only the JAX side is timed.
"""

import importlib.util

import jax
import jax.numpy as jnp
import numpy as np
from bench_pt import BETAS, NEVER, NUM_CHAINS, SWAP_INTERVAL, bare
from measure import Patience, finish, interleave, parser, quartiles, ratio, show

from tempering.kernels import MALA
from tempering.molecules import alanine_dipeptide
from tempering.parallel_tempering import Rules, advance, start
from tempering.runs.ledger import Ledger

NUM_ALONE = {("Reference", 0): 60, ("CPU", 0): 200, ("CPU", 1): 200}
"""Conformations that OpenMM is given in a turn, by platform and threads; 0 is its own choice. A molecule this small is
faster on one thread."""


def conformations(target, num: int) -> np.ndarray:
    """Around the minimum, as far as 300 K takes bonds: about 4 pm for every coordinate."""
    noise = np.random.default_rng(0).normal(0.0, 0.004, (num, target.dim))
    return target.init + noise


def jax_side(target, batch: int):
    both = jax.jit(jax.vmap(jax.value_and_grad(target.energy)))
    x = jnp.asarray(conformations(target, batch), jnp.float32)
    return lambda: jax.block_until_ready(both(x))


def openmm_side(target, platform: str, num_threads: int, num: int):
    import openmm
    from make_alanine import alanine_system

    system, _ = alanine_system()
    options = {"Threads": str(num_threads)} if num_threads else {}
    chosen = openmm.Platform.getPlatform(platform)
    context = openmm.Context(system, openmm.VerletIntegrator(0.001), chosen, options)
    points = conformations(target, num).reshape((num, -1, 3))

    def call() -> None:
        for positions in points:
            context.setPositions(positions)
            state = context.getState(getEnergy=True, getForces=True)
            state.getPotentialEnergy()
            state.getForces(asNumpy=True)

    return call


def throughput(target, batches: list[int], num_turns: int, patience: Patience) -> dict:
    sides = {f"JAX, batch {batch:,}": (jax_side(target, batch), batch) for batch in batches}
    if importlib.util.find_spec("openmm"):
        for (platform, num_threads), num in NUM_ALONE.items():
            name = f"OpenMM {platform}" + (f", threads: {num_threads}" if num_threads else "")
            sides[name] = (openmm_side(target, platform, num_threads, num), num)
    turns = interleave({name: call for name, (call, _) in sides.items()}, num_turns, patience)
    each = {name: turns.seconds[name] / num for name, (_, num) in sides.items()}
    rates = {name: quartiles(1.0 / seconds) for name, seconds in each.items()}
    show("alanine dipeptide: energy and forces", rates, "conformations a second")
    ours = [name for name in each if name.startswith("JAX")]
    theirs = [name for name in each if name.startswith("OpenMM")]
    ratios = {f"{a} over {b}": ratio(each[b], each[a], turns.others) for a in ours for b in theirs}
    if ratios:
        show("alanine dipeptide: how many times faster", ratios, "ratio")
    return {"conformations_per_second": rates, "times_faster": ratios}


def tempering_step(target, num_steps: int, num_turns: int, patience: Patience) -> dict:
    """A step of all chains over bare energies and forces of as many points."""
    key, kernel = jax.random.key(0), MALA()
    num = BETAS.shape[0] * NUM_CHAINS
    positions = jnp.asarray(conformations(target, num), jnp.float32).reshape((BETAS.shape[0], NUM_CHAINS, target.dim))
    state, _ = start(jax.random.key(2), target, kernel, positions, BETAS, Ledger(), "initial_pt")
    rules = Rules.of(kernel.optimal_acceptance, SWAP_INTERVAL, NEVER, "even_odd")
    count = jnp.asarray(num_steps, jnp.int32)
    points = positions.reshape((num, target.dim))
    sides = {
        "step": lambda: jax.block_until_ready(advance(key, target, kernel, state, BETAS, rules, num_steps)),
        "bare": lambda: jax.block_until_ready(bare(target, points, count)),
    }
    turns = interleave(sides, num_turns, patience)
    found = ratio(turns.seconds["step"], turns.seconds["bare"], turns.others)
    show("alanine dipeptide: step of parallel tempering over energies and forces", {"ratio": found}, "ratio")
    return found


def main() -> None:
    made = parser(__doc__)
    made.add_argument("--batches", type=int, nargs="+", default=[256, 10_000], help="conformations at a time")
    options = made.parse_args()
    target, patience = alanine_dipeptide(), Patience(options.wait)
    num_turns = 2 if options.quick else 20
    figures = {
        "throughput": throughput(target, options.batches, num_turns, patience),
        "step_over_energies_and_forces": tempering_step(target, 5 if options.quick else 20, num_turns, patience),
    }
    finish(options, figures, batches=options.batches, num_chains=NUM_CHAINS)


if __name__ == "__main__":
    main()
