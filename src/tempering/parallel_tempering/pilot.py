"""Finding the hottest temperature and a start there: heat until chains mix. Every evaluation counts.

Chains start where the user says and run at T = 1, then hotter and hotter by a constant factor, until the largest
split R-hat over coordinates falls below a limit. What mixes at T has no barrier that matters at T; the final states
are a start for the initial parallel tempering. After every round coordinates are measured in units of their spread:
on Many-Well-32 at T = 8 one coordinate is five times as wide as the other, and steps made for the narrow one take
a hundred to cross the wide.
"""

from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp

from tempering.kernels import Kernel
from tempering.ledger import Ledger
from tempering.parallel_tempering.mixing import split_rhat
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
    return pilot.num_chains * (1 + pilot.max_rounds * _num_steps(pilot) * kernel.evaluations_per_step)


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
    on_round: Callable[[int, float, float], None] = lambda index, temperature, rhat: None,
) -> PilotResult:
    """Heat by `pilot.growth` a round until mixed, or until `pilot.max_rounds` are spent (then `is_mixed` is false).

    T = 1 itself is never returned: a ladder needs two temperatures.
    """
    key_start, key_run = jax.random.split(key)
    one = jnp.ones((1,))
    scale = _spread(positions)
    state, num_replaced = start(
        key_start, Scaled(target, scale), kernel, positions[None] / scale[None, None], one, ledger, "pilot"
    )
    half = _num_steps(pilot) // 2
    rhats: list[tuple[float, float]] = []
    temperature, is_mixed = 1.0, False
    for index in range(pilot.max_rounds):
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
        rhat = float(jnp.max(split_rhat(draws.position[0])))
        rhats.append((temperature, rhat))
        wider = _spread(draws.position.reshape((-1, scale.shape[0])))
        scale = scale * wider
        state = eqx.tree_at(lambda state: state.chain, state, state.chain.in_units(wider))
        on_round(index, temperature, rhat)
        is_mixed = rhat < pilot.max_rhat  # NaN compares false: a coordinate that never moved has not mixed
        if is_mixed and temperature > 1:
            break
        temperature *= pilot.growth
    hottest = rhats[-1][0] if rhats[-1][0] > 1 else pilot.growth
    positions = state.chain.position[0] * scale[None]
    return PilotResult(hottest, is_mixed, tuple(rhats), positions, scale, num_replaced)


@jax.jit
def _spread(positions: Float[Array, "point dim"]) -> Float[Array, " dim"]:
    """Standard deviation of every coordinate; one that does not move keeps a thousandth of the widest."""
    std = jnp.std(positions, axis=0)
    widest = jnp.max(std)
    return jnp.where(widest > 0, jnp.maximum(std, 1e-3 * widest), 1.0)
