"""The network of DDS and CMCD: a control u(k, x) that is given the gradient of the target (PISGRADNet).

Consumes the index of a step, a point and a gradient there; produces a vector. Unbatched. What it sees of time does not
depend on the point, so that a batch of trajectories shares it.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from tempering.diffusion.networks.linear import Linear
from tempering.settings.path_baselines import PathSettings
from tempering.types import Array, Float, Int, Key

__all__ = ["Control", "Timetable"]

_NUM_FREQUENCIES = 64
_SLOWEST, _FASTEST = 0.1, 100.0
"""Frequencies of the features of k, the raw index of the step (Zhang and Chen, 2022)."""
_LARGEST_STATE = 1e4
_SMALL = 1e-8
"""Of the last weights at the start: the control is then `bias` times the gradient."""


class Control(eqx.Module):
    """u(k, x) = clip(f(x, h(tau)), 1e4) + g(tau) * clip(gradient, max_score), with tau sines and cosines of the step k.

    Every component is clipped: one wild gradient would otherwise throw a path away. As in the published code, g has one
    hidden layer more than f, and no gelu before its exit.

    Args:
        bias: what g starts as, in every coordinate.
    """

    phase: Float[Array, " frequency"]
    times: tuple[Linear, ...]
    states: tuple[Linear, ...]
    gradients: tuple[Linear, ...]
    max_score: float = eqx.field(static=True)

    def __init__(self, key: Key, dim: int, settings: PathSettings, bias: float):
        key_times, key_states, key_gradients = jax.random.split(key, 3)
        width, depth = settings.width, settings.depth
        self.max_score = settings.max_score
        self.phase = jnp.zeros((_NUM_FREQUENCIES,))
        self.times = _layers(key_times, [2 * _NUM_FREQUENCIES, width, width])
        *hidden, last = _layers(key_states, [dim + width, *[width] * depth, dim])
        self.states = (*hidden, _nearly(last, 0.0))
        *hidden, last = _layers(key_gradients, [2 * _NUM_FREQUENCIES, width, *[width] * depth, dim])
        self.gradients = (*hidden, _nearly(last, bias))

    def __call__(
        self, k: Int[Array, ""], x: Float[Array, " dim"], gradient: Float[Array, " dim"]
    ) -> Float[Array, " dim"]:
        """The control at one point. It is not differentiated by the gradient that it is given."""
        return _steered(self.states, *self._at(k), x, gradient, self.max_score)

    def timetable(self, num: int) -> "Timetable":
        """The same control with all that it makes of steps 0 to `num` - 1 worked out."""
        told, factors = jax.vmap(self._at)(jnp.arange(num))
        return Timetable(told, factors, self.states, self.max_score)

    def _at(self, k: Int[Array, ""]) -> tuple[Float[Array, " width"], Float[Array, " dim"]]:
        """h(tau) and g(tau)."""
        angles = np.linspace(_SLOWEST, _FASTEST, _NUM_FREQUENCIES, dtype=np.float32) * k.astype(jnp.float32)
        angles = angles + self.phase
        features = jnp.concatenate([jnp.sin(angles), jnp.cos(angles)])
        *hidden, last = self.gradients
        return _chain(self.times, features), last(_chain(tuple(hidden), features))


class Timetable(eqx.Module):
    """A control whose h(tau) and g(tau) are looked up: a loop over steps does not work them out, or differentiate them.

    On a GPU such a loop costs what it launches, and more than a third of it was that.
    """

    told: Float[Array, "step width"]
    factors: Float[Array, "step dim"]
    states: tuple[Linear, ...]
    max_score: float = eqx.field(static=True)

    def __call__(
        self, k: Int[Array, ""], x: Float[Array, " dim"], gradient: Float[Array, " dim"]
    ) -> Float[Array, " dim"]:
        """The control at one point, as `Control` has it."""
        return _steered(self.states, self.told[k], self.factors[k], x, gradient, self.max_score)


def _steered(
    states: tuple[Linear, ...], told: Array, factor: Array, x: Array, gradient: Array, max_score: float
) -> Float[Array, " dim"]:
    state = _chain(states, jnp.concatenate([x, told]))
    given = jnp.clip(jax.lax.stop_gradient(gradient), -max_score, max_score)
    return jnp.clip(state, -_LARGEST_STATE, _LARGEST_STATE) + factor * given


def _layers(key: Key, sizes: list[int]) -> tuple[Linear, ...]:
    keys = jax.random.split(key, len(sizes) - 1)
    return tuple(Linear(a, b, key=one) for a, b, one in zip(sizes, sizes[1:], keys, strict=False))


def _chain(layers: tuple[Linear, ...], values: Float[Array, " size_in"]) -> Float[Array, " size_out"]:
    for layer in layers[:-1]:
        values = jax.nn.gelu(layer(values))
    return layers[-1](values)


def _nearly(layer: Linear, constant: float) -> Linear:
    """The layer with weights of 1e-8 and one bias."""
    new = (jnp.full_like(layer.weight, _SMALL), jnp.full_like(layer.bias, constant))
    return eqx.tree_at(lambda one: (one.weight, one.bias), layer, new)
