"""Identical particles that interact in pairs, by any potential V(r) of a user's own.

Consumes V, the number of particles and the dimension of space; produces a target on the full coordinates of a
configuration, flat, particle after particle. The density does not change when the configuration is moved, turned,
mirrored or its particles renamed; `geometry` has the coordinates in which it has a normaliser.
"""

from collections.abc import Callable
from typing import Any, Literal

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from tempering.errors import DensityError, SettingsError, first_line, what_is
from tempering.settings.checks import require_choice, require_count, require_kind, require_number, require_positive
from tempering.targets.base import Target
from tempering.transforms.centred import Centred
from tempering.types import Array, Bool, Float

__all__ = ["ContinuedBelow", "PairPotential"]

_DEGREES = {"tangent": 1, "spline": 3}
"""Of the polynomial that takes the place of V below the radius of smoothing."""


class ContinuedBelow(eqx.Module):
    """V(r) above a radius, and below it the polynomial of some degree that touches V there: finite at r = 0.

    Degree 1 is the tangent line. Degree 3 is how a cubic spline through V continues beyond its last knot, where knots
    are dense: value, slope, and two more derivatives are continuous.
    """

    pair_fn: Callable[..., Any]
    radius: float = eqx.field(static=True)
    degree: int = eqx.field(static=True)

    def __call__(self, r: Float[Array, ""]) -> Float[Array, ""]:
        """V of one distance."""
        radius = jnp.asarray(self.radius, r.dtype)
        below = jnp.minimum(r - radius, 0.0)
        term, total, derivative = jnp.ones_like(below), jnp.zeros_like(below), self.pair_fn
        for order in range(1, self.degree + 1):
            derivative, term = jax.grad(derivative), term * below / order
            total = total + derivative(radius) * term
        # Where r = radius, maximum and minimum both pass half of a gradient on, and the halves are equal.
        return self.pair_fn(jnp.maximum(r, radius)) + total


class PairPotential(Target):
    r"""The density of particles that interact in pairs: exp(-U), with a potential V of the distance.

    U(x) = c sum_{i<j} V(|x_i - x_j|) + (k/2) sum_i |x_i - xbar|^2, where xbar is the centre of mass.

    Examples:
        >>> import tempering as tp
        >>> cluster = tp.PairPotential(lambda r: r**-12 - 2 * r**-6, num_particles=7, spatial_dim=3, trap=1.0)
        >>> cluster.dim
        21

    V need not be finite everywhere:

    - If V is +inf, or if V or its force overflows, the energy is +inf and the log density -inf. The pair adds nothing
      to the gradient, which stays free of NaN in forward and reverse mode.
    - If two particles are at the same place and V(0) is finite, the energy is finite and the pair exerts no force.
    - If V is NaN, the log density is NaN. It is counted as not finite and rejected as a proposal. The pair adds nothing
      to the gradient. `r**-12 - 2 * r**-6` is NaN at r = 0 (inf - inf); `s * (s - 2)` with s = r**-6 is +inf.

    Without a trap V must grow with the distance. Otherwise the particles fly apart, and no constant normalises the
    density.

    Args:
        pair_fn: V, a function from one distance (a scalar array) to one number. It must be differentiable JAX. A plain
            function is part of the compilation's key; the arrays of a callable module (Equinox) stay arguments.
        num_particles: n, at least 2.
        spatial_dim: the dimension of space.
        trap: k, the strength of a harmonic trap about the centre of mass. 0 means no trap.
        count: c, how often each pair is counted: 1 or 2.
        smoothing: the radius below which V continues as a polynomial. None leaves V as it is.
        continuation: the polynomial. "tangent" is the tangent line. "spline" is the cubic by which a spline through V
            continues (the paper's).
        name: the name of the target in reports.

    Raises:
        SettingsError: if a number is out of range.
        DensityError: if V does not map one float32 distance to one differentiable float32 number, or if V or its slope
            is not finite at the radius of smoothing.
    """

    dim: int = eqx.field(static=True)
    num_particles: int = eqx.field(static=True)
    spatial_dim: int = eqx.field(static=True)
    trap: float = eqx.field(static=True)
    count: int = eqx.field(static=True)
    name: str = eqx.field(static=True)
    pair_fn: Callable[..., Any]

    def __init__(
        self,
        pair_fn: Any,
        num_particles: int,
        spatial_dim: int = 3,
        *,
        trap: float = 0.0,
        count: int = 1,
        smoothing: float | None = None,
        continuation: Literal["tangent", "spline"] = "tangent",
        name: str = "pair potential",
    ):
        require_count("num_particles", num_particles)
        require_count("spatial_dim", spatial_dim)
        geometry = Centred(int(num_particles), int(spatial_dim))  # refuses a single particle, and says why
        require_number("trap", trap, lambda strength: strength >= 0, "a finite number of at least 0")
        require_count("count", count, 1, 2)
        require_kind("name", name, str)
        _check_pair_fn(pair_fn)
        require_choice("continuation", continuation, tuple(_DEGREES))
        if smoothing is not None:
            require_positive("smoothing", smoothing)
            _check_finite_at(pair_fn, smoothing)
            pair_fn = ContinuedBelow(pair_fn, float(smoothing), _DEGREES[continuation])
        self.dim = geometry.full_dim
        self.num_particles = int(num_particles)
        self.spatial_dim = int(spatial_dim)
        self.trap = float(trap)
        self.count = int(count)
        self.name = name
        self.pair_fn = pair_fn

    @property
    def geometry(self) -> Centred:
        """The coordinates of centred configurations, in which samplers work."""
        return Centred(self.num_particles, self.spatial_dim)

    def log_density(self, x: Float[Array, " dim"]) -> Float[Array, ""]:
        return -self.energy(x)

    def energy(self, x: Float[Array, " dim"]) -> Float[Array, ""]:
        """U(x) of one configuration."""
        if x.shape != (self.dim,):
            raise SettingsError(
                f"a configuration of shape {x.shape}; {self.num_particles} particles in {self.spatial_dim}-D have "
                f"shape ({self.dim},), flat, particle after particle; batch by jax.vmap"
            )
        # Coordinates first, (xyz, particle), and all ordered pairs: on CPU, for 55 particles, faster than either
        # (particle, particle, xyz) or the i < j half alone, whose gradient is a scatter.
        axes = x.reshape(self.num_particles, self.spatial_dim).T
        offsets = axes[:, :, None] - axes[:, None, :]
        energy = 0.5 * self.count * jnp.sum(self._pair_energies(jnp.sum(offsets * offsets, axis=0)))
        if self.trap:
            centred = axes - jnp.mean(axes, axis=1, keepdims=True)
            energy = energy + 0.5 * self.trap * jnp.sum(centred * centred)
        return energy

    def particle_energies(self, x: Float[Array, " dim"]) -> Float[Array, " particle"]:
        """U(x) in parts: half of the energy of every pair goes to either particle, and each has its own of the trap."""
        axes = x.reshape(self.num_particles, self.spatial_dim).T
        offsets = axes[:, :, None] - axes[:, None, :]
        centred = axes - jnp.mean(axes, axis=1, keepdims=True)
        pairs = 0.5 * self.count * jnp.sum(self._pair_energies(jnp.sum(offsets * offsets, axis=0)), axis=1)
        return pairs + 0.5 * self.trap * jnp.sum(centred * centred, axis=0)

    def _pair_energies(self, squares: Float[Array, "particle particle"]) -> Float[Array, "particle particle"]:
        """V of every ordered pair from its squared distance; 0 on the diagonal."""
        is_self = jnp.eye(self.num_particles, dtype=bool)
        is_apart = (squares > 0) & ~is_self
        # The root of 0 has an infinite slope: it must neither be differentiated nor selected.
        r = jnp.where(is_apart, jnp.sqrt(jnp.where(is_apart, squares, 1.0)), 0.0)
        # No sum of the forces of n pairs can overflow below this, and so none can meet as inf - inf.
        largest = float(jnp.finfo(squares.dtype).max) / (8 * self.num_particles)
        energies = jax.vmap(jax.vmap(lambda distance: _pair_energy(self.pair_fn, distance, largest)))(r)
        return jnp.where(is_self, 0.0, energies)


# A rule of its own, because V and its slope are then computed once; the same guards by `where` around V, differentiated
# automatically, take five times as long for 55 particles on CPU.
@eqx.filter_custom_jvp
def _pair_energy(pair_fn: Callable[..., Any], r: Float[Array, ""], largest: float) -> Float[Array, ""]:
    """V(r); +inf where V or its force is too large for a number, with a slope of 0 wherever V is irregular."""
    value, _, is_regular = _judge(pair_fn, r, largest)
    # An attractive singularity stays -inf and a NaN stays NaN; all else that is irregular is too close.
    return jnp.where(is_regular | jnp.isnan(value) | (value == -jnp.inf), value, jnp.inf)


@_pair_energy.def_jvp
def _pair_energy_jvp(primals, tangents):
    pair_fn, r, largest = primals
    pair_fn_tangent, r_tangent, _ = tangents
    _, slope, is_regular = _judge(pair_fn, r, largest)
    tangent = jnp.zeros_like(r)
    if r_tangent is not None:
        tangent = jnp.where(is_regular, slope, 0.0) * r_tangent
    if jax.tree.leaves(pair_fn_tangent):  # V has parameters, and someone differentiates by them
        regular_r = jnp.where(is_regular, r, 1.0)  # a `where` after V alone would be 0 * inf in reverse mode
        _, from_parameters = eqx.filter_jvp(lambda fn: fn(regular_r), (pair_fn,), (pair_fn_tangent,))
        tangent = tangent + jnp.where(is_regular, from_parameters, 0.0)
    return _pair_energy(pair_fn, r, largest), tangent


def _judge(
    pair_fn: Callable[..., Any], r: Float[Array, ""], largest: float
) -> tuple[Float[Array, ""], Float[Array, ""], Bool[Array, ""]]:
    """V(r), V'(r), and whether both are finite and the force, (V'/r) times an offset, no larger than `largest`."""
    value, slope = jax.value_and_grad(pair_fn)(r)
    # At r = 0 the direction, and with it the force, is 0 whatever the slope.
    is_small = jnp.abs(slope) <= jnp.where(r > 0, largest * jnp.minimum(r, 1.0), largest)
    return value, slope, jnp.isfinite(value) & is_small


def _check_pair_fn(pair_fn: Any) -> None:
    if not callable(pair_fn):
        raise DensityError(f"pair_fn is {what_is(pair_fn)}; give V, a function of one distance, in JAX")
    try:
        value, _ = eqx.filter_eval_shape(jax.value_and_grad(pair_fn), jax.ShapeDtypeStruct((), jnp.float32))
    except Exception as error:
        raise DensityError(
            f"pair_fn raised {type(error).__name__} on one distance, a scalar float32 array: {first_line(error)}; it "
            "must return one real number and be differentiable: write it with jax.numpy, without `if` on the distance"
        ) from error
    if value.dtype != jnp.float32:
        raise DensityError(f"pair_fn returned {value.dtype} for a float32 distance; it must keep the dtype")


def _check_finite_at(pair_fn: Callable[..., Any], radius: float) -> None:
    value, slope = jax.value_and_grad(pair_fn)(jnp.asarray(radius, jnp.float32))
    if not (np.isfinite(value) and np.isfinite(slope)):
        raise DensityError(
            f"at the radius of smoothing, {radius}, V is {float(value)} and its slope {float(slope)}; both must be "
            "finite: choose a larger radius"
        )
