"""What networks for particles share: distances of all pairs, features of and sums over them, a layer along an axis.

Coordinates come axis first, (xyz, particle): then every pair array has particles innermost, and no product has an
inner axis of two or three. Sums over coordinates are written out and not given to a matrix product, which a GPU would
round to TF32: three digits are enough for features, not for positions.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from tempering.diffusion.networks.linear import Linear
from tempering.types import Array, Float

__all__ = ["SOFTENING", "RadialFeatures", "along", "differences", "lengths", "off_diagonal", "pull"]

SOFTENING = 0.01
"""Added in squares to every distance, in units of the spread of the data: far below any distance that matters."""
_POWERS = np.asarray([2.0, 6.0, 12.0], np.float32)  # a soft wall, and the two terms of Lennard-Jones
_CAP = 4.0
_NEAREST, _FARTHEST = 0.3, 10.0


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


class RadialFeatures(eqx.Module):
    """What lets a network see a pair potential, of the physical distance d of a pair, in units of `unit`:

    - Gaussian bumps in ln d at `num_centres` places from ln 0.3 to ln 10, as wide as they are apart: the same relative
      resolution (12 % with 32 of them) at every length, so no range has to be known beforehand;
    - d^-2, d^-6 and d^-12, each bounded smoothly, 1 / (1 + 4 d^k): repulsion is where the denoiser is steepest and, at
      low noise, nearly all of it;
    - ln d, the distance in the scaled coordinates of the network (large noise goes beyond all bumps), and 1.

    A particle has no distance to itself: there all features are 0, the last one too.
    """

    num_centres: int = eqx.field(static=True)
    unit: float = eqx.field(static=True)

    @property
    def size(self) -> int:
        """The number of features."""
        return self.num_centres + len(_POWERS) + 3

    def __call__(
        self, length: Float[Array, "particle particle"], c_in: Float[Array, ""]
    ) -> Float[Array, "feature particle particle"]:
        """The features of all pairs.

        Args:
            length: distances in scaled coordinates, never 0 (`lengths`).
            c_in: the scale; distances are length / c_in.
        """
        centres = np.linspace(np.log(_NEAREST), np.log(_FARTHEST), self.num_centres, dtype=np.float32)
        spacing = np.log(_FARTHEST / _NEAREST) / (self.num_centres - 1)
        log_distance = jnp.log(length / (c_in * self.unit))
        bumps = jnp.exp(-0.5 * ((log_distance[None] - centres[:, None, None]) / spacing) ** 2)
        # 1 / (1 + cap d^k) by way of ln d: neither a power overflows nor a derivative becomes 0 times infinity.
        walls = jax.nn.sigmoid(-_POWERS[:, None, None] * log_distance[None] - np.log(_CAP).item())
        plain = jnp.stack([log_distance, length, jnp.ones_like(length)])
        return jnp.concatenate([bumps, walls, plain]) * off_diagonal(length.shape[0])[None]
