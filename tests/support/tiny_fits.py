"""Tiny fits through the front door, and a density whose faults can be chosen."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

import tempering as tp
from support.tiny import tiny_pt_dm, tiny_ptsd

__all__ = ["density", "fit"]

INF = np.inf


class Density(eqx.Module):
    """A Gaussian about (1, -0.5) whose faults are arrays, so that all of them share one compilation.

    Args:
        wall: beyond this first coordinate the density is `beyond`.
        slope: 0 hides the gradient.
    """

    wall: jax.Array
    beyond: jax.Array
    slope: jax.Array

    def __call__(self, x):
        """Log density of one point."""
        value = -0.5 * ((x[0] - 1.0) ** 2 / 4.0 + (x[1] + 0.5) ** 2)
        value = self.slope * value + (1.0 - self.slope) * jax.lax.stop_gradient(value)
        return jnp.where(x[0] > self.wall, self.beyond, value)


def density(wall: float = INF, beyond: float = -INF, slope: float = 1.0) -> Density:
    """The density with these faults; by default it has none."""
    return Density(*(jnp.asarray(number, jnp.float32) for number in (wall, beyond, slope)))


def fit(log_density=None, **options):
    """A tiny fit, silent; whatever is named in `options` is as given."""
    tiny = tiny_pt_dm() if options.get("method") == "pt_dm" else tiny_ptsd()
    options = {"dim": 2, "settings": tiny, "progress": False, **options}
    return tp.fit(density() if log_density is None else log_density, **options)
