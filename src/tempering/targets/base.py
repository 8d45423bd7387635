"""What a target is: a log density, whatever is known exactly about it, and nine optional things it may bring.

Consumes nothing; produces unnormalised log densities at T = 1 for one point; `path` says what level k makes of them.
"""

from abc import abstractmethod
from collections.abc import Callable
from typing import Any, Generic, TypeVar

import equinox as eqx
import jax

from tempering.devices import by_row, on_devices
from tempering.numerics import exact_products
from tempering.targets.path import ReferenceValues
from tempering.targets.references import ReferenceLike, as_reference
from tempering.transforms.centred import Centred
from tempering.transforms.protocol import Chart
from tempering.types import Array, Float, Key

__all__ = [
    "OPTIONAL",
    "ExactTarget",
    "Referenced",
    "Target",
    "Wrapper",
    "evaluate",
    "evaluate_many",
    "evaluate_reference",
    "evaluate_value",
]

T = TypeVar("T")


class _Optional(Generic[T]):
    """An attribute that every target has: its default, unless a subclass defines it.

    The class itself does not have it, so that a dataclass field of the same name does not take it for its default; and
    nothing sets it, so that a field's value in the instance comes first.
    """

    def __init__(self, default: T):
        self.default = default

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def __get__(self, instance: Any, owner: type | None = None) -> T:
        if instance is None:
            raise AttributeError(self.name)
        return instance._inherited(self.name, self.default)


class Target(eqx.Module):
    """The base class of targets: an unnormalised density on R^dim. A subclass gives `dim` and `log_density`.

    Nine things are optional. Every target has all of them, with a default. A subclass defines the ones that it has,
    each by a field, a property or, for `invariants`, a method. They are in the coordinates that `log_density` takes,
    unless their text says something else.

    A target may be made from another target. If its coordinates are the same, it is a `Wrapper`, which passes on
    everything that the other has. If its coordinates differ, it is a plain `Target`, which defines what it knows.
    """

    dim: eqx.AbstractVar[int]

    geometry = _Optional[Centred | None](None)
    """For centred particles: the coordinates in which the density has a normaliser."""

    chart = _Optional[Chart | None](None)
    """The way from these coordinates, which methods work in, to the user's. None: they are the user's."""

    structure = _Optional[Any](None)
    """What makes the user's own tree of a point in the user's coordinates (`adapters.structure`)."""

    reference = _Optional[ReferenceLike | None](None)
    """A normalised distribution that the path starts from (`references`)."""

    init = _Optional[Any](None)
    """Starting points, (point, dim), such as a molecule's conformation."""

    masses = _Optional[Any](None)
    """The masses of particles, or of the blocks of equal size that make a point. Chains move with them."""

    atom_kinds = _Optional[tuple[int, ...]](())
    """The kind of every particle, if kinds differ."""

    bonds = _Optional[tuple[tuple[int, int], ...]](())
    """Pairs of particles that are joined."""

    invariants = _Optional[Callable[[Array], Array] | None](None)
    """A function of one point: numbers that chains must have mixed in. None leaves the choice to the geometry."""

    @abstractmethod
    def log_density(self, x: Float[Array, " dim"]) -> Float[Array, ""]:
        """Unnormalised log density of one point at T = 1; -inf outside the support."""

    def _inherited(self, name: str, default: Any) -> Any:
        """An optional thing that the class does not define."""
        del name
        return default


OPTIONAL = tuple(name for name, value in vars(Target).items() if isinstance(value, _Optional))
"""The names of the nine."""


class Wrapper(Target):
    """Another target's density in the same coordinates, with all that it brings; subclasses define what they change."""

    target: eqx.AbstractVar[Target]

    def log_density(self, x: Float[Array, " dim"]) -> Float[Array, ""]:
        return self.target.log_density(x)

    def _inherited(self, name: str, default: Any) -> Any:
        del default
        return getattr(self.target, name)  # one of the nine, by name: this is how all of them are handed on


class Referenced(Wrapper):
    """The target unchanged, and beside it a normalised `reference`.

    Both are of the coordinates that a method works in. None takes away a reference that the target itself has.
    """

    dim: int = eqx.field(static=True)
    target: Target
    reference: ReferenceLike | None

    def __init__(self, dim: int, target: Target, reference: Any):
        self.dim, self.target, self.reference = dim, target, as_reference(reference)


class ExactTarget(Target):
    """The base class of targets whose samples, normaliser and moments are known. Benchmarks and tests use them.

    A *region* is a soft or hard indicator function of one point. Its expectation under the target is known exactly.
    Examples are the posterior probability of a mixture component, or "this coordinate is in its right-hand well".
    `regions_partition` says whether the indicators sum to one. Then total variation between weights makes sense.
    """

    regions_partition: eqx.AbstractClassVar[bool]

    @abstractmethod
    def sample(self, key: Key, num: int) -> Float[Array, "num dim"]:
        """Draw `num` independent exact samples."""

    @abstractmethod
    def log_z(self) -> float:
        """The logarithm of the integral of exp(log_density)."""

    @abstractmethod
    def mean(self) -> Float[Array, " dim"]:
        """The exact mean, E[x]."""

    @abstractmethod
    def second_moment(self) -> float:
        """The exact second moment, E|x|^2."""

    @abstractmethod
    def region_weights(self) -> Float[Array, " region"]:
        """The exact expectation of every indicator of `region_indicators`."""

    @abstractmethod
    def region_indicators(self, x: Float[Array, " dim"]) -> Float[Array, " region"]:
        """The indicators of one point, each in [0, 1]."""


@exact_products()
def evaluate(target: Target, x: Float[Array, " dim"]) -> tuple[Float[Array, ""], Float[Array, " dim"]]:
    """Log density and its gradient at one point: one evaluation in the ledger."""
    return jax.value_and_grad(target.log_density)(x)


@exact_products()
def evaluate_value(target: Target, x: Float[Array, " dim"]) -> Float[Array, ""]:
    """Log density alone at one point: one evaluation without a gradient."""
    return target.log_density(x)


@exact_products()
def evaluate_reference(target: Target, x: Float[Array, " dim"]) -> ReferenceValues | None:
    """The same of the target's reference: no evaluation of the target. None where there is no reference."""
    reference = target.reference
    return None if reference is None else ReferenceValues(*jax.value_and_grad(reference.log_density)(x))


@on_devices
def evaluate_many(
    target: Target, x: Float[Array, "particle dim"], chunk_size: int = 10_000
) -> tuple[Float[Array, " particle"], Float[Array, "particle dim"]]:
    """Log densities and gradients of many points, exactly one evaluation each: no chunk is padded."""
    return by_row(lambda point: evaluate(target, point), chunk_size=chunk_size)(x)
