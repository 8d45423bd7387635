"""A denoiser made into samples: probability-flow ODE (with log densities), the same with churn, and reverse SDE.

Consumes any `Denoise`, a prior and a sigma grid; produces points at sigma_min, or log q of given points by the flow
upwards. With sigma as the clock the flow is dx / d sigma = (x - D(x; sigma)) / sigma. log q is that of the discrete map
itself, so importance weights are right for any number of steps. Every particle has a key of its own: the chunk size
changes memory, not results.
"""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from tempering.compilation import quick, rounded_up
from tempering.devices import by_row, on_devices
from tempering.devices.keys import bare, from_seed, keyed
from tempering.diffusion.churn import Kicks, churned
from tempering.diffusion.divergence import flow_step, step_with_log_det
from tempering.diffusion.noise import Prior
from tempering.diffusion.process import VariancePreserving
from tempering.numerics import compensated_add
from tempering.settings import Sampling
from tempering.types import Array, Denoise, Float, Int, Key, Keys

__all__ = [
    "Method",
    "compile_densities",
    "compile_draws",
    "draw",
    "flow",
    "in_chunks",
    "is_exact",
    "log_likelihood",
    "method_of",
]


_LARGEST_EXACT = 16
"""Dimensions up to which determinants cost no more than four probes with two products each, or little more."""


class Method(eqx.Module):
    """How to integrate; static, so it is part of the compilation's key. `divergence` may also be none.

    `kicks` are those of the solver churn. `process` is the variance-preserving one, if steps are of it: its unit is an
    array.
    """

    solver: str = eqx.field(static=True)
    divergence: str = eqx.field(static=True)
    num_probes: int = eqx.field(static=True)
    kicks: Kicks | None = None
    process: VariancePreserving | None = None


def method_of(sampling: Sampling, *, with_density: bool, dim: int, process: VariancePreserving | None = None) -> Method:
    """The settings' method, with or without the divergence."""
    divergence = sampling.divergence if with_density else "none"
    if divergence == "automatic":
        divergence = "exact" if dim <= _LARGEST_EXACT else "hutchinson"
    kicks = Kicks(sampling.churn, sampling.churn_max) if sampling.solver == "churn" else None
    return Method(sampling.solver, divergence, sampling.num_probes, kicks, process)


def is_exact(sampling: Sampling, dim: int) -> bool:
    """Whether densities in `dim` dimensions come without random probes."""
    return method_of(sampling, with_density=True, dim=dim).divergence == "exact"


def flow(
    denoise: Denoise, x: Float[Array, " dim"], sigmas: Float[Array, " node"], key: Key, method: Method
) -> tuple[Float[Array, " dim"], Float[Array, ""]]:
    """Carry one point along the probability flow through the nodes by Euler or Heun, up or down.

    Churn counts as Heun here: no kicks. The log density falls by log |det| of every step, summed with compensation.

    Returns:
        The point at the last node and log q(there) - log q(here).
    """

    def one_step(carry, nodes):
        x, total, compensation, scale = carry
        index, sigma, sigma_next = nodes

        def solver_step(x: Array) -> Array:
            is_second_order = method.solver != "euler"
            return flow_step(denoise, x, sigma, sigma_next, is_second_order=is_second_order, process=method.process)[0]

        if method.divergence == "integrated" and method.process is not None:
            scale = method.process.stretch(sigma, sigma_next)
        probe_key = jax.random.fold_in(key, index)
        moved, log_det, scale = step_with_log_det(
            solver_step, x, probe_key, scale, divergence=method.divergence, num_probes=method.num_probes
        )
        total, compensation = compensated_add(total, compensation, -log_det)
        return (moved, total, compensation, scale), None

    nodes = (jnp.arange(sigmas.shape[0] - 1), sigmas[:-1], sigmas[1:])
    (x, total, _, _), _ = jax.lax.scan(one_step, (x, jnp.zeros(()), jnp.zeros(()), jnp.ones(())), nodes)
    return x, total


def _ancestral(denoise: Denoise, x: Array, sigmas: Array, key: Key) -> Array:
    """The reverse SDE by steps that are exact where the denoiser is constant: the Gaussian posterior of each node.

    In y = s x these are DDPM's ancestral steps (Ho et al. 2020): the two processes differ by their nodes alone.
    """

    def one_step(x, nodes):
        index, sigma, sigma_next = nodes
        share = (sigma_next / sigma) ** 2
        denoised = denoise(x, sigma)
        mean = denoised + share * (x - denoised)
        noise = jax.random.normal(jax.random.fold_in(key, index), x.shape, x.dtype)
        return mean + sigma_next * jnp.sqrt(1.0 - share) * noise, None

    x, _ = jax.lax.scan(one_step, x, (jnp.arange(sigmas.shape[0] - 1), sigmas[:-1], sigmas[1:]))
    return x


def _draw_one(
    key: Key, normal: Array | None, denoise: Denoise, prior: Prior, sigmas: Array, method: Method
) -> tuple[Array, Array]:
    key_prior, key_path = jax.random.split(key)
    x = prior.sample(key_prior) if normal is None else prior.place(normal)
    if method.solver == "sde":
        return _ancestral(denoise, x, sigmas, key_path), jnp.full((), jnp.nan)
    log_prior = prior.log_prob(x)
    if method.kicks is not None:
        x, change = churned(
            denoise,
            x,
            sigmas,
            key_path,
            method.kicks,
            divergence=method.divergence,
            num_probes=method.num_probes,
            process=method.process,
        )
    else:
        x, change = flow(denoise, x, sigmas, key_path, method)
    # Without the divergence there is no density: NaN, so that nothing half computed can pass for one.
    return x, jnp.full((), jnp.nan) if method.divergence == "none" else log_prior + change


@on_devices
def _draw_chunk(
    start: tuple[Keys, Array | None], denoise: Denoise, prior: Prior, sigmas: Array, method: Method
) -> tuple[Array, Array]:
    return by_row(lambda key, normal: _draw_one(key, normal, denoise, prior, sigmas, method))(*start)


def in_chunks(
    function: Callable, inputs: Any, chunk_size: int, on_chunk: Callable[[int], None] = lambda done: None
) -> Any:
    """Apply a batched function to chunks of equal size: few sizes in all, so that little is compiled twice."""
    num = jax.tree.leaves(inputs)[0].shape[0]
    if num == min(chunk_size, rounded_up(num)):
        whole = function(inputs)
        on_chunk(num)
        return whole
    rows = jax.tree.map(np.asarray, bare(inputs))
    return _by_part(lambda begin, size: function(keyed(_rows(rows, begin, size))), num, chunk_size, on_chunk)


def _rows(rows: Any, begin: int, size: int) -> Any:
    """`size` rows from `begin` on, picked on the host. After the last row come the first."""
    index = np.arange(begin, begin + size)
    return jax.tree.map(lambda leaf: jax.device_put(np.take(leaf, index, 0, mode="wrap")), rows)


def _by_part(made: Callable[[int, int], Any], num: int, chunk_size: int, on_chunk: Callable[[int], None]) -> Any:
    """The first `num` rows of all parts; `made` makes the part that begins at a row and has so many.

    Parts have one size, and are put together on the host: no program depends on `num`. Memory holds the result and two
    parts. The next part is handed to the device before the last one is fetched.
    """
    size = min(chunk_size, rounded_up(num))
    result: Any = None
    waiting: Any = None

    def fetch(begin: int, part: Any) -> None:
        nonlocal result
        if result is None:
            result = jax.tree.map(lambda leaf: np.empty((num, *leaf.shape[1:]), leaf.dtype), part)
        for whole, own in zip(jax.tree.leaves(result), jax.tree.leaves(part), strict=True):
            whole[begin : begin + size] = np.asarray(own)[: num - begin]
        on_chunk(min(begin + size, num))

    for begin in range(0, num, size):
        part = made(begin, size)
        if waiting is not None:
            fetch(*waiting)
        waiting = begin, part
    if waiting is not None:
        fetch(*waiting)
    return jax.tree.map(jax.device_put, result)  # without a program: `jnp.asarray` compiles one for every shape


@quick
def _keys_from(key: Key, begin: Int[Array, ""], size: int) -> Keys:
    """The keys of `size` draws from draw `begin` on: those of `jax.random.split(key, num)`, whatever `num` is."""
    return jax.vmap(lambda index: jax.random.fold_in(key, index))(begin + jnp.arange(size))


def _keys(key: Key, begin: int, size: int) -> Keys:
    return _keys_from(key, jax.device_put(np.asarray(begin, np.int32)), size)


def draw(
    key: Key,
    num: int,
    denoise: Denoise,
    prior: Prior,
    sigmas: Float[Array, " node"],
    method: Method,
    *,
    chunk_size: int,
    normals: Float[Array, "num dim"] | None = None,
    rows: Int[Array, " row"] | None = None,
    on_chunk: Callable[[int], None] = lambda done: None,
) -> tuple[Float[Array, "particle dim"], Float[Array, " particle"]]:
    """`num` independent samples and their log densities (NaN for the SDE and for divergence none).

    With churn they are log densities of paths (see `churn`): right in importance weights, and only there.

    Args:
        normals: standard normal points to start from in place of independent ones.
        rows: make only these of the `num`.
    """
    rest = (denoise, prior, sigmas, method)
    if normals is None and rows is None:
        made = lambda begin, size: _draw_chunk((_keys(key, begin, size), None), *rest)  # noqa: E731
        return _by_part(made, num, chunk_size, on_chunk)
    start = (jax.random.split(key, num), normals)
    if rows is not None:
        start = jax.tree.map(lambda leaf: leaf[rows], start)
    return in_chunks(lambda part: _draw_chunk(part, *rest), start, chunk_size, on_chunk)


def compile_draws(num: int, denoise: Denoise, prior: Prior, sigmas: Float[Array, " node"], method: Method) -> None:
    """Compile what `draw` runs for up to `num` independent samples, `num` at most a chunk."""
    keys = _keys(from_seed(0), 0, num)
    _draw_chunk.lower((keys, None), denoise, prior, sigmas, method).compile()


def compile_densities(num: int, denoise: Denoise, prior: Prior, sigmas: Float[Array, " node"], method: Method) -> None:
    """Compile what `log_likelihood` runs for up to `num` points, `num` at most a chunk."""
    keys, points = _keys(from_seed(0), 0, num), np.zeros((num, prior.location.shape[0]), np.float32)
    _likelihood_chunk.lower((keys, jax.device_put(points)), denoise, prior, sigmas, method).compile()


@on_devices
def _likelihood_chunk(
    keyed: tuple[Keys, Array], denoise: Denoise, prior: Prior, sigmas: Array, method: Method
) -> Array:
    def one(key: Key, x: Array) -> Array:
        # What is gained on the way up is lost on the way down.
        noisy, change = flow(denoise, x, sigmas[::-1], key, method)
        return prior.log_prob(noisy) - change

    return by_row(one)(*keyed)


def log_likelihood(
    key: Key,
    x: Float[Array, "particle dim"],
    denoise: Denoise,
    prior: Prior,
    sigmas: Float[Array, " node"],
    method: Method,
    *,
    chunk_size: int,
    on_chunk: Callable[[int], None] = lambda done: None,
) -> Float[Array, " particle"]:
    """Normalised log density of the sampler at every point, by the same solver and grid as `draw`.

    Churn has densities of paths, which a given point does not tell: its kicks are left out, and what is returned is the
    density of the probability flow by Heun's solver.
    """
    points = np.asarray(x)

    def made(begin: int, size: int) -> Array:
        start = _keys(key, begin, size), _rows(points, begin, size)
        return _likelihood_chunk(start, denoise, prior, sigmas, method)

    return _by_part(made, x.shape[0], chunk_size, on_chunk)
