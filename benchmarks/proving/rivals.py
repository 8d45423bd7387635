"""Other samplers on the same densities: dynesty, nautilus, pocoMC, SMC of BlackJAX, NUTS of NumPyro.

Each has its own defaults, and a cap on evaluations where it takes one. They are counted by wrapping the likelihood,
which is compiled and, where the sampler allows it, called with many points at once. All work in double
precision. A density on R^dim is given to those that need a bounded prior with a uniform one on its `box`.

Not dependencies: `pip install dynesty nautilus-sampler blackjax numpyro`, and for pocoMC, which needs PyTorch,
`pip install torch --index-url https://download.pytorch.org/whl/cpu && pip install pocomc`.
"""

import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from scipy.special import ndtri

from .judge import Answer
from .record import Box, Density, Gaussian, Prior
from .runner import Method

__all__ = ["RIVAL_METHODS", "UNCAPPED", "can_run"]

UNCAPPED = ("pocomc",)
"""Those that take no cap on evaluations."""
_NESTED = ("dynesty", "nautilus", "pocomc")


def can_run(method: str, density: Density) -> bool:
    """Whether a rival can be given the density at all."""
    return method not in (*_NESTED, "smc") or density.prior is not None or density.box is not None


class Counted:
    """A compiled log density of arrays of NumPy that counts points. Batches are padded to powers of two."""

    def __init__(self, log_density: Callable):
        self.num = 0
        self._one, self._many = jax.jit(log_density), jax.jit(jax.vmap(log_density))

    def one(self, x: np.ndarray) -> float:
        """At one point."""
        self.num += 1
        value = float(self._one(x))
        return -1e300 if math.isnan(value) or value == -math.inf else value

    def many(self, points: np.ndarray) -> np.ndarray:
        """At many points, axes (point, dim)."""
        points = np.atleast_2d(points)
        num = len(points)
        self.num += num
        padded = np.concatenate([points, np.repeat(points[-1:], 2 ** math.ceil(math.log2(num)) - num, axis=0)])
        values = np.array(self._many(padded)[:num])
        return np.where(np.isnan(values) | (values == -np.inf), -1e300, values)


def bounded(density: Density) -> tuple[Prior, float]:
    """The density's prior; or a uniform one on its box, and what that takes from log Z."""
    if density.prior is not None:
        return density.prior, 0.0
    if density.box is None:
        raise ValueError(f"{density.name} has no prior, and no box that would hold it")
    return Box.cube(-density.box, density.box, density.dim), density.dim * math.log(2.0 * density.box)


def transform(prior: Prior) -> Callable[[np.ndarray], np.ndarray]:
    """The map of the unit cube on arrays of NumPy, of one point or many."""
    match prior:
        case Box(low, high):
            start, width = np.array(low), np.array(high) - np.array(low)
            return lambda u: start + width * u
        case Gaussian(mean, std):
            centre, scale = np.array(mean), np.array(std)
            return lambda u: centre + scale * ndtri(u)
    return lambda u: np.asarray(jnp.vectorize(prior.from_cube, signature="(d)->(d)")(u))


def dynesty(density: Density, seed: int, budget: int | None) -> Answer:
    """Static nested sampling at its defaults: 500 live points, bounds and moves chosen by dimension."""
    import dynesty as package  # pyright: ignore[reportMissingImports]

    nested: Any = package.NestedSampler  # its annotations, where it is installed, miss its defaults
    prior, shift = bounded(density)
    with jax.enable_x64(True):
        counted = Counted(density.log_density)
        sampler = nested(counted.one, transform(prior), density.dim, rstate=np.random.default_rng(seed))
        sampler.run_nested(print_progress=False, maxcall=budget)
    found = sampler.results
    return Answer(
        found.samples,
        found.logwt,
        counted.num,
        log_z=float(found.logz[-1]) + shift,
        log_z_error=float(found.logzerr[-1]),
        facts=_effective(found.logwt),
    )


def nautilus(density: Density, seed: int, budget: int | None) -> Answer:
    """Importance nested sampling with neural networks at its defaults: 2,000 live points."""
    from nautilus import Sampler  # pyright: ignore[reportMissingImports]

    prior, shift = bounded(density)
    with jax.enable_x64(True):
        counted = Counted(density.log_density)
        sampler = Sampler(
            transform(prior), counted.many, n_dim=density.dim, vectorized=True, pass_dict=False, seed=seed
        )
        is_done = sampler.run(verbose=False, n_like_max=math.inf if budget is None else budget)
    points, log_weights, _ = sampler.posterior()
    facts = _effective(log_weights) | {"is_converged": bool(is_done)}
    return Answer(points, log_weights, counted.num, log_z=float(sampler.log_z) + shift, facts=facts)


def pocomc(density: Density, seed: int, budget: int | None) -> Answer:
    """Preconditioned Monte Carlo at its defaults."""
    import pocomc  # pyright: ignore[reportMissingImports]
    from scipy import stats

    if budget is not None:
        raise ValueError("pocoMC takes no cap on evaluations")
    prior, shift = bounded(density)
    match prior:
        case Box(low, high):
            parts = [stats.uniform(a, b - a) for a, b in zip(low, high, strict=True)]
        case Gaussian(mean, std):
            parts = [stats.norm(a, b) for a, b in zip(mean, std, strict=True)]
        case _:
            raise ValueError(f"{density.name} has a prior that pocoMC does not take")
    with jax.enable_x64(True):
        counted = Counted(density.log_density)
        sampler = pocomc.Sampler(prior=pocomc.Prior(parts), likelihood=counted.many, vectorize=True, random_state=seed)
        sampler.run(progress=False)
    draws, weights, *_ = sampler.posterior()
    log_z, error = sampler.evidence()
    return Answer(
        draws,
        np.log(np.maximum(weights, 1e-300)),
        counted.num,
        log_z=float(log_z) + shift,
        log_z_error=None if error is None else float(error),
        facts=_effective(np.log(np.maximum(weights, 1e-300))),
    )


def smc(density: Density, seed: int, budget: int | None) -> Answer:
    """BlackJAX's adaptive tempered SMC from the prior, or from a Gaussian on the box.

    2,000 particles, its default of ten moves a temperature, an effective share of a half; the moves are a random walk
    with the covariance of the particles, tuned as BlackJAX documents it (`inner_kernel_tuning`). It evaluates every
    particle three times a temperature besides the moves. With a budget it has as many particles as would spend it in
    fifteen temperatures.
    """
    import blackjax
    from blackjax.mcmc import random_walk
    from blackjax.smc import resampling

    prior, dim, num_moves = density.prior, density.dim, 10
    num = 2000 if budget is None else max(50, budget // (15 * (num_moves + 3)))
    scale = 1.0 if prior is not None else (density.box or 3.0) / 3.0
    log_density = density.log_density if prior is None else density.normal_log_density
    walk = random_walk.build_additive_step()

    def log_prior(x):
        return -0.5 * jnp.sum((x / scale) ** 2) - dim * (math.log(scale) + 0.5 * math.log(2.0 * math.pi))

    def move(key, state, tempered, root):
        return walk(key, state, tempered, lambda key, _: root @ jax.random.normal(key, (dim,)))

    def tuned(_, state, __):
        spread = jnp.atleast_2d(jnp.cov(state.particles, rowvar=False)) + 1e-12 * jnp.eye(dim)
        return _shared(2.38 / math.sqrt(dim) * jnp.linalg.cholesky(spread))

    with jax.enable_x64(True):
        key, key_start = jax.random.split(jax.random.key(seed))
        algorithm = blackjax.inner_kernel_tuning(
            smc_algorithm=blackjax.adaptive_tempered_smc,
            logprior_fn=log_prior,
            loglikelihood_fn=lambda x: log_density(x) - log_prior(x),
            mcmc_step_fn=move,
            mcmc_init_fn=random_walk.init,
            resampling_fn=resampling.systematic,
            mcmc_parameter_update_fn=tuned,
            initial_parameter_value=_shared(scale * jnp.eye(dim)),
            target_ess=0.5,
            num_mcmc_steps=num_moves,
        )
        init: Any = algorithm.init
        state, step = init(scale * jax.random.normal(key_start, (num, dim))), jax.jit(algorithm.step)
        log_z, num_rounds = 0.0, 0
        while state.sampler_state.tempering_param < 1.0 and num_rounds < 500:
            state, info = step(jax.random.fold_in(key, num_rounds), state)
            log_z, num_rounds = log_z + float(info.log_likelihood_increment), num_rounds + 1
        draws, weights = state.sampler_state.particles, np.asarray(state.sampler_state.weights)
        draws = draws if prior is None else jax.vmap(prior.from_normal)(draws)
    log_weights = np.log(np.maximum(weights, 1e-300))
    spent = num * num_rounds * (num_moves + 3)
    return Answer(np.asarray(draws), log_weights, spent, log_z=log_z, facts=_effective(log_weights))


def _shared(root: jax.Array) -> dict[str, jax.Array]:
    """A parameter of BlackJAX's moves that all particles share has one leading axis of length one."""
    return {"root": root[None]}


def nuts(density: Density, seed: int, budget: int | None) -> Answer:
    """NUTS of NumPyro: 4 chains from N(0, 1), 1,000 steps of warm-up and 2,000 draws each; every leapfrog step counts.

    With a budget the warm-up has a fifth of the steps and draws go on in parts until it is spent. No log Z.
    """
    from numpyro.infer import MCMC, NUTS

    log_density = density.log_density if density.prior is None else density.normal_log_density
    num_warmup, num_draws = (1000, 2000) if budget is None else (200, 50)
    with jax.enable_x64(True):
        kernel = NUTS(potential_fn=lambda z: -log_density(z))
        chains = MCMC(
            kernel,
            num_warmup=num_warmup,
            num_samples=num_draws,
            num_chains=4,
            chain_method="vectorized",
            progress_bar=False,
        )
        key, key_start = jax.random.split(jax.random.key(seed))
        start = jax.random.normal(key_start, (4, density.dim))
        chains.warmup(key, init_params=start, extra_fields=("num_steps",), collect_warmup=True)
        spent, parts = int(chains.get_extra_fields()["num_steps"].sum()), []
        while not parts or (budget is not None and spent < budget):
            state: Any = chains.last_state
            chains.post_warmup_state = state
            chains.run(state.rng_key, extra_fields=("num_steps",))
            spent += int(chains.get_extra_fields()["num_steps"].sum())
            parts.append(chains.get_samples())
        draws = jnp.concatenate(parts)
        draws = draws if density.prior is None else jax.vmap(density.prior.from_normal)(draws)
    return Answer(np.asarray(draws), np.zeros(len(draws)), spent, gives_log_z=False)


def _effective(log_weights: np.ndarray) -> dict[str, float]:
    """The effective number of weighted draws."""
    weights = np.exp(np.asarray(log_weights, np.float64) - np.max(log_weights))
    return {"effective_draws": round(float(weights.sum() ** 2 / np.sum(weights**2)), 1)}


RIVAL_METHODS: dict[str, Method] = {
    "dynesty": dynesty,
    "nautilus": nautilus,
    "pocomc": pocomc,
    "smc": smc,
    "nuts": nuts,
}
