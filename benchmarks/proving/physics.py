"""Densities of physics on R^dim: lattice fields and product wells."""

import math
from functools import cache

import jax
import jax.numpy as jnp
import numpy as np

from .classic import legendre
from .record import Density, Goal, halves
from .references import reference

__all__ = ["LATTICES", "chain_truth", "lattice_log_density", "multiwell", "phi4_chain", "phi4_lattice"]


@cache
def chain_truth(dim: int, tilt: float, beta: float = 20.0, coupling: float = 0.1) -> tuple[float, float]:
    """log Z of the chain, and the chance that the field in the middle is positive: products of transfer matrices."""
    nodes, weights = legendre(-2.4, 2.4, 600)
    stiff = 0.5 * beta * coupling * dim
    potential = beta / (coupling * dim) * (0.25 * (1.0 - nodes**2) ** 2 + tilt * nodes)
    step = np.exp(-stiff * (nodes[:, None] - nodes[None]) ** 2 - potential[None]) * weights[None]
    end = np.exp(-stiff * nodes**2)

    def onward(num: int) -> tuple[np.ndarray, float]:
        """The integral over `num` fields and the fixed end as a function of the field before, and its log scale."""
        vector, log_scale = end, 0.0
        for _ in range(num):
            vector = step @ vector
            log_scale += math.log(vector.max())
            vector = vector / vector.max()
        return vector, log_scale

    middle = dim // 2
    right, right_scale = onward(dim - 1 - middle)
    left, left_scale = onward(middle)
    masses = weights * np.exp(-potential) * left * right
    return math.log(float(masses.sum())) + left_scale + right_scale, float(masses[nodes > 0].sum() / masses.sum())


def phi4_chain(dim: int = 16, tilt: float = 0.005) -> Density:
    """A chain of phi^4 between fixed ends, tilted (Gabrie et al. 2022): beta = 20, a = 0.1."""
    beta, coupling = 20.0, 0.1
    log_z, positive = chain_truth(dim, tilt)

    def log_density(x):
        path = jnp.concatenate([jnp.zeros(1, x.dtype), x, jnp.zeros(1, x.dtype)])
        bonds = 0.5 * coupling * dim * jnp.sum(jnp.diff(path) ** 2)
        sites = jnp.sum(0.25 * (1.0 - x**2) ** 2 + tilt * x) / (coupling * dim)
        return -beta * (bonds + sites)

    return Density(
        f"phi4-chain-{dim}",
        dim,
        log_density,
        "two vacua of unlike weight; a stiff chain between them",
        "products of transfer matrices",
        log_z=log_z,
        shares=lambda x: halves(x[dim // 2]),
        masses=np.array([positive, 1.0 - positive]),
        box=2.5,
    )


LATTICES = {6: (0.0257, 0.1251), 8: (0.0144, 0.1284)}
"""By side: the tilt, and p+ of parallel tempering as published with the target."""


def lattice_log_density(side: int, tilt: float):
    """-E of the periodic lattice: E = -0.8 sum of neighbours + sum phi^2 + (phi^2 - 1)^2 / 2 + h phi."""

    def log_density(x):
        field = x.reshape(side, side)
        bonds = jnp.sum(field * (jnp.roll(field, 1, axis=0) + jnp.roll(field, 1, axis=1)))
        return 0.8 * bonds - jnp.sum(x**2 + 0.5 * (x**2 - 1.0) ** 2 + tilt * x)

    return log_density


def phi4_lattice(side: int) -> Density:
    """Tilted phi^4 on a periodic square lattice in the broken phase: one vacuum has an eighth of the mass."""
    tilt, positive = LATTICES[side]
    log_z, error = reference(f"phi4-{side}")
    return Density(
        f"phi4-{side}",
        side**2,
        lattice_log_density(side, tilt),
        "two vacua, one with an eighth of the mass: a high ESS with one of them missing",
        "p+ as published; log Z measured",
        log_z=log_z,
        log_z_error=error,
        shares=lambda x: halves(jnp.sum(x)),
        masses=np.array([positive, 1.0 - positive]),
        box=3.5,
        goal=Goal(largest_weight=0.01),
    )


def multiwell(dim: int) -> Density:
    """|x|^2 / 2 + 12 sum exp(-x_i^2) over the first floor(log2 dim) coordinates: 2^k equal modes."""
    num = int(math.log2(dim))
    nodes, weights = legendre(-9.0, 9.0, 400)
    well = float(weights @ np.exp(-0.5 * nodes**2 - 12.0 * np.exp(-(nodes**2))))

    def log_density(x):
        return -0.5 * jnp.sum(x**2) - 12.0 * jnp.sum(jnp.exp(-(x[:num] ** 2)))

    def shares(x):
        # Four coordinates tell sixteen regions; with all of them chance alone would look like a wrong answer.
        bits = jnp.where(x[:4] > 0.0, 1, 0)
        return jax.nn.one_hot(jnp.sum(bits * jnp.asarray([8, 4, 2, 1])), 16)

    spread = math.sqrt(float(weights @ (nodes**2 * np.exp(-0.5 * nodes**2 - 12.0 * np.exp(-(nodes**2))))) / well)
    return Density(
        f"multiwell-{dim}",
        dim,
        log_density,
        f"{2**num} equal modes behind high walls",
        "a product of one-dimensional integrals; the weights by symmetry",
        log_z=num * math.log(well) + 0.5 * (dim - num) * math.log(2.0 * math.pi),
        shares=shares,
        masses=np.full(16, 1.0 / 16.0),
        spread=spread,
        box=7.0,
    )
