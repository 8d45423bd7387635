"""`tp.fit` with its defaults, as a method of the proving ground."""

import inspect
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import tempering as tp

from .grids import Independent
from .judge import Answer, num_draws
from .record import Box, Density, Gaussian

__all__ = ["fitted", "tempering"]


def fitted(density: Density, seed: int, budget: int | None) -> tuple[Any, Any]:
    """A sampler, and the map from its draws to the user's coordinates.

    Where `tp.fit` takes a prior it is given; else the density is handed over in coordinates in which its prior is the
    standard normal, with that as its reference.
    """
    how = {"budget": budget, "seed": seed, "progress": False}
    prior = density.prior
    if density.handed is not None:
        return tp.fit(density.handed(), **how, **density.how), density.flat or np.asarray
    if prior is None:
        return tp.fit(density.log_density, density.dim, **how, **density.how), np.asarray
    if "prior" in inspect.signature(tp.fit).parameters:
        return tp.fit(density.log_density, density.dim, **how, **_prior(prior)), np.asarray
    reference = tp.Normal(jnp.zeros(density.dim), 1.0)
    sampler = tp.fit(density.normal_log_density, density.dim, reference=reference, **how)
    return sampler, lambda z: np.asarray(jax.vmap(prior.from_normal)(jnp.asarray(z)))


def _prior(prior: Any) -> dict[str, Any]:
    """A prior as `tp.fit` takes it: by name where it has one, else as a map of the unit cube."""
    match prior:
        case Box(low, high):
            return {"prior": [tp.Uniform(*ends) for ends in zip(low, high, strict=True)]}  # pyright: ignore
        case Gaussian(mean, std):
            return {"prior": [tp.Normal(*pair) for pair in zip(mean, std, strict=True)]}
        case Independent(each):
            return {"prior": list(each)}
    return {"prior_transform": prior.from_cube}


def tempering(density: Density, seed: int, budget: int | None) -> Answer:
    """A fit with the defaults, its verdict, and fresh weighted draws to judge it by, which are not counted."""
    sampler, to_x = fitted(density, seed, budget)
    verdict, evaluations = sampler.diagnose(), sampler.evaluations
    draws, log_weights = sampler.sample_weighted(num_draws(density), seed=seed + 1)
    return Answer(
        to_x(draws),
        np.asarray(log_weights),
        evaluations,
        log_z=sampler.log_z,
        log_z_error=sampler.log_z_error,
        ess_fraction=sampler.ess_fraction,
        verdict=verdict.status,
        findings=[f"{found.name}: {found.measured}" for found in verdict.troubles()],
        facts={
            "pareto_k": sampler.pareto_k,
            "num_levels": len(sampler.levels),
            "points": {stage: int(num) for stage, num in sampler.ledger.points.items()},
            "ess_of_judging": _effective_share(np.asarray(log_weights)),
        },
    )


def _effective_share(log_weights: np.ndarray) -> float | None:
    """The effective share of the draws that judge: a verdict from fewer draws may not have seen what these see."""
    finite = log_weights[np.isfinite(log_weights)].astype(np.float64)
    if not len(finite):
        return None
    weights = np.exp(finite - finite.max())
    return float(weights.sum() ** 2 / np.sum(weights**2) / len(log_weights))
