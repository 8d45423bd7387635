"""What tells a molecule from its mirror image: signed volumes of four atoms each.

Distances are the same for both, so a network that knows nothing else makes both, in halves, and must find out from
distances which hands go together. Consumes states and coordinates; produces states, and moves along the gradients of
the volumes, which turn with the configuration. A reflection changes the sign of every volume: what is learned here does
not follow it, and is not meant to.
"""

import equinox as eqx
import jax.numpy as jnp
import numpy as np

from tempering.diffusion.networks.linear import Linear
from tempering.diffusion.networks.pairs import SOFTENING
from tempering.types import Array, Float, Key

__all__ = ["Handedness", "volumes"]

_POWERS = 4
"""1, s, s^2 and s^3 of a volume s in [-1, 1]: which side, and how far."""
_CHANNELS = 2
"""Moves of the geometry and of the output."""


def volumes(
    x: Float[Array, "xyz particle"], tetrahedra: np.ndarray
) -> tuple[Float[Array, " tetrahedron"], Float[Array, "xyz tetrahedron 4"]]:
    """s = e1 . (e2 x e3) / (|e1| |e2| |e3|) of the edges from the first corner, and the direction that raises it.

    The direction is the gradient of the volume e1 . (e2 x e3) in the four corners, over the lengths of the two longest
    edges: it moves and turns nothing as a whole. `tetrahedra` is (tetrahedron, 4), of particles.
    """
    corners = x[:, np.asarray(tetrahedra)]
    edges = corners[:, :, 1:] - corners[:, :, :1]
    # A softened length, as in `pairs.lengths`: corners may coincide.
    size = jnp.sqrt(jnp.sum(edges**2, axis=0) + SOFTENING**2)
    e1, e2, e3 = (edges[:, :, place] / size[None, :, place] for place in range(3))
    normals = jnp.stack([_cross(e2, e3), _cross(e3, e1), _cross(e1, e2)], axis=2)
    volume = jnp.sum(e1 * normals[:, :, 0], axis=0)
    # The normal opposite to an edge is longer the shorter that edge is.
    slopes = normals * (jnp.min(size, axis=1, keepdims=True) / size)[None]
    slopes = jnp.concatenate([-jnp.sum(slopes, axis=2, keepdims=True), slopes], axis=2)
    return volume, slopes


def _cross(a: Float[Array, "xyz n"], b: Float[Array, "xyz n"]) -> Float[Array, "xyz n"]:
    """Written out: a matrix product would round it to TF32."""
    return jnp.stack([a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]])


class Handedness(eqx.Module):
    """States of four corners see their volume; corners move along its gradient. Nothing before training.

    How far they move is a polynomial of the volume with coefficients from noise and temperature, and a linear function
    of the corners' states: one of each for every tetrahedron.
    """

    seen: Float[Array, "*model tetrahedron power width"]
    modulation: Linear
    read: Float[Array, "*model tetrahedron width channel"]

    def __init__(self, key: Key, num_tetrahedra: int, width: int):
        self.seen = jnp.zeros((num_tetrahedra, _POWERS, width))
        self.modulation = Linear(width, num_tetrahedra * _POWERS * _CHANNELS, key=key).zeroed()
        self.read = jnp.zeros((num_tetrahedra, width, _CHANNELS))

    def __call__(
        self,
        hidden: Float[Array, "particle width"],
        condition: Float[Array, " width"],
        x: Float[Array, "xyz particle"],
        tetrahedra: np.ndarray,
    ) -> tuple[Float[Array, "particle width"], Float[Array, "xyz particle"], Float[Array, "xyz particle"]]:
        """The new states, a move of the geometry and a share of the output."""
        volume, slopes = volumes(x, tetrahedra)
        powers = jnp.stack([volume**power for power in range(_POWERS)], axis=1)
        corners = np.zeros((hidden.shape[0], len(tetrahedra), 4), np.float32)
        np.put_along_axis(corners, np.asarray(tetrahedra)[None], 1.0, axis=0)
        incidence = np.sum(corners, axis=2)
        hidden = hidden + incidence @ jnp.einsum("tp,tpw->tw", powers, self.seen)
        size = jnp.sqrt(jnp.mean(hidden**2, axis=1, keepdims=True) + 1.0)
        states = 0.25 * incidence.T @ (hidden / size)
        coefficients = self.modulation(condition).reshape((len(tetrahedra), _POWERS, _CHANNELS))
        amount = jnp.einsum("tp,tpc->tc", powers, coefficients) + jnp.einsum("tw,twc->tc", states, self.read)
        along = slopes[:, None] * corners[None]
        moves = [jnp.sum(along * amount[None, None, :, None, channel], axis=(2, 3)) for channel in range(_CHANNELS)]
        return hidden, moves[0], moves[1]
