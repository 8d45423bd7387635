"""Energies of bonds, angles, torsions and single atoms, those of users' own expressions included.

Every function takes a term of the record and positions (3, atom, *batch), and gives the energy (*batch), kJ/mol.
"""

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np

from tempering.molecules.system.expressions import evaluate
from tempering.molecules.system.layout import angle_between, column, dihedral_parts, dot, norm, take
from tempering.molecules.system.record import Term
from tempering.types import Array, Float

__all__ = ["BONDED", "scope_of"]

Positions = Float[Array, "3 atom *batch"]
Energy = Float[Array, "*batch"]


def _lengths(term: Term, positions: Positions) -> Array:
    atoms = term.arrays["atoms"]
    offsets = [take(axis, atoms[:, 0]) - take(axis, atoms[:, 1]) for axis in positions]
    return norm(dot(offsets, offsets))


def _angles(term: Term, positions: Positions) -> Array:
    return angle_between(positions, term.arrays["atoms"])


def _dihedrals(term: Term, positions: Positions) -> Array:
    """From -pi to pi."""
    cosine, sine = dihedral_parts(positions, term.arrays["atoms"])
    return jnp.arctan2(sine, cosine)


def _harmonic(term: Term, values: Array, middle: np.ndarray) -> Energy:
    """Sum of (k/2) (v - v0)^2."""
    gaps = values - column(middle, values)
    return jnp.sum(0.5 * column(term.arrays["strength"], values) * gaps * gaps, axis=0)


def _periodic_torsion(term: Term, positions: Positions) -> Energy:
    """Sum of k (1 + cos(n phi - phase)).

    Terms on the same four atoms share their dihedral, and cos(n phi) comes from cos(phi) and sin(phi) by multiplying
    complex numbers: no angle and no cosine is ever computed.
    """
    atoms, which = np.unique(term.arrays["atoms"], axis=0, return_inverse=True)
    orders, phases = term.arrays["periodicity"], term.arrays["phase"]
    strengths = term.arrays["strength"]
    most = int(np.max(orders))
    cosines, sines = np.zeros((most + 1, len(atoms))), np.zeros((most + 1, len(atoms)))
    np.add.at(cosines, (orders, which.reshape(-1)), strengths * np.cos(phases))
    np.add.at(sines, (orders, which.reshape(-1)), strengths * np.sin(phases))
    cosine, sine = dihedral_parts(positions, atoms)
    real, imaginary = cosine, sine
    series = column(np.zeros(len(atoms)), cosine)
    for order in range(1, most + 1):
        if order > 1:
            real, imaginary = real * cosine - imaginary * sine, real * sine + imaginary * cosine
        series = series + column(cosines[order], real) * real + column(sines[order], real) * imaginary
    return jnp.sum(series, axis=0) + float(np.sum(strengths) + np.sum(cosines[0]))


def _ryckaert_bellemans(term: Term, positions: Positions) -> Energy:
    """Sum of c0 + c1 cos(psi) + ... + c5 cos(psi)^5 with psi = phi - pi: trans is psi = 0."""
    cosine, _ = dihedral_parts(positions, term.arrays["atoms"])
    coefficients = term.arrays["coefficients"]
    value = column(coefficients[:, 5], cosine)
    for order in range(4, -1, -1):
        value = value * -cosine + column(coefficients[:, order], cosine)
    return jnp.sum(value, axis=0)


def scope_of(term: Term, parameters: np.ndarray, like: Array, suffix: str = "") -> dict[str, Any]:
    """Per-term numbers by name, as columns, and the global ones."""
    named = {
        f"{name}{suffix}": column(parameters[:, place], like) for place, name in enumerate(term.settings["parameters"])
    }
    return {**dict(term.settings["globals"]), **named}


def _cmap_torsion(term: Term, positions: Positions) -> Energy:
    """Sum of periodic maps (CMAP) of two dihedrals each, interpolated from grids by bicubic splines.

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


def _custom(term: Term, **varying: Array) -> Energy:
    """An expression of what varies, by name."""
    some = next(iter(varying.values()))
    scope = scope_of(term, term.arrays["parameters"], some)
    return jnp.sum(evaluate(term.parse(term.settings["energy"]), varying, scope, term.tables), axis=0)


def _custom_external(term: Term, positions: Positions) -> Energy:
    x, y, z = (take(axis, term.arrays["atoms"]) for axis in positions)
    return _custom(term, x=x, y=y, z=z)


BONDED: dict[str, Callable[[Term, Positions], Energy]] = {
    "harmonic_bond": lambda term, at: _harmonic(term, _lengths(term, at), term.arrays["length"]),
    "harmonic_angle": lambda term, at: _harmonic(term, _angles(term, at), term.arrays["angle"]),
    "periodic_torsion": _periodic_torsion,
    "ryckaert_bellemans": _ryckaert_bellemans,
    "cmap_torsion": _cmap_torsion,
    "custom_bond": lambda term, at: _custom(term, r=_lengths(term, at)),
    "custom_angle": lambda term, at: _custom(term, theta=_angles(term, at)),
    "custom_torsion": lambda term, at: _custom(term, theta=_dihedrals(term, at)),
    "custom_external": _custom_external,
}
"""Terms of few atoms each."""
