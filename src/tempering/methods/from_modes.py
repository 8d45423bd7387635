"""The way from an atlas of modes to the density: at once, where the modes' reference is near, or by levels."""

import dataclasses
from dataclasses import dataclass
from typing import TypeVar

import jax
import jax.numpy as jnp
import numpy as np

from tempering.atlas.judge import GOOD_SHARE
from tempering.atlas.mixture import StudentMixture, joined, log_densities
from tempering.kernels import Kernel
from tempering.methods.atlas import Found
from tempering.methods.budget import FEWEST_SAMPLES, num_final_draws, sized
from tempering.parallel_tempering import ladder
from tempering.parallel_tempering.initial import StartFn, planned_evaluations
from tempering.settings import MethodSettings
from tempering.targets.base import Target
from tempering.targets.rows import HARDLY_ANY, whole_parts
from tempering.types import Array, Float

__all__ = ["Way", "enough_draws", "optima_in", "way_from", "with_modes"]

Settings = TypeVar("Settings", bound=MethodSettings)

_HOTTEST = 1e4
"""The temperature that stands for the reference itself: r^(1 - 1/T) p^(1/T), weighted for what is left of p."""


@dataclass(frozen=True)
class Way:
    """How the first levels are drawn.

    Args:
        temperatures: of the levels that are made of draws from the modes: T = 1 alone, or two.
        num_draws: that are still to be made.
        reference: what these and the draws of the atlas together are draws of.
    """

    temperatures: tuple[float, ...]
    num_draws: int
    reference: StudentMixture


def way_from(found: Found, settings: Settings, target: Target, left: int, kernel: Kernel) -> tuple[Settings, Way]:
    """The settings with sizes for what is left of the budget, and the way.

    Where the effective share is large, all is drawn from the modes and weighted to T = 1, as many draws as a model
    needs; what that leaves of the budget is not spent. Otherwise levels lead from the modes to the density.
    """
    before = len(found.drawn[1])
    temperatures = (1.0,) if found.is_shaped or found.share >= GOOD_SHARE else _first_two(found)
    if temperatures == (1.0,):
        num_final = num_final_draws(settings, left)
        num = max(1, min(left - num_final, int(enough_draws(target.dim) / found.share) - before))
        num = whole_parts(num, HARDLY_ANY)
        settings = dataclasses.replace(settings, buffer_size=max(20, num + before), num_final_draws=num_final)
    else:
        # A level keeps three tenths: so many steps lead from the share of the reference to the whole.
        num_levels = 2 + max(1, int(np.ceil(np.log(found.share) / np.log(ladder.KEPT_SHARE))))
        settings = sized(settings, target.dim, num_levels, left, kernel, least=FEWEST_SAMPLES)
        num = whole_parts(planned_evaluations(settings.initial, 2, kernel), HARDLY_ANY)
        settings = dataclasses.replace(settings, buffer_size=num + before)
    return settings, Way(temperatures, num, joined([found.before, found.reference], [before, num]))


def enough_draws(dim: int) -> int:
    """Effective draws from which a model has nothing to learn that more of them would show."""
    return 20_000 + 2_000 * dim


def _first_two(found: Found) -> tuple[float, ...]:
    """The hottest level, the reference itself, and the coldest that its draws can be weighted for."""
    position, log_density, _ = found.drawn
    ratio = np.asarray(log_density, np.float64) - log_densities(found.before, np.asarray(position))
    ratio = np.where(np.isfinite(ratio), ratio, -1e30)
    second = ladder.next_temperature(ratio, np.ones_like(ratio), _HOTTEST)
    return (1.0,) if second <= 1.0 else (_HOTTEST, second)


def with_modes(start_fn: StartFn, found: Found) -> StartFn:
    """Starting points of which every second is at an optimum that was found, as wide as it is."""
    if len(found.log_density) == 0:
        return start_fn
    factor = jnp.linalg.cholesky(found.covariance)

    def start(key, num: int) -> Float[Array, "chain dim"]:
        key_own, key_which, key_noise = jax.random.split(key, 3)
        own: Array = start_fn(key_own, num)
        which = jax.random.randint(key_which, (num,), 0, factor.shape[0])
        noise = jax.random.normal(key_noise, own.shape)
        modes = found.position[which] + jnp.einsum("nij,nj->ni", factor[which], noise)
        return jnp.where((jnp.arange(num) % 2 == 1)[:, None] & jnp.isfinite(modes), modes, own)

    return start


def optima_in(found: Found) -> tuple[Float[Array, "optimum dim"], Float[Array, " optimum"]]:
    """Places and log densities of the optima in the coordinates that the run works in.

    At walls a width inside of each, where the density is lower by a nat: no model reaches into a corner.
    """
    log_density = found.log_density - found.num_walls
    if not found.is_shaped:
        return found.centre, log_density
    position = jax.vmap(found.learned.restrict)(found.centre)
    return position, log_density + jax.vmap(found.learned.log_volume)(position)
