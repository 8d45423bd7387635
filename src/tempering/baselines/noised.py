"""What iDEM and BNEM share besides the estimator: the buffer, draws by the reverse SDE, and the outer loop.

A step of training is one outer loop: `num_inner` updates on points of the buffer with fresh noise, then `num_new` draws
of the network, which join the buffer in place of the oldest.
"""

from abc import abstractmethod
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import optax

from tempering.baselines.contract import Baseline, Cost, Info
from tempering.baselines.estimator import clipped, rate, variance
from tempering.baselines.optimise import updated
from tempering.settings.score_baselines import ScoreSettings
from tempering.targets.base import Target, evaluate
from tempering.types import Array, Float, Int, Key, Keys

__all__ = [
    "LEAST_WEIGHT",
    "Noised",
    "NoisedState",
    "Replay",
    "at_random_times",
    "reverse_sde",
    "reverse_step",
    "time_at",
]

LEAST_WEIGHT = 1e-3
"""Added to h where it weighs errors."""
_REACH = 10.0
"""Standard deviations of the largest noise from 0, beyond which a draw does not join the buffer. A network that has
learned little throws some draws far away; their energies would be all that the next updates see."""


class Replay(eqx.Module):
    """A first-in first-out buffer of points, from which batches are drawn evenly and with replacement."""

    points: Float[Array, "size dim"]
    num_joined: Int[Array, ""]

    @classmethod
    def of(cls, points: Float[Array, "num dim"], size: int) -> "Replay":
        """A buffer of `size` whose first points are these."""
        blank = cls(jnp.zeros((size, points.shape[1])), jnp.zeros((), jnp.int32))
        return blank.joined(points)

    def joined(self, points: Float[Array, "num dim"], reach: float | Float[Array, ""] = jnp.inf) -> "Replay":
        """With these points in place of the oldest. One beyond `reach`, or not finite, leaves the older one there."""
        size = self.points.shape[0]
        points = points[-size:]
        rows = (self.num_joined + jnp.arange(points.shape[0])) % size
        is_near = jnp.all(jnp.isfinite(points) & (jnp.abs(points) <= reach), axis=1, keepdims=True)
        kept = jnp.where(is_near, points, self.points[rows])
        # Modulo twice the size: the count never overflows, and says whether the buffer is full.
        num = self.num_joined + points.shape[0]
        num = jnp.where(num >= 2 * size, num - size, num)
        return Replay(self.points.at[rows].set(kept), num)

    def batch(self, key: Key, num: int) -> Float[Array, "num dim"]:
        """`num` points."""
        filled = jnp.minimum(self.num_joined, self.points.shape[0])
        return self.points[jax.random.randint(key, (num,), 0, filled)]


class NoisedState(eqx.Module):
    """The network and its average over updates, which draws; the optimiser's moments; the buffer; loops made."""

    network: Any
    model: Any
    optimiser: Any
    replay: Replay
    num_loops: Int[Array, ""]


def reverse_sde(keys: Keys, score_fn: Any, dim: int, settings: ScoreSettings) -> Float[Array, "draw dim"]:
    """One draw a key: N(0, h(1)) and then x <- x + g^2 score dt + kappa g sqrt(dt) noise, from t = 1 down to 0.

    Args:
        score_fn: (x, t) -> score, of one point.
    """
    starts, noises = jax.vmap(jax.random.split, out_axes=1)(keys)
    x = jnp.sqrt(variance(jnp.ones(()), settings)) * jax.vmap(lambda key: jax.random.normal(key, (dim,)))(starts)

    def step(x: Array, index: Array) -> tuple[Array, None]:
        t = time_at(index, settings)
        noise = jax.vmap(lambda key: jax.random.normal(jax.random.fold_in(key, index), (dim,)))(noises)
        scores = jax.vmap(lambda point: score_fn(point, t))(x)
        return reverse_step(x, t, scores, noise, settings), None

    return jax.lax.scan(step, x, jnp.arange(settings.num_sde_steps))[0]


def time_at(index: Int[Array, ""], settings: ScoreSettings) -> Float[Array, ""]:
    """t of a step of the reverse SDE."""
    return 1.0 - index.astype(jnp.float32) * (1.0 / settings.num_sde_steps)


def reverse_step(
    x: Float[Array, "draw dim"],
    t: Float[Array, ""],
    scores: Float[Array, "draw dim"],
    noise: Float[Array, "draw dim"],
    settings: ScoreSettings,
) -> Float[Array, "draw dim"]:
    """One step of it, for all draws."""
    speed, dt = rate(t, settings), 1.0 / settings.num_sde_steps
    return x + speed * dt * scores + settings.noise_scale * jnp.sqrt(speed * dt) * noise


def at_random_times(
    key_t: Key, key_noise: Key, x: Float[Array, "batch dim"], settings: ScoreSettings
) -> tuple[Float[Array, "batch dim"], Float[Array, " batch"]]:
    """x_t and t of every row, with t even in [0, 1]."""
    t = jax.random.uniform(key_t, (x.shape[0],))
    return x + jnp.sqrt(variance(t, settings))[:, None] * jax.random.normal(key_noise, x.shape), t


def _optimiser(settings: ScoreSettings) -> optax.GradientTransformation:
    return optax.chain(optax.clip_by_global_norm(settings.max_norm), optax.adam(settings.learning_rate))


class Noised(Baseline):
    """A diffusion model that is trained on estimates of the noised density. Abstract."""

    @abstractmethod
    def network(self, key: Key, target: Target, settings: Any) -> Any:
        """The network before training."""

    @abstractmethod
    def loss(
        self, network: Any, key: Key, x: Float[Array, "batch dim"], state: NoisedState, target: Target, settings: Any
    ) -> Float[Array, ""]:
        """Of a batch of points from the buffer."""

    @abstractmethod
    def score(self, network: Any, x: Float[Array, " dim"], t: Float[Array, ""], settings: Any) -> Float[Array, " dim"]:
        """That a draw follows. Evaluates no target."""

    @abstractmethod
    def update_cost(self, settings: Any) -> Cost:
        """Of one update."""

    def first_points(self, key: Key, target: Target, settings: Any) -> Float[Array, "num dim"]:
        """What the buffer starts with: draws of N(0, h(1)). Costs `init_cost`."""
        spread = jnp.sqrt(variance(jnp.ones(()), settings))
        return spread * jax.random.normal(key, (settings.num_first, target.dim))

    def init(self, key: Key, target: Target, settings: ScoreSettings) -> NoisedState:
        key_network, key_points = jax.random.split(key)
        network = self.network(key_network, target, settings)
        optimiser = _optimiser(settings).init(eqx.filter(network, eqx.is_inexact_array))
        replay = Replay.of(self.first_points(key_points, target, settings), settings.buffer_size)
        return NoisedState(network, network, optimiser, replay, jnp.zeros((), jnp.int32))

    def step(self, key: Key, state: NoisedState, target: Target, settings: ScoreSettings) -> tuple[NoisedState, Info]:
        key_updates, key_draws = jax.random.split(key)
        arrays, rest = eqx.partition(state, eqx.is_array)

        def update(arrays: Any, key: Key) -> tuple[Any, Array]:
            state, value = self._updated(key, eqx.combine(arrays, rest), target, settings)
            return eqx.filter(state, eqx.is_array), value

        arrays, values = jax.lax.scan(update, arrays, jax.random.split(key_updates, settings.num_inner))
        state = eqx.combine(arrays, rest)
        keys = jax.random.split(key_draws, settings.num_new)
        points = reverse_sde(keys, lambda x, t: self.score(state.model, x, t, settings), target.dim, settings)
        reach = _REACH * jnp.sqrt(variance(jnp.ones(()), settings))
        replay, num_loops = state.replay.joined(points, reach), state.num_loops + 1
        state = NoisedState(state.network, state.model, state.optimiser, replay, num_loops)
        return state, {"loss": jnp.mean(values), "spread": jnp.sqrt(jnp.mean(replay.points**2))}

    def _updated(
        self, key: Key, state: NoisedState, target: Target, settings: ScoreSettings
    ) -> tuple[NoisedState, Array]:
        """One update; one whose gradient is not finite leaves everything as it was."""
        key_rows, key_loss = jax.random.split(key)
        x = state.replay.batch(key_rows, settings.batch_size)
        value, gradient = eqx.filter_value_and_grad(self.loss)(state.network, key_loss, x, state, target, settings)
        is_good = jnp.isfinite(optax.tree.norm(gradient))
        gradient = jax.tree.map(lambda leaf: jnp.where(is_good, leaf, 0.0), gradient)
        arrays, rest = eqx.partition(state.network, eqx.is_inexact_array)
        arrays, optimiser = updated(_optimiser(settings), gradient, state.optimiser, arrays)
        network = eqx.combine(arrays, rest)
        means, static = eqx.partition(state.model, eqx.is_inexact_array)
        means = optax.incremental_update(arrays, means, 1.0 - settings.ema)
        new = NoisedState(network, eqx.combine(means, static), optimiser, state.replay, state.num_loops)
        return new, jnp.where(is_good, value, 0.0)

    def step_cost(self, settings: ScoreSettings, dim: int) -> Cost:
        del dim
        return self.update_cost(settings) * settings.num_inner

    def draw(self, keys: Keys, model: Any, target: Any, settings: ScoreSettings) -> Float[Array, "num dim"]:
        # `target` is None where draws are free.
        x = reverse_sde(keys, lambda point, t: self.score(model, point, t, settings), model.dim, settings)
        if not settings.num_final_descent:
            return x

        def descend(x: Array, _: None) -> tuple[Array, None]:
            def one(point: Array) -> Array:
                _, gradient = evaluate(target, point)
                return point + settings.descent_size * clipped(gradient, settings.max_score, target.geometry)

            return jax.vmap(one)(x), None

        return jax.lax.scan(descend, x, None, length=settings.num_final_descent)[0]

    def draw_cost(self, settings: ScoreSettings, dim: int) -> Cost:
        del dim
        return Cost(settings.num_final_descent)
