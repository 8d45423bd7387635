"""iDEM: iterated denoising energy matching (Akhound-Sadegh, Rector-Brooks, Bose et al., 2024).

Repeat: draw points of a buffer, noise them, estimate the score of the noised density there from the target's gradients
(`estimator.py`), regress a network on the clipped estimate; then draw new points by the network into the buffer.

    loss = lambda(t) mean_i |s(x_t, t) - clip S(x_t, t)|_i^2,   t even in [0, 1],   lambda = h + 1e-3, or 1
"""

from typing import Any

import jax
import jax.numpy as jnp

from tempering.baselines.contract import Cost
from tempering.baselines.estimator import clipped, fast_normal, in_chunks, noised_score, size_of, variance
from tempering.baselines.noised import LEAST_WEIGHT, Noised, NoisedState, at_random_times, reverse_step, time_at
from tempering.baselines.refusals import require_gradient
from tempering.baselines.score_networks import score_network
from tempering.settings import IDEMSettings
from tempering.targets.base import Target
from tempering.types import Array, Float, Key

__all__ = ["IDEM", "score_targets"]


def score_targets(
    key: Key, x: Float[Array, "batch dim"], h: Float[Array, " batch"], target: Target, settings: IDEMSettings
) -> Float[Array, "batch dim"]:
    """Clipped estimates of the score: batch x num_mc evaluations."""
    noise = fast_normal(key, (x.shape[0], settings.num_mc, x.shape[1]))

    def one(x: Array, h: Array, noise: Array) -> Array:
        return clipped(noised_score(target, x, h, noise), settings.max_score, target.geometry)

    return in_chunks(one, x, h, noise, each=settings.num_mc * size_of(target))


class IDEM(Noised):
    """Iterated denoising energy matching."""

    title = "iDEM"

    def check(self, settings: IDEMSettings, target: Target) -> None:
        require_gradient(self.title, target)

    def network(self, key: Key, target: Target, settings: IDEMSettings) -> Any:
        return score_network(key, target, settings)

    def score(
        self, network: Any, x: Float[Array, " dim"], t: Float[Array, ""], settings: IDEMSettings
    ) -> Float[Array, " dim"]:
        return network(x, t)

    def loss(
        self,
        network: Any,
        key: Key,
        x: Float[Array, "batch dim"],
        state: NoisedState,
        target: Target,
        settings: IDEMSettings,
    ) -> Float[Array, ""]:
        key_t, key_noise, key_mc = jax.random.split(key, 3)
        x_t, t = at_random_times(key_t, key_noise, x, settings)
        h = variance(t, settings)
        scores = score_targets(key_mc, x_t, h, target, settings)
        errors = jnp.mean((jax.vmap(network)(x_t, t) - scores) ** 2, axis=1)
        return jnp.mean((h + LEAST_WEIGHT) * errors if settings.is_weighted else errors)

    def update_cost(self, settings: IDEMSettings) -> Cost:
        return Cost(settings.batch_size * settings.num_mc)

    def first_points(self, key: Key, target: Target, settings: IDEMSettings) -> Float[Array, "num dim"]:
        """Draws of N(0, h(1)); or of the reverse SDE along the estimate itself, which costs as it says."""
        if not settings.is_first_estimated:
            return super().first_points(key, target, settings)
        key_start, key_steps = jax.random.split(key)
        x = super().first_points(key_start, target, settings)

        def step(x: Array, index: Array) -> tuple[Array, None]:
            key_mc, key_noise = jax.random.split(jax.random.fold_in(key_steps, index))
            t = time_at(index, settings)
            h = jnp.full((x.shape[0],), variance(t, settings))
            scores = score_targets(key_mc, x, h, target, settings)
            return reverse_step(x, t, scores, jax.random.normal(key_noise, x.shape), settings), None

        return jax.lax.scan(step, x, jnp.arange(settings.num_sde_steps))[0]

    def init_cost(self, settings: IDEMSettings, dim: int) -> Cost:
        del dim
        return Cost(settings.num_first * settings.num_sde_steps * settings.num_mc * int(settings.is_first_estimated))
