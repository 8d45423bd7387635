"""The samples of a level with their log densities, gradients and weights, and where each came from.

Everything here was paid for: the log densities set weights and log Z, the gradients train the denoiser and set scales.
"""

import equinox as eqx
import jax
import jax.numpy as jnp

from tempering.kernels import ChainState
from tempering.types import Array, Float, Int, Key

__all__ = [
    "ORIGINS",
    "Buffer",
    "blank_buffer",
    "concatenate",
    "covariance",
    "from_states",
    "in_units",
    "inner_scale",
    "padded",
    "reweighted",
    "spread",
    "subsample",
]

ORIGINS = ("initial_pt", "importance_resampled", "generated", "refined", "weighted")
"""What `Buffer.origin` indexes: parallel tempering, resampled, unweighted, refined or weighted model samples."""


class Buffer(eqx.Module):
    """Samples of one level; log density and gradient are those of T = 1. Log weights are not normalised; 0 is even."""

    position: Float[Array, "particle dim"]
    log_density: Float[Array, " particle"]
    log_density_grad: Float[Array, "particle dim"]
    origin: Int[Array, " particle"]
    log_weight: Float[Array, " particle"]

    @property
    def weight(self) -> Float[Array, " particle"]:
        """Weights that sum to one."""
        return _softmax(self.log_weight)

    @property
    def size(self) -> int:
        """The number of samples."""
        return self.position.shape[0]

    @eqx.filter_jit
    def take(self, indices: Int[Array, " index"]) -> "Buffer":
        """The samples at `indices`, in that order."""
        return jax.tree.map(lambda leaf: leaf[indices], self)

    def states(self) -> ChainState:
        """The samples as chain states: a start for a kernel that needs no evaluation."""
        return ChainState(self.position, self.log_density, self.log_density_grad)


@jax.jit
def _softmax(log_weight: Float[Array, " particle"]) -> Float[Array, " particle"]:
    return jax.nn.softmax(log_weight)


@eqx.filter_jit
def from_states(states: ChainState, origin: str) -> Buffer:
    """Pool states of any leading axes into one buffer."""
    dim = states.position.shape[-1]
    log_density = states.log_density.reshape((-1,))
    code = jnp.full(log_density.shape, ORIGINS.index(origin), jnp.int32)
    gradient = states.log_density_grad.reshape((-1, dim))
    return Buffer(states.position.reshape((-1, dim)), log_density, gradient, code, jnp.zeros_like(log_density))


@eqx.filter_jit
def concatenate(first: Buffer, second: Buffer) -> Buffer:
    """All samples of both."""
    return jax.tree.map(lambda a, b: jnp.concatenate([a, b]), first, second)


@eqx.filter_jit
def subsample(key: Key, buffer: Buffer, size: int) -> Buffer:
    """`size` samples without replacement, in random order."""
    return buffer.take(jax.random.permutation(key, buffer.size)[:size])


def in_units(buffer: Buffer, scale: Float[Array, " dim"]) -> Buffer:
    """The same samples measured in `scale`, coordinate by coordinate; 1 / scale undoes it."""
    states = buffer.states().in_units(scale)
    return Buffer(states.position, states.log_density, states.log_density_grad, buffer.origin, buffer.log_weight)


@eqx.filter_jit
def reweighted(buffer: Buffer, beta: Float[Array, ""], beta_next: Float[Array, ""]) -> Buffer:
    """The same samples weighted for another temperature: p^(beta_next - beta) more. No evaluation."""
    log_weight = buffer.log_weight + (beta_next - beta) * buffer.log_density
    return eqx.tree_at(lambda tree: tree.log_weight, buffer, log_weight)


@eqx.filter_jit
def padded(buffer: Buffer, size: int) -> Buffer:
    """At least `size` samples: copies of the first without weight are appended."""
    missing = size - buffer.size
    if missing <= 0:
        return buffer
    copies = buffer.take(jnp.zeros((missing,), jnp.int32))
    without = eqx.tree_at(lambda tree: tree.log_weight, copies, jnp.full((missing,), -jnp.inf))
    return concatenate(buffer, without)


@eqx.filter_jit
def spread(buffer: Buffer) -> tuple[Float[Array, " dim"], Float[Array, " dim"]]:
    """Weighted mean and standard deviation of every coordinate."""
    weight = buffer.weight[:, None]
    mean = jnp.sum(weight * buffer.position, axis=0)
    return mean, jnp.sqrt(jnp.sum(weight * (buffer.position - mean[None]) ** 2, axis=0))


@eqx.filter_jit
def covariance(buffer: Buffer) -> Float[Array, "dim dim"]:
    """Weighted covariance."""
    centred = buffer.position - spread(buffer)[0][None]
    return (buffer.weight[:, None] * centred).T @ centred


@eqx.filter_jit
def inner_scale(buffer: Buffer, beta: Float[Array, ""]) -> Float[Array, " dim"]:
    """The within-mode scale of every coordinate, s_i = 1 / sqrt(E[(beta g_i)^2]).

    For a Gaussian this is the conditional standard deviation; for separated modes it is the scale inside one, where
    the standard deviation of the positions would give the distance between them.
    """
    square = jnp.sum(buffer.weight[:, None] * (beta * buffer.log_density_grad) ** 2, axis=0)
    return 1.0 / jnp.sqrt(jnp.maximum(square, 1e-30))


def blank_buffer(dim: int) -> Buffer:
    """A buffer's structure without samples, for reading one back."""
    points = jnp.zeros((0, dim))
    return Buffer(points, jnp.zeros((0,)), points, jnp.zeros((0,), jnp.int32), jnp.zeros((0,)))
