"""Torsion-torsion maps (CMAP): a periodic energy of two dihedrals, interpolated from a grid by bicubic splines."""

import jax.numpy as jnp
import numpy as np

from tempering.molecules.system.layout import dihedral_parts
from tempering.molecules.system.record import Term
from tempering.types import Array, Float

__all__ = ["cmap_torsion"]


def cmap_torsion(term: Term, positions: Float[Array, "3 atom *batch"]) -> Float[Array, "*batch"]:
    """Sum of the maps' values at two dihedrals each.

    `atoms` is (torsion, 8), `maps` says which map each torsion takes, and map k is `map_k`, (size, size), whose entry
    [i, j] is the energy at 2 pi i / size and 2 pi j / size.
    """
    total = jnp.zeros(positions.shape[2:], positions.dtype)
    for which in np.unique(term.arrays["maps"]):
        atoms = term.arrays["atoms"][term.arrays["maps"] == which]
        patches = _patches(term.arrays[f"map_{which}"])
        size = term.arrays[f"map_{which}"].shape[0]
        (place_a, a), (place_b, b) = (_located(positions, atoms[:, four], size) for four in (slice(4), slice(4, 8)))
        table = jnp.asarray(patches, positions.dtype)[:, :, place_a, place_b]
        value = jnp.zeros_like(a)
        for row in range(3, -1, -1):
            inner = ((table[row, 3] * b + table[row, 2]) * b + table[row, 1]) * b + table[row, 0]
            value = value * a + inner
        total = total + jnp.sum(value, axis=0)
    return total


def _located(positions: Array, atoms: np.ndarray, size: int) -> tuple[Array, Array]:
    """The patch of a dihedral, and where in it, from 0 to 1."""
    cosine, sine = dihedral_parts(positions, atoms)
    scaled = jnp.arctan2(sine, cosine) * (size / (2 * np.pi))
    scaled = jnp.where(scaled < 0, scaled + size, scaled)
    place = jnp.clip(jnp.floor(scaled), 0, size - 1)
    return place.astype(int), scaled - place


def _patches(grid: np.ndarray) -> np.ndarray:
    """Coefficients (power of a, power of b, patch, patch) of the bicubic patches, a and b from 0 to 1 across one."""
    slope_a, slope_b = _slopes(grid, 0), _slopes(grid, 1)
    corner = np.stack([grid, slope_a, slope_b, _slopes(slope_a, 1)])
    f, fa, fb, fab = (
        np.array([[np.roll(values, (-i, -j), (0, 1)) for j in (0, 1)] for i in (0, 1)]) for values in corner
    )
    # Values and slopes at the ends of [0, 1] to the coefficients of the cubic through them.
    hermite = np.array([[1, 0, 0, 0], [0, 0, 1, 0], [-3, 3, -2, -1], [2, -2, 1, 1]], np.float64)
    # Rows: values at a = 0 and 1, slopes at a = 0 and 1; columns the same along b.
    ends = np.concatenate([np.concatenate([f, fb], axis=1), np.concatenate([fa, fab], axis=1)], axis=0)
    return np.einsum("ki,ijpq,lj->klpq", hermite, ends, hermite)


def _slopes(grid: np.ndarray, axis: int) -> np.ndarray:
    """Slopes, per patch, of the periodic cubic splines through the grid along one axis."""
    from scipy.interpolate import CubicSpline

    closed = np.concatenate([grid, np.take(grid, [0], axis)], axis)
    spline = CubicSpline(np.arange(closed.shape[axis]), closed, axis=axis, bc_type="periodic")
    return np.take(spline(np.arange(closed.shape[axis]), 1), range(grid.shape[axis]), axis)
