"""Features of the noise level."""

import equinox as eqx
import jax.numpy as jnp
import numpy as np

from tempering.types import Array, Float

__all__ = ["NoiseEmbedding"]


class NoiseEmbedding(eqx.Module):
    """c_noise itself and its sines and cosines at fixed geometric frequencies.

    c_noise = ln(sigma) / 4 spans about 2.5 from sigma_min to sigma_max, so periods from 10 to 0.6 tell levels apart
    without making the network jump between neighbours.
    """

    num_frequencies: int = eqx.field(static=True)

    @property
    def size(self) -> int:
        """The number of features."""
        return 1 + 2 * self.num_frequencies

    def __call__(self, c_noise: Float[Array, ""]) -> Float[Array, " feature"]:
        """The features of one noise level."""
        frequencies = np.geomspace(0.6, 10.0, self.num_frequencies, dtype=np.float32)
        phase = frequencies * c_noise
        return jnp.concatenate([c_noise[None], jnp.sin(phase), jnp.cos(phase)])
