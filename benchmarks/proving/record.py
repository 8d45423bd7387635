"""What the proving ground knows of a density: how it is handed over, its truth, and what counts as right."""

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

import jax
import jax.numpy as jnp
import numpy as np

__all__ = ["Box", "Density", "Gaussian", "Goal", "Prior", "Tolerance", "halves"]

_ROOT_HALF = math.sqrt(0.5)


class Prior(Protocol):
    """A prior of independent coordinates as users of nested sampling have it: a map of the unit cube."""

    def from_cube(self, u: jax.Array) -> jax.Array:
        """A point of the unit cube becomes a draw of the prior."""
        ...

    def from_normal(self, z: jax.Array) -> jax.Array:
        """A point of standard normal coordinates becomes a draw of the prior."""
        ...

    def to_normal(self, x: jax.Array) -> jax.Array:
        """The way back."""
        ...


@dataclass(frozen=True)
class Box:
    """Uniform between `low` and `high`, one of each for every coordinate."""

    low: tuple[float, ...]
    high: tuple[float, ...]

    @classmethod
    def cube(cls, low: float, high: float, dim: int) -> "Box":
        """The same interval for all coordinates."""
        return cls((low,) * dim, (high,) * dim)

    def from_cube(self, u):
        low, high = jnp.asarray(self.low, u.dtype), jnp.asarray(self.high, u.dtype)
        return low + (high - low) * u

    def from_normal(self, z):
        # Through erf, which is exact round zero: a spike in the middle of an interval survives single precision.
        low, high = jnp.asarray(self.low, z.dtype), jnp.asarray(self.high, z.dtype)
        return 0.5 * (low + high) + 0.5 * (high - low) * jax.scipy.special.erf(_ROOT_HALF * z)

    def to_normal(self, x):
        low, high = jnp.asarray(self.low, x.dtype), jnp.asarray(self.high, x.dtype)
        return jax.scipy.special.erfinv((2.0 * x - low - high) / (high - low)) / _ROOT_HALF


@dataclass(frozen=True)
class Gaussian:
    """Independent normals."""

    mean: tuple[float, ...]
    std: tuple[float, ...]

    def from_cube(self, u):
        return self.from_normal(jax.scipy.special.ndtri(u))

    def from_normal(self, z):
        return jnp.asarray(self.mean, z.dtype) + jnp.asarray(self.std, z.dtype) * z

    def to_normal(self, x):
        return (x - jnp.asarray(self.mean, x.dtype)) / jnp.asarray(self.std, x.dtype)


@dataclass(frozen=True)
class Tolerance:
    """How far an answer may be off and still be right; None is not asked."""

    log_z: float | None = 0.05
    weights: float | None = 0.05
    """Total variation between the masses of the regions."""
    spread: float | None = 0.1
    """Relative error of the standard deviation of the first coordinate."""


@dataclass(frozen=True)
class Goal:
    """What the library wants to reach on a density, sharper than being right; None is not asked."""

    log_z: float | None = None
    largest_weight: float | None = None
    """The largest error of a region's mass."""


@dataclass(frozen=True)
class Density:
    """A density with its truth.

    Attributes:
        log_density: a JAX function of one point. A normalised or unnormalised log density on R^dim where `prior` is
            None; the log likelihood where there is a prior, and then `log_z` is the log evidence.
        hardness: one line: what makes it hard.
        truth: one line: where the truth comes from.
        log_z: the true log normaliser, with `log_z_error` where it was measured.
        shares: a function of one point: its share in each region, which add up to one. An indicator, or the
            responsibilities of a mixture's components, whose means are the weights exactly.
        masses: the true mean of every share.
        spread: the true standard deviation of the first coordinate.
        budget: evaluations to allow; None is what the method takes by itself.
        box: half the width of a cube about the origin that holds the mass, for rivals that need a bounded prior where
            the density has none.
        how: what else `tp.fit` is told, such as a `support`.
        handed: makes what `tp.fit` is given in place of `log_density`, such as a model of NumPyro, with all of `how`.
        handed_as: what that is, in a few words.
        flat: its draws as rows of the coordinates of `log_density`; None where they are such rows.
        limit: why a silent wrong answer is expected, where it is named beforehand.
    """

    name: str
    dim: int
    log_density: Callable[[Any], Any]
    hardness: str
    truth: str
    prior: Prior | None = None
    log_z: float | None = None
    log_z_error: float = 0.0
    shares: Callable[[Any], Any] | None = None
    masses: np.ndarray | None = None
    spread: float | None = None
    budget: int | None = None
    box: float | None = None
    tolerance: Tolerance = field(default_factory=Tolerance)
    goal: Goal = field(default_factory=Goal)
    limit: str | None = None
    how: dict[str, Any] = field(default_factory=dict)
    handed: Callable[[], Any] | None = None
    handed_as: str = "model of NumPyro"
    flat: Callable[[Any], np.ndarray] | None = None

    def __post_init__(self):
        if (self.shares is None) != (self.masses is None):
            raise ValueError(f"{self.name}: shares and masses come together")
        if self.masses is not None and abs(float(np.sum(self.masses)) - 1.0) > 1e-6:
            raise ValueError(f"{self.name}: the masses add up to {np.sum(self.masses)}, not to 1")

    @property
    def handed_over(self) -> str:
        """How it is handed over, in a word."""
        if self.handed is not None:
            return ", ".join((self.handed_as, *(f"`{name}=`" for name in self.how)))
        match self.prior:
            case None:
                return ", ".join(("density", *(f"`{name}=`" for name in self.how)))
            case Box():
                return "likelihood, uniform prior"
            case Gaussian():
                return "likelihood, normal prior"
        if hasattr(self.prior, "each"):
            return "likelihood, priors by name"
        return "likelihood, prior transform"

    def normal_log_density(self, z: jax.Array) -> jax.Array:
        """Log likelihood plus prior in coordinates in which the prior is standard normal; its log Z is the evidence."""
        if self.prior is None:
            raise ValueError(f"{self.name} has no prior")
        prior = -0.5 * jnp.sum(z**2) - 0.5 * self.dim * math.log(2.0 * math.pi)
        return self.log_density(self.prior.from_normal(z)) + prior


def halves(number: Any) -> jax.Array:
    """The two regions where a number is positive and where it is not."""
    is_positive = jnp.where(number > 0.0, 1.0, 0.0)
    return jnp.stack([is_positive, 1.0 - is_positive])
