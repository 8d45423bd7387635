"""Normalised distributions that a path may start from: a log density and independent draws, at no target evaluation."""

from typing import Any, Protocol, runtime_checkable

import equinox as eqx
import jax
import jax.numpy as jnp

from tempering.errors import SettingsError, first_line, what_is
from tempering.priors import Normal, StudentT
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
            f"reference is {what_is(given)}; it must have `log_density(x)`, normalised, and `sample(key, "
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
