"""What parallel tempering adds to the density: one step of all chains over the bare batched value and gradient.

    python benchmarks/bench_pt.py [--quick] [--out results/pt.json]

Two levels of 512 chains: MALA, adaptation and tally at every step, swaps at every fifth. The bare side evaluates 1,024
points in the same kind of loop, so that neither side pays for dispatch. For a costly density (a mixture of 1,000
Gaussians in 32 dimensions) the aim is at most 1.2: once as the library writes it, with a dense covariance for every
component, once as lean as it can be written for spherical ones, which is the harder case. Many-Well-32 costs next to
nothing, so there it matters what the rest is: random numbers, Metropolis decision, swaps.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from measure import Patience, finish, interleave, parser, quartiles, ratio, show

from tempering.kernels import MALA, ChainState
from tempering.kernels.base import accept_or_stay
from tempering.parallel_tempering import Rules, TemperingState, advance, betas_of, start
from tempering.runs.ledger import Ledger
from tempering.targets import GaussianMixture, ManyWell, Target, evaluate
from tempering.types import Array, Float

NUM_CHAINS, SWAP_INTERVAL, NEVER = 512, 5, 2**30
BETAS = betas_of((2.0, 1.0))


def components() -> tuple[np.ndarray, np.ndarray]:
    """Means and widths of 1,000 components in 32 dimensions."""
    random = np.random.default_rng(0)
    return random.normal(0.0, 3.0, (1000, 32)), random.uniform(0.5, 1.5, 1000)


class LeanMixture(Target):
    """The same mixture of spherical Gaussians with every square expanded: one matrix product for all components."""

    dim: int = eqx.field(static=True)
    slopes: Float[Array, "component dim"]
    precisions: Float[Array, " component"]
    log_peaks: Float[Array, " component"]

    def __init__(self, means: np.ndarray, stds: np.ndarray):
        self.dim = means.shape[1]
        self.slopes = jnp.asarray(means / stds[:, None] ** 2, jnp.float32)
        self.precisions = jnp.asarray(stds**-2, jnp.float32)
        log_norms = self.dim * np.log(stds * np.sqrt(2 * np.pi)) + np.log(len(stds))
        self.log_peaks = jnp.asarray(-log_norms - 0.5 * np.sum(means**2, axis=1) / stds**2, jnp.float32)

    def log_density(self, x: Float[Array, " dim"]) -> Float[Array, ""]:
        linear = jnp.matmul(self.slopes, x, precision=jax.lax.Precision.HIGHEST)
        return jax.nn.logsumexp(self.log_peaks + linear - 0.5 * self.precisions * jnp.sum(x * x))


@eqx.filter_jit
def bare(target, points, num_steps):
    """Value and gradient of all points, `num_steps` times; the tiny move keeps the loop from being hoisted."""

    def body(_, carry):
        points, total = carry
        log_density, log_density_grad = jax.vmap(lambda point: evaluate(target, point))(points)
        return points + 1e-6 * log_density_grad, total + log_density

    return jax.lax.fori_loop(0, num_steps, body, (points, jnp.zeros(points.shape[0])))


@eqx.filter_jit
def random_numbers(key, state: TemperingState, num_steps):
    """What a step draws, from the same tree of keys: a normal vector and a uniform number for every chain."""
    num_levels, num_chains, dim = state.chain.position.shape

    def one(key):
        key_noise, key_accept = jax.random.split(key)
        return jax.random.normal(key_noise, (dim,)), jax.random.uniform(key_accept)

    def body(step, carry):
        key_explore, _ = jax.random.split(jax.random.fold_in(key, step))
        keys = jax.vmap(lambda key: jax.random.split(key, num_levels))(jax.random.split(key_explore, num_chains))
        return jax.tree.map(jnp.add, carry, jax.vmap(jax.vmap(one))(keys.T))

    zeros = (jnp.zeros_like(state.chain.position), jnp.zeros_like(state.chain.log_density))
    return jax.lax.fori_loop(0, num_steps, body, zeros)


@eqx.filter_jit
def decision(state: TemperingState, noise, uniform, num_steps):
    """Proposal, Metropolis ratio and selection with numbers and densities given."""

    def one(chain: ChainState, noise, uniform):
        there = chain.position + 0.01 * chain.log_density_grad + 0.1 * noise
        backward = chain.position - there - 0.01 * chain.log_density_grad
        log_ratio = 0.5 * jnp.sum(noise**2) - jnp.sum(backward**2) / 0.04 - chain.log_density
        proposal = ChainState(there, 0.5 * chain.log_density, 0.5 * chain.log_density_grad)
        return accept_or_stay(uniform, chain, proposal, log_ratio)[0]

    body = lambda _, chain: jax.vmap(jax.vmap(one))(chain, noise, uniform)  # noqa: E731
    return jax.lax.fori_loop(0, num_steps, body, state.chain)


def sides_of(target, num_steps: int) -> dict:
    """Every measurement as a call that waits for its result. All start from the same burnt-in state."""
    key, kernel = jax.random.key(0), MALA()
    positions = 3.0 * jax.random.normal(jax.random.key(1), (BETAS.shape[0], NUM_CHAINS, target.dim))
    state, _ = start(jax.random.key(2), target, kernel, positions, BETAS, Ledger(), "initial_pt")
    swapping = Rules.of(kernel.optimal_acceptance, SWAP_INTERVAL, NEVER, "even_odd")
    staying = Rules.of(kernel.optimal_acceptance, NEVER, NEVER, "even_odd")
    count = jnp.asarray(num_steps, jnp.int32)
    state = advance(key, target, kernel, state, BETAS, swapping, 20)
    points = state.chain.position.reshape((-1, target.dim))
    noise = jax.random.normal(jax.random.key(3), state.chain.position.shape)
    uniform = jax.random.uniform(jax.random.key(4), state.chain.log_density.shape)
    calls = {
        "step": lambda: advance(key, target, kernel, state, BETAS, swapping, num_steps),
        "value and gradient": lambda: bare(target, points, count),
        "step without swaps": lambda: advance(key, target, kernel, state, BETAS, staying, num_steps),
        "random numbers": lambda: random_numbers(key, state, count),
        "decision": lambda: decision(state, noise, uniform, count),
    }
    return {name: lambda call=call: jax.block_until_ready(call()) for name, call in calls.items()}


def measure(name: str, target, num_steps: int, num_turns: int, patience: Patience) -> dict:
    turns = interleave(sides_of(target, num_steps), num_turns, patience)
    micro = {side: values / num_steps * 1e6 for side, values in turns.seconds.items()}
    whole = micro["step"]
    parts = {
        "value and gradient": micro["value and gradient"],
        "random numbers": micro["random numbers"],
        "proposal, decision": micro["decision"],
        "swaps": whole - micro["step without swaps"],
    }
    parts["rest (adaptation, tally, fusion)"] = whole - sum(parts.values())
    figures = {
        "step_over_value_and_gradient": ratio(whole, micro["value and gradient"], turns.others),
        "microseconds": {"step": quartiles(whole), **{part: quartiles(values) for part, values in parts.items()}},
        "share_of_step": {part: quartiles(values / whole) for part, values in parts.items()},
    }
    show(f"{name}: one step of {BETAS.shape[0] * NUM_CHAINS:,} chains", figures["microseconds"], "microseconds")
    show(f"{name}: shares of the step", figures["share_of_step"], "1 = the step")
    show(f"{name}: step over bare value and gradient", {"ratio": figures["step_over_value_and_gradient"]}, "ratio")
    return figures


def main() -> None:
    options = parser(__doc__).parse_args()
    means, stds = components()
    # Steps a call: a multiple of the swap interval; long against the clock, short against the moods of the machine.
    is_fast = jax.default_backend() != "cpu"
    plan = {
        "mixture-1000": (GaussianMixture(means, stds=stds), 50 if is_fast else 5, 8),
        "mixture-1000-lean": (LeanMixture(means, stds), 200 if is_fast else 10, 40),
        "many-well-32": (ManyWell(32), 200 if is_fast else 50, 60),
    }
    figures, patience = {}, Patience(options.wait)
    for name, (target, num_steps, num_turns) in plan.items():
        figures[name] = measure(name, target, num_steps, 2 if options.quick else num_turns, patience)
    finish(options, figures, num_levels=BETAS.shape[0], num_chains=NUM_CHAINS, swap_interval=SWAP_INTERVAL)


if __name__ == "__main__":
    main()
