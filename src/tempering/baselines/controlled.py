"""What DDS and CMCD share besides the simulator: one step of training by either loss, costs, and draws.

Consumes a process (`dds.py`, `cmcd.py`); produces one that is nearer to the target. With `loss="kl"` a step is an
update by the reverse divergence of path measures, through the whole path. With "tr_lv" it is one trust region
(`trust_region.py`): paths are drawn once, and serve several updates. "log_variance" is one update without a bound.
"""

from abc import abstractmethod
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import optax

from tempering.baselines.contract import Baseline, Cost, Drawn, Info
from tempering.baselines.optimise import updated
from tempering.baselines.paths import Process, draw, draw_weighted, look, walk
from tempering.baselines.refusals import refuse_particles, require_gradient
from tempering.baselines.trust_region import log_variance, region
from tempering.numerics import log_mean_exp
from tempering.settings.path_baselines import PathSettings
from tempering.targets.base import Target
from tempering.types import Array, Float, Key, Keys

__all__ = ["Controlled", "ControlledState"]


_MARGIN = 10.0
"""Nats that the median log weight may fall from one trust region to the next before the last one is taken back."""


class ControlledState(eqx.Module):
    """The process that draws, the one in training, the optimiser's moments, and the draws' median log weight.

    They differ with trust regions alone: a control that is learned from paths of the one before may go astray where
    those never were, and is not drawn from before a batch of its own paths has been seen.
    """

    model: Any
    current: Any
    optimiser: Any
    level: Float[Array, ""]


def _optimiser(settings: PathSettings) -> optax.GradientTransformation:
    return optax.chain(optax.zero_nans(), optax.clip(settings.max_gradient), optax.adam(settings.learning_rate))


class Controlled(Baseline):
    """A sampler that steers a diffusion by a learned control. Abstract."""

    has_weights = True
    num_products = 0
    """Hessian-vector products of one step of a trajectory, with the loss "kl"."""

    @abstractmethod
    def process(self, key: Key, dim: int, settings: Any) -> Process:
        """The process before training."""

    def look_fn(self) -> Any:
        """How the loss "kl" looks at the target."""
        return look

    def check(self, settings: PathSettings, target: Target) -> None:
        """Refuse targets without a gradient, and particles."""
        require_gradient(self.title, target)
        refuse_particles(self.title, target)

    def init(self, key: Key, target: Target, settings: PathSettings) -> ControlledState:
        process = self.process(key, target.dim, settings)
        return ControlledState(process, process, _begun(process, settings), jnp.asarray(-jnp.inf))

    def step(
        self, key: Key, state: ControlledState, target: Target, settings: PathSettings
    ) -> tuple[ControlledState, Info]:
        if settings.loss == "kl":
            return self._by_divergence(key, state, target, settings)
        return self._by_region(key, state, target, settings)

    def step_cost(self, settings: PathSettings, dim: int) -> Cost:
        del dim
        products = self.num_products * settings.num_path_steps if settings.loss == "kl" else 0
        return Cost(settings.num_path_steps + 1, 0, products) * settings.batch_size

    def draw(self, keys: Keys, model: Any, target: Target, settings: PathSettings) -> Float[Array, "num dim"]:
        return draw(keys, model, target)

    def draw_cost(self, settings: PathSettings, dim: int) -> Cost:
        del dim
        return Cost(settings.num_path_steps)

    def draw_weighted(self, keys: Keys, model: Any, target: Target, settings: PathSettings) -> Drawn:
        return draw_weighted(keys, model, target)

    def weigh_cost(self, settings: PathSettings, dim: int) -> Cost:
        del dim
        return Cost(settings.num_path_steps + 1)

    def _by_divergence(
        self, key: Key, state: ControlledState, target: Target, settings: PathSettings
    ) -> tuple[ControlledState, Info]:
        """One update by the mean divergence of a batch of trajectories."""
        keys = jax.random.split(key, settings.batch_size)

        @eqx.filter_value_and_grad(has_aux=True)
        def loss(process: Any) -> tuple[Array, Array]:
            walks = jax.vmap(lambda one: walk(one, process, target, self.look_fn()))(keys)
            return jnp.mean(walks.divergence), walks.log_weight

        (value, log_weights), gradient = loss(state.current)
        process, optimiser = _updated(state.current, state.optimiser, gradient, settings)
        return ControlledState(process, process, optimiser, state.level), _info(value, log_weights, jnp.ones(()))

    def _by_region(
        self, key: Key, state: ControlledState, target: Target, settings: PathSettings
    ) -> tuple[ControlledState, Info]:
        """One trust region: a batch of paths, and `num_updates` updates by parts of it.

        If the paths show that the last region went astray, it is taken back, and this step does no more.
        """
        key_walk, key_parts = jax.random.split(key)
        keys = jax.random.split(key_walk, settings.batch_size)
        walks = jax.vmap(lambda one: walk(one, state.current, target))(keys)
        old = walks.log_weight
        level = jnp.median(jnp.where(jnp.isfinite(old), old, -jnp.inf))
        is_astray = ~(level >= state.level - _MARGIN)
        is_bounded = settings.loss == "tr_lv"
        power = region(old, settings.trust_region) if is_bounded else jnp.ones(())
        num, num_rows = (settings.num_updates, settings.update_size) if is_bounded else (1, settings.batch_size)
        arrays, static = eqx.partition(state.current, eqx.is_inexact_array)

        def update(carry: tuple, key: Key) -> tuple[tuple, Array]:
            process, optimiser = eqx.combine(carry[0], static), carry[1]
            rows = jax.random.permutation(key, settings.batch_size)[:num_rows]
            part, part_old = jax.tree.map(lambda leaf: leaf[rows], (walks.trajectory, old))
            value, gradient = eqx.filter_value_and_grad(log_variance)(process, part, part_old, power)
            process, optimiser = _updated(process, optimiser, gradient, settings)
            return (eqx.filter(process, eqx.is_inexact_array), optimiser), value

        carry, values = jax.lax.scan(update, (arrays, state.optimiser), jax.random.split(key_parts, num))
        current, optimiser = eqx.combine(carry[0], static), carry[1]
        on = ControlledState(state.current, current, optimiser, level)
        back = ControlledState(state.model, state.model, _begun(state.model, settings), state.level)
        state = jax.tree.map(lambda a, b: jnp.where(is_astray, a, b) if eqx.is_array(a) else a, back, on)
        info = _info(jnp.where(is_astray, 0.0, values[-1]), jnp.where(jnp.isfinite(old), old, -1e30), power)
        return state, info | {"astray": is_astray.astype(jnp.float32)}


def _begun(process: Any, settings: PathSettings) -> Any:
    return _optimiser(settings).init(eqx.filter(process, eqx.is_inexact_array))


def _updated(process: Any, optimiser: Any, gradient: Any, settings: PathSettings) -> tuple[Any, Any]:
    arrays, rest = eqx.partition(process, eqx.is_inexact_array)
    arrays, optimiser = updated(_optimiser(settings), gradient, optimiser, arrays)
    return eqx.combine(arrays, rest), optimiser


def _info(loss: Array, log_weights: Array, power: Array) -> Info:
    """The loss; log Z and the evidence bound of the batch; how far a trust region went."""
    return {"loss": loss, "log_z": log_mean_exp(log_weights), "elbo": jnp.mean(log_weights), "region": power}
