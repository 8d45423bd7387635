"""Energies of bonds, angles and torsions, those of users' own expressions included.

Every function takes a term of the record and positions (3, atom, *batch), and gives the energy (*batch), kJ/mol.
"""

from typing import Any

import jax.numpy as jnp
import numpy as np

from tempering.molecules.system.expressions import evaluate, parse
from tempering.molecules.system.layout import angle_between, column, dihedral_parts, dot, norm, take
from tempering.molecules.system.record import Term
from tempering.types import Array, Float

__all__ = [
    "custom_angle",
    "custom_bond",
    "custom_external",
    "custom_torsion",
    "harmonic_angle",
    "harmonic_bond",
    "periodic_torsion",
    "ryckaert_bellemans",
    "scope_of",
]

Positions = Float[Array, "3 atom *batch"]
Energy = Float[Array, "*batch"]


def _lengths(positions: Array, atoms: np.ndarray) -> Array:
    offsets = [take(axis, atoms[:, 0]) - take(axis, atoms[:, 1]) for axis in positions]
    return norm(dot(offsets, offsets))


def harmonic_bond(term: Term, positions: Positions) -> Energy:
    """Sum of (k/2) (r - r0)^2."""
    lengths = _lengths(positions, term.arrays["atoms"])
    stretch = lengths - column(term.arrays["length"], lengths)
    return jnp.sum(0.5 * column(term.arrays["strength"], lengths) * stretch * stretch, axis=0)


def harmonic_angle(term: Term, positions: Positions) -> Energy:
    """Sum of (k/2) (theta - theta0)^2."""
    angles = angle_between(positions, term.arrays["atoms"])
    bend = angles - column(term.arrays["angle"], angles)
    return jnp.sum(0.5 * column(term.arrays["strength"], angles) * bend * bend, axis=0)


def periodic_torsion(term: Term, positions: Positions) -> Energy:
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


def ryckaert_bellemans(term: Term, positions: Positions) -> Energy:
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


def _custom(term: Term, **varying: Array) -> Array:
    some = next(iter(varying.values()))
    expression = parse(term.settings["energy"], {name: table.arity for name, table in term.tables.items()})
    scope = scope_of(term, term.arrays["parameters"], some)
    return jnp.sum(evaluate(expression, varying, scope, term.tables), axis=0)


def custom_bond(term: Term, positions: Positions) -> Energy:
    """An expression of the length r."""
    return _custom(term, r=_lengths(positions, term.arrays["atoms"]))


def custom_angle(term: Term, positions: Positions) -> Energy:
    """An expression of the angle theta."""
    return _custom(term, theta=angle_between(positions, term.arrays["atoms"]))


def custom_torsion(term: Term, positions: Positions) -> Energy:
    """An expression of the dihedral theta, from -pi to pi."""
    cosine, sine = dihedral_parts(positions, term.arrays["atoms"])
    return _custom(term, theta=jnp.arctan2(sine, cosine))


def custom_external(term: Term, positions: Positions) -> Energy:
    """An expression of the coordinates x, y, z of single atoms."""
    x, y, z = (take(axis, term.arrays["atoms"]) for axis in positions)
    return _custom(term, x=x, y=y, z=z)
