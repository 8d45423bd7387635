"""An answer against the truth: how far off it is, whether it is right, and whether its verdict said so."""

import math
from dataclasses import dataclass, field
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .record import Density

__all__ = ["OUTCOMES", "Answer", "judge", "num_draws", "outcome"]

OUTCOMES = ("right", "false alarm", "honest", "silent wrong")
"""Right and trustworthy; right and called doubtful; wrong and called doubtful; wrong and trustworthy."""
_DRAWS, _DRAWS_PER_REGION, _CHUNK = 8000, 500, 8192


@dataclass
class Answer:
    """What a method gives: weighted draws of the user's coordinates, log Z, what it cost, what it says of itself."""

    draws: np.ndarray
    log_weights: np.ndarray
    evaluations: int
    log_z: float | None = None
    log_z_error: float | None = None
    gives_log_z: bool = True
    ess_fraction: float | None = None
    verdict: str | None = None
    findings: list[str] = field(default_factory=list)
    facts: dict[str, Any] = field(default_factory=dict)


def num_draws(density: Density) -> int:
    """Draws that an answer is judged by: so many that chance moves the total variation by about 0.02."""
    return max(_DRAWS, _DRAWS_PER_REGION * (0 if density.masses is None else len(density.masses)))


def judge(density: Density, answer: Answer) -> dict[str, Any]:
    """Every error that the truth allows, whether all are within the density's tolerance, and the outcome."""
    draws, weights = np.asarray(answer.draws), _normalised(answer.log_weights)
    facts: dict[str, Any] = {"log_z_true": density.log_z, "log_z_off": None, "weights_off": None}
    checks: list[tuple[float | None, float | None]] = []
    if density.log_z is not None and answer.gives_log_z:
        facts["log_z_off"] = math.nan if answer.log_z is None else answer.log_z - density.log_z
        checks.append((facts["log_z_off"], density.tolerance.log_z))
    if density.shares is not None and density.masses is not None:
        found = weights @ _shares(density, draws)
        facts["weights"] = [round(float(share), 5) for share in found]
        facts["weights_off"] = float(0.5 * np.sum(np.abs(found - density.masses)))
        facts["largest_weight_off"] = float(np.max(np.abs(found - density.masses)))
        checks.append((facts["weights_off"], density.tolerance.weights))
    if density.spread is not None:
        mean = weights @ draws[:, 0]
        facts["spread"] = float(np.sqrt(weights @ (draws[:, 0] - mean) ** 2))
        facts["spread_off"] = facts["spread"] / density.spread - 1.0
        checks.append((facts["spread_off"], density.tolerance.spread))
    facts["is_right"] = all(_is_within(off, most) for off, most in checks)
    facts["outcome"] = outcome(facts["is_right"], answer.verdict)
    goals = ((facts["log_z_off"], density.goal.log_z), (facts.get("largest_weight_off"), density.goal.largest_weight))
    asked = [(off, most) for off, most in goals if most is not None]
    facts["meets_goal"] = all(_is_within(off, most) for off, most in asked) if asked else None
    return facts


def outcome(is_right: bool, verdict: str | None) -> str:
    """One of `OUTCOMES`; a method without a verdict is right or wrong."""
    if verdict is None:
        return "right" if is_right else "wrong"
    is_trusted = verdict == "trustworthy"
    return OUTCOMES[0 if is_trusted else 1] if is_right else OUTCOMES[3 if is_trusted else 2]


def _is_within(off: float | None, most: float | None) -> bool:
    """NaN and nothing are wrong where something was asked."""
    return most is None or (off is not None and abs(off) <= most)


def _normalised(log_weights: np.ndarray) -> np.ndarray:
    log_weights = np.asarray(log_weights, np.float64)
    if not np.any(np.isfinite(log_weights)):  # nothing usable was drawn: every average is unknown
        return np.full(len(log_weights), np.nan)
    weights = np.exp(log_weights - np.max(log_weights))
    return weights / weights.sum()


def _shares(density: Density, draws: np.ndarray) -> np.ndarray:
    assert density.shares is not None
    many = jax.jit(jax.vmap(density.shares))
    parts = [many(jnp.asarray(draws[k : k + _CHUNK])) for k in range(0, len(draws), _CHUNK)]
    return np.concatenate([np.asarray(part, np.float64) for part in parts])
