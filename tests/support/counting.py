"""A target that counts on the host the points it really receives: the witness against which the ledger is held.

Consumes any target; produces the same density, whose every point first travels to Python and back. The compiled
program cannot evaluate the density without the counter seeing the point, and no point is counted twice: value and
gradient of one point come from one visit.
"""

import equinox as eqx
import jax
import numpy as np

from tempering.targets import Target

__all__ = ["Counter", "CountingTarget", "counting_target"]


class Counter:
    """Points received so far: with their gradient, and for the value alone."""

    def __init__(self):
        self.with_gradient = 0
        self.value_only = 0

    @property
    def total(self) -> int:
        """Every point received. Exact only after `wait`: the device runs ahead of Python."""
        return self.with_gradient + self.value_only

    def reset(self) -> None:
        """Start counting anew; the target need not be compiled again."""
        self.with_gradient = self.value_only = 0

    def wait(self, results) -> int:
        """The total, once everything that made `results` has finished."""
        jax.block_until_ready(results)
        return self.total


class CountingTarget(Target):
    """The density of `inner`, evaluated only at points that the counter has handed back."""

    inner: Target
    dim: int = eqx.field(static=True)
    counter: Counter = eqx.field(static=True)

    def log_density(self, x):
        return _counted(self.counter, self.inner, x)


def counting_target(inner: Target) -> tuple[CountingTarget, Counter]:
    """The target that counts, and its counter.

    Keep the pair for a whole module and `reset` the counter: a new counter is a new program to compile.
    """
    counter = Counter()
    return CountingTarget(inner, inner.dim, counter), counter


def _visit(counter: Counter, kind: str, x: jax.Array) -> jax.Array:
    """Send x to the host and back. The density depends on what comes back, so the visit cannot be optimised away."""

    def receive(points) -> np.ndarray:
        points = np.asarray(points)
        # `expand_dims` hands a batch over whole, as (*batch, dim): every leading axis counts points.
        setattr(counter, kind, getattr(counter, kind) + int(np.prod(points.shape[:-1], dtype=np.int64)))
        return points

    return jax.pure_callback(receive, jax.ShapeDtypeStruct(x.shape, x.dtype), x, vmap_method="expand_dims")


@eqx.filter_custom_vjp
def _counted_value(x, counter, inner):
    return inner.log_density(_visit(counter, "value_only", x))


@_counted_value.def_fwd
def _counted_fwd(perturbed, x, counter, inner):
    del perturbed
    return jax.value_and_grad(inner.log_density)(_visit(counter, "with_gradient", x))


@_counted_value.def_bwd
def _counted_bwd(gradient, cotangent, perturbed, x, counter, inner):
    del perturbed, x, counter, inner
    return cotangent * gradient


def _counted(counter: Counter, inner: Target, x: jax.Array) -> jax.Array:
    return _counted_value(x, counter, inner)
