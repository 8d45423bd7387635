"""What DDS and CMCD share besides the simulator: one step of training by either loss, costs, and draws.

Consumes a process (`dds.py`, `cmcd.py`); produces one that is nearer to the target. With `loss="kl"` a step is an update
by the reverse divergence of path measures, through the whole trajectory. With "lv" and "tr_lv" it is one trust region
(`trust_region.py`): trajectories are drawn once, and serve several updates.
"""

from abc import abstractmethod
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import optax

from tempering.baselines.contract import Baseline, Cost, Info
from tempering.baselines.paths import Process, draw, draw_weighted, look, walk
from tempering.baselines.trust_region import log_variance, region
from tempering.errors import SettingsError
from tempering.numerics import log_mean_exp
from tempering.settings.controlled import ControlledSettings
from tempering.targets.base import Target
from tempering.targets.cost import has_gradient
from tempering.types import Array, Float, Key, Keys

__all__ = ["Controlled", "ControlledState"]


class ControlledState(eqx.Module):
    """The process, which is all that draws need, and the optimiser's moments."""

    model: Any
    optimiser: Any


def _optimiser(settings: ControlledSettings) -> optax.GradientTransformation:
    return optax.chain(
        optax.zero_nans(), optax.clip(settings.gradient_clip), optax.adam(settings.learning_rate)
    )


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

    def check(self, settings: ControlledSettings, target: Target) -> None:
        """Refuse targets without a gradient, and particles."""
        if not has_gradient(target):
            raise SettingsError(
                f"{self.title} steers by the gradient of the density, and this one has none; give one "
                "(tp.from_callable(..., gradient=...)), or fit by method='bnem', which needs values alone"
            )
        if target.geometry is not None:
            raise SettingsError(
                f"{self.title} has no equivariant network, and the density is one of particles; fit by method='idem' "
                "or 'bnem', whose networks turn with the configuration"
            )

    def init(self, key: Key, target: Target, settings: ControlledSettings) -> ControlledState:
        process = self.process(key, target.dim, settings)
        return ControlledState(process, _optimiser(settings).init(eqx.filter(process, eqx.is_inexact_array)))

    def step(
        self, key: Key, state: ControlledState, target: Target, settings: ControlledSettings
    ) -> tuple[ControlledState, Info]:
        if settings.loss == "kl":
            return self._by_divergence(key, state, target, settings)
        return self._by_region(key, state, target, settings)

    def step_cost(self, settings: ControlledSettings, dim: int) -> Cost:
        del dim
        products = self.num_products * settings.num_steps if settings.loss == "kl" else 0
        return Cost(settings.num_steps + 1, 0, products) * settings.batch_size

    def draw(self, keys: Keys, model: Any, target: Target, settings: ControlledSettings) -> Float[Array, "num dim"]:
        return draw(keys, model, target)

    def draw_cost(self, settings: ControlledSettings, dim: int) -> Cost:
        del dim
        return Cost(settings.num_steps)

    def draw_weighted(
        self, keys: Keys, model: Any, target: Target, settings: ControlledSettings
    ) -> tuple[Float[Array, "num dim"], Float[Array, " num"]]:
        return draw_weighted(keys, model, target)

    def weigh_cost(self, settings: ControlledSettings, dim: int) -> Cost:
        del dim
        return Cost(settings.num_steps + 1)

    def _by_divergence(
        self, key: Key, state: ControlledState, target: Target, settings: ControlledSettings
    ) -> tuple[ControlledState, Info]:
        """One update by the mean divergence of a batch of trajectories."""
        keys = jax.random.split(key, settings.batch_size)

        @eqx.filter_value_and_grad(has_aux=True)
        def loss(process: Any) -> tuple[Array, Array]:
            walks = jax.vmap(lambda one: walk(one, process, target, self.look_fn()))(keys)
            return jnp.mean(walks.divergence), walks.log_weight

        (value, log_weights), gradient = loss(state.model)
        return _updated(state, gradient, settings), _info(value, log_weights, jnp.ones(()))

    def _by_region(
        self, key: Key, state: ControlledState, target: Target, settings: ControlledSettings
    ) -> tuple[ControlledState, Info]:
        """One trust region: a batch of trajectories, and `num_updates` updates by parts of it."""
        key_walk, key_parts = jax.random.split(key)
        keys = jax.random.split(key_walk, settings.batch_size)
        walks = jax.vmap(lambda one: walk(one, state.model, target))(keys)
        old = walks.log_weight
        is_bounded = settings.loss == "tr_lv"
        power = region(old, settings.trust_region) if is_bounded else jnp.ones(())

        def update(state: ControlledState, key: Key) -> tuple[ControlledState, Array]:
            rows = jax.random.choice(key, settings.batch_size, (settings.update_size,), replace=False)
            part, part_old = jax.tree.map(lambda leaf: leaf[rows], (walks.trajectory, old))
            value, gradient = eqx.filter_value_and_grad(log_variance)(state.model, part, part_old, power)
            return _updated(state, gradient, settings), value

        num = settings.num_updates if is_bounded else 1
        state, values = jax.lax.scan(update, state, jax.random.split(key_parts, num))
        return state, _info(values[-1], old, power)


def _updated(state: ControlledState, gradient: Any, settings: ControlledSettings) -> ControlledState:
    parameters = eqx.filter(state.model, eqx.is_inexact_array)
    updates, optimiser = _optimiser(settings).update(gradient, state.optimiser, parameters)
    return ControlledState(eqx.apply_updates(state.model, updates), optimiser)


def _info(loss: Array, log_weights: Array, power: Array) -> Info:
    """The loss; log Z and the evidence bound of the batch; how far a trust region went."""
    return {"loss": loss, "log_z": log_mean_exp(log_weights), "elbo": jnp.mean(log_weights), "region": power}
