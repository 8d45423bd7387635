"""Internal coordinates: a molecule by its bond lengths, bond angles and torsions, as a chart for any method.

Consumes a molecule with its bonds and one conformation; produces coordinates y of about unit scale, in which stiff
directions stand apart from soft ones, and moving or turning the molecule is no direction at all.
"""

import dataclasses
import math
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np

from tempering.errors import SettingsError
from tempering.molecules.alanine import alanine_dipeptide
from tempering.molecules.coordinates.internal_scales import Scales, scales_of
from tempering.molecules.coordinates.placing import Internals, measured, placed
from tempering.molecules.coordinates.zmatrix import Placement, ZMatrix, zmatrix_of
from tempering.molecules.system.layout import norm
from tempering.molecules.target import GAS_CONSTANT, MoleculeTarget
from tempering.settings.checks import require_choice, require_kind, require_positive
from tempering.targets.inner import Inner
from tempering.types import Array, Bool, Float

__all__ = ["InternalChart", "alanine_in_internal_coordinates", "internal_coordinates"]


class InternalChart(eqx.Module):
    r"""The chart between y and conformations x of n atoms, centred, modulo rotation.

    In order, y has n-1 bond lengths, n-2 bond angles, the torsions that keep to a window (relative to a sibling, or
    about a bond in a ring), and two coordinates of each full torsion: all u - R, then all v. y = 0 is the reference.

    All but the last are linear about the reference, b = b_0 + s y. The density is 0 outside b > 0, 0 < theta < pi and
    the windows, which are ten units and more away, and goes to 0 towards all but the windows' ends. A bijection from
    the whole line would be as good at T = 1; when it is heated its tails grow in proportion to T.

    A full torsion phi is a circle with several modes. It is the direction of (u, v) = r (cos, sin)(phi - phi_0), whose
    radius is an auxiliary variable of density q(r) = r exp(-(r - R)^2 / 2) / C on r > 0, with
    C = sqrt(2 pi) R Phi(R) + exp(-R^2 / 2). As du dv = r dr dphi, a density p(phi) becomes

        p(phi) q(r) / r = p(phi) exp(-(r - R)^2 / 2) / C

    of (u, v), without a seam. Its integral over r is p(phi), so that log Z does not change. `embed` ignores r, and
    `restrict` gives r = R. A sampler's `log_prob` of a conformation is therefore exact only as far as its model has
    learned that r depends on nothing else; weights, which are those of y, are exact anyway.

    By spherical coordinates about every parent, volumes of centred conformations are

        dx = (8 pi^2 / n^(3/2)) prod b_i^2 prod sin(theta_i) prod db_i prod dtheta_i prod dphi_i,

    all rotations counted (8 pi^2), in orthonormal coordinates of the centred subspace, as by `geometry.Centred`: of
    those the centre of mass has sqrt(n) times its own, hence n^(3/2). Relative torsions are a shear, of determinant 1.
    So log Z is that of the Cartesian target over the hands that the windows leave.

    Args:
        zmatrix: which atoms place which.
        scales: reference values, units, windows and the radius R of the rings.
    """

    zmatrix: ZMatrix = eqx.field(static=True)
    scales: Scales = eqx.field(static=True)

    @property
    def dim(self) -> int:
        """3n - 6, and one more for every full torsion."""
        return 3 * self.zmatrix.num_atoms - 6 + int(np.sum(self._is_full))

    @property
    def full_dim(self) -> int:
        """3n."""
        return 3 * self.zmatrix.num_atoms

    @property
    def _is_full(self) -> np.ndarray:
        """Which torsions are."""
        return np.array([row.kind == "full" for row in self.zmatrix.placements[2:]], bool)

    def embed(self, y: Float[Array, " dim"]) -> Float[Array, " full_dim"]:
        """The conformation, nm, centred, in an orientation of its own: the root and its first two neighbours, in the
        plane z = 0, the first along -x.
        """
        lengths, angles, offsets, u, v = self._values(y)
        torsions = np.array(self.scales.torsions)
        inside = offsets + jnp.asarray(torsions[~self._is_full], y.dtype)
        radius = norm(u**2 + v**2)
        is_turned = radius > 0  # the middle of a ring has no direction: that of the reference
        radius = jnp.where(is_turned, radius, 1.0)
        c, s = jnp.where(is_turned, u / radius, 1.0), v / radius
        c0, s0 = (jnp.asarray(fn(torsions[self._is_full]), y.dtype) for fn in (np.cos, np.sin))
        order = np.argsort(np.concatenate([np.flatnonzero(~self._is_full), np.flatnonzero(self._is_full)]))
        cosines = jnp.concatenate([jnp.cos(inside), c0 * c - s0 * s])[order]
        sines = jnp.concatenate([jnp.sin(inside), s0 * c + c0 * s])[order]
        return placed(self.zmatrix, Internals(lengths, angles, cosines, sines))

    def restrict(self, x: Float[Array, " full_dim"]) -> Float[Array, " dim"]:
        """y of a conformation, wherever it stands and however it is turned."""
        lengths, angles, cosines, sines = measured(self.zmatrix, x)
        scales, is_full = self.scales, self._is_full

        def numbers(values: Any) -> Array:
            return jnp.asarray(np.asarray(values), x.dtype)

        c0, s0 = numbers(np.cos(scales.torsions)), numbers(np.sin(scales.torsions))
        c, s = c0 * cosines + s0 * sines, c0 * sines - s0 * cosines
        u, v = (scales.ring_radius * part[is_full] for part in (c, s))
        offsets = jnp.arctan2(s[~is_full], c[~is_full]) / numbers(np.array(scales.torsion_scales)[~is_full])
        lengths = (lengths - numbers(scales.lengths)) / numbers(scales.length_scales)
        angles = (angles - numbers(scales.angles)) / numbers(scales.angle_scales)
        return jnp.concatenate([lengths, angles, offsets, u - scales.ring_radius, v])

    def log_volume(self, y: Float[Array, " dim"]) -> Float[Array, ""]:
        """log of the volume of conformations for one of y, times the density of the radii; -inf outside the support."""
        lengths, angles, offsets, u, v = self._values(y)
        scales, is_full, num_atoms = self.scales, self._is_full, self.zmatrix.num_atoms
        units = (scales.length_scales, scales.angle_scales, np.array(scales.torsion_scales)[~is_full])
        constant = sum(float(np.sum(np.log(unit))) for unit in units) - int(np.sum(is_full)) * scales.log_ring
        constant += math.log(8 * math.pi**2) - 1.5 * math.log(num_atoms)
        rings = jnp.sum((norm(u**2 + v**2) - scales.ring_radius) ** 2) / 2
        sines = jnp.sin(jnp.where((angles > 0) & (angles < math.pi), angles, 1.0))
        volume = 2 * jnp.sum(jnp.log(jnp.where(lengths > 0, lengths, 1.0))) + jnp.sum(jnp.log(sines))
        return jnp.where(self._is_inside(lengths, angles, offsets), volume - rings + constant, -jnp.inf)

    def contains(self, x: Float[Array, " full_dim"]) -> Bool[Array, ""]:
        """Whether x is finite, of the hands that the windows leave, and no placed angle of it is straight."""
        lengths, angles, offsets, _, _ = self._values(self.restrict(x))
        return jnp.all(jnp.isfinite(x)) & self._is_inside(lengths, angles, offsets)

    def _values(self, y: Array) -> tuple[Array, Array, Array, Array, Array]:
        """Lengths, angles, torsions in windows less their reference, u and v."""
        scales, num_full = self.scales, int(np.sum(self._is_full))
        num = len(scales.lengths)
        parts = jnp.split(y, np.cumsum([num, num - 1, num - 2 - num_full, num_full]))
        units = (scales.length_scales, scales.angle_scales, np.array(scales.torsion_scales)[~self._is_full])
        lengths, angles, offsets = (
            part * jnp.asarray(np.asarray(unit), y.dtype) for part, unit in zip(parts, units, strict=False)
        )
        lengths = lengths + jnp.asarray(scales.lengths, y.dtype)
        angles = angles + jnp.asarray(scales.angles, y.dtype)
        return lengths, angles, offsets, parts[3] + scales.ring_radius, parts[4]

    def _is_inside(self, lengths: Array, angles: Array, offsets: Array) -> Array:
        low, high = (
            jnp.asarray(np.array(ends)[~self._is_full], offsets.dtype) for ends in (self.scales.lows, self.scales.highs)
        )
        is_angle = (angles > 0) & (angles < math.pi)
        return jnp.all(lengths > 0) & jnp.all(is_angle) & jnp.all((offsets > low) & (offsets < high))

    def as_dict(self) -> dict[str, Any]:
        """JSON-ready; `from_dict` reads it back."""
        scales = {
            name: list(held) if isinstance(held, tuple) else held
            for name, held in dataclasses.asdict(self.scales).items()
        }
        placements = [list(row) for row in self.zmatrix.placements]
        return {"name": "internal", "root": self.zmatrix.root, "placements": placements, "scales": scales}

    @classmethod
    def from_dict(cls, stored: dict[str, Any]) -> "InternalChart":
        """The chart that `as_dict` described."""
        scales: dict[str, Any] = {
            name: tuple(held) if isinstance(held, list) else held for name, held in stored["scales"].items()
        }
        placements = tuple(Placement(*row) for row in stored["placements"])
        return cls(ZMatrix(stored["root"], placements), Scales(**scales))

    def __str__(self) -> str:
        return "conformations of the reference's hands, without straight angles"


def internal_coordinates(target: MoleculeTarget, *, hands: str = "kept", ring_radius: float = 5.0) -> Inner:
    """The molecule in internal coordinates: a target for `tp.fit`, whose draws are Cartesian, centred, as ever.

    The record's own conformation is y = 0, where chains start unless `tp.fit` gets `init`: minimise it first. Units are
    standard deviations at the target's temperature. Rings are fine, but the bond that closes one is as stiff as it is,
    and ties the coordinates of the ring to each other.

    Args:
        target: a connected molecule of at least three atoms that no external force holds.
        hands: kept: the density is 0 where an atom with four neighbours or more has another hand than in the record.
            This distinguishes the hydrogens of a methyl group, too, of whose labellings one is kept; energies do not
            tell the difference. free: all hands, of which chains will visit but one.
        ring_radius: R of the auxiliary radii; see `InternalChart`.

    Raises:
        SettingsError: for another molecule, one with straight bond angles, or bad settings.

    Examples:
        >>> from tempering.molecules import alanine_dipeptide, internal_coordinates
        >>> internal_coordinates(alanine_dipeptide()).dim
        67
    """
    require_kind("target", target, MoleculeTarget)
    require_choice("hands", hands, ("kept", "free"))
    require_positive("ring_radius", ring_radius)
    if not target.record.is_translation_invariant:
        raise SettingsError(
            "an external force holds this molecule in place, and internal coordinates have no place; use Cartesian ones"
        )
    zmatrix = zmatrix_of(target.num_atoms, target.record.bonds)
    thermal = GAS_CONSTANT * target.temperature
    scales = scales_of(target.record, zmatrix, thermal, keeps_hands=hands == "kept", ring_radius=float(ring_radius))
    chart = InternalChart(zmatrix, scales)
    return Inner(chart.dim, target, chart)


def alanine_in_internal_coordinates(temperature: float = 300.0) -> Inner:
    """Alanine dipeptide, of L-form, in internal coordinates: 60 of its shape, and one more for each of 7 torsions."""
    return internal_coordinates(alanine_dipeptide(temperature))
