"""Temperatures to inverse temperatures: index 0 is the hottest, the last is 1."""

import math

import jax.numpy as jnp

from tempering.errors import SettingsError
from tempering.settings import Ladder
from tempering.types import Array, Float

__all__ = ["betas_of", "default_num_levels", "temperatures_of"]


def default_num_levels(hottest: float, dim: int) -> int:
    """Levels from `hottest` to 1 in geometric steps of at most r = 1 + 2.2 / sqrt(dim / 2).

    In dim harmonic directions the log weights between neighbours have standard deviation sqrt(dim / 2) (r - 1). The
    paper's ladders come to 2.16 (MoG-40, five levels from 100) and 2.34 (MW-32, six levels from 10; here seven).
    """
    ratio = 1.0 + 2.2 / math.sqrt(max(dim, 2) / 2.0)
    return max(3, 1 + math.ceil(math.log(hottest) / math.log(ratio)))


def temperatures_of(ladder: Ladder, *, dim: int, hottest: float | None = None) -> tuple[float, ...]:
    """The ladder's temperatures.

    Args:
        ladder: the settings; its own `hottest` wins over the argument.
        dim: dimension, for the default number of levels.
        hottest: what the pilot found.

    Raises:
        SettingsError: when neither the settings nor a pilot give the hottest temperature.
    """
    if ladder.temperatures is not None:
        return tuple(float(temperature) for temperature in ladder.temperatures)
    hottest = ladder.hottest if ladder.hottest is not None else hottest
    if hottest is None:
        raise SettingsError("ladder.hottest = None needs a pilot run; give ladder.hottest or ladder.temperatures")
    num_levels = ladder.num_levels or default_num_levels(hottest, dim)
    steps = [level / (num_levels - 1) for level in range(num_levels)]
    if ladder.spacing == "geometric":
        temperatures = [hottest ** (1.0 - step) for step in steps]
    else:
        temperatures = [hottest + (1.0 - hottest) * step for step in steps]
    return (*temperatures[:-1], 1.0)  # exactly 1, not 1 up to rounding


def betas_of(temperatures: tuple[float, ...]) -> Float[Array, " level"]:
    """Inverse temperatures as an array."""
    return 1.0 / jnp.asarray(temperatures, jnp.float32)
