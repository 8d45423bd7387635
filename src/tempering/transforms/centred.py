"""Centred particles: coordinates for configurations of n particles in R^d without their centre of mass.

Consumes points; produces the same points in other coordinates. A density that does not change under translation has no
normaliser on R^(nd); on configurations whose centre of mass is at the origin, a subspace of (n-1)d dimensions, it has.
With orthonormal coordinates y of that subspace nothing else needs to know: isotropic noise in y is centred noise in x,
and volumes, traces and normalisers in y are those of the subspace.
"""

from collections.abc import Iterator
from functools import cache

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from tempering.errors import SettingsError
from tempering.settings.checks import require, require_count
from tempering.types import Array, Bool, Float

__all__ = ["Centred", "distance_chunks"]


_MOST_INVARIANTS = 16
_CHUNK = 1 << 20
"""Distances handled at a time, to bound memory (a few arrays of 8 MB); it does not change results."""


@cache
def _helmert(num_particles: int) -> np.ndarray:
    """An orthonormal basis, (n, n-1), of the vectors in R^n whose entries sum to zero, in float64.

    Column k is (1, ..., 1, -(k+1), 0, ..., 0) / sqrt((k+1)(k+2)) with k+1 leading ones: particle k+1 against the
    centre of those before it (Helmert, 1876).
    """
    order = np.arange(1, num_particles)
    row = np.arange(num_particles)[:, None]
    columns = (row < order) - np.where(row == order, order, 0)
    return columns / np.sqrt(order * (order + 1.0))


class Centred(eqx.Module):
    r"""The isometry between R^((n-1)d) and centred configurations of n particles in R^d.

    x = (B kron I_d) y and y = (B kron I_d)^T x, with B the (n, n-1) Helmert basis: B^T B = I and the columns of B sum
    to zero. A configuration is flat, particle after particle: x[i d : (i+1) d] is particle i.

    Args:
        num_particles: n, at least 2.
        spatial_dim: d, at least 1.
    """

    num_particles: int = eqx.field(static=True)
    spatial_dim: int = eqx.field(static=True)

    def __check_init__(self):
        a_single = "at least 2: a single particle has no coordinates besides its centre of mass"
        require(self.num_particles != 1, "num_particles", self.num_particles, a_single)
        require_count("num_particles", self.num_particles, 2)
        require_count("spatial_dim", self.spatial_dim)

    @property
    def dim(self) -> int:
        """(n-1) d, the number of inner coordinates y."""
        return (self.num_particles - 1) * self.spatial_dim

    @property
    def full_dim(self) -> int:
        """n d, the number of coordinates of a configuration x."""
        return self.num_particles * self.spatial_dim

    @property
    def basis(self) -> np.ndarray:
        """B, (n, n-1), float64."""
        return _helmert(self.num_particles)

    def embed(self, y: Float[Array, " dim"]) -> Float[Array, " full_dim"]:
        """The centred configuration x of the inner coordinates y; |embed(y)| = |y|."""
        self._check("inner coordinates", y, self.dim)
        basis = jnp.asarray(_helmert(self.num_particles), y.dtype)
        return _apply(basis, y.reshape(self.num_particles - 1, self.spatial_dim))

    def restrict(self, x: Float[Array, " full_dim"]) -> Float[Array, " dim"]:
        """The inner coordinates y of x - xbar: restrict(embed(y)) = y and embed(restrict(x)) = x - xbar."""
        self._check("coordinates", x, self.full_dim)
        particles = x.reshape(self.num_particles, self.spatial_dim)
        # B^T forgets the centre of mass only up to rounding. Taking it off first keeps that rounding relative to the
        # size of the configuration, however far from the origin it stands.
        particles = particles - jnp.mean(particles, axis=0, keepdims=True)
        return _apply(jnp.asarray(_helmert(self.num_particles).T, x.dtype), particles)

    def log_volume(self, y: Float[Array, " dim"]) -> Float[Array, ""]:
        """0: an isometry changes no volume."""
        return jnp.zeros((), y.dtype)

    def contains(self, x: Float[Array, " full_dim"]) -> Bool[Array, ""]:
        """Whether x is finite: any configuration can be centred."""
        return jnp.all(jnp.isfinite(x))

    def as_dict(self) -> dict[str, int]:
        """Its two numbers, JSON-ready."""
        return {"num_particles": self.num_particles, "spatial_dim": self.spatial_dim}

    def invariants(self, y: Float[Array, " dim"]) -> Float[Array, " feature"]:
        """Numbers that turning, reflecting and relabelling the particles leave alone: quantiles of pair distances.

        Chains need not visit every copy of a configuration that symmetry makes; whether they have mixed is asked of
        these.
        """
        points = self.embed(y).reshape(self.num_particles, self.spatial_dim)
        first, second = np.triu_indices(self.num_particles, 1)
        distances = jnp.sort(jnp.sqrt(jnp.sum((points[first] - points[second]) ** 2, axis=1)))
        num = distances.shape[0]
        return distances[np.unique(np.linspace(0, num - 1, min(num, _MOST_INVARIANTS)).round().astype(int))]

    def _check(self, what: str, given: Array, dim: int) -> None:
        if given.shape != (dim,):
            raise SettingsError(
                f"{what} of shape {given.shape}; {self.num_particles} particles in {self.spatial_dim}-D have shape "
                f"({dim},), flat, particle after particle; batch by jax.vmap"
            )


def _apply(matrix: Float[Array, "row column"], points: Float[Array, "column xyz"]) -> Float[Array, " out"]:
    # HIGHEST: the default on recent GPUs is TF32, whose 1e-3 relative error would move every particle.
    return jnp.matmul(matrix, points, precision=jax.lax.Precision.HIGHEST).reshape(-1)


def distance_chunks(x: np.ndarray) -> Iterator[np.ndarray]:
    """|x_i - x_j| of every pair i < j of configurations (num, n, d), a few at a time: shape (few, pair)."""
    first, second = np.triu_indices(x.shape[1], k=1)
    step = max(_CHUNK // len(first), 1)
    for start in range(0, len(x), step):
        part = x[start : start + step]
        # Samples of a diverged sampler: infinity minus infinity is NaN and huge squares are infinite, both as meant.
        with np.errstate(invalid="ignore", over="ignore"):
            squares = np.zeros((len(part), len(first)))
            for axis in range(x.shape[2]):
                gaps = part[:, first, axis] - part[:, second, axis]
                squares += gaps * gaps
        yield np.sqrt(squares)
