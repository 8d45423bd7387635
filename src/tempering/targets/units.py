r"""Units of the coordinates that chains move in: what stands in for a mass matrix in kernels that know only unit mass.

Consumes masses, given or measured; produces constant linear maps x = L z. A kernel of unit mass that moves z moves x as
one of mass matrix M = (L L^T)^-1 would: leapfrog in z with momentum N(0, I) is leapfrog in x with momentum N(0, M), and
Langevin steps in z are preconditioned by M^-1. Log densities are those of x, so swaps, weights and stored values do not
know of it.
"""

from typing import Literal

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from tempering.errors import SettingsError
from tempering.settings.checks import require
from tempering.targets.base import Target
from tempering.targets.references import ReferenceLike
from tempering.transforms.centred import Centred
from tempering.types import Array, Float, Key

__all__ = ["Mass", "Scaled", "ScaledReference", "Units", "chosen_units", "force_masses", "units_of_masses"]

Mass = Literal["automatic", "unit", "target", "adapted"]
"""What chains move with; `settings.Exploration` explains the words."""

_LEAST_SHARE = 0.01
"""Of the mean mass, for a particle on which hardly any force acts: the longest step is bounded."""


class Units(eqx.Module):
    r"""x = (A kron I) (scale * z): every coordinate in a unit of its own, then the particles mixed by A.

    A is m x m and acts alike on the dim / m coordinates of every particle, so it commutes with rotations.

    Args:
        scale: unit of every coordinate.
        matrix: A; None mixes nothing.
        inverse: of A, given with it.
    """

    scale: Float[Array, " dim"]
    matrix: Float[Array, "m m"] | None = None
    inverse: Float[Array, "m m"] | None = None

    @classmethod
    def plain(cls, dim: int) -> "Units":
        """x itself."""
        return cls(jax.device_put(np.ones((dim,), np.float32)))

    @property
    def dim(self) -> int:
        """How many coordinates."""
        return self.scale.shape[0]

    def outward(self, z: Float[Array, "*batch dim"]) -> Float[Array, "*batch dim"]:
        """x of z."""
        return _apply(self.matrix, jnp.broadcast_to(self.scale, z.shape) * z)

    def inward(self, x: Float[Array, "*batch dim"]) -> Float[Array, "*batch dim"]:
        """z of x."""
        return _apply(self.inverse, x) / jnp.broadcast_to(self.scale, x.shape)

    def gradient(self, log_density_grad: Float[Array, "*batch dim"]) -> Float[Array, "*batch dim"]:
        """The gradient with respect to z, of one with respect to x."""
        transposed = None if self.matrix is None else self.matrix.T
        return jnp.broadcast_to(self.scale, log_density_grad.shape) * _apply(transposed, log_density_grad)

    def gradient_outward(self, log_density_grad: Float[Array, "*batch dim"]) -> Float[Array, "*batch dim"]:
        """The gradient with respect to x, of one with respect to z."""
        transposed = None if self.inverse is None else self.inverse.T
        return _apply(transposed, log_density_grad / jnp.broadcast_to(self.scale, log_density_grad.shape))

    def widened(self, factor: Float[Array, " dim"]) -> "Units":
        """The units in which what was `factor` is one."""
        return Units(self.scale * factor, self.matrix, self.inverse)


def _apply(matrix: Array | None, points: Float[Array, "*batch dim"]) -> Float[Array, "*batch dim"]:
    if matrix is None:
        return points
    particles = points.reshape((*points.shape[:-1], matrix.shape[0], -1))
    # HIGHEST: the default on recent GPUs is TF32, whose 1e-3 relative error would move every particle.
    mixed = jnp.einsum("ij,...jd->...id", matrix, particles, precision=jax.lax.Precision.HIGHEST)
    return mixed.reshape(points.shape)


class ScaledReference(eqx.Module):
    """A reference as a function of z, with x = units.outward(z); its log density is that of x, as a scaled target's."""

    reference: ReferenceLike
    units: Units

    def log_density(self, x: Float[Array, " dim"]) -> Float[Array, ""]:
        """Log density of one point, given in these units."""
        return self.reference.log_density(self.units.outward(x))

    def sample(self, key: Key, num: int) -> Float[Array, "num dim"]:
        """Independent draws, in these units."""
        return self.units.inward(self.reference.sample(key, num))


class Scaled(Target):
    """The target as a function of z, with x = units.outward(z).

    The log density is that of x, without the constant Jacobian: chains, swaps and log Z ratios are those of x. Kernels
    ask for nothing else but the reference, and nothing else is brought.
    """

    target: Target
    units: Units

    def __init__(self, target: Target, units: Units):
        self.target, self.units = target, units

    @property
    def dim(self) -> int:
        """Dimension of the target."""
        return self.units.dim

    def log_density(self, x: Float[Array, " dim"]) -> Float[Array, ""]:
        return self.target.log_density(self.units.outward(x))

    @property
    def reference(self) -> ScaledReference | None:
        """The target's reference in the same units, without the constant Jacobian as well."""
        reference = self.target.reference
        return None if reference is None else ScaledReference(reference, self.units)


def units_of_masses(masses: np.ndarray, dim: int, geometry: Centred | None = None) -> Units:
    r"""The units in which unit mass is the given masses, up to a common factor: they are divided by their mean.

    Of particles without their centre, x = B y with B the Helmert basis, L L^T = B^T M^-1 B: trajectories are those that
    the particles themselves would have with masses M, seen from their centre, which no force moves.

    Args:
        masses: positive; one of each particle, or of each of the blocks of equal size that make a point.
        geometry: of centred particles.
    """
    masses = np.asarray(masses, np.float64).reshape(-1)
    is_good = bool(np.all(np.isfinite(masses)) and np.all(masses > 0))
    require(is_good, "masses", masses.tolist(), "finite and above 0")
    inverse_masses = np.mean(masses) / masses
    if geometry is None:
        fits = len(masses) > 0 and dim % len(masses) == 0
        require(fits, "masses", f"{len(masses)} numbers", f"one for each of {dim} coordinates, or for equal blocks")
        return Units(jnp.asarray(np.repeat(np.sqrt(inverse_masses), dim // len(masses)), float))
    num = geometry.num_particles
    require(len(masses) == num, "masses", f"{len(masses)} numbers", f"one for each of {num} particles")
    values, vectors = np.linalg.eigh(geometry.basis.T @ (inverse_masses[:, None] * geometry.basis))
    matrix, inverse = ((vectors * values**power) @ vectors.T for power in (0.5, -0.5))
    return Units(jnp.ones((dim,)), jnp.asarray(matrix, float), jnp.asarray(inverse, float))


def chosen_units(target: Target, mass: str, masses: tuple[float, ...] | None = None) -> Units:
    """The units that a run starts with; a pilot widens them.

    Args:
        target: in the coordinates that methods work in; it may bring `masses`.
        mass: a word of `Mass`.
        masses: by hand; `mass` is ignored then.
    """
    if masses is None and mass in ("automatic", "target"):
        masses = target.masses
        if masses is None and mass == "target":
            raise SettingsError(
                f"exploration.mass = 'target' is not allowed: {type(target).__name__} brings no masses for its "
                "coordinates; give exploration.masses, or mass = 'adapted'"
            )
    if masses is None:
        return Units.plain(target.dim)
    return units_of_masses(np.asarray(masses), target.dim, target.geometry)


def force_masses(geometry: Centred, log_density_grad: Float[Array, "point dim"]) -> np.ndarray:
    """Masses in proportion to the mean squared force on every particle: the stiffer it is held, the heavier.

    E|g_i|^2 is the mean curvature that particle i feels, so all move as far in a step, measured by their own wells. The
    norm of a force does not change when particles are turned or moved, unlike the spread of their coordinates.
    """
    forces = jax.vmap(geometry.embed)(log_density_grad).reshape((-1, geometry.num_particles, geometry.spatial_dim))
    squares = np.asarray(jnp.mean(jnp.sum(forces**2, axis=2), axis=0), np.float64)
    mean = float(np.mean(squares))
    if not (np.isfinite(mean) and mean > 0):
        return np.ones((geometry.num_particles,))
    return np.maximum(squares / mean, _LEAST_SHARE)
