"""Distributions of NumPyro in a prior: those that are ours by another name, and others by a table of their quantiles.

Consumes a distribution of single numbers with `icdf` or `cdf`; produces an `Entry` of a chart. Quantiles are computed
once, in double precision, between -7 and 7 standard deviations of the normal coordinate; beyond, where the prior has
1e-12 of its mass, the table goes on in a straight line.
"""

import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from tempering.errors import SettingsError, first_line
from tempering.priors.chart import Entry
from tempering.priors.distributions import DISTRIBUTIONS
from tempering.priors.maps import Map
from tempering.priors.quantiles import NODES, STEP
from tempering.priors.tables import Table, TabledAbove, TabledBelow, TabledBetween, TabledReal

__all__ = ["is_numpyro", "numpyro_entry", "numpyro_shape"]

_IS_TRUSTED = np.abs(NODES) <= 7.0
"""As far as 1 - Phi(z) has four digits in double precision."""
_REACH, _HALVINGS = 300.0, 64
"""exp of it is a number of double precision; so often halved it is as fine as one."""

_ALIKE = {
    "Uniform": ("low", "high"),
    "Normal": ("loc", "scale"),
    "LogNormal": ("loc", "scale"),
    "HalfNormal": ("scale",),
    "Exponential": ("rate",),
    "Gamma": ("concentration", "rate"),
    "Beta": ("concentration1", "concentration0"),
    "StudentT": ("loc", "scale", "df"),
}
"""NumPyro's names for the parameters of ours, in our order."""


def is_numpyro(given: Any) -> bool:
    """Whether it is a distribution by NumPyro's names; NumPyro itself need not be installed to ask."""
    return all(hasattr(given, name) for name in ("log_prob", "batch_shape", "event_shape", "support"))


def numpyro_shape(given: Any) -> tuple[int, ...]:
    """Of a draw."""
    return (*given.batch_shape, *given.event_shape)


def numpyro_entry(given: Any, shape: tuple[int, ...], where: str) -> Entry:
    """The entry of a distribution that stands for an array of `shape`.

    Raises:
        SettingsError: if it is discrete, joint or improper, or has neither `icdf` nor `cdf`.
    """
    base, name, size = _single(given, where), type(given).__name__, math.prod(shape)
    kind = type(base).__name__
    if kind in _ALIKE and type(base).__module__.startswith("numpyro."):
        ours = DISTRIBUTIONS[kind]
        numbers = [np.asarray(getattr(base, each), np.float32) for each in _ALIKE[kind]]
        names = ours.__dataclass_fields__
        flat = [np.broadcast_to(np.broadcast_to(each, base.batch_shape), shape).reshape(-1) for each in numbers]
        parameters = dict(zip(names, flat, strict=True))
        for each in np.unique(np.stack(flat), axis=1).T.tolist():  # what they may be is checked where ours are
            ours(*each)
        return Entry(ours, size, parameters)
    return Entry(None, size, {}, given=(_map_of(base, shape, name, where), f"NumPyro's {name}"))


def _single(given: Any, where: str) -> Any:
    """The distribution of single numbers under `to_event` and `expand`."""
    name, base = type(given).__name__, given
    while type(base).__name__ in ("Independent", "ExpandedDistribution"):
        base = base.base_dist
    if getattr(base.support, "is_discrete", False):
        raise SettingsError(f"{where} is NumPyro's {name}, which is discrete; the sampler works on real numbers")
    if type(base).__name__ in ("ImproperUniform", "MaskedDistribution"):
        raise SettingsError(f"{where} is NumPyro's {name}, which is improper: a prior must have a normaliser")
    if base.event_shape != ():
        raise SettingsError(
            f"{where} is NumPyro's {name}, whose numbers depend on each other; give distributions of single numbers, a "
            "prior_transform, or the whole model by tp.from_numpyro"
        )
    return base


def _map_of(base: Any, shape: tuple[int, ...], name: str, where: str) -> Map:
    """The map of a table of d(z), with x = low + exp(d), high - exp(-d), a logistic of d between both, or sinh(d)."""
    low, high = (_ends(base, each) for each in ("lower_bound", "upper_bound"))
    if np.unique(np.isfinite(low)).size > 1 or np.unique(np.isfinite(high)).size > 1:
        raise SettingsError(f"{where} is NumPyro's {name} with supports of several kinds; give them one by one")
    row = np.broadcast_to(np.arange(low.size).reshape(base.batch_shape), shape).reshape(-1)
    line = _Line(low[:, None], high[:, None])
    with jax.enable_x64(True), jax.numpy_dtype_promotion("standard"), jax.numpy_rank_promotion("allow"):
        values = _quantiles(base, line, name, where)
    centre = values[:, values.shape[1] // 2]
    if line.has_low and line.has_high:
        return TabledBetween(_table(values, row, name), low[row], high[row])
    if line.has_low:
        return TabledAbove(_table(values - centre[:, None], row, name), low[row], np.exp(centre)[row])
    if line.has_high:
        return TabledBelow(_table(values - centre[:, None], row, name), high[row], np.exp(-centre)[row])
    x, one = np.sinh(values), round(1.0 / STEP)
    location, scale = np.sinh(centre), 0.5 * (x[:, x.shape[1] // 2 + one] - x[:, x.shape[1] // 2 - one])
    table = _table(np.arcsinh((x - location[:, None]) / scale[:, None]), row, name)
    return TabledReal(table, *(jnp.asarray(each[row], jnp.float32) for each in (location, scale)))


def _ends(base: Any, name: str) -> np.ndarray:
    """Of every row; infinite where the support has none."""
    infinite = -np.inf if name == "lower_bound" else np.inf
    value = np.asarray(getattr(base.support, name, infinite), np.float64)
    return np.broadcast_to(value, base.batch_shape).reshape(-1)


class _Line:
    """x of d and back, in double precision, by the ends of the support."""

    def __init__(self, low: np.ndarray, high: np.ndarray):
        self.low, self.high = low, high
        self.has_low, self.has_high = bool(np.isfinite(low).all()), bool(np.isfinite(high).all())

    def x(self, d: np.ndarray) -> np.ndarray:
        """Increases with d."""
        if self.has_low and self.has_high:
            return self.low + (self.high - self.low) / (1.0 + np.exp(-d))
        if self.has_low:
            return self.low + np.exp(d)
        return self.high - np.exp(-d) if self.has_high else np.sinh(d)

    def d(self, x: np.ndarray) -> np.ndarray:
        """The inverse."""
        if self.has_low and self.has_high:
            return np.log(x - self.low) - np.log(self.high - x)
        if self.has_low:
            return np.log(x - self.low)
        return -np.log(self.high - x) if self.has_high else np.arcsinh(x)


def _quantiles(base: Any, line: _Line, name: str, where: str) -> np.ndarray:
    """d at the trusted nodes, of axes (row, node)."""
    from scipy.special import ndtr

    z = NODES[_IS_TRUSTED]
    probabilities = np.where(z < 0, ndtr(z), 1.0 - ndtr(-z))
    shape = (line.low.shape[0], len(z))

    def by_row(function: Any, x: np.ndarray) -> np.ndarray:
        points = jnp.asarray(np.broadcast_to(x, shape).T.reshape((len(z), *base.batch_shape)))
        return np.asarray(function(points), np.float64).reshape((len(z), -1)).T

    missing = (NotImplementedError, ImportError, AttributeError)
    with np.errstate(all="ignore"):
        try:
            return line.d(by_row(base.icdf, probabilities))
        except missing:
            pass
        try:
            return _inverted(lambda d: by_row(base.cdf, line.x(d)), probabilities, shape)
        except missing as error:
            reason = f" ({first_line(error)})" if str(error).strip() else ""
            raise SettingsError(
                f"{where} is NumPyro's {name}, which has neither `icdf` nor `cdf`, so that the coordinates in which it "
                f"is normal are not known{reason}; give another distribution, or the whole model by tp.from_numpyro"
            ) from None


def _inverted(cdf: Any, probabilities: np.ndarray, shape: tuple[int, int]) -> np.ndarray:
    """d by bisection."""
    low, high = np.full(shape, -_REACH), np.full(shape, _REACH)
    for _ in range(_HALVINGS):
        middle = 0.5 * (low + high)
        is_below = cdf(middle) < probabilities
        low, high = np.where(is_below, middle, low), np.where(is_below, high, middle)
    return 0.5 * (low + high)


def _table(values: np.ndarray, row: np.ndarray, name: str) -> Table:
    """The table of values at the trusted nodes; straight on beyond the last finite ones."""
    full = np.full((values.shape[0], len(NODES)), np.nan)
    full[:, _IS_TRUSTED] = values
    for each in full:
        known = np.flatnonzero(np.isfinite(each))
        if len(known) < 2:
            continue  # the table refuses it
        for end, inward, beyond in ((known[0], 1, slice(None, known[0])), (known[-1], -1, slice(known[-1] + 1, None))):
            slope = inward * (each[end + inward] - each[end]) / STEP
            each[beyond] = each[end] + slope * (NODES[beyond] - NODES[end])
    return Table(full, row, f"NumPyro's {name}")
