"""Many-Well: independent two-dimensional double wells, with 2^(dim/2) modes and every fact known by quadrature.

Consumes an even dimension; produces an exact target. The even coordinates u are the double wells, the odd ones v are
normal. Everything about one well is computed once in float64; the target ships the table of its distribution function.
"""

from functools import cache
from typing import ClassVar, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from tempering.errors import SettingsError
from tempering.targets.base import ExactTarget
from tempering.types import Array, Float, Key

__all__ = ["ManyWell"]

_REACH = 4.0
"""The well is integrated over [-4, 4]; beyond, its density is below exp(-160) of its peak."""
_NUM_NODES = 200
"""Gauss-Legendre nodes for each half of the well; 100 already agree with 400 to 1e-13."""
_NUM_CELLS = 8192
"""Cells of the distribution table. Inside a cell the density is taken as constant: an error of 1e-7 in moments."""


def _log_well(u):
    """Log density of one well coordinate, unnormalised: u/2 + 6 u^2 - u^4. Works on NumPy and JAX arrays."""
    square = u * u
    return 0.5 * u + square * (6.0 - square)


class _WellFacts(NamedTuple):
    """Of one pair (u, v): log Z of both, E[u], E[u^2] and P(u > 0)."""

    log_z: float
    mean: float
    second_moment: float
    right_weight: float


@cache
def _well_facts() -> _WellFacts:
    nodes, node_weights = np.polynomial.legendre.leggauss(_NUM_NODES)
    right = 0.5 * _REACH * (nodes + 1.0)
    # The halves are integrated apart, because the weight of the right one is a fact of its own.
    u = np.concatenate([-right, right])
    mass = np.tile(0.5 * _REACH * node_weights, 2) * np.exp(_log_well(u))
    total = mass.sum()
    return _WellFacts(
        log_z=float(np.log(total) + 0.5 * np.log(2 * np.pi)),
        mean=float(mass @ u / total),
        second_moment=float(mass @ u**2 / total),
        right_weight=float(mass[_NUM_NODES:].sum() / total),
    )


def _distribution_table() -> tuple[np.ndarray, np.ndarray]:
    """Edges of the cells and the distribution function of u there, by Simpson's rule in every cell."""
    edges = np.linspace(-_REACH, _REACH, _NUM_CELLS + 1)
    middles = 0.5 * (edges[:-1] + edges[1:])
    density = np.exp(_log_well(edges))
    mass = density[:-1] + 4.0 * np.exp(_log_well(middles)) + density[1:]
    cumulative = np.concatenate([[0.0], np.cumsum(mass)])
    return edges, cumulative / cumulative[-1]


class ManyWell(ExactTarget):
    r"""log_density(x) = sum_i [u_i / 2 + 6 u_i^2 - u_i^4 - v_i^2 / 2], with u the even and v the odd coordinates.

    Its regions are the right-hand (deep) wells, 1[u_i > 0], one per pair; they overlap, so they are no partition.
    Samples resolve events down to a probability of about 1e-7 per well, the grain of a float32 uniform number.

    Args:
        dim: any even number of at least 2; the paper's is 32.

    Raises:
        SettingsError: if dim is odd, too small or not a whole number.
    """

    dim: int = eqx.field(static=True)
    table_u: Float[Array, " edge"]
    table_cdf: Float[Array, " edge"]

    regions_partition: ClassVar[bool] = False

    def __init__(self, dim: int = 32):
        if not isinstance(dim, int | np.integer) or isinstance(dim, bool) or dim < 2 or dim % 2:
            raise SettingsError(f"dim is {dim!r}; a many-well needs an even whole number of at least 2")
        edges, cdf = _distribution_table()
        self.dim = int(dim)
        self.table_u = jnp.asarray(edges)
        self.table_cdf = jnp.asarray(cdf)

    @property
    def num_wells(self) -> int:
        """The number of double wells: half the dimension."""
        return self.dim // 2

    def log_density(self, x: Float[Array, " dim"]) -> Float[Array, ""]:
        u, v = x[0::2], x[1::2]
        return jnp.sum(_log_well(u) - 0.5 * v * v)

    def sample(self, key: Key, num: int) -> Float[Array, "num dim"]:
        key_u, key_v = jax.random.split(key)
        uniform = jax.random.uniform(key_u, (num, self.num_wells), self.table_u.dtype)
        u = jnp.interp(uniform, self.table_cdf, self.table_u)
        v = jax.random.normal(key_v, (num, self.num_wells), self.table_u.dtype)
        return jnp.stack([u, v], axis=-1).reshape(num, self.dim)

    def log_z(self) -> float:
        return self.num_wells * _well_facts().log_z

    def mean(self) -> Float[Array, " dim"]:
        return jnp.tile(jnp.asarray([_well_facts().mean, 0.0]), self.num_wells)

    def second_moment(self) -> float:
        """E|x|^2 = (dim/2) (E[u^2] + 1)."""
        return self.num_wells * (_well_facts().second_moment + 1.0)

    def region_weights(self) -> Float[Array, " well"]:
        return jnp.full(self.num_wells, _well_facts().right_weight)

    def region_indicators(self, x: Float[Array, " dim"]) -> Float[Array, " well"]:
        return (x[0::2] > 0).astype(x.dtype)
