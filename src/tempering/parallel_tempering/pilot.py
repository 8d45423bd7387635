"""Finding the hottest temperature and a start there: heat until chains mix. Every evaluation counts.

Chains start where the user says and run at T = 1, then hotter and hotter by a constant factor, until the largest
split R-hat over coordinates falls below a limit. What mixes at T has no barrier that matters at T; the final states
are a start for the initial parallel tempering. After every round coordinates are measured in units of their spread:
on Many-Well-32 at T = 8 one coordinate is five times as wide as the other, and steps made for the narrow one take
a hundred to cross the wide.
"""

import math
from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp

from tempering.kernels import Kernel
from tempering.ledger import Ledger
from tempering.parallel_tempering.mixing import split_rhat
from tempering.parallel_tempering.relax import NUM_STEPS, climb, is_steep
from tempering.parallel_tempering.run import Rules, run, start
from tempering.settings import Pilot
from tempering.targets import Scaled
from tempering.types import Array, Float, Key

__all__ = ["PilotResult", "heat", "planned_evaluations"]


class PilotResult(eqx.Module):
    """What the pilot found: R-hat by temperature tried, whether the last one mixed, final states and their spread."""

    hottest: float
    is_mixed: bool
    rhats: tuple[tuple[float, float], ...]
    positions: Float[Array, "chain dim"]
    scale: Float[Array, " dim"]
    num_replaced: int


def planned_evaluations(pilot: Pilot, kernel: Kernel) -> int:
    """The most the pilot can spend."""
    return pilot.num_chains * (2 + NUM_STEPS + pilot.max_rounds * _num_steps(pilot) * kernel.evaluations_per_step)


def _num_steps(pilot: Pilot) -> int:
    """Steps a round, a multiple of four: half adapt, half are judged in pairs of steps."""
    return 4 * (pilot.num_steps // 4)


def heat(
    key: Key,
    target,
    kernel: Kernel,
    positions: Float[Array, "chain dim"],
    pilot: Pilot,
    target_acceptance: float,
    ledger: Ledger,
    *,
    is_isotropic: bool = False,
    on_round: Callable[[int, float, float], None] = lambda index, temperature, rhat: None,
) -> PilotResult:
    """Heat by `pilot.growth` a round until mixed, or until `pilot.max_rounds` are spent (then `is_mixed` may be false).

    T = 1 itself is never returned: a ladder needs two temperatures.

    Args:
        is_isotropic: one unit for all coordinates, as particles need it.
    """
    key_start, key_run = jax.random.split(key)
    one = jnp.ones((1,))
    scale = _spread(positions, is_isotropic)
    scaled, where = Scaled(target, scale), positions / scale[None]
    state, num_replaced = start(key_start, scaled, kernel, where[None], one, ledger, "pilot")
    if is_steep(state.chain.log_density_grad[0]):
        where = climb(scaled, state.chain.position[0], ledger, "pilot")
        state, num_replaced = start(key_start, scaled, kernel, where[None], one, ledger, "pilot")
    ceiling = pilot.ceiling or math.inf
    rhats: list[tuple[float, float]] = []
    temperature, is_mixed = 1.0, False
    for index in range(pilot.max_rounds):
        is_last = temperature >= ceiling
        half = _num_steps(pilot) // 2 * (pilot.max_rounds - index if is_last else 1)
        betas = one / temperature
        rules = Rules.of(target_acceptance, 1, int(state.step) + half, "even_odd")
        state, draws = run(
            key_run,
            Scaled(target, scale),
            kernel,
            state,
            betas,
            rules,
            burn_in=half,
            num_draws=half // 2,
            thin=2,
            ledger=ledger,
            stage="pilot",
        )
        rhat = float(jnp.max(split_rhat(_features(target, draws.position[0], scale))))
        rhats.append((temperature, rhat))
        wider = _spread(draws.position.reshape((-1, scale.shape[0])), is_isotropic)
        scale = scale * wider
        state = eqx.tree_at(lambda state: state.chain, state, state.chain.in_units(wider))
        on_round(index, temperature, rhat)
        is_mixed = rhat < pilot.max_rhat  # NaN compares false: a coordinate that never moved has not mixed
        if is_last or (is_mixed and temperature > 1):
            break
        temperature = min(temperature * pilot.growth, ceiling)
    hottest = rhats[-1][0] if rhats[-1][0] > 1 else min(pilot.growth, ceiling)
    positions = state.chain.position[0] * scale[None]
    return PilotResult(hottest, is_mixed, tuple(rhats), positions, scale, num_replaced)


@eqx.filter_jit
def _features(
    target, draws: Float[Array, "draw chain dim"], scale: Float[Array, " dim"]
) -> Float[Array, "draw chain n"]:
    """What must have mixed: every coordinate, or of particles what symmetry leaves alone."""
    geometry = getattr(target, "geometry", None)
    if geometry is None:
        return draws
    return jax.vmap(jax.vmap(geometry.invariants))(draws * scale[None, None])


@eqx.filter_jit
def _spread(positions: Float[Array, "point dim"], is_isotropic: bool) -> Float[Array, " dim"]:
    """Standard deviation of every coordinate; one that does not move keeps a thousandth of the widest."""
    std = jnp.std(positions, axis=0)
    if is_isotropic:
        std = jnp.full_like(std, jnp.sqrt(jnp.mean(std**2)))
    widest = jnp.max(std)
    return jnp.where(widest > 0, jnp.maximum(std, 1e-3 * widest), 1.0)
