"""Dihedrals, chirality and mirror images of conformations; flat coordinates, one conformation at a time.

The energy of a molecule does not tell a conformation from its mirror image, and neither does a network that knows
distances only. `reflect` turns D-forms into L-forms where they stand: nothing is reordered, so that log densities and
weights, which are those of the mirror image too, still belong to their rows.
"""

import jax
import jax.numpy as jnp
import numpy as np

from tempering.errors import SettingsError
from tempering.types import Array, Bool, Float

__all__ = ["chiral_centres", "dihedrals", "is_mirrored", "reflect", "signed_volumes"]


def dihedrals(x: Float[Array, " dim"], atoms: np.ndarray) -> Float[Array, " dihedral"]:
    """Angles from -pi to pi of `atoms`, (dihedral, 4), by the convention of IUPAC: 0 is cis, clockwise positive."""
    a, b, c, d = (x.reshape((-1, 3))[np.asarray(atoms)[:, place]] for place in range(4))
    b1, b2, b3 = b - a, c - b, d - c
    n1, n2 = jnp.cross(b1, b2), jnp.cross(b2, b3)
    sine = jnp.sum(b1 * n2, axis=1) * jnp.sqrt(jnp.sum(b2 * b2, axis=1))
    return jnp.arctan2(sine, jnp.sum(n1 * n2, axis=1))


def signed_volumes(x: Float[Array, " dim"], centres: np.ndarray) -> Float[Array, " centre"]:
    """(a - o) . ((b - o) x (c - o)) of `centres`, (centre, 4), rows (o, a, b, c); a mirror image has the other sign."""
    o, a, b, c = (x.reshape((-1, 3))[np.asarray(centres)[:, place]] for place in range(4))
    return jnp.sum((a - o) * jnp.cross(b - o, c - o), axis=1)


def is_mirrored(x: Float[Array, " dim"], centres: np.ndarray) -> Bool[Array, ""]:
    """Whether all chiral centres have the wrong hand: then, and only then, reflection gives all the right one."""
    return jnp.all(signed_volumes(x, centres) < 0)


def reflect(
    x: Float[Array, "particle dim"], centres: np.ndarray
) -> tuple[Float[Array, "particle dim"], Bool[Array, " particle"]]:
    """Every conformation whose chiral centres are all of the wrong hand replaced, in its row, by its mirror image.

    The mirror is the plane z = 0. Energies, log densities and the weights made of them do not change and stay in
    order. A conformation with some centres wrong and some right is no mirror image, and is left as it is.

    Args:
        x: conformations, flat.
        centres: chiral centres (centre, 4), atoms (o, a, b, c), with positive volumes in the wanted form.

    Returns:
        The conformations in the same order, and which of them were reflected.

    Raises:
        SettingsError: if the molecule has no chiral centre to tell by.
    """
    centres = np.asarray(centres)
    if centres.ndim != 2 or centres.shape[1] != 4 or not len(centres):
        raise SettingsError(f"centres of shape {centres.shape}; give at least one chiral centre: shape (centre, 4)")
    mirrored = jax.vmap(lambda point: is_mirrored(point, centres))(x)
    mirror = jnp.tile(jnp.asarray([1.0, 1.0, -1.0], x.dtype), x.shape[1] // 3)
    return jnp.where(mirrored[:, None], x * mirror[None], x), mirrored


def chiral_centres(names: list[str], residues: list[int]) -> np.ndarray:
    """The alpha carbons of amino acids, as (CA, N, C, CB), from each atom's name and the number of its residue.

    Positive volumes are L-forms.
    """
    found = []
    for residue in sorted(set(residues)):
        place = {name: i for i, (name, of) in enumerate(zip(names, residues, strict=True)) if of == residue}
        if {"CA", "N", "C", "CB"} <= set(place):
            found.append([place["CA"], place["N"], place["C"], place["CB"]])
    return np.array(found, np.int32).reshape((-1, 4))
