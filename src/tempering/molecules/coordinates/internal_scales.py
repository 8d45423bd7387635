"""What internal coordinates are measured in: reference values, units and windows, from a record and a temperature."""

import math
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np

from tempering.errors import SettingsError
from tempering.molecules.coordinates.placing import measured
from tempering.molecules.coordinates.zmatrix import ZMatrix
from tempering.molecules.system.record import MoleculeRecord

__all__ = ["Scales", "scales_of"]

_LENGTH, _ANGLE, _TORSION = 0.003, 0.08, 0.1
"""Standard deviations at 300 K, nm and radians: what AMBER's constants give for C-H bonds and H-C-H angles, and what
torsions relative to a sibling have. For what no harmonic term holds."""
_LINEAR = np.radians(5.0)
"""From 0 or 180 degrees: within a few standard deviations such an angle is straight, and its torsion undefined."""
_CHIRAL_SINE = 0.5
"""Of a torsion relative to a sibling: near 0.87 at a tetrahedral atom; at planar and octahedral ones some are 0."""


@dataclass(frozen=True)
class Scales:
    """What y = 0 and y = 1 mean, placement after placement, in nm and radians; torsions of the frame are left out.

    Args:
        lengths, angles, torsions: those of a reference conformation, which is y = 0.
        length_scales, angle_scales, torsion_scales: what one unit of y is; unused for full torsions.
        lows, highs: ends of the torsions' open windows, relative to the reference; unused for full torsions.
        ring_radius: R, of the rings that full torsions live on; their width is one.
    """

    lengths: tuple[float, ...]
    angles: tuple[float, ...]
    torsions: tuple[float, ...]
    length_scales: tuple[float, ...]
    angle_scales: tuple[float, ...]
    torsion_scales: tuple[float, ...]
    lows: tuple[float, ...]
    highs: tuple[float, ...]
    ring_radius: float

    @property
    def log_ring(self) -> float:
        """log of the integral of r exp(-(r - R)^2 / 2) over r > 0."""
        radius = self.ring_radius
        share = math.erfc(-radius / math.sqrt(2)) / 2
        return math.log(math.sqrt(2 * math.pi) * radius * share + math.exp(-(radius**2) / 2))


def scales_of(
    record: MoleculeRecord, zmatrix: ZMatrix, thermal_energy: float, *, keeps_hands: bool, ring_radius: float
) -> Scales:
    """Reference values of the record's own conformation, and standard deviations that its harmonic terms give.

    Args:
        thermal_energy: k_B T, kJ/mol.
        keeps_hands: at atoms with four neighbours or more, keep the side of each neighbour that it is on.
    """
    with jax.enable_x64(True):
        values = jax.jit(measured, static_argnums=0)(zmatrix, jnp.asarray(record.positions.reshape(-1), jnp.float64))
        lengths, angles, cosines, sines = (np.asarray(part, np.float64) for part in values)
    rows = zmatrix.placements
    straight = np.flatnonzero((angles < _LINEAR) | (angles > np.pi - _LINEAR))
    if len(straight):
        atoms = [rows[place + 1][:3] for place in straight[:3]]
        raise SettingsError(
            f"the angles of atoms {', '.join('-'.join(map(str, triple)) for triple in atoms)} are straight within 5 "
            "degrees, and torsions next to them undefined; use Cartesian coordinates for this molecule"
        )
    warmth = np.sqrt(thermal_energy / 2.4943)  # k_B times 300 K
    bonds, bends = (_strengths(record, kind) for kind in ("harmonic_bond", "harmonic_angle"))
    neighbours = np.bincount(record.bonds.reshape(-1), minlength=record.num_atoms)
    torsions = np.arctan2(sines, cosines)
    has_hand = [
        keeps_hands and row.kind == "relative" and neighbours[row.parent] >= 4 and abs(sine) > _CHIRAL_SINE
        for row, sine in zip(rows[2:], sines, strict=True)
    ]
    # A hand is the sign of the sine: of the volume that the axis, the sibling and the atom span at their parent.
    lows = np.where(has_hand, np.where(sines > 0, 0.0, -np.pi) - torsions, -np.pi)
    highs = np.where(has_hand, np.where(sines > 0, np.pi, 0.0) - torsions, np.pi)
    return Scales(
        lengths=tuple(lengths.tolist()),
        angles=tuple(angles.tolist()),
        torsions=tuple(torsions.tolist()),
        length_scales=tuple(_spread(bonds, row[:2], thermal_energy, _LENGTH * warmth) for row in rows),
        angle_scales=tuple(_spread(bends, row[:3], thermal_energy, _ANGLE * warmth) for row in rows[1:]),
        torsion_scales=(float(_TORSION * warmth),) * len(torsions),
        lows=tuple(lows.tolist()),
        highs=tuple(highs.tolist()),
        ring_radius=float(ring_radius),
    )


def _strengths(record: MoleculeRecord, kind: str) -> dict[tuple[int, ...], float]:
    """Constants of harmonic terms by their atoms, in either direction; several on the same atoms add up."""
    found: dict[tuple[int, ...], float] = {}
    for term in record.terms:
        if term.kind == kind:
            for atoms, strength in zip(term.arrays["atoms"].tolist(), term.arrays["strength"].tolist(), strict=True):
                for key in {tuple(atoms), tuple(atoms[::-1])}:
                    found[key] = found.get(key, 0.0) + strength
    return found


def _spread(strengths: dict[tuple[int, ...], float], atoms: tuple[int, ...], energy: float, usual: float) -> float:
    strength = strengths.get(tuple(atoms), 0.0)
    return float(np.sqrt(energy / strength)) if strength > 0 else float(usual)
