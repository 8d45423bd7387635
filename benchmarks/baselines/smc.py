r"""Tempered sequential Monte Carlo on BlackJAX, from a Gaussian to the target along the geometric path.

log p_lambda = (1 - lambda) log N(x; 0, scale^2) + lambda log_density(x), lambda from 0 to 1. A round resamples, moves
every particle by Metropolis-corrected leapfrog trajectories at the present lambda (`blackjax.smc.tempered`), and then
takes the largest lambda that leaves an effective share `target_ess` (`blackjax.smc.ess`). What remains of the budget
at lambda = 1 goes into further rounds there, all of whose states are kept.

Why not `blackjax.adaptive_tempered_smc` as it is: its round evaluates every particle three times besides its moves
(to choose lambda, to start the chain, to weigh), moves the exact draws of the first round before they are weighed,
and chooses lambda from the particles before they move. Here a particle is a `ChainState`, which carries its log
density and gradient, and BlackJAX's functions read those: what is evaluated is the start of every particle and every
leapfrog step, once each, and all of it is in the ledger.
"""

import math
from functools import partial
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp

from baselines.drawn import Drawn
from tempering.errors import BudgetError
from tempering.kernels import ChainState, init
from tempering.runs.ledger import Ledger
from tempering.targets import Referenced
from tempering.targets.base import Target, evaluate_many
from tempering.targets.cost import points_per_gradient, spend
from tempering.types import Array, Float, Key

__all__ = ["samples"]

_MIN_PARTICLES = 10
_TARGET_ACCEPTANCE = {True: 0.574, False: 0.7}
"""By whether a trajectory is a single step (MALA; Roberts and Rosenthal 1998) or longer."""


class _Path(eqx.Module):
    """The two ends as BlackJAX wants them: a prior, and a "likelihood" read off the particle."""

    scale: Float[Array, ""]

    def log_prior(self, particle: ChainState) -> Float[Array, ""]:
        x = particle.position
        dim = x.shape[0]
        return -0.5 * jnp.sum((x / self.scale) ** 2) - dim * (jnp.log(self.scale) + 0.5 * math.log(2.0 * math.pi))

    def log_likelihood(self, particle: ChainState) -> Float[Array, ""]:
        """Log density less log prior: the stored value, with the stored gradient as its derivative by position."""
        step = particle.position - jax.lax.stop_gradient(particle.position)
        return particle.log_density + jnp.sum(particle.log_density_grad * step) - self.log_prior(particle)


class _Chain(NamedTuple):
    """The state of BlackJAX's inner chain; `position` is the whole particle."""

    position: ChainState
    log_tempered: Float[Array, ""]
    log_tempered_grad: Float[Array, " dim"]


def _read(particle: ChainState, log_tempered_fn) -> _Chain:
    """Tempered value and gradient from what the particle stores: no evaluation."""
    at = lambda x: log_tempered_fn(eqx.tree_at(lambda p: p.position, particle, x))  # noqa: E731
    return _Chain(particle, *jax.value_and_grad(at)(particle.position))


def _trajectory(key: Key, chain: _Chain, log_tempered_fn, step_size, *, target: Target, num_leapfrog: int):
    """One HMC transition with a step size of its own for every coordinate: `num_leapfrog` evaluations.

    A single leapfrog step is MALA.
    """
    key_momentum, key_accept = jax.random.split(key)
    momentum = jax.random.normal(key_momentum, chain.position.position.shape)

    def leapfrog(carry, _):
        here, velocity = carry
        velocity = velocity + 0.5 * step_size * here.log_tempered_grad
        there = _read(init(here.position.position + step_size * velocity, target), log_tempered_fn)
        return (there, velocity + 0.5 * step_size * there.log_tempered_grad), None

    (proposal, end), _ = jax.lax.scan(leapfrog, (chain, momentum), length=num_leapfrog)
    log_ratio = proposal.log_tempered - chain.log_tempered - 0.5 * (jnp.sum(end**2) - jnp.sum(momentum**2))
    is_usable = jnp.isfinite(log_ratio) & jnp.all(jnp.isfinite(proposal.log_tempered_grad))
    probability = jnp.where(is_usable, jnp.exp(jnp.minimum(log_ratio, 0.0)), 0.0)
    is_accepted = jax.random.uniform(key_accept) < probability
    return jax.tree.map(lambda new, old: jnp.where(is_accepted, new, old), proposal, chain), probability


@eqx.filter_jit
def _move(key: Key, target: Target, path: _Path, state, step_factor: Array, num_moves: int, num_leapfrog: int):
    """Resample by the weights and move at the present lambda; the particles then weigh the same."""
    from blackjax.smc import resampling, tempered

    # Step sizes follow the stiffness of the tempered density: E[(d log p / dx_i)^2] is the inverse square of the width
    # inside modes, where the particles' own spread is the distance between modes.
    tempered_at = lambda p: path.log_prior(p) + state.tempering_param * path.log_likelihood(p)  # noqa: E731
    gradients = jax.vmap(lambda p: _read(p, tempered_at).log_tempered_grad)(state.particles)
    width = 1.0 / jnp.sqrt(jnp.sum(state.weights[:, None] * gradients**2, axis=0) + 1e-12)
    kernel = tempered.build_kernel(
        path.log_prior,
        path.log_likelihood,
        partial(_trajectory, target=target, num_leapfrog=num_leapfrog),
        _read,
        resampling.systematic,
    )
    parameters = {"step_size": (step_factor * width)[None]}
    state, info = kernel(key, state, num_moves, state.tempering_param, parameters)
    return state, jnp.mean(info.update_info)


@eqx.filter_jit
def _cool(path: _Path, state, target_ess: Array, is_last: Array):
    """The next lambda, the weights towards it and the factor of Z: stored values only.

    Where `is_last`, lambda = 1 whatever it does to the weights.
    """
    from blackjax.smc import ess, solver

    log_likelihood = jax.vmap(path.log_likelihood)(state.particles)
    room = 1.0 - state.tempering_param
    delta = ess.ess_solver(lambda _: log_likelihood, state.particles, target_ess, room, solver.dichotomy)
    delta = jnp.where(is_last, room, jnp.clip(jnp.nan_to_num(delta), 0.0, room))
    log_weights = jnp.log(state.weights) + delta * log_likelihood
    log_factor = jax.nn.logsumexp(log_weights)
    lambda_next = jnp.where(delta >= room, 1.0, state.tempering_param + delta)
    return state._replace(weights=jnp.exp(log_weights - log_factor), tempering_param=lambda_next), log_factor


def samples(
    target: Target,
    key: Key,
    budget: int,
    *,
    scale: float = 1.0,
    target_ess: float = 0.5,
    num_moves: int = 1,
    num_leapfrog: int = 1,
    num_rounds: int = 10,
    max_kept: int = 10_000,
    ledger: Ledger | None = None,
) -> Drawn:
    """Particles at lambda = 1, moved there, and log Z.

    Args:
        budget: evaluations at most. It sets the number of particles: budget / (1 + num_rounds x a round's cost).
        scale: standard deviation of the Gaussian that the path starts from.
        target_ess: effective share of the weights that a step of lambda leaves.
        num_moves: trajectories of every particle in a round.
        num_leapfrog: evaluations of a trajectory; 1 is MALA.
        num_rounds: rounds that the budget is laid out for. If lambda = 1 comes sooner, the rest move there; if it
            has not come one round before the end, lambda jumps to 1, with weights of whatever effective size.
        max_kept: points given back at most, evenly drawn from all rounds at lambda = 1.

    Returns:
        Points without weights, or with weights where `num_rounds` is 0 (plain importance sampling).

    Raises:
        BudgetError: if the budget pays for fewer than ten particles.
    """
    from blackjax.smc import tempered

    target = Referenced(target.dim, target, None)  # the path here starts from a Gaussian of its own
    ledger = ledger or Ledger(budget)
    cost_of_round = num_moves * num_leapfrog
    num = budget // points_per_gradient(target) // (1 + num_rounds * cost_of_round)
    if num < _MIN_PARTICLES:
        raise BudgetError(
            f"a budget of {budget:,} pays for {num} particles over {num_rounds} rounds of {cost_of_round} evaluations; "
            f"give at least {_MIN_PARTICLES * (1 + num_rounds * cost_of_round):,}, or fewer rounds"
        )
    key_start, key_rounds, key_keep = jax.random.split(key, 3)
    path = _Path(jnp.asarray(scale, jnp.float32))
    positions = scale * jax.random.normal(key_start, (num, target.dim))
    spend(ledger, "importance_weights", target, num)
    particles = ChainState(positions, *evaluate_many(target, positions))
    # A pytree as BlackJAX wants it, though its annotation names arrays and containers of them only.
    state = tempered.init(particles)._replace(tempering_param=jnp.zeros(()))  # pyright: ignore[reportArgumentType]
    ess = jnp.asarray(target_ess)
    state, log_z = _cool(path, state, ess, jnp.asarray(num_rounds <= 1))
    log_factor = jnp.asarray(0.5 * math.log(2.0) - 0.25 * math.log(target.dim))
    aim = _TARGET_ACCEPTANCE[num_leapfrog == 1]
    kept = []
    for index in range(num_rounds):
        is_at_target = bool(state.tempering_param == 1.0)
        spend(ledger, "refinement", target, num * cost_of_round)
        key_move = jax.random.fold_in(key_rounds, index)
        state, acceptance = _move(key_move, target, path, state, jnp.exp(log_factor), num_moves, num_leapfrog)
        log_factor = jnp.clip(log_factor + 1.5 * (acceptance - aim), -7.0, 1.0)
        if is_at_target:
            kept.append(state.particles.position)
        else:
            state, step = _cool(path, state, ess, jnp.asarray(index >= num_rounds - 2))
            log_z = log_z + step
    if not kept:
        return Drawn(state.particles.position, state.weights, float(log_z), ledger.total)
    points = jnp.concatenate(kept)
    if points.shape[0] > max_kept:
        points = jax.random.choice(key_keep, points, (max_kept,), replace=False)
    return Drawn(points, None, float(log_z), ledger.total)
