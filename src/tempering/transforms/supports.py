r"""Supports in a user's words, each a bijection from unbounded coordinates y to coordinates x within the support.

Consumes vectors; produces vectors. Each gives `embed`, its inverse `restrict`, and `log_volume(y)` = log |det dx/dy|,
so that a density p(x) on the support is p(embed(y)) exp(log_volume(y)) on R^k. All are frozen, hashable, and nothing
but a name and numbers, so that JSON can hold them.

In floating point a far y lands on the boundary: x = exp(-100) is 0 in float32. `embed` then gives the boundary itself
and `log_volume` stays exact, so that a density that is bounded there keeps its right value; one that is not gives
infinities, which are counted like any other fault of a density.
"""

import dataclasses
import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from numbers import Real as RealNumber
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np

from tempering.errors import RunFolderError, SettingsError, interval_fault
from tempering.types import Array, Bool, Float

__all__ = [
    "Support",
    "above",
    "below",
    "interval",
    "ordered",
    "positive",
    "real",
    "simplex",
    "support_from_dict",
]

_SUM_TOLERANCE = 1e-4
"""Within which the entries of a point of the simplex sum to one: float32 and a thousand entries are well within."""


@dataclass(frozen=True)
class Support(ABC):
    """Where a vector may lie. `is_joint`: its entries depend on each other; otherwise each stands alone."""

    name: ClassVar[str]
    is_joint: ClassVar[bool] = False

    def num_inner(self, size: int) -> int:
        """How many unbounded coordinates a vector of `size` entries has."""
        return size

    @abstractmethod
    def embed(self, y: Float[Array, " inner"]) -> Float[Array, " size"]:
        """x in the support."""

    @abstractmethod
    def restrict(self, x: Float[Array, " size"]) -> Float[Array, " inner"]:
        """The inverse of `embed`; not finite outside the support and on its boundary."""

    @abstractmethod
    def log_volume(self, y: Float[Array, " inner"]) -> Float[Array, ""]:
        """log |det dx/dy|."""

    @abstractmethod
    def contains(self, x: Float[Array, " size"]) -> Bool[Array, ""]:
        """Whether x is finite and inside; the boundary is outside."""

    def as_dict(self) -> dict[str, Any]:
        """Name and numbers, JSON-ready."""
        return {"name": self.name, **dataclasses.asdict(self)}

    def __str__(self) -> str:
        numbers = ", ".join(f"{number:g}" for number in dataclasses.asdict(self).values())
        return f"{self.name}({numbers})" if numbers else self.name


@dataclass(frozen=True)
class _Real(Support):
    name = "real"

    def embed(self, y: Float[Array, " inner"]) -> Float[Array, " inner"]:
        return y

    def restrict(self, x: Float[Array, " inner"]) -> Float[Array, " inner"]:
        return x

    def log_volume(self, y: Float[Array, " inner"]) -> Float[Array, ""]:
        return jnp.zeros((), y.dtype)

    def contains(self, x: Float[Array, " inner"]) -> Bool[Array, ""]:
        return jnp.all(jnp.isfinite(x))


@dataclass(frozen=True)
class _Above(Support):
    """x = low + e^y.

    exp and not softplus: what is positive is mostly a scale or a rate, whose spread is relative; e^y keeps its relative
    precision down to 1e-38 and turns a power-law tail of x, hard for chains and diffusion alike, into an exponential
    one of y, where softplus would leave it as it is.
    """

    low: float | int
    name = "above"

    def __post_init__(self) -> None:
        object.__setattr__(self, "low", _finite("low", self.low))

    def embed(self, y: Float[Array, " inner"]) -> Float[Array, " inner"]:
        return self.low + jnp.exp(y)

    def restrict(self, x: Float[Array, " inner"]) -> Float[Array, " inner"]:
        return jnp.log(x - self.low)

    def log_volume(self, y: Float[Array, " inner"]) -> Float[Array, ""]:
        return jnp.sum(y)

    def contains(self, x: Float[Array, " inner"]) -> Bool[Array, ""]:
        return jnp.all((x > self.low) & jnp.isfinite(x))

    def __str__(self) -> str:
        return "positive" if self.low == 0 else super().__str__()


@dataclass(frozen=True)
class _Below(Support):
    """x = high - e^y."""

    high: float | int
    name = "below"

    def __post_init__(self) -> None:
        object.__setattr__(self, "high", _finite("high", self.high))

    def embed(self, y: Float[Array, " inner"]) -> Float[Array, " inner"]:
        return self.high - jnp.exp(y)

    def restrict(self, x: Float[Array, " inner"]) -> Float[Array, " inner"]:
        return jnp.log(self.high - x)

    def log_volume(self, y: Float[Array, " inner"]) -> Float[Array, ""]:
        return jnp.sum(y)

    def contains(self, x: Float[Array, " inner"]) -> Bool[Array, ""]:
        return jnp.all((x < self.high) & jnp.isfinite(x))


@dataclass(frozen=True)
class _Interval(Support):
    """x = low + (high - low) / (1 + e^-y)."""

    low: float | int
    high: float | int
    name = "interval"

    def __post_init__(self) -> None:
        low, high = _finite("low", self.low), _finite("high", self.high)
        middle = np.float32(low + 0.5 * (high - low))
        is_narrow = high - low < float(np.finfo(np.float32).max)
        if not (is_narrow and np.float32(low) < middle < np.float32(high)):
            raise SettingsError(f"interval({low!r}, {high!r}) is not allowed: {interval_fault(low < high)}")
        object.__setattr__(self, "low", low)
        object.__setattr__(self, "high", high)

    def embed(self, y: Float[Array, " inner"]) -> Float[Array, " inner"]:
        # From the nearer end: with high = 0 the distance to it keeps its relative precision, as it does with low = 0.
        width = self.high - self.low
        part = width * jax.nn.sigmoid(-jnp.abs(y))
        return jnp.where(y < 0, self.low + part, self.high - part)

    def restrict(self, x: Float[Array, " inner"]) -> Float[Array, " inner"]:
        return jnp.log(x - self.low) - jnp.log(self.high - x)

    def log_volume(self, y: Float[Array, " inner"]) -> Float[Array, ""]:
        # s(1 - s) as the product of two sigmoids: 1 - s itself is 0 from y = 17 on.
        return jnp.sum(math.log(self.high - self.low) + jax.nn.log_sigmoid(y) + jax.nn.log_sigmoid(-y))

    def contains(self, x: Float[Array, " inner"]) -> Bool[Array, ""]:
        return jnp.all((x > self.low) & (x < self.high))


@dataclass(frozen=True)
class _Simplex(Support):
    r"""Positive entries that sum to one, by breaking a stick.

    x_k = z_k prod_{j<k} (1 - z_j), z_k = 1 / (1 + exp(log(K - k) - y_k)) for k < K, and x_K is what is left. The
    offset log(K - k) makes y = 0 the uniform point. The volume is that of the first K - 1 entries: a density on the
    simplex is one of x_1 .. x_{K-1}, as the Dirichlet's is.
    """

    name = "simplex"
    is_joint = True

    def num_inner(self, size: int) -> int:
        """One less: the last entry follows from the others."""
        return size - 1

    def _log_parts(self, y: Float[Array, " inner"]) -> tuple[Array, Array, Array]:
        """log z, log (1 - z), and the log of the stick left after each break."""
        logit = y - _offsets(y.shape[0], y.dtype)
        log_z, log_rest = jax.nn.log_sigmoid(logit), jax.nn.log_sigmoid(-logit)
        return log_z, log_rest, jnp.cumsum(log_rest)

    def embed(self, y: Float[Array, " inner"]) -> Float[Array, " size"]:
        log_z, _, log_left = self._log_parts(y)
        zero = jnp.zeros((1,), y.dtype)
        return jnp.exp(jnp.concatenate([zero, log_left]) + jnp.concatenate([log_z, zero]))

    def restrict(self, x: Float[Array, " size"]) -> Float[Array, " inner"]:
        left = jnp.cumsum(x[::-1])[::-1]  # sums from the end: a small remainder is not 1 minus nearly 1
        return jnp.log(x[:-1]) - jnp.log(left[1:]) + _offsets(x.shape[0] - 1, x.dtype)

    def log_volume(self, y: Float[Array, " inner"]) -> Float[Array, ""]:
        log_z, log_rest, log_left = self._log_parts(y)
        return jnp.sum(log_z + log_rest) + jnp.sum(log_left[:-1])

    def contains(self, x: Float[Array, " size"]) -> Bool[Array, ""]:
        return jnp.all(x > 0) & (jnp.abs(jnp.sum(x) - 1.0) < _SUM_TOLERANCE)


@dataclass(frozen=True)
class _Ordered(Support):
    """Strictly increasing entries: x_1 = y_1 and x_k = x_{k-1} + exp(y_k)."""

    name = "ordered"
    is_joint = True

    def embed(self, y: Float[Array, " inner"]) -> Float[Array, " inner"]:
        return jnp.cumsum(jnp.concatenate([y[:1], jnp.exp(y[1:])]))

    def restrict(self, x: Float[Array, " inner"]) -> Float[Array, " inner"]:
        return jnp.concatenate([x[:1], jnp.log(jnp.diff(x))])

    def log_volume(self, y: Float[Array, " inner"]) -> Float[Array, ""]:
        return jnp.sum(y[1:])

    def contains(self, x: Float[Array, " inner"]) -> Bool[Array, ""]:
        return jnp.all(jnp.isfinite(x)) & jnp.all(jnp.diff(x) > 0)


def _offsets(num: int, dtype: Any) -> Array:
    return jnp.log(jnp.arange(num, 0, -1, dtype=dtype))


def _finite(what: str, value: Any) -> float:
    is_number = isinstance(value, RealNumber) and not isinstance(value, bool)
    if not is_number or not abs(float(value)) < float(np.finfo(np.float32).max):  # nor NaN
        raise SettingsError(f"{what} = {value!r} is not allowed: a support takes finite numbers")
    return float(value)


real: Support = _Real()
"""Any real number."""
positive: Support = _Above(0.0)
"""Greater than zero."""
simplex: Support = _Simplex()
"""Positive and summing to one along the last axis; a density of the first K - 1 entries."""
ordered: Support = _Ordered()
"""Strictly increasing along the last axis."""


def above(low: float | int) -> Support:
    """The support of numbers greater than `low`.

    Examples:
        >>> import tempering as tp
        >>> support = {"temperature": tp.above(273.15)}
    """
    return _Above(low)


def below(high: float | int) -> Support:
    """The support of numbers less than `high`."""
    return _Below(high)


def interval(low: float | int, high: float | int) -> Support:
    """The support of numbers between `low` and `high`. Both must be finite.

    Examples:
        >>> import tempering as tp
        >>> support = [tp.positive, tp.interval(0.0, 1.0)]
        >>> tp.interval(1.0, 0.0)
        Traceback (most recent call last):
        ...
        tempering.errors.SettingsError: ...
    """
    return _Interval(low, high)


_SUPPORTS = {kind.name: kind for kind in (_Real, _Above, _Below, _Interval, _Simplex, _Ordered)}


def support_from_dict(content: dict[str, Any]) -> Support:
    """The support that `as_dict` described."""
    try:
        numbers = {key: value for key, value in content.items() if key != "name"}
        return _SUPPORTS[content["name"]](**numbers)
    except (AttributeError, KeyError, TypeError, SettingsError) as error:
        raise RunFolderError(f"no support is described by {content!r}; it is of another version") from error
