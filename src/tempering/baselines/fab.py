"""FAB, flow annealed importance sampling bootstrap (Midgley et al., ICLR 2023), with the prioritised replay buffer.

A flow q learns from points that annealed importance sampling (AIS) carries from q to where q is too thin, p^2 / q:

    repeat:  x_0 ~ q;  AIS through  q^(1 - alpha b) p^(alpha b),  b = 1/(M+1) ... M/(M+1);  (x, log w, log q) -> buffer
             a few times:  take points of the buffer by weight;  descend on  -mean[ min(e^d, clip) log q(x) ],
                           d = (1 - alpha) (log q(x) - log q at the time it was stored);  log w += d

Moves are our own kernels on our own path from a reference to a density: the flow is the reference, and beta = alpha b.
"""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import optax

from tempering.baselines.contract import Baseline, Cost, Drawn, Info
from tempering.baselines.flow import Flow
from tempering.baselines.optimise import clipped_by_median, updated
from tempering.baselines.refusals import refuse_particles, require_gradient
from tempering.errors import SettingsError
from tempering.kernels import HMC, ChainState, Kernel, RandomWalk, init
from tempering.settings import FABSettings
from tempering.targets import Referenced, Target
from tempering.targets.base import Wrapper, evaluate_value
from tempering.types import Array, Bool, Float, Int, Key, Keys

__all__ = ["FAB", "Buffer", "State", "ais", "buffer_loss"]

_GROWTH = 1.05
"""By which a step size grows where too many steps are accepted, and shrinks where too few are."""


class _Cut(Wrapper):
    """The target with -inf where its log density is below `lowest`: stray points do not enter the buffer."""

    dim: int = eqx.field(static=True)
    target: Target
    lowest: float = eqx.field(static=True)

    def log_density(self, x: Float[Array, " dim"]) -> Float[Array, ""]:
        value = self.target.log_density(x)
        return jnp.where(value < self.lowest, -jnp.inf, value)


class Buffer(eqx.Module):
    """Points with their AIS weights for p^alpha q^(1 - alpha), and log q when they were weighed. Empty places: -inf."""

    position: Float[Array, "place dim"]
    log_weight: Float[Array, " place"]
    log_q: Float[Array, " place"]
    next: Int[Array, ""]

    @classmethod
    def empty(cls, size: int, dim: int) -> "Buffer":
        """With no points."""
        return cls(jnp.zeros((size, dim)), jnp.full((size,), -jnp.inf), jnp.zeros((size,)), jnp.zeros((), jnp.int32))

    def added(self, position: Array, log_weight: Array, log_q: Array) -> "Buffer":
        """With new points in place of the oldest. The size is a multiple of theirs."""
        put = lambda whole, new: jax.lax.dynamic_update_slice_in_dim(whole, new, self.next, 0)  # noqa: E731
        following = (self.next + len(log_weight)) % len(self.log_weight)
        log_weight = jnp.where(jnp.isfinite(log_weight) & jnp.isfinite(log_q), log_weight, -jnp.inf)
        parts = (self.position, position), (self.log_weight, log_weight), (self.log_q, log_q)
        position, log_weight, log_q = (put(whole, new) for whole, new in parts)
        return Buffer(position, log_weight, log_q, following)

    def chosen(self, key: Key, num_batches: int, batch_size: int) -> Int[Array, "batch place"]:
        """Places drawn by weight without replacement (Gumbel top-k), in batches of random order."""
        key_top, key_order = jax.random.split(key)
        noise = jax.random.gumbel(key_top, self.log_weight.shape)
        _, places = jax.lax.top_k(self.log_weight + noise, num_batches * batch_size)
        return jax.random.permutation(key_order, places).reshape((num_batches, batch_size))

    def updated(self, places: Array, log_q: Array, change: Array) -> "Buffer":
        """With the weights of some points brought up to date with the flow; what is not finite weighs nothing."""
        log_weight = self.log_weight[places] + change
        log_weight = jnp.where(jnp.isfinite(log_weight) & jnp.isfinite(log_q), log_weight, -jnp.inf)
        return Buffer(
            self.position, self.log_weight.at[places].set(log_weight), self.log_q.at[places].set(log_q), self.next
        )


class State(eqx.Module):
    """The flow, its optimiser, the step size of every level, and the buffer."""

    model: Flow
    optimiser: Any
    step_size: Float[Array, " level"]
    buffer: Buffer


def ais(
    key: Key, flow: Flow, target: Target, kernel: Kernel, step_size: Float[Array, " level"], alpha: float, num_mcmc: int
) -> tuple[ChainState, Float[Array, ""], Float[Array, " level"]]:
    """One point carried from the flow q towards p^alpha q^(1 - alpha), one transition or more at every level.

    Returns:
        Its state, with log p and log q; its log weight, whose mean weight is the integral of p^alpha q^(1 - alpha); and
        the acceptance at every level. With alpha = 1 the mean weight is Z.
    """
    key_draw, key_move = jax.random.split(key)
    num_levels = step_size.shape[0]
    gap = alpha / (num_levels + 1)
    path = Referenced(target.dim, target, flow)
    state = init(flow.draw(key_draw), path)

    def level(carry: tuple[ChainState, Array], given: tuple) -> tuple[tuple[ChainState, Array], Array]:
        (state, log_weight), (key, index, size) = carry, given

        def move(state: ChainState, key: Key) -> tuple[ChainState, Array]:
            state, info = kernel.step(key, state, path, beta=gap * index, step_size=size)
            return state, info.acceptance_probability

        state, accepted = jax.lax.scan(move, state, jax.random.split(key, num_mcmc))
        return (state, log_weight + gap * state.log_ratio), jnp.mean(accepted)

    given = jax.random.split(key_move, num_levels), jnp.arange(1.0, num_levels + 1.0), step_size
    (state, log_weight), accepted = jax.lax.scan(level, (state, gap * state.log_ratio), given)
    return state, log_weight, accepted


def buffer_loss(
    flow: Flow,
    position: Float[Array, "batch dim"],
    log_q_old: Float[Array, " batch"],
    alpha: float,
    clip: float | None,
    is_weighing: Bool[Array, " batch"],
) -> tuple[Float[Array, ""], tuple[Float[Array, " batch"], Float[Array, " batch"]]]:
    """The loss on points of the buffer; with log q now, and the change of their log weights.

    Points that do not weigh anything are drawn where the buffer has too few others. They count for nothing.
    """
    # An impossible point may be infinite, and 0 times its derivative is not 0.
    log_q = jax.vmap(flow.log_density)(jnp.where(is_weighing[:, None], position, 0.0))
    change = (1.0 - alpha) * (jax.lax.stop_gradient(log_q) - log_q_old)
    weight = jnp.exp(change) if clip is None else jnp.minimum(jnp.exp(change), clip)
    return -jnp.mean(jnp.where(is_weighing, weight * log_q, 0.0)), (jax.lax.stop_gradient(log_q), change)


def optimiser_of(settings: FABSettings) -> optax.GradientTransformation:
    """Adam with the settings' schedule, behind the settings' clipping."""
    num = (settings.num_steps or 1) * settings.num_updates
    rate: Any = settings.learning_rate
    warmup = settings.num_warmup * settings.num_updates
    first = settings.first_learning_rate or (settings.learning_rate if warmup == 0 else 0.0)
    if settings.schedule == "cosine":
        rate = optax.warmup_cosine_decay_schedule(first, settings.learning_rate, warmup, max(num, warmup + 1))
    elif warmup:
        rate = optax.linear_schedule(first, settings.learning_rate, warmup)
    clip = [clipped_by_median(settings.median_window)] if settings.median_window else []
    return optax.chain(*clip, optax.clip_by_global_norm(settings.max_norm), optax.adam(rate))


class FAB(Baseline):
    """FAB with the prioritised buffer. One step is one pass of AIS and `num_updates` updates of the flow."""

    title = "FAB"
    has_weights = True

    def check(self, settings: FABSettings, target: Target) -> None:
        refuse_particles(self.title, target)
        if settings.kernel == "hmc":
            require_gradient("FAB with kernel='hmc'", target)
        if target.dim < 2:
            raise SettingsError("FAB's coupling flow needs two coordinates or more, and the density has one")

    def _kernel(self, settings: FABSettings) -> Kernel:
        return HMC(settings.num_leapfrog) if settings.kernel == "hmc" else RandomWalk()  # pyright: ignore[reportCallIssue]

    def _pass(self, key: Key, flow: Flow, target: Target, settings: FABSettings, step_size: Array) -> Any:
        """AIS of one batch: places, log weights, log q, and the acceptance at every level."""
        target = target if settings.lowest is None else _Cut(target.dim, target, settings.lowest)
        carry = lambda key: ais(  # noqa: E731
            key, flow, target, self._kernel(settings), step_size, settings.alpha, settings.num_mcmc
        )
        state, log_weight, accepted = jax.vmap(carry)(jax.random.split(key, settings.batch_size))
        assert state.reference is not None
        return state.position, log_weight, state.reference.log_density, jnp.mean(accepted, axis=0)

    def _cost_of_point(self, settings: FABSettings) -> Cost:
        each = settings.num_leapfrog if settings.kernel == "hmc" else 1
        return Cost(1 + settings.num_levels * settings.num_mcmc * each)

    def init(self, key: Key, target: Target, settings: FABSettings) -> State:
        key_flow, key_fill = jax.random.split(key)
        shape = settings.num_layers, settings.width, settings.depth, settings.is_mixing
        flow = Flow(key_flow, target.dim, *shape)
        optimiser = optimiser_of(settings).init(eqx.filter(flow, eqx.is_inexact_array))
        step_size = jnp.full((settings.num_levels,), settings.step_size)
        state = State(flow, optimiser, step_size, Buffer.empty(settings.buffer_size, target.dim))

        def fill(carry: tuple[Buffer, Array], key: Key) -> tuple[tuple[Buffer, Array], None]:
            buffer, step_size = carry
            *points, accepted = self._pass(key, flow, target, settings, step_size)
            return (buffer.added(*points), adapted(step_size, accepted, settings)), None

        keys = jax.random.split(key_fill, settings.first_buffer_size // settings.batch_size)
        (buffer, step_size), _ = jax.lax.scan(fill, (state.buffer, step_size), keys)
        return State(flow, optimiser, step_size, buffer)

    def init_cost(self, settings: FABSettings, dim: int) -> Cost:
        return self._cost_of_point(settings) * settings.first_buffer_size

    def step(self, key: Key, state: State, target: Target, settings: FABSettings) -> tuple[State, Info]:
        key_pass, key_choose = jax.random.split(key)
        *points, accepted = self._pass(key_pass, state.model, target, settings, state.step_size)
        buffer = state.buffer.added(*points)
        chosen = buffer.chosen(key_choose, settings.num_updates, settings.batch_size)
        arrays, rest = eqx.partition(state.model, eqx.is_inexact_array)

        def update(carry: tuple, places: Array) -> tuple[tuple, tuple[Array, Array]]:
            arrays, optimiser, buffer = carry
            batch = buffer.position[places], buffer.log_q[places]
            is_weighing = jnp.isfinite(buffer.log_weight[places])
            loss_of = lambda own: buffer_loss(  # noqa: E731
                eqx.combine(own, rest), *batch, settings.alpha, settings.max_weight, is_weighing
            )
            (loss, (log_q, change)), gradient = jax.value_and_grad(loss_of, has_aux=True)(arrays)
            # One point that the flow has left behind must not end training: its weight is brought up to date below.
            is_good = jnp.isfinite(loss) & jnp.isfinite(optax.tree.norm(gradient))
            after = updated(optimiser_of(settings), gradient, optimiser, arrays)
            arrays, optimiser = jax.tree.map(lambda new, old: jnp.where(is_good, new, old), after, (arrays, optimiser))
            return (arrays, optimiser, buffer.updated(places, log_q, change)), (
                jnp.where(is_good, loss, 0.0),
                is_good.astype(float),
            )

        (arrays, optimiser, buffer), (losses, is_used) = jax.lax.scan(update, (arrays, state.optimiser, buffer), chosen)
        step_size = adapted(state.step_size, accepted, settings)
        info = {"loss": jnp.sum(losses) / jnp.maximum(1.0, jnp.sum(is_used)), "left_out": 1.0 - jnp.mean(is_used)}
        info |= {"acceptance": jnp.mean(accepted), "step_size": jnp.mean(step_size)}
        return State(eqx.combine(arrays, rest), optimiser, step_size, buffer), info

    def step_cost(self, settings: FABSettings, dim: int) -> Cost:
        return self._cost_of_point(settings) * settings.batch_size

    def draw(self, keys: Keys, model: Flow, target: Any, settings: FABSettings) -> Float[Array, "num dim"]:
        return jax.vmap(model.draw)(keys)

    def draw_weighted(self, keys: Keys, model: Flow, target: Target, settings: FABSettings) -> Drawn:
        position = jax.vmap(model.draw)(keys)
        log_density = jax.vmap(lambda x: evaluate_value(target, x))(position)
        return Drawn(position, log_density - jax.vmap(model.log_density)(position), log_density)

    def log_prob(self, model: Flow, x: Float[Array, " dim"], settings: FABSettings) -> Float[Array, ""]:
        return model.log_density(x)


def adapted(step_size: Array, accepted: Array, settings: FABSettings) -> Float[Array, " level"]:
    """Step sizes a little larger where more than enough steps were accepted, and smaller elsewhere."""
    if not settings.is_adapting:
        return step_size
    return jnp.where(accepted > settings.acceptance, step_size * _GROWTH, step_size / _GROWTH)
