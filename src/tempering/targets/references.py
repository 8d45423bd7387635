"""Normalised distributions that a path may start from: a log density and independent draws, at no target evaluation."""

from typing import Any, Protocol, runtime_checkable

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from tempering.errors import SettingsError, first_line
from tempering.settings import require_positive
from tempering.types import Array, Float, Key

__all__ = ["Distribution", "Normal", "ReferenceLike", "StudentT", "as_reference", "check_reference"]


@runtime_checkable
class ReferenceLike(Protocol):
    """What a user's own reference must have. It should be positive wherever the target is."""

    def log_density(self, x: Float[Array, " dim"]) -> Float[Array, ""]:
        """Normalised log density of one point."""
        ...

    def sample(self, key: Key, num: int) -> Float[Array, "num dim"]:
        """Independent draws."""
        ...


class Distribution(eqx.Module):
    """An object with `log_prob(x)` and `sample(key)`, as NumPyro's distributions have, as a reference.

    Where `log_prob` gives several numbers for one point, the coordinates are independent and the numbers add up.
    """

    distribution: Any

    def log_density(self, x: Float[Array, " dim"]) -> Float[Array, ""]:
        """Normalised log density of one point."""
        return jnp.sum(self.distribution.log_prob(x))

    def sample(self, key: Key, num: int) -> Float[Array, "num dim"]:
        """Independent draws."""
        return jax.vmap(self.distribution.sample)(jax.random.split(key, num))


class Normal(eqx.Module):
    """Independent normals, a reference for coordinates whose place and width are roughly known.

    Args:
        mean: (dim,).
        std: (dim,), or one number for all.
    """

    mean: Float[Array, " dim"]
    std: Float[Array, " dim"]

    def __init__(self, mean: Any, std: Any = 1.0):
        self.mean, self.std = _location_and_scale("Normal", mean, std)

    def log_density(self, x: Float[Array, " dim"]) -> Float[Array, ""]:
        """Normalised log density of one point."""
        return jnp.sum(-0.5 * ((x - self.mean) / self.std) ** 2 - jnp.log(self.std) - 0.5 * jnp.log(2.0 * jnp.pi))

    def sample(self, key: Key, num: int) -> Float[Array, "num dim"]:
        """Independent draws."""
        return self.mean[None] + self.std[None] * jax.random.normal(key, (num, self.mean.shape[0]))


class StudentT(eqx.Module):
    """A multivariate Student distribution with a diagonal scale: tails as heavy as (1 + |z|^2 / nu)^(-(nu + dim) / 2).

    Args:
        mean: (dim,).
        scale: (dim,), or one number for all; the standard deviation is scale sqrt(nu / (nu - 2)).
        nu: degrees of freedom; small means heavy.
    """

    mean: Float[Array, " dim"]
    scale: Float[Array, " dim"]
    nu: float = eqx.field(static=True)

    def __init__(self, mean: Any, scale: Any = 1.0, nu: float = 5.0):
        self.mean, self.scale = _location_and_scale("StudentT", mean, scale)
        require_positive("StudentT's nu", nu)
        self.nu = float(nu)

    def log_density(self, x: Float[Array, " dim"]) -> Float[Array, ""]:
        """Normalised log density of one point."""
        dim, half = self.mean.shape[0], 0.5 * self.nu
        square = jnp.sum(((x - self.mean) / self.scale) ** 2)
        log_volume = jnp.sum(jnp.log(self.scale)) + 0.5 * dim * jnp.log(self.nu * jnp.pi)
        constant = jax.lax.lgamma(half + 0.5 * dim) - jax.lax.lgamma(half) - log_volume
        return constant - (half + 0.5 * dim) * jnp.log1p(square / self.nu)

    def sample(self, key: Key, num: int) -> Float[Array, "num dim"]:
        """Independent draws: normals over the root of a chi-square by its degrees of freedom."""
        key_normal, key_width = jax.random.split(key)
        normals = jax.random.normal(key_normal, (num, self.mean.shape[0]))
        width = jax.lax.rsqrt(2.0 * jax.random.gamma(key_width, 0.5 * self.nu, (num, 1)) / self.nu)
        return self.mean[None] + self.scale[None] * normals * width


def _location_and_scale(name: str, mean: Any, scale: Any) -> tuple[Array, Array]:
    try:
        location, width = np.asarray(mean, np.float32), np.asarray(scale, np.float32)
    except (TypeError, ValueError) as error:
        raise SettingsError(f"{name} takes numbers: a mean of shape (dim,) and a scale; given {mean!r}") from error
    if location.ndim != 1 or location.size == 0 or width.shape not in ((), location.shape):
        raise SettingsError(
            f"{name} has a mean of shape {location.shape} and a scale of shape {width.shape}; give (dim,) and (dim,), "
            "or one number for the scale"
        )
    if not np.all(np.isfinite(location)) or not np.all(np.isfinite(width)) or np.any(width <= 0):
        raise SettingsError(f"{name} needs a finite mean and a finite, positive scale")
    return jnp.asarray(location), jnp.broadcast_to(jnp.asarray(width), location.shape)


def as_reference(given: Any) -> Any:
    """What was given, or, if it is a distribution by its own names, that distribution by ours."""
    is_distribution = hasattr(given, "log_prob") and hasattr(given, "sample")
    return Distribution(given) if is_distribution and not isinstance(given, ReferenceLike) else given


def check_reference(given: Any, dim: int) -> None:
    """Refuse what cannot be a reference in `dim` dimensions, before anything is spent. Traces only.

    Raises:
        SettingsError: if it lacks `log_density` (or `log_prob`) or `sample`, if they give other shapes than () and
            (num, dim), or draws that are no real numbers.
    """
    reference = as_reference(given)
    if not isinstance(reference, ReferenceLike):
        raise SettingsError(
            f"reference is a {type(given).__name__}; it must have `log_density(x)`, normalised, and `sample(key, "
            "num)`, as tp.Normal and tp.StudentT have, or be a distribution of NumPyro"
        )
    try:
        value = eqx.filter_eval_shape(reference.log_density, jax.ShapeDtypeStruct((dim,), jnp.float32))
        draws = eqx.filter_eval_shape(lambda key: reference.sample(key, 3), jax.eval_shape(lambda: jax.random.key(0)))
    except Exception as error:
        raise SettingsError(
            f"reference raised {type(error).__name__} in {dim} dimensions: {first_line(error)}"
        ) from error
    shapes = [getattr(array, "shape", None) for array in (value, draws)]
    if shapes != [(), (3, dim)] or not jnp.issubdtype(draws.dtype, jnp.floating):
        raise SettingsError(
            f"reference gives log densities of shape {shapes[0]} and 3 draws of shape {shapes[1]}; in {dim} dimensions "
            f"they must be real numbers of shapes () and (3, {dim})"
        )
