"""The distributions that a prior is written with: names and numbers, checked where they enter.

Each is of one number, or, with arrays for parameters, of an array of them. They are independent, but for those of a
`StudentT` with an array for its mean, which is the multivariate Student. `map_of` leads from normal coordinates to
those of many numbers of one kind. `Normal` and `StudentT` are references too (`targets.references`).
"""

from abc import abstractmethod
from dataclasses import fields
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from tempering.errors import SettingsError, interval_fault
from tempering.priors import quantiles
from tempering.priors.maps import Affine, Between, ExpAffine, Map
from tempering.priors.tables import Table, TabledAbove, TabledBetween, TabledReal
from tempering.types import Array, Float, Key

__all__ = [
    "DISTRIBUTIONS",
    "Beta",
    "Distribution",
    "Exponential",
    "Gamma",
    "HalfNormal",
    "LogNormal",
    "Normal",
    "StudentT",
    "Uniform",
]

Numbers = dict[str, np.ndarray]
"""Parameters by name, all of one shape."""

_LEAST_NU = 0.05
"""Below, half of a Student's mass is beyond single precision."""
_ADVICE = {
    "Uniform": "a prior must be proper; for a scale of unknown size take tp.LogNormal, tp.HalfNormal or tp.Exponential",
}


class Distribution(eqx.Module):
    """A normalised distribution of one number or of an array of them."""

    @property
    def parameters(self) -> Numbers:
        """By name, each of the distribution's shape."""
        numbers = [np.asarray(getattr(self, field.name), np.float32) for field in fields(self)]
        return dict(zip((field.name for field in fields(self)), np.broadcast_arrays(*numbers), strict=True))

    @property
    def shape(self) -> tuple[int, ...]:
        """Of a draw: () for one number."""
        return next(iter(self.parameters.values())).shape

    @property
    def is_joint(self) -> bool:
        """Whether the numbers of an array depend on each other."""
        return False

    @classmethod
    @abstractmethod
    def map_of(cls, numbers: Numbers) -> Map:
        """From normal coordinates to independent numbers with these parameters, arrays of one axis."""

    def __str__(self) -> str:
        numbers = self.parameters
        shown = [f"{value:g}" if value.ndim == 0 else f"{value.size} numbers" for value in numbers.values()]
        return f"{type(self).__name__}({', '.join(shown)})"


class Uniform(Distribution):
    """The uniform distribution between `low` and `high`. Both must be finite.

    Examples:
        >>> import tempering as tp
        >>> prior = {"angle": tp.Uniform(0.0, 3.14), "mass": tp.LogNormal(0.0, 1.0)}
        >>> tp.Uniform(2.0, 1.0)
        Traceback (most recent call last):
        ...
        tempering.errors.SettingsError: ...
    """

    low: Float[Array, "*shape"]
    high: Float[Array, "*shape"]

    def __init__(self, low: Any, high: Any):
        self.low, self.high = _checked("Uniform", low=low, high=high)
        ends = np.asarray(self.low, np.float64), np.asarray(self.high, np.float64)
        middle = (0.5 * (ends[0] + ends[1])).astype(np.float32)
        is_narrow = ends[1] - ends[0] < float(np.finfo(np.float32).max)
        if not np.all(is_narrow & (ends[0] < middle) & (middle < ends[1])):
            fault = interval_fault(bool(np.all(np.asarray(low, np.float64) < np.asarray(high, np.float64))))
            raise SettingsError(f"Uniform({_shown(low)}, {_shown(high)}) is not allowed: {fault}")

    @classmethod
    def map_of(cls, numbers: Numbers) -> Map:
        return Between(numbers["low"], numbers["high"])


class Normal(Distribution):
    """The normal distribution. If the mean is an array, its numbers are independent.

    With a mean of shape (dim,) it can be a `reference=` as well.

    Args:
        mean: a number or an array.
        std: the standard deviation: an array of the same shape, or one number for all.

    Examples:
        >>> import jax.numpy as jnp, tempering as tp
        >>> round(float(tp.Normal(jnp.zeros(2), 1.0).log_density(jnp.zeros(2))), 4)
        -1.8379
    """

    mean: Float[Array, "*shape"]
    std: Float[Array, "*shape"]

    def __init__(self, mean: Any, std: Any = 1.0):
        self.mean, self.std = _checked("Normal", positive=("std",), mean=mean, std=std)

    def log_density(self, x: Float[Array, " dim"]) -> Float[Array, ""]:
        """Normalised log density of one point."""
        return jnp.sum(-0.5 * ((x - self.mean) / self.std) ** 2 - jnp.log(self.std) - 0.5 * jnp.log(2.0 * jnp.pi))

    def sample(self, key: Key, num: int) -> Float[Array, "num *shape"]:
        """Independent draws."""
        return self.mean[None] + self.std[None] * jax.random.normal(key, (num, *self.mean.shape))

    @classmethod
    def map_of(cls, numbers: Numbers) -> Map:
        return Affine(*map(jnp.asarray, (numbers["mean"], numbers["std"])))


class LogNormal(Distribution):
    """The distribution of exp(z), where z is normal. `mean` and `std` are those of z, the logarithm.

    Examples:
        >>> import tempering as tp
        >>> tp.LogNormal(0.0, 0.5).shape
        ()
    """

    mean: Float[Array, "*shape"]
    std: Float[Array, "*shape"]

    def __init__(self, mean: Any, std: Any = 1.0):
        self.mean, self.std = _checked("LogNormal", positive=("std",), mean=mean, std=std)

    @classmethod
    def map_of(cls, numbers: Numbers) -> Map:
        return ExpAffine(*map(jnp.asarray, (numbers["mean"], numbers["std"])))


class HalfNormal(Distribution):
    """The distribution of |z|, where z is normal with mean 0 and standard deviation `std`."""

    std: Float[Array, "*shape"]

    def __init__(self, std: Any = 1.0):
        (self.std,) = _checked("HalfNormal", positive=("std",), std=std)

    @classmethod
    def map_of(cls, numbers: Numbers) -> Map:
        return _above(quantiles.log_half_normal()[None], np.zeros(numbers["std"].shape, int), numbers["std"], cls)


class Exponential(Distribution):
    """The exponential distribution. Its density is rate exp(-rate x) for x > 0, and its mean is 1 / rate."""

    rate: Float[Array, "*shape"]

    def __init__(self, rate: Any = 1.0):
        (self.rate,) = _checked("Exponential", positive=("rate",), rate=rate)

    @classmethod
    def map_of(cls, numbers: Numbers) -> Map:
        row = np.zeros(numbers["rate"].shape, int)
        return _above(quantiles.log_exponential()[None], row, 1.0 / numbers["rate"], cls)


class Gamma(Distribution):
    """The gamma distribution. Its density is proportional to x^(concentration - 1) exp(-rate x) for x > 0.

    Its mean is concentration / rate.
    """

    concentration: Float[Array, "*shape"]
    rate: Float[Array, "*shape"]

    def __init__(self, concentration: Any, rate: Any = 1.0):
        both = ("concentration", "rate")
        self.concentration, self.rate = _checked("Gamma", positive=both, concentration=concentration, rate=rate)

    @classmethod
    def map_of(cls, numbers: Numbers) -> Map:
        shapes, row = _kinds(numbers["concentration"])
        values = np.stack([quantiles.log_gamma(*shape) for shape in shapes])
        return _above(values, row, 1.0 / numbers["rate"], cls)


class Beta(Distribution):
    """The beta distribution. Its density is proportional to x^(a - 1) (1 - x)^(b - 1) between 0 and 1."""

    a: Float[Array, "*shape"]
    b: Float[Array, "*shape"]

    def __init__(self, a: Any, b: Any):
        self.a, self.b = _checked("Beta", positive=("a", "b"), a=a, b=b)

    @classmethod
    def map_of(cls, numbers: Numbers) -> Map:
        shapes, row = _kinds(numbers["a"], numbers["b"])
        values = np.stack([quantiles.logit_beta(*shape) for shape in shapes])
        ends = np.zeros(row.shape), np.ones(row.shape)
        return TabledBetween(Table(values, row, cls.__name__), *ends)


class StudentT(Distribution):
    """Student's distribution. Its tails fall as |x|^-(nu + 1); its standard deviation is scale sqrt(nu / (nu - 2)).

    With a mean of shape (dim,) it is the multivariate distribution with a diagonal scale, (1 + |z|^2 / nu)^(-(nu + dim)
    / 2), as a prior and as a reference. Its coordinates are not independent.

    Args:
        mean: a number, or an array (dim,).
        scale: an array of the same shape, or one number for all.
        nu: the degrees of freedom. A small number means heavy tails.
    """

    mean: Float[Array, "*shape"]
    scale: Float[Array, "*shape"]
    nu: float = eqx.field(static=True)

    def __init__(self, mean: Any, scale: Any = 1.0, nu: float = 5.0):
        self.mean, self.scale = _checked("StudentT", positive=("scale",), mean=mean, scale=scale)
        try:
            self.nu = float(nu)
        except (TypeError, ValueError):
            self.nu = float("nan")
        if not (np.isfinite(self.nu) and self.nu >= _LEAST_NU):
            raise SettingsError(
                f"StudentT's nu = {_shown(nu)} is not allowed: it must be one number of at least {_LEAST_NU}"
            )

    @property
    def is_joint(self) -> bool:
        """With an array for the mean."""
        return self.shape != ()

    def log_density(self, x: Float[Array, " dim"]) -> Float[Array, ""]:
        """Normalised log density of one point."""
        dim, half = self.mean.size, 0.5 * self.nu
        square = jnp.sum(((x - self.mean) / self.scale) ** 2)
        log_volume = jnp.sum(jnp.log(self.scale)) + 0.5 * dim * jnp.log(self.nu * jnp.pi)
        constant = jax.lax.lgamma(half + 0.5 * dim) - jax.lax.lgamma(half) - log_volume
        return constant - (half + 0.5 * dim) * jnp.log1p(square / self.nu)

    def sample(self, key: Key, num: int) -> Float[Array, "num *shape"]:
        """Independent draws: normals over the root of a chi-square by its degrees of freedom."""
        key_normal, key_width = jax.random.split(key)
        normals = jax.random.normal(key_normal, (num, *self.mean.shape))
        each = (num, *(1 for _ in self.mean.shape))
        width = jax.lax.rsqrt(2.0 * jax.random.gamma(key_width, 0.5 * self.nu, each) / self.nu)
        return self.mean[None] + self.scale[None] * normals * width

    @classmethod
    def map_of(cls, numbers: Numbers) -> Map:
        shapes, row = _kinds(numbers["nu"])
        values = np.stack([quantiles.asinh_student(*shape) for shape in shapes])
        own = map(jnp.asarray, (numbers["mean"], numbers["scale"]))
        return TabledReal(Table(values, row, cls.__name__), *own)


DISTRIBUTIONS: dict[str, type[Distribution]] = {
    each.__name__: each for each in (Uniform, Normal, LogNormal, HalfNormal, Exponential, Gamma, Beta, StudentT)
}
"""By the name that a folder holds."""


def _checked(name: str, *, positive: tuple[str, ...] = (), **given: Any) -> tuple[Array, ...]:
    """Parameters as arrays of one shape, finite and positive where they must be."""
    numbers: Numbers = {}
    for what, value in given.items():
        try:
            array = np.asarray(value)
            if array.dtype.kind not in "fiu" and array.dtype.name != "bfloat16":
                raise TypeError("no real numbers")
            with np.errstate(over="ignore", under="ignore"):
                numbers[what] = array.astype(np.float32)
        except (TypeError, ValueError) as error:
            raise SettingsError(f"{name} takes real numbers or arrays of them; {what} = {_shown(value)}") from error
    for what, array in numbers.items():
        is_good = np.isfinite(array) & ((array > 0) if what in positive else True)
        if array.size == 0 or not np.all(is_good):
            allowed = "finite and positive" if what in positive else "finite"
            advice = f": {_ADVICE[name]}" if name in _ADVICE else ""
            raise SettingsError(f"{name}'s {what} = {_shown(given[what])} is not allowed: it must be {allowed}{advice}")
    try:
        arrays = np.broadcast_arrays(*numbers.values())
    except ValueError as error:
        shapes = ", ".join(f"{what} of shape {array.shape}" for what, array in numbers.items())
        raise SettingsError(f"{name} has {shapes}; give arrays of one shape, or single numbers") from error
    return tuple(map(jnp.asarray, arrays))


def _shown(value: Any) -> str:
    text = " ".join(repr(value).split())
    return text if len(text) <= 60 else f"{text[:60]}…"


def _kinds(*shapes: np.ndarray) -> tuple[list[list[float]], np.ndarray]:
    """The different sets of shape parameters, and which of them each coordinate has."""
    kinds, row = np.unique(np.stack(shapes, axis=1).astype(np.float64), axis=0, return_inverse=True)
    return kinds.tolist(), row.reshape(-1)


def _above(log_values: np.ndarray, row: np.ndarray, scale: np.ndarray, kind: type[Distribution]) -> TabledAbove:
    """x = scale exp(log_values), centred at the median where single precision holds that."""
    centre = np.maximum(log_values[:, log_values.shape[1] // 2], -60.0)
    table = Table(log_values - centre[:, None], row, kind.__name__)
    return TabledAbove(table, np.zeros(row.shape), np.exp(centre)[row] * scale)
