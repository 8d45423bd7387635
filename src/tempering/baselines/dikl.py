"""DiKL, a one-step generator by diffusive reverse KL divergences (He et al., AISTATS 2025).

A generator G makes x = G(z) of normal z. Its draws and the density p are both noised by a variance-preserving chain,
x_t = a x + s eps, and the gradient of sum_t KL(q_t || p_t) is the difference of their scores:

    repeat:  many times, fit the score network to draws of G:  |eps + s s_phi(a x + s eps, t)|^2
             x_t = a G(z) + s eps;  x_0 ~ p(x_0) N(x_t; a x_0, s^2) by AIS and MALA;
             descend on  mean sum sg[(s_phi(x_t, t) - target) / a] . x_t,  target = a (x_0 + grad log p(x_0)) - x_t

`target` is the mixed score identity of p_t, from one posterior sample. AIS goes along our own path from the posterior
under a flat p, which is Gaussian, to the posterior, with our own HMC; and MALA moves what it chose.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax

from tempering.baselines.contract import Baseline, Cost, Info
from tempering.baselines.optimise import updated
from tempering.baselines.refusals import refuse_particles, require_gradient
from tempering.kernels import HMC, MALA, ChainState, init
from tempering.settings import DiKLSettings
from tempering.targets import Target
from tempering.types import Array, Float, Int, Key, Keys

__all__ = ["DiKL", "Generator", "ScoreNetwork", "State", "chain_of", "mixed_score", "posterior_draw", "score_loss"]

_NUM_FREQUENCIES = 32


class Generator(eqx.Module):
    """x = G(z): a network of `depth` hidden layers."""

    network: eqx.nn.MLP
    latent_dim: int = eqx.field(static=True)

    def __init__(self, key: Key, dim: int, settings: DiKLSettings):
        self.latent_dim = settings.latent_dim or dim
        self.network = eqx.nn.MLP(self.latent_dim, dim, settings.width, settings.depth, jax.nn.silu, key=key)

    def __call__(self, z: Float[Array, " latent"]) -> Float[Array, " dim"]:
        return self.network(z)

    def draw(self, key: Key) -> Float[Array, " dim"]:
        """One draw."""
        return self(jax.random.normal(key, (self.latent_dim,)))


class ScoreNetwork(eqx.Module):
    """s_phi(x_t, t): random Fourier features of t are added in every layer."""

    first: eqx.nn.Linear
    hidden: list[eqx.nn.Linear]
    times: list[eqx.nn.Linear]
    last: eqx.nn.Linear
    frequencies: Float[Array, " frequency"]

    def __init__(self, key: Key, dim: int, settings: DiKLSettings):
        width, depth = settings.width, settings.depth
        keys = jax.random.split(key, 2 * depth + 2)
        self.first = eqx.nn.Linear(dim, width, key=keys[0])
        self.hidden = [eqx.nn.Linear(width, width, key=own) for own in keys[1:depth]]
        self.times = [eqx.nn.Linear(2 * _NUM_FREQUENCIES, width, key=own) for own in keys[depth : 2 * depth]]
        self.last = eqx.nn.Linear(width, dim, key=keys[-2])
        self.frequencies = 2 * jnp.pi * jax.random.normal(keys[-1], (_NUM_FREQUENCIES,))

    def __call__(self, x: Float[Array, " dim"], time: Float[Array, ""]) -> Float[Array, " dim"]:
        angle = time * jax.lax.stop_gradient(self.frequencies)
        features = jnp.concatenate([jnp.sin(angle), jnp.cos(angle)])
        for layer, of_time in zip([self.first, *self.hidden], self.times, strict=True):
            x = jax.nn.silu(layer(x) + of_time(features))
        return self.last(x)


class Chain(NamedTuple):
    """The variance-preserving chain by step: x_t = a x + s eps, a^2 + s^2 = 1."""

    a: Float[Array, " step"]
    s: Float[Array, " step"]

    def noised(self, x: Array, eps: Array, step: Int[Array, ""]) -> Float[Array, " dim"]:
        """x_t."""
        return self.a[step] * x + self.s[step] * eps


def chain_of(settings: DiKLSettings) -> Chain:
    """That of the settings: beta is linear in the step."""
    betas = np.linspace(settings.least_beta, settings.most_beta, settings.num_noises)
    squares = np.cumprod(1.0 - betas)
    return Chain(jnp.asarray(np.sqrt(squares), jnp.float32), jnp.asarray(np.sqrt(1.0 - squares), jnp.float32))


class _Flat(eqx.Module):
    """The posterior of x_0 given x_t under a flat p: N(x_t / a, (s / a)^2 I), without its constant."""

    mean: Float[Array, " dim"]
    width: Float[Array, ""]

    def log_density(self, x: Float[Array, " dim"]) -> Float[Array, ""]:
        """Of one point."""
        return -0.5 * jnp.sum((x - self.mean) ** 2) / self.width**2

    def sample(self, key: Key, num: int) -> Float[Array, "num dim"]:
        """Independent draws."""
        return self.mean[None] + self.width * jax.random.normal(key, (num, *self.mean.shape))


class _Posterior(Target):
    """p(x_0) N(x_t; a x_0, s^2), beside its factor under a flat p: the path between them is flat^1 p^beta."""

    dim: int = eqx.field(static=True)
    target: Target
    reference: _Flat

    def log_density(self, x: Float[Array, " dim"]) -> Float[Array, ""]:
        return self.target.log_density(x) + self.reference.log_density(x)


def posterior_draw(
    key: Key, x_t: Float[Array, " dim"], a: Array, s: Array, target: Target, settings: DiKLSettings
) -> tuple[Float[Array, " dim"], Float[Array, " dim"], Float[Array, ""]]:
    """One draw of x_0 given x_t, nearly: AIS of a few particles, one of them by weight, then MALA.

    Costs num_particles x num_levels + num_mala evaluations: the first level is drawn from exactly.

    Returns:
        x_0, grad log p there, and the mean acceptance of HMC.
    """
    key_start, key_ais, key_choose, key_mala = jax.random.split(key, 4)
    posterior = _Posterior(target.dim, target, _Flat(x_t / a, s / a))
    betas = jnp.linspace(0.0, 1.0, settings.num_levels)
    hmc = HMC(num_leapfrog=1)  # pyright: ignore[reportCallIssue]

    def carried(key: Key, start: Array) -> tuple[ChainState, Array, Array]:
        def level(carry: tuple[ChainState, Array], given: tuple) -> tuple[tuple[ChainState, Array], Array]:
            (state, log_weight), (key, before, beta) = carry, given
            log_weight = log_weight + (beta - before) * state.log_ratio
            state, info = hmc.step(key, state, posterior, beta=beta, step_size=jnp.asarray(settings.hmc_step_size))
            return (state, log_weight), info.acceptance_probability

        given = jax.random.split(key, settings.num_levels - 1), betas[:-1], betas[1:]
        (state, log_weight), accepted = jax.lax.scan(level, (init(start, posterior), jnp.zeros(())), given)
        return state, log_weight, jnp.mean(accepted)

    keys = jax.random.split(key_ais, settings.num_particles)
    starts = posterior.reference.sample(key_start, settings.num_particles)
    states, log_weights, accepted = jax.vmap(carried)(keys, starts)
    log_weights = jnp.where(jnp.isfinite(log_weights), log_weights, -jnp.inf)
    chosen = jax.random.categorical(key_choose, log_weights)
    state = jax.tree.map(lambda leaf: leaf[chosen], states)

    def move(state: ChainState, key: Key) -> tuple[ChainState, None]:
        size = jnp.asarray(settings.mala_step_size)
        return MALA().step(key, state, posterior, beta=jnp.ones(()), step_size=size)[0], None

    state, _ = jax.lax.scan(move, state, jax.random.split(key_mala, settings.num_mala))
    assert state.reference is not None
    return state.position, state.log_density_grad - state.reference.log_density_grad, jnp.mean(accepted)


def mixed_score(x_0: Array, gradient: Array, x_t: Array, a: Array) -> Float[Array, " dim"]:
    """Whose mean over the posterior is the score of p_t: a^2 parts of the target's score, s^2 of the denoiser's."""
    return a * (x_0 + gradient) - x_t


def score_loss(
    network: Callable[..., Array], keys: Keys, x: Float[Array, "batch dim"], settings: DiKLSettings
) -> Float[Array, ""]:
    """Denoising score matching of draws x."""
    chain = chain_of(settings)

    def one(key: Key, x: Array) -> Array:
        step, eps = _noise(key, x.shape[0], settings)
        score = network(chain.noised(x, eps, step), step.astype(float) / settings.num_noises)
        return jnp.mean((eps + chain.s[step] * score) ** 2)

    return jnp.mean(jax.vmap(one)(keys, x))


def _noise(key: Key, dim: int, settings: DiKLSettings) -> tuple[Int[Array, ""], Float[Array, " dim"]]:
    key_step, key_eps = jax.random.split(key)
    return jax.random.randint(key_step, (), 1, settings.num_noises), jax.random.normal(key_eps, (dim,))


class State(eqx.Module):
    """The generator, the score network of its draws, and the optimisers of both."""

    model: Generator
    score: ScoreNetwork
    optimiser: Any
    score_optimiser: Any


def _optimisers(settings: DiKLSettings) -> tuple[optax.GradientTransformation, optax.GradientTransformation]:
    own = optax.chain(optax.clip_by_global_norm(settings.max_norm), optax.adam(settings.learning_rate))
    return own, optax.adam(settings.score_learning_rate)


class DiKL(Baseline):
    """DiKL. One step is `num_score_steps` updates of the score network, and one of the generator."""

    title = "DiKL"

    def check(self, settings: DiKLSettings, target: Target) -> None:
        refuse_particles(self.title, target)
        require_gradient(self.title, target)

    def init(self, key: Key, target: Target, settings: DiKLSettings) -> State:
        key_model, key_score = jax.random.split(key)
        model, score = Generator(key_model, target.dim, settings), ScoreNetwork(key_score, target.dim, settings)
        optimisers = [
            own.init(eqx.filter(network, eqx.is_inexact_array))
            for own, network in zip(_optimisers(settings), (model, score), strict=True)
        ]
        return State(model, score, *optimisers)

    def step(self, key: Key, state: State, target: Target, settings: DiKLSettings) -> tuple[State, Info]:
        key_score, key_model = jax.random.split(key)
        score, score_optimiser, score_losses = self._learn_score(key_score, state, settings)
        model, optimiser, loss, accepted = self._learn(key_model, state, score, target, settings)
        info = {"loss": loss, "score_loss": score_losses, "acceptance": accepted}
        return State(model, score, optimiser, score_optimiser), info

    def step_cost(self, settings: DiKLSettings, dim: int) -> Cost:
        return Cost(settings.batch_size * (settings.num_particles * settings.num_levels + settings.num_mala))

    def draw(self, keys: Keys, model: Generator, target: Any, settings: DiKLSettings) -> Float[Array, "num dim"]:
        return jax.vmap(model.draw)(keys)

    def _learn_score(self, key: Key, state: State, settings: DiKLSettings) -> tuple[ScoreNetwork, Any, Array]:
        """Fit the score network to fresh draws of the generator."""
        arrays, rest = eqx.partition(state.score, eqx.is_inexact_array)
        optimiser = _optimisers(settings)[1]

        def update(carry: tuple, key: Key) -> tuple[tuple, Array]:
            arrays, memory = carry
            keys = jax.random.split(key, (2, settings.batch_size))
            x = jax.vmap(state.model.draw)(keys[0])
            loss_of = lambda own: score_loss(eqx.combine(own, rest), keys[1], x, settings)  # noqa: E731
            loss, gradient = jax.value_and_grad(loss_of)(arrays)
            return updated(optimiser, gradient, memory, arrays), loss

        keys = jax.random.split(key, settings.num_score_steps)
        (arrays, memory), losses = jax.lax.scan(update, (arrays, state.score_optimiser), keys)
        return eqx.combine(arrays, rest), memory, jnp.mean(losses)

    def _learn(self, key: Key, state: State, score: ScoreNetwork, target: Target, settings: DiKLSettings) -> tuple:
        """One update of the generator along the difference of the scores."""
        arrays, rest = eqx.partition(state.model, eqx.is_inexact_array)
        keys = jax.random.split(key, (3, settings.batch_size))
        chain = chain_of(settings)

        def difference(key_noise: Key, key_posterior: Key, x: Array) -> tuple[Array, Array]:
            step, eps = _noise(key_noise, target.dim, settings)
            x_t, a = chain.noised(x, eps, step), chain.a[step]
            x_0, gradient, accepted = posterior_draw(key_posterior, x_t, a, chain.s[step], target, settings)
            # x_t moves with a G(z): the a of the chain rule cancels that of the loss.
            return score(x_t, step.astype(float) / settings.num_noises) - mixed_score(x_0, gradient, x_t, a), accepted

        x = jax.vmap(state.model.draw)(keys[0])
        differences, accepted = jax.vmap(difference)(keys[1], keys[2], x)

        def loss_of(arrays: Any) -> Array:
            draws = jax.vmap(eqx.combine(arrays, rest).draw)(keys[0])
            return jnp.mean(jnp.sum(jax.lax.stop_gradient(differences) * draws, axis=1))

        loss, gradient = jax.value_and_grad(loss_of)(arrays)
        arrays, memory = updated(_optimisers(settings)[0], gradient, state.optimiser, arrays)
        return eqx.combine(arrays, rest), memory, loss, jnp.mean(accepted)
