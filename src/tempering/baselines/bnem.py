"""NEM and BNEM: noised energy matching, and the same with bootstrapping (OuYang et al., 2026).

iDEM's loop with energies: a network learns log p_t in place of its score, from values of the target alone,

    loss = (E(x_t, t) - log-mean-exp of num_mc values)^2 + w_0 (E(x, 0) - log p~(x))^2,      score = grad E.

After `num_bootstrap_after` loops estimates are bootstrapped. From t in bin i of a grid of equal steps in h, u is drawn
in bin i - 1; p_t is p_u with noise of variance h_t - h_u, which a teacher knows without evaluations:

    log p_t(x) = log mean of the target's p at variance h_t and of exp E'(x + sqrt(h_t - h_u) noise, u),

num_mc - n_b of the first and n_b of the second. It is used where h_t err_t^2 (n_b - 1) / n_b > err_u^2 / h_u: where the
network's own error is smaller at u, judged at the same clean point with noise of variance h_u. The n_b evaluations that
are saved at x_t are made there, and that error joins the loss; the published code makes num_mc at both. With
`is_factorised` particles have one log-mean-exp each: a biased estimate, whose parts do not add up to log p_t, with far
less variance.
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from tempering.baselines.contract import Cost
from tempering.baselines.estimator import (
    clipped,
    fast_normal,
    in_chunks,
    log_mean,
    noised_parts,
    size_of,
    time_of,
    variance,
)
from tempering.baselines.noised import LEAST_WEIGHT, Noised, NoisedState, at_random_times
from tempering.baselines.refusals import require_gradient
from tempering.baselines.score_networks import energy_network
from tempering.baselines.units import Rescaled
from tempering.errors import SettingsError
from tempering.numerics import exact_products
from tempering.settings import BNEMSettings
from tempering.targets.base import Target, Wrapper, evaluate_value
from tempering.targets.inner import Inner
from tempering.types import Array, Bool, Float, Key

__all__ = ["BNEM", "bootstrapped", "less_noise", "parts_of"]

_WIDEST = 128
"""Numbers that a network makes of a coordinate or a pair, about."""


def parts_of(target: Target, is_factorised: bool) -> Callable[[Array], Array]:
    """The log density of a point in parts, (part,): one part, or one of each particle.

    Raises:
        SettingsError: if the density does not come in parts.
    """
    if not is_factorised:
        return lambda x: evaluate_value(target, x)[None]
    return exact_products()(_of_particles(target))


def _of_particles(target: Target) -> Callable[[Array], Array]:
    if isinstance(target, Inner):
        inner = _of_particles(target.target)
        return lambda x: inner(target.chart.embed(x))
    if isinstance(target, Rescaled):
        inner = _of_particles(target.target)
        return lambda x: inner(target.scale * x)
    energies = getattr(target, "particle_energies", None)  # of pair potentials alone
    if energies is not None:
        return lambda x: -energies(x)
    if isinstance(target, Wrapper):
        return _of_particles(target.target)
    raise SettingsError(
        "is_factorised = True is not allowed: the density does not come in one part for each particle, as that of a "
        "tp.PairPotential does; give is_factorised=False"
    )


def bootstrapped(
    mean_log: Float[Array, " part"], num_mc: int, teacher: Float[Array, "boot part"]
) -> Float[Array, " part"]:
    """The log of the pooled mean of `num_mc` values, whose log mean is given, and of the teacher's."""
    num = teacher.shape[0]
    logs = jnp.log(jnp.asarray([num_mc / (num_mc + num), num / (num_mc + num)]))
    return jnp.logaddexp(logs[0] + mean_log, logs[1] + log_mean(teacher))


class BNEM(Noised):
    """Noised energy matching, bootstrapped or not."""

    title = "BNEM"

    def check(self, settings: BNEMSettings, target: Target) -> None:
        if settings.num_final_descent:
            require_gradient("BNEM with num_final_descent", target)
        if settings.is_factorised and target.geometry is None:
            raise SettingsError("is_factorised = True is for particles, and the density is not one of particles")
        parts_of(target, settings.is_factorised)

    def network(self, key: Key, target: Target, settings: BNEMSettings) -> Any:
        return energy_network(key, target, settings, settings.is_factorised)

    def score(
        self, network: Any, x: Float[Array, " dim"], t: Float[Array, ""], settings: BNEMSettings
    ) -> Float[Array, " dim"]:
        score = jax.grad(lambda point: jnp.sum(network(point, t)))(x)
        return clipped(score, settings.max_score, None)

    def loss(
        self,
        network: Any,
        key: Key,
        x: Float[Array, "batch dim"],
        state: NoisedState,
        target: Target,
        settings: BNEMSettings,
    ) -> Float[Array, ""]:
        key_t, key_noise, key_mc = jax.random.split(key, 3)
        x_t, t = at_random_times(key_t, key_noise, x, settings)

        def plain() -> Array:
            errors = jax.vmap(network)(x_t, t) - _estimates(key_mc, x_t, t, settings.num_mc, target, settings)
            return _mean_square(errors)

        if settings.num_bootstrap_after is None:
            value = plain()
        else:
            is_late = state.num_loops >= settings.num_bootstrap_after
            late = lambda: _bootstrap_loss(network, state.model, key_mc, x, x_t, t, target, settings)  # noqa: E731
            value = jax.lax.cond(is_late, late, plain)
        if settings.clean_weight:
            clean = jax.vmap(parts_of(target, settings.is_factorised))(x)
            errors = jax.vmap(lambda point: network(point, jnp.zeros(())))(x) - clean
            value = value + settings.clean_weight * _mean_square(errors)
        return value

    def update_cost(self, settings: BNEMSettings) -> Cost:
        points = settings.batch_size * (settings.num_mc + int(settings.clean_weight > 0))
        return Cost(points, points)


def _estimates(
    key: Key, x: Float[Array, "batch dim"], t: Float[Array, " batch"], num: int, target: Target, settings: BNEMSettings
) -> Float[Array, "batch part"]:
    """log p_t of every row from `num` values each."""
    parts_fn = parts_of(target, settings.is_factorised)
    noise = fast_normal(key, (x.shape[0], num, x.shape[1]))
    rows = (x, variance(t, settings), noise)
    return in_chunks(lambda *row: noised_parts(parts_fn, *row), *rows, each=num * size_of(target))


def less_noise(
    key: Key, clean: Float[Array, "batch dim"], t: Float[Array, " batch"], settings: BNEMSettings
) -> tuple[Float[Array, "batch dim"], Float[Array, " batch"], Bool[Array, " batch"]]:
    """x_u and u, drawn in the bin below that of t; and whether there is one: without, u is t."""
    key_u, key_x = jax.random.split(key)
    step = settings.bootstrap_variance
    place = jnp.floor(variance(t, settings) / step)
    has_bin = place >= 1.0
    low, high = (time_of(jnp.maximum(place - back, 0.0) * step, settings) for back in (1.0, 0.0))
    u = jnp.where(has_bin, low + (high - low) * jax.random.uniform(key_u, t.shape), t)
    noise = jax.random.normal(key_x, clean.shape)
    return clean + jnp.sqrt(variance(u, settings))[:, None] * noise, u, has_bin


def _bootstrap_loss(
    network: Any,
    teacher: Any,
    key: Key,
    clean: Float[Array, "batch dim"],
    x: Float[Array, "batch dim"],
    t: Float[Array, " batch"],
    target: Target,
    settings: BNEMSettings,
) -> Float[Array, ""]:
    """The loss at t, on bootstrapped estimates where they are better, and at u."""
    num, num_boot = settings.num_mc - settings.num_bootstrap, settings.num_bootstrap
    key_u, key_t_mc, key_u_mc, key_boot = jax.random.split(key, 4)
    x_u, u, has_bin = less_noise(key_u, clean, t, settings)
    h = variance(t, settings)
    h_u = jnp.minimum(variance(u, settings), h)

    own = _estimates(key_t_mc, x, t, num, target, settings)
    at_u = _estimates(key_u_mc, x_u, u, num_boot, target, settings)
    steps = fast_normal(key_boot, (x.shape[0], num_boot, x.shape[1]))

    def pool(own: Array, x: Array, u: Array, spread: Array, steps: Array) -> Array:
        points = x[None] + spread * steps
        return bootstrapped(own, num, jax.vmap(lambda point: teacher(point, u))(points))

    rows = (own, x, u, jnp.sqrt(h - h_u), steps)
    pooled = jax.lax.stop_gradient(in_chunks(pool, *rows, each=num_boot * _WIDEST * size_of(target)))

    said, said_u = jax.vmap(network)(x, t), jax.vmap(network)(x_u, u)
    error, error_u = (jnp.sum(jax.lax.stop_gradient(one) ** 2, axis=1) for one in (said - own, said_u - at_u))
    weight, weight_u = h + LEAST_WEIGHT, h_u + LEAST_WEIGHT
    is_better = has_bin & (weight * error * (num_boot - 1) / num_boot > error_u / weight_u)
    return _mean_square(said - jnp.where(is_better[:, None], pooled, own)) + _mean_square(said_u - at_u)


def _mean_square(errors: Float[Array, "batch part"]) -> Float[Array, ""]:
    """Over rows and parts; a row whose estimate is not finite counts as 0."""
    return jnp.mean(jnp.where(jnp.isfinite(errors), errors, 0.0) ** 2)
