"""Log-space helpers and safe primitives, each with its reason."""

from collections.abc import Iterator
from contextlib import contextmanager

import jax
import jax.numpy as jnp

from tempering.types import Array, Float

__all__ = ["compensated_add", "exact_products", "log_mean_exp", "where_finite"]


@contextmanager
def exact_products() -> Iterator[None]:
    """Products of matrices in full single precision, in what is traced inside; also a decorator.

    On recent GPUs JAX multiplies float32 matrices in TF32, with ten bits of mantissa. A network does not mind. A
    density does: with axes from 0.001 to 10 a quadratic form comes out wrong by more than it is worth. A precision
    that the user has set for JAX is left as it is.
    """
    if jax.config.values["jax_default_matmul_precision"] is not None:
        yield
        return
    with jax.default_matmul_precision("highest"):
        yield


def log_mean_exp(log_values: Float[Array, " n"]) -> Float[Array, ""]:
    """log of the mean of exp(log_values). All -inf gives -inf, not NaN: no weight at all is a legal answer."""
    return jax.nn.logsumexp(log_values) - jnp.log(jnp.asarray(log_values.shape[0], log_values.dtype))


def compensated_add(
    total: Float[Array, ""], compensation: Float[Array, ""], term: Float[Array, ""]
) -> tuple[Float[Array, ""], Float[Array, ""]]:
    """One step of Kahan summation: the running total and the low-order part it has lost so far.

    The log density of a sample is a sum of up to thousands of divergence terms whose total is of order
    dim * log(sigma_max / sigma_min), some hundreds. Plain float32 loses up to 1e-2 there; compensated float32 is as
    good as float64 accumulation rounded once, and needs no global switch to x64. XLA does not reassociate additions.
    """
    corrected = term - compensation
    new_total = total + corrected
    return new_total, (new_total - total) - corrected


def where_finite(value: Float[Array, "*shape"], fallback: float) -> Float[Array, "*shape"]:
    """Replace non-finite entries *for arithmetic only*; the caller counts them and never keeps the replaced value."""
    return jnp.where(jnp.isfinite(value), value, jnp.asarray(fallback, value.dtype))
