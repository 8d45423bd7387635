"""What networks for particles share: distances between all pairs, sums over them, a layer along the last axis.

Coordinates come axis first, (xyz, particle): then every pair array has particles innermost, and no product has an
inner axis of two or three. Sums over coordinates are written out and not given to a matrix product, which a GPU would
round to TF32: three digits are enough for features, not for positions.
"""

import jax.numpy as jnp
import numpy as np

from tempering.diffusion.networks.linear import Linear
from tempering.types import Array, Float

__all__ = ["SOFTENING", "along", "differences", "lengths", "off_diagonal", "pull"]

SOFTENING = 0.01
"""Added in squares to every distance, in units of the spread of the data: far below any distance that matters."""


def differences(x: Float[Array, "xyz particle"]) -> Float[Array, "xyz particle particle"]:
    """x_i - x_j, exactly antisymmetric."""
    return x[:, :, None] - x[:, None, :]


def lengths(difference: Float[Array, "xyz particle particle"]) -> Float[Array, "particle particle"]:
    """sqrt(|x_i - x_j|^2 + SOFTENING^2).

    The norm itself has no derivative where particles coincide, as every particle does with itself. This one is smooth
    everywhere, so that values, gradients and forward-mode determinants are finite there; it never is 0 either.
    """
    return jnp.sqrt(jnp.sum(difference**2, axis=0) + SOFTENING**2)


def off_diagonal(num_particles: int) -> Float[np.ndarray, "particle particle"]:
    """1 for a pair, 0 for a particle with itself."""
    return 1.0 - np.eye(num_particles, dtype=np.float32)


def pull(
    weights: Float[Array, "particle particle"], difference: Float[Array, "xyz particle particle"]
) -> Float[Array, "xyz particle"]:
    """sum_j w_ij (x_i - x_j): a vector for each particle that turns with the configuration."""
    return jnp.sum(weights[None] * difference, axis=2)


def along(
    layer: Linear, values: Float[Array, "*rows size_in"], is_half: bool = False
) -> Float[Array, "*rows size_out"]:
    """The layer along the last axis; with `is_half` the product is taken in bfloat16, the bias added in float32."""
    bias = layer.bias.reshape((1,) * (values.ndim - 1) + layer.bias.shape)
    if not is_half:
        return values @ layer.weight + bias
    product = values.astype(jnp.bfloat16) @ layer.weight.astype(jnp.bfloat16)
    return product.astype(values.dtype) + bias
