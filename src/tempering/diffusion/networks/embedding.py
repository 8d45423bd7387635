"""Features of the noise level and of the temperature."""

import equinox as eqx
import jax.numpy as jnp
import numpy as np

from tempering.types import Array, Float

__all__ = ["NUM_FREQUENCIES", "Embedding"]

NUM_FREQUENCIES = 16
"""Sines, and as many cosines, of the noise level."""


class Embedding(eqx.Module):
    """c_noise itself, its sines and cosines at fixed geometric frequencies, and c_temperature where it is wanted.

    c_noise = ln(sigma) / 4 spans about 2.5 from sigma_min to sigma_max, so periods from 10 to 0.6 tell levels apart
    without making the network jump between neighbours. The temperature comes in as one number: what is smooth in it
    can be extrapolated.
    """

    is_conditioned: bool = eqx.field(static=True)

    @property
    def size(self) -> int:
        """The number of features."""
        return 1 + 2 * NUM_FREQUENCIES + int(self.is_conditioned)

    def __call__(self, c_noise: Float[Array, ""], c_temperature: Float[Array, ""]) -> Float[Array, " feature"]:
        """The features of one noise level at one temperature."""
        frequencies = np.geomspace(0.6, 10.0, NUM_FREQUENCIES, dtype=np.float32)
        phase = frequencies * c_noise
        parts = [c_noise[None], jnp.sin(phase), jnp.cos(phase)]
        return jnp.concatenate([*parts, c_temperature[None]] if self.is_conditioned else parts)
