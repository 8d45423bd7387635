"""The samples of a level with their log densities, gradients and weights; and the levels of a run, hottest first.

Everything here was paid for: the log densities set weights and log Z, the gradients train the denoiser and set scales.
"""

from dataclasses import dataclass, replace

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from tempering.compilation import quick
from tempering.kernels import ChainState
from tempering.parallel_tempering.ladder import betas_of
from tempering.targets.path import ReferenceValues
from tempering.targets.units import Units
from tempering.types import Array, Float, Int, Key

__all__ = [
    "ORIGINS",
    "Buffer",
    "Levels",
    "blank_buffer",
    "concatenate",
    "covariance",
    "from_states",
    "in_units",
    "out_of_units",
    "padded",
    "reweighted",
    "spread",
    "subsample",
]

ORIGINS = ("initial_pt", "importance_resampled", "generated", "refined", "weighted", "reference")
"""What `Buffer.origin` indexes: parallel tempering; resampled, unweighted, refined or weighted model samples; draws of
a reference made of modes."""


class Buffer(eqx.Module):
    """Samples of one level; log density and gradient are those of T = 1, beside those of a reference if there is one.

    Log weights are not normalised; 0 is even.
    """

    position: Float[Array, "particle dim"]
    log_density: Float[Array, " particle"]
    log_density_grad: Float[Array, "particle dim"]
    origin: Int[Array, " particle"]
    log_weight: Float[Array, " particle"]
    reference: ReferenceValues | None = None

    @property
    def weight(self) -> Float[Array, " particle"]:
        """Weights that sum to one."""
        return _softmax(self.log_weight)

    @property
    def size(self) -> int:
        """The number of samples."""
        return self.position.shape[0]

    @quick
    def take(self, indices: Int[Array, " index"]) -> "Buffer":
        """The samples at `indices`, in that order."""
        return jax.tree.map(lambda leaf: leaf[indices], self)

    def states(self) -> ChainState:
        """The samples as chain states: a start for a kernel that needs no evaluation."""
        return ChainState(self.position, self.log_density, self.log_density_grad, self.reference)


@quick
def _softmax(log_weight: Float[Array, " particle"]) -> Float[Array, " particle"]:
    return jax.nn.softmax(log_weight)


@quick
def from_states(states: ChainState, origin: str) -> Buffer:
    """Pool states of any leading axes into one buffer."""
    log_density = states.log_density.reshape((-1,))
    code = jnp.full(log_density.shape, ORIGINS.index(origin), jnp.int32)
    batch = states.log_density.ndim
    flat = jax.tree.map(lambda leaf: leaf.reshape((-1, *leaf.shape[batch:])), states)
    even = jnp.zeros_like(log_density)
    return Buffer(flat.position, flat.log_density, flat.log_density_grad, code, even, flat.reference)


@quick
def concatenate(first: Buffer, second: Buffer) -> Buffer:
    """All samples of both."""
    return jax.tree.map(lambda a, b: jnp.concatenate([a, b]), first, second)


@quick
def subsample(key: Key, buffer: Buffer, size: int) -> Buffer:
    """`size` samples without replacement, in random order."""
    return buffer.take(jax.random.permutation(key, buffer.size)[:size])


def in_units(buffer: Buffer, units: Units) -> Buffer:
    """The same samples measured in `units`."""
    return _with_states(buffer, buffer.states().in_units(units))


def out_of_units(buffer: Buffer, units: Units) -> Buffer:
    """What `in_units` was given."""
    return _with_states(buffer, buffer.states().out_of_units(units))


def _with_states(buffer: Buffer, states: ChainState) -> Buffer:
    own = (states.position, states.log_density, states.log_density_grad)
    return Buffer(*own, buffer.origin, buffer.log_weight, states.reference)


@quick
def reweighted(buffer: Buffer, beta: Float[Array, ""], beta_next: Float[Array, ""]) -> Buffer:
    """The same samples weighted for another temperature: (p / r)^(beta_next - beta) more. No evaluation."""
    log_weight = buffer.log_weight + (beta_next - beta) * buffer.states().log_ratio
    return eqx.tree_at(lambda tree: tree.log_weight, buffer, log_weight)


@quick
def padded(buffer: Buffer, size: int) -> Buffer:
    """At least `size` samples: copies of the first without weight are appended."""
    missing = size - buffer.size
    if missing <= 0:
        return buffer
    copies = buffer.take(jnp.zeros((missing,), jnp.int32))
    without = eqx.tree_at(lambda tree: tree.log_weight, copies, jnp.full((missing,), -jnp.inf))
    return concatenate(buffer, without)


@quick
def spread(buffer: Buffer) -> tuple[Float[Array, " dim"], Float[Array, " dim"]]:
    """Weighted mean and standard deviation of every coordinate. A sample without weight counts for nothing."""
    weight = buffer.weight[:, None]
    mean = jnp.sum(weight * buffer.position, axis=0)
    # Its square may overflow, and 0 times infinity is no number.
    square = jnp.where(weight > 0, weight * (buffer.position - mean[None]) ** 2, 0.0)
    return mean, jnp.sqrt(jnp.sum(square, axis=0))


@quick
def covariance(buffer: Buffer) -> Float[Array, "dim dim"]:
    """Weighted covariance."""
    centred = jnp.where(buffer.weight[:, None] > 0, buffer.position - spread(buffer)[0][None], 0.0)
    return (buffer.weight[:, None] * centred).T @ centred


def blank_buffer(dim: int, *, has_reference: bool = False) -> Buffer:
    """A buffer's structure without samples, for reading one back."""
    arrays = (np.zeros((0, dim), np.float32), np.zeros((0,), np.float32), np.zeros((0,), np.int32))
    points, numbers, origins = jax.device_put(arrays)
    reference = ReferenceValues(numbers, points) if has_reference else None
    return Buffer(points, numbers, points, origins, numbers, reference)


@dataclass(frozen=True)
class Levels:
    """The levels of a run, hottest first: all that one stage hands to the next.

    Args:
        temperatures: of the levels that are done; while a level is being made, one more: the one to reach.
        buffers: the samples of the levels that are done.
        step_size: of the kernels at the two coldest levels.
        sigma_max: the largest noise level, one for the whole run.
        networks: one for all levels, or one for each of the coldest two; untrained at first.
        has_gradients: whether the buffers hold gradients of the target.
    """

    temperatures: tuple[float, ...]
    buffers: tuple[Buffer, ...]
    step_size: Float[Array, " two"]
    sigma_max: Float[Array, ""]
    networks: tuple[eqx.Module, ...] = ()
    has_gradients: bool = True

    @property
    def num_done(self) -> int:
        """The number of levels that are done."""
        return len(self.buffers)

    @property
    def temperature(self) -> float:
        """The temperature of the coldest level that is done."""
        return self.temperatures[self.num_done - 1]

    @property
    def betas(self) -> Float[Array, " level"]:
        """The inverse temperatures."""
        return betas_of(self.temperatures)

    def beta(self, age: int) -> Float[Array, ""]:
        """The inverse temperature of the last level (age 0; it may be the one to reach), the one before (1), ..."""
        # Picked on the host: a slice of an array is a new program for every length.
        return jnp.asarray(np.asarray(self.betas)[-1 - age])

    def towards(self, temperature: float) -> "Levels":
        """The same levels with the temperature of the level to reach."""
        return replace(self, temperatures=(*self.temperatures, temperature))

    def anticipated(self) -> Buffer:
        """The coldest buffer weighted for the level to reach."""
        return reweighted(self.buffers[-1], self.beta(1), self.beta(0))

    def between(self, num: int, num_pairs: int) -> tuple[tuple[Buffer, ...], tuple[float, ...]]:
        """Buffers at `num` temperatures between each two neighbours of the first `num_pairs` pairs, and their betas.

        The temperatures are even in log T. Each buffer is the pair's hotter one, reweighted: it reaches as far as the
        colder one does, and the other way round that need not be so.
        """
        buffers, betas = [], []
        for hot, cold, buffer in zip(self.temperatures[:num_pairs], self.temperatures[1:], self.buffers, strict=False):
            for step in range(1, num + 1):
                betas.append(1.0 / (hot ** (1.0 - step / (num + 1)) * cold ** (step / (num + 1))))
                buffers.append(reweighted(buffer, jnp.asarray(1.0 / hot), jnp.asarray(betas[-1])))
        return tuple(buffers), tuple(betas)
