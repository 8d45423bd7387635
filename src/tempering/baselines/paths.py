"""Trajectories with two path measures: the simulator that DDS and CMCD share.

Consumes a process and a target; produces trajectories x_0, ..., x_K and their log weights. A process starts at a known
normal distribution, moves by Gaussian kernels F_k(x_{k+1} | x_k), and says by which kernels B_k(x_k | x_{k+1}) the
target's own measure goes back. Then

    log w = log p~(x_K) - log p_0(x_0) - sum_k [log F_k(x_{k+1} | x_k) - log B_k(x_k | x_{k+1})]

has E[w] = Z exactly, for any control and any number of steps. A trajectory costs K + 1 evaluations with its weight, and
K without: every gradient is kept for the step after. Noise is never clipped, because a clipped kernel has another
density than the one in the weight.
"""

from collections.abc import Callable
from typing import Any, Protocol, runtime_checkable

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.scipy.stats import norm

from tempering.baselines.contract import Drawn
from tempering.baselines.control import Control
from tempering.targets.base import Target, evaluate
from tempering.types import Array, Float, Int, Key, Keys

__all__ = [
    "FromNormal",
    "Look",
    "Process",
    "Trajectory",
    "Walk",
    "draw",
    "draw_weighted",
    "log_weight",
    "look",
    "look_twice",
    "walk",
]


@runtime_checkable
class Process(Protocol):
    """Two families of Gaussian kernels. A pytree: its arrays are what is learned."""

    @property
    def num_steps(self) -> int:
        """K."""
        ...

    def start(self, key: Key) -> Float[Array, " dim"]:
        """x_0."""
        ...

    def log_start(self, x: Float[Array, " dim"]) -> Float[Array, ""]:
        """The normalised log density of x_0."""
        ...

    def move(
        self, k: Int[Array, ""], x: Float[Array, " dim"], gradient: Float[Array, " dim"], noise: Float[Array, " dim"]
    ) -> tuple[Float[Array, " dim"], Float[Array, " dim"]]:
        """x_{k+1}, and its innovation: what has been added to the part of x_k that is kept."""
        ...

    def log_ratio(self, k: Int[Array, ""], here: "Look", innovation: Float[Array, " dim"], there: "Look") -> Any:
        """log F_k - log B_k of one step of any trajectory, whoever has drawn it."""
        ...

    def cost(self, k: Int[Array, ""], here: "Look", innovation: Float[Array, " dim"], there: "Look") -> Any:
        """The same for the process's own trajectories, perhaps without a part whose mean is 0."""
        ...


class FromNormal(eqx.Module):
    """A process that starts at N(0, s^2 I)."""

    control: eqx.AbstractVar[Callable[..., Any]]
    num_steps: eqx.AbstractVar[int]
    dim: eqx.AbstractVar[int]
    init_std: eqx.AbstractVar[float]

    def ready(self) -> "FromNormal":
        """The same process, with what depends on the step alone worked out for all steps."""
        if not isinstance(self.control, Control):
            return self
        # One step more than there are: CMCD goes back by the control of the step after.
        return eqx.tree_at(lambda own: own.control, self, self.control.timetable(self.num_steps + 1))

    def start(self, key: Key) -> Float[Array, " dim"]:
        """A draw of N(0, s^2 I)."""
        return self.init_std * jax.random.normal(key, (self.dim,))

    def log_start(self, x: Float[Array, " dim"]) -> Float[Array, ""]:
        """log N(x; 0, s^2 I)."""
        return jnp.sum(norm.logpdf(x, scale=self.init_std))


class Look(eqx.Module):
    """A point, and what the target says there."""

    x: Float[Array, "*step dim"]
    log_density: Float[Array, "*step"]
    gradient: Float[Array, "*step dim"]


class Trajectory(eqx.Module):
    """All that the weight of a trajectory depends on: no evaluation is needed to weigh it under another control."""

    first: Look
    innovations: Float[Array, "*batch step dim"]
    then: Look


class Walk(eqx.Module):
    """A trajectory, its log weight, and a number whose mean is KL(P | Q) - log Z."""

    trajectory: Trajectory
    log_weight: Float[Array, "*batch"]
    divergence: Float[Array, "*batch"]


LookFn = Callable[[Target, Float[Array, " dim"]], Look]


def look(target: Target, x: Float[Array, " dim"]) -> Look:
    """One evaluation. The value can be differentiated by x; the gradient is held fixed, and costs no second one."""
    held = jax.lax.stop_gradient(x)
    value, gradient = evaluate(target, held)
    return Look(x, value + jnp.sum(gradient * (x - held)), gradient)


def look_twice(target: Target, x: Float[Array, " dim"]) -> Look:
    """One evaluation, whose gradient can be differentiated too: then backward, one Hessian-vector product."""
    value, gradient = _twice(x, target)
    return Look(x, value, gradient)


@eqx.filter_custom_vjp
def _twice(x, target):
    return evaluate(target, x)


@_twice.def_fwd
def _twice_fwd(perturbed, x, target):
    del perturbed
    value, gradient = evaluate(target, x)
    return (value, gradient), gradient


@_twice.def_bwd
def _twice_bwd(gradient, cotangents, perturbed, x, target):
    del perturbed
    by_value, by_gradient = cotangents
    _, product = jax.jvp(lambda x: evaluate(target, x)[1], (x,), (by_gradient,))
    return by_value * gradient + product


def _ready(process: Any) -> Any:
    return process.ready() if isinstance(process, FromNormal) else process


def walk(key: Key, process: Process, target: Target, look_fn: LookFn = look) -> Walk:
    """One trajectory with its log weight: K + 1 evaluations."""
    process = _ready(process)
    key_start, key_noise = jax.random.split(key)
    first = look_fn(target, process.start(key_start))

    def step(here: Look, k: Array) -> tuple[Look, Any]:
        noise = jax.random.normal(jax.random.fold_in(key_noise, k), here.x.shape)
        x, innovation = process.move(k, here.x, here.gradient, noise)
        there = look_fn(target, x)
        terms = process.log_ratio(k, here, innovation, there), process.cost(k, here, innovation, there)
        return there, (innovation, there, terms)

    last, (innovations, then, terms) = jax.lax.scan(step, first, jnp.arange(process.num_steps))
    log_ratio, cost = map(jnp.sum, terms)
    without = last.log_density - process.log_start(first.x)
    return Walk(Trajectory(first, innovations, then), without - log_ratio, cost - without)


def log_weight(process: Process, trajectory: Trajectory) -> Float[Array, ""]:
    """log w of a trajectory that any process has drawn, all steps at once: no evaluation."""
    process = _ready(process)
    first, then = trajectory.first, trajectory.then
    here = jax.tree.map(lambda one, rest: jnp.concatenate([one[None], rest[:-1]]), first, then)
    log_ratios = jax.vmap(process.log_ratio)(jnp.arange(process.num_steps), here, trajectory.innovations, then)
    return then.log_density[-1] - process.log_start(first.x) - jnp.sum(log_ratios)


def draw(keys: Keys, process: Process, target: Target) -> Float[Array, "draw dim"]:
    """x_K of one trajectory for each key: K evaluations each."""
    process = _ready(process)

    def one(key: Key) -> Array:
        key_start, key_noise = jax.random.split(key)

        def step(x: Array, k: Array) -> tuple[Array, None]:
            noise = jax.random.normal(jax.random.fold_in(key_noise, k), x.shape)
            _, gradient = evaluate(target, x)
            return process.move(k, x, gradient, noise)[0], None

        return jax.lax.scan(step, process.start(key_start), jnp.arange(process.num_steps))[0]

    return jax.vmap(one)(keys)


def draw_weighted(keys: Keys, process: Process, target: Target) -> Drawn:
    """The same draws with their log weights: K + 1 evaluations each."""
    walks = jax.vmap(lambda key: walk(key, process, target))(keys)
    then = walks.trajectory.then
    return Drawn(then.x[:, -1], walks.log_weight, then.log_density[:, -1])
