"""The benchmarks among particle systems: four particles in a double well, and Lennard-Jones clusters of any size.

Consumes their few settings; produces pair potentials, with the conventions of the published samples.
"""

import equinox as eqx

from tempering.settings.checks import require_choice, require_flag
from tempering.targets.densities.pair_potential import PairPotential
from tempering.types import Array, Float

__all__ = ["DoubleWellPair", "LennardJonesPair", "dw4", "lennard_jones"]


class DoubleWellPair(eqx.Module):
    """V(r) = -4 (r - 4)^2 + 0.9 (r - 4)^4, with wells at r = 4 -+ sqrt(20/9): 2.51 and 5.49."""

    def __call__(self, r: Float[Array, ""]) -> Float[Array, ""]:
        """V of one distance."""
        square = (r - 4.0) * (r - 4.0)
        # A product, because the difference of two powers is inf - inf where the distance overflows.
        return square * (0.9 * square - 4.0)


class LennardJonesPair(eqx.Module):
    """V(r) = r^-12 - 2 r^-6: depth 1 at r = 1."""

    def __call__(self, r: Float[Array, ""]) -> Float[Array, ""]:
        """V of one distance; +inf at 0."""
        inverse = 1.0 / r
        cube = inverse * inverse * inverse
        sixth = cube * cube
        # A product, because the difference of two powers is inf - inf where the inverse overflows.
        return sixth * (sixth - 2.0)


def dw4() -> PairPotential:
    """DW-4: four particles in the plane, U = sum_{i<j} [-4 (r - 4)^2 + 0.9 (r - 4)^4] (Köhler et al., 2020)."""
    return PairPotential(DoubleWellPair(), 4, 2, name="DW-4")


_SPLINE_RADIUS = 0.65
"""Where the paper's code continues V: at T = 1 no pair is as close."""


def lennard_jones(
    num_particles: int = 13,
    *,
    single_count: bool = False,
    trap: float = 1.0,
    smoothing: float | str | None = None,
) -> PairPotential:
    r"""LJ-n: U = sum_{i != j} [r^-12 - 2 r^-6] + (trap / 2) sum_i |x_i - xbar|^2 in space.

    The sum takes every pair twice, which is what the published samples of LJ-13 and LJ-55 belong to: on those of LJ-13
    <x . grad U>, 3(n-1) = 36 for samples of exp(-U), is 36.0, and 27.0 if every pair is taken once. The formula
    usually printed has the single count and no trap: `single_count=True, trap=0.0`, which no constant normalises.

    Args:
        num_particles: n, at least 2.
        single_count: take every pair once.
        trap: the strength of the harmonic trap about the centre of mass.
        smoothing: a radius below which V continues as its tangent line, such as 0.65: no equilibrium sample at T = 1
            has a pair there. The word spline continues V below 0.65 by the cubic of a spline through it, as the paper
            does. None leaves V as it is.

    Raises:
        SettingsError: if a setting is out of range.
    """
    require_flag("single_count", single_count)
    is_spline = isinstance(smoothing, str)
    if is_spline:
        require_choice("smoothing", smoothing, ("spline",))
    return PairPotential(
        LennardJonesPair(),
        num_particles,
        trap=trap,
        count=1 if single_count else 2,
        smoothing=_SPLINE_RADIUS if isinstance(smoothing, str) else smoothing,
        continuation="spline" if is_spline else "tangent",
        name=f"LJ-{num_particles}",
    )
