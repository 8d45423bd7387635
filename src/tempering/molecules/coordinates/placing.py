r"""Atoms placed by bond lengths, angles and torsions, and these measured of a conformation; one conformation each.

Every placement has a local frame (e, m, n) for what hangs on its atom: e along its bond, n normal to the plane of that
bond and the one before. The frame of an atom is the product of its parent's with a matrix of its own angle and torsion,
so that no vector is ever normalised and nothing is singular. All matrices of a generation are multiplied at once.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from tempering.molecules.coordinates.zmatrix import ZMatrix
from tempering.molecules.system.layout import angle_between, cross, dihedral_parts, dot, norm, take
from tempering.types import Array, Float

__all__ = ["Internals", "measured", "placed"]


class Internals(NamedTuple):
    """Numbers in the order of placements: those of two atoms of the frame have no torsion, and one of them no angle.

    A torsion is that of the placement itself, relative to its sibling where it is of that kind.
    """

    lengths: Float[Array, " num_atoms-1"]
    angles: Float[Array, " num_atoms-2"]
    torsion_cosines: Float[Array, " num_atoms-3"]
    torsion_sines: Float[Array, " num_atoms-3"]


def placed(zmatrix: ZMatrix, values: Internals) -> Float[Array, " dim"]:
    """The conformation, flat, centred."""
    turn, sine_of_turn = _whole_torsions(zmatrix, values)
    one, none = jnp.ones((1,), turn.dtype), jnp.zeros((1,), turn.dtype)
    # The first neighbour of the root is placed as by an angle of 0 and a torsion of pi, the second by a torsion of 0:
    # these are the frames that torsions about their bonds count from.
    bend = jnp.concatenate([one, jnp.cos(values.angles)])
    sine_of_bend = jnp.concatenate([none, jnp.sin(values.angles)])
    frame, directions = None, []
    for generation in zmatrix.generations:
        of = slice(generation.start, generation.stop)
        c, s, b, t = turn[of], sine_of_turn[of], bend[of], sine_of_bend[of]
        if frame is None:
            ones, zeros = jnp.ones_like(c), jnp.zeros_like(c)
            outward, back, normal = [zeros, c, s], [ones, zeros, zeros], [zeros, -s, c]
        else:
            back, m, n = ([take(axis, generation.parents) for axis in vectors] for vectors in frame)
            outward = [c * u + s * w for u, w in zip(m, n, strict=True)]
            normal = [c * w - s * u for u, w in zip(m, n, strict=True)]
        along = [t * q - b * u for q, u in zip(outward, back, strict=True)]
        inward = [-b * q - t * u for q, u in zip(outward, back, strict=True)]
        frame = [[axis[: generation.num_carriers] for axis in vectors] for vectors in (along, inward, normal)]
        directions.append(jnp.stack(along))
    bonds = jnp.concatenate(directions, axis=1) * values.lengths[None]
    # HIGHEST: the default on recent GPUs is TF32, whose 1e-3 relative error would move every atom.
    sums = jnp.asarray(zmatrix.centred_sums, bonds.dtype)
    return jnp.matmul(sums, bonds.T, precision=jax.lax.Precision.HIGHEST).reshape(-1)


def measured(zmatrix: ZMatrix, x: Float[Array, " dim"]) -> Internals:
    """The numbers of a conformation; its place and orientation do not matter."""
    rows = np.array([row[:4] for row in zmatrix.placements])
    positions = x.reshape((-1, 3)).T
    arms = [take(axis, rows[:, 0]) - take(axis, rows[:, 1]) for axis in positions]
    angles = angle_between(positions, rows[1:, [0, 1, 2]])
    is_relative = np.array([row.kind == "relative" for row in zmatrix.placements[2:]], bool)
    atoms = rows[2:]
    # Two neighbours of one atom, seen along the bond from the axis to it: no fourth atom is needed.
    axis = [take(p, atoms[:, 1]) - take(p, atoms[:, 2]) for p in positions]
    first = [take(p, atoms[:, 3]) - take(p, atoms[:, 1]) for p in positions]
    second = [arm[2:] for arm in arms]
    size = norm(dot(axis, axis))
    sine = dot(axis, cross(first, second)) * size
    cosine = dot(first, second) * size**2 - dot(first, axis) * dot(second, axis)
    scale = norm(cosine**2 + sine**2)
    is_defined = scale > 0
    scale = jnp.where(is_defined, scale, 1.0)
    far_cosine, far_sine = dihedral_parts(positions, atoms[:, [3, 2, 1, 0]])
    return Internals(
        norm(dot(arms, arms)),
        angles,
        jnp.where(is_relative, jnp.where(is_defined, cosine / scale, 1.0), far_cosine),
        jnp.where(is_relative, jnp.where(is_defined, sine / scale, 0.0), far_sine),
    )


def _whole_torsions(zmatrix: ZMatrix, values: Internals) -> tuple[Array, Array]:
    """cos and sin of the torsions that place atoms: those relative to a sibling have its torsion added."""
    # Two numbers in front, for the atoms of the frame: torsions pi and 0; the second stands in for no sibling as well.
    siblings = np.array([zmatrix.place[row.other] if row.kind == "relative" else 1 for row in zmatrix.placements])
    cosines = jnp.concatenate([jnp.asarray([-1.0, 1.0], values.lengths.dtype), values.torsion_cosines])
    sines = jnp.concatenate([jnp.zeros((2,), values.lengths.dtype), values.torsion_sines])
    c, s = take(cosines, siblings), take(sines, siblings)
    return c * cosines - s * sines, s * cosines + c * sines
