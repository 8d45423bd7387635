"""Features of the distances between particles, in physical units: what lets a network see a pair potential."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from tempering.diffusion.networks.pairs import off_diagonal
from tempering.types import Array, Float

__all__ = ["RadialFeatures"]

_POWERS = np.asarray([2.0, 6.0, 12.0], np.float32)  # a soft wall, and the two terms of Lennard-Jones
_CAP = 4.0
_NEAREST, _FARTHEST = 0.3, 10.0


class RadialFeatures(eqx.Module):
    """Of the physical distance d of a pair, in units of `unit`:

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
            length: distances in scaled coordinates, never 0 (`pairs.lengths`).
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
