"""Temperatures to inverse temperatures: index 0 is the hottest, the last is 1."""

import math
from collections.abc import Callable

import jax
import numpy as np

from tempering.errors import SettingsError
from tempering.settings import Ladder
from tempering.types import Array, Float

__all__ = ["KEPT_SHARE", "betas_of", "default_num_levels", "next_temperature", "temperatures_of"]

KEPT_SHARE = 0.3
"""The effective share that a step of an adaptive ladder leaves: weights bridge it, and few levels are needed."""


def default_num_levels(hottest: float, dim: int) -> int:
    """Levels from `hottest` to 1 in geometric steps of at most r = 1 + 2.2 / sqrt(dim / 2).

    In dim harmonic directions the log weights between neighbours have standard deviation sqrt(dim / 2) (r - 1). The
    paper's ladders come to 2.16 (MoG-40, five levels from 100) and 2.34 (MW-32, six levels from 10; here seven).
    """
    ratio = 1.0 + 2.2 / math.sqrt(max(dim, 2) / 2.0)
    return max(3, 1 + math.ceil(math.log(hottest) / math.log(ratio)))


def _estimated_num_levels(ladder: Ladder, hottest: float, dim: int) -> int:
    """For an adaptive ladder, what a harmonic density would need; else the fixed rule."""
    if ladder.spacing != "adaptive":
        return default_num_levels(hottest, dim)
    # In dim harmonic directions, samples at T reweighted to T / r keep a share (sqrt(2 r - 1) / r)^dim: solve for r.
    ratio = _largest(lambda r: (math.sqrt(2.0 * r - 1.0) / r) ** dim > KEPT_SHARE, 1.0, 100.0)
    return max(3, 1 + math.ceil(math.log(hottest) / math.log(ratio)))


def _largest(holds: Callable[[float], bool], low: float, high: float) -> float:
    """The largest number between two for which something holds, by bisection; it holds below that."""
    for _ in range(60):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if holds(middle) else (low, middle)
    return low


def next_temperature(
    log_density: Float[Array, " particle"] | np.ndarray,
    weight: Float[Array, " particle"] | np.ndarray,
    temperature: float,
) -> float:
    """The coldest temperature, 1 at the least, to which weighted samples can be reweighted at a bounded loss.

    With v = p^(1 / T_next - 1 / T) the loss is (sum w v)^2 / sum w v^2, the effective share that reweighting leaves of
    the samples' own weights w. It falls with T_next; bisection in beta finds where it crosses `KEPT_SHARE`. The
    effective size of the weights w v would be another number: it counts again what the weights w had lost before.
    """
    energy = np.asarray(log_density, np.float64)
    own = np.asarray(weight, np.float64)
    energy, own = energy[own > 0], own[own > 0] / own.sum()

    def share(beta: float) -> float:
        exponent = (beta - 1.0 / temperature) * energy
        ratio = np.exp(exponent - exponent.max())
        return float((own @ ratio) ** 2 / (own @ ratio**2))

    if share(1.0) >= KEPT_SHARE:
        return 1.0
    return 1.0 / _largest(lambda beta: share(beta) >= KEPT_SHARE, 1.0 / temperature, 1.0)


def temperatures_of(ladder: Ladder, *, dim: int, hottest: float | None = None) -> tuple[float, ...]:
    """The ladder's temperatures.

    Args:
        ladder: the settings; its own `hottest` wins over the argument.
        dim: dimension, for the default number of levels.
        hottest: what the pilot found.
    """
    if ladder.temperatures is not None:
        return tuple(float(temperature) for temperature in ladder.temperatures)
    hottest = ladder.hottest if ladder.hottest is not None else hottest
    if hottest is None:
        raise SettingsError("ladder.hottest = None needs a pilot run; give ladder.hottest or ladder.temperatures")
    num_levels = ladder.num_levels or _estimated_num_levels(ladder, hottest, dim)
    # An adaptive ladder starts from, and is planned by, the geometric one.
    hotter = [hottest ** (1.0 - level / (num_levels - 1)) for level in range(num_levels - 1)]
    return (*hotter, 1.0)  # exactly 1, not 1 up to rounding


def betas_of(temperatures: tuple[float, ...]) -> Float[Array, " level"]:
    """Inverse temperatures as an array."""
    return jax.device_put(1.0 / np.asarray(temperatures, np.float32))  # unlike jnp.asarray no program for each length
