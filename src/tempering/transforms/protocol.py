"""What a chart is, for those that use one without knowing which."""

from typing import Any, Protocol, runtime_checkable

from tempering.types import Array, Bool, Float

__all__ = ["Chart"]


@runtime_checkable
class Chart(Protocol):
    """Inner coordinates y in R^dim and the user's x in R^full_dim, for one point; batch by `jax.vmap`."""

    @property
    def dim(self) -> int:
        """Number of inner coordinates."""
        ...

    @property
    def full_dim(self) -> int:
        """Number of the user's coordinates."""
        ...

    def embed(self, y: Float[Array, " dim"]) -> Float[Array, " full_dim"]:
        """The user's point."""
        ...

    def restrict(self, x: Float[Array, " full_dim"]) -> Float[Array, " dim"]:
        """The inner coordinates of a point that the chart contains."""
        ...

    def log_volume(self, y: Float[Array, " dim"]) -> Float[Array, ""]:
        """log |det d embed / dy|: what turns a density of x into one of y."""
        ...

    def contains(self, x: Float[Array, " full_dim"]) -> Bool[Array, ""]:
        """Whether x has inner coordinates."""
        ...

    def as_dict(self) -> dict[str, Any]:
        """What it is, JSON-ready."""
        ...
