"""Have long chains of a particle system converged? Evidence that needs no reference of its own, and a verdict in words.

Consumes draws at T = 1 of independent ladders of chains, and the tally of their swaps; produces numbers as JSON can
hold them. Where ladders started on opposite sides, the population of a mode must be the same from both. No evaluations.
Evidence can speak against convergence, never prove it: a mode that no chain found is unseen.
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from tempering.kernels import ChainState
from tempering.lab.metrics.populations import population
from tempering.lab.reference_starts import landmark_of
from tempering.parallel_tempering import Tally
from tempering.parallel_tempering.mixing import split_rhat
from tempering.targets import Inner
from tempering.types import Array, Float, Int

__all__ = ["NUM_BLOCKS", "evidence_lines", "evidence_of"]

MAX_RHAT = 1.05
MAX_SCORE = 4.0
"""Standard errors that the virial, and the drift of the energy, may be off."""
MAX_SPREAD = 2.0
"""Of block energies in units of their standard error: chi^2 of 9 degrees of freedom is above 36 once in 25,000."""
MAX_RELATIVE_ERROR = 0.5
"""Of the population of the mode that tells; more, and opposite starts would agree whatever they found."""
NUM_BLOCKS = 10


@jax.jit
def _virials(draws: ChainState) -> Float[Array, "draw chain"]:
    """x . grad U: the same in inner and in centred full coordinates, and the gradients are paid for."""
    return -jnp.sum(draws.position * draws.log_density_grad, axis=-1)


def evidence_of(
    target: Inner, draws: ChainState, tally: Tally, group: Int[np.ndarray, " chain"] | None = None
) -> dict[str, Any]:
    """The evidence of draws at T = 1 of axes (draw, chain), as JSON can hold it, and the verdict in words.

    Args:
        group: from which of the opposite starts a chain comes; None where there are none.
    """
    energies = -np.asarray(draws.log_density, np.float64)
    assert target.geometry is not None, "only systems of particles are asked"
    features = jax.jit(jax.vmap(jax.vmap(target.invariants)))(draws.position)
    rhat_distances = float(jnp.max(split_rhat(features)))
    rhat_energy = float(split_rhat(draws.log_density[..., None])[0])
    virial, virial_error = _over_chains(np.asarray(_virials(draws), np.float64).mean(axis=0))
    energy, energy_error = _over_chains(energies.mean(axis=0))
    virial_score = _ratio(virial - target.dim, virial_error)
    blocks = energies.reshape((NUM_BLOCKS, -1, energies.shape[1])).mean(axis=1)
    block_error = float(np.sqrt(np.mean(blocks.var(axis=1, ddof=1)) / blocks.shape[1]))
    spread = _ratio(float(blocks.mean(axis=1).std(ddof=1)), block_error)
    drift, drift_error = _over_chains(_drift(blocks))
    checks = (
        (rhat_distances <= MAX_RHAT, f"R-hat of {_what(target)} is {rhat_distances:.3f}, above {MAX_RHAT}"),
        (rhat_energy <= MAX_RHAT, f"R-hat of the energy is {rhat_energy:.3f}, above {MAX_RHAT}"),
        (
            abs(virial_score) <= MAX_SCORE,
            f"the virial <x . grad U> is {virial:.3f} +- {virial_error:.3f} where {target.dim} is exact: "
            f"{abs(virial_score):.1f} standard errors off",
        ),
        (
            abs(_ratio(drift, drift_error)) <= MAX_SCORE,
            f"the energy drifts by {drift:.3f} +- {drift_error:.3f} from the first block to the last",
        ),
        (spread <= MAX_SPREAD, f"block energies spread {spread:.1f} times as wide as their standard error"),
    )
    shares, more_checks = _population(target, draws, group)
    checks += more_checks
    problems = [text for is_good, text in checks if not is_good]  # NaN compares false: what never moved is no evidence
    evidence = {
        "is_converged": not problems,
        "problems": problems,
        "rhat_distances": rhat_distances,
        "rhat_distances_of": _what(target),
        "rhat_energy": rhat_energy,
        "energy": {"mean": energy, "standard_error": energy_error, "std": float(energies.std())},
        "ess_energy": min(_ratio(float(energies.var()), energy_error**2), float(energies.size)),
        "virial": {"mean": virial, "standard_error": virial_error, "expected": target.dim, "score": virial_score},
        "block_energies": blocks.mean(axis=1).tolist(),
        "block_standard_error": block_error,
        "block_spread": spread,
        "drift": {"mean": drift, "standard_error": drift_error},
        "acceptance": tally.acceptance_rate.tolist(),
        "swap_rates": tally.swap_rate.tolist(),
        "round_trips": int(tally.round_trips),
        "num_nonfinite": tally.num_nonfinite.tolist(),
        "num_chains": energies.shape[1],
        "num_draws_of_chain": energies.shape[0],
    } | shares
    # JSON has no NaN and no infinities.
    return jax.tree.map(lambda value: None if isinstance(value, float) and not np.isfinite(value) else value, evidence)


def _what(target: Inner) -> str:
    return "torsions and distances" if target.target.invariants is not None else "pair distances"


def _population(target: Inner, draws: ChainState, group: Int[np.ndarray, " chain"] | None) -> tuple[dict, tuple]:
    """Of the mode that tells: from all chains, from each start, how far the starts are apart; and the checks of it."""
    mode = landmark_of(target)
    if mode is None:
        return {}, ()
    name, is_inside_fn = mode
    is_inside = np.asarray(jax.jit(jax.vmap(jax.vmap(is_inside_fn)))(draws.position)).T
    everything = population(is_inside)
    share, error = everything.share, everything.error
    record = {"mode": name, "share": share, "standard_error": error}
    few = f"the population of {name} is {share:.5f} +- {error:.5f}: too few visits to tell"
    checks = [(error <= MAX_RELATIVE_ERROR * share, few)]
    if group is not None:
        sides = [population(is_inside[group == side]) for side in np.unique(group)]
        low, high = min(sides, key=lambda side: side.share), max(sides, key=lambda side: side.share)
        apart = (high.share - low.share) / float(np.hypot(low.error, high.error))
        record["by_start"] = [{"share": side.share, "standard_error": side.error} for side in sides]
        record["apart"] = apart
        both = f"{low.share:.5f} +- {low.error:.5f} and {high.share:.5f} +- {high.error:.5f}"
        checks.append((apart <= MAX_SCORE, f"the population of {name} depends on the start: {both}"))
    return {"population": record}, tuple(checks)


def _over_chains(values: Float[np.ndarray, " chain"]) -> tuple[float, float]:
    """Mean and standard error over chains, which are independent whatever happens within one."""
    return float(values.mean()), float(values.std(ddof=1) / np.sqrt(len(values)))


def _drift(blocks: Float[np.ndarray, "block chain"]) -> Float[np.ndarray, " chain"]:
    """For every chain, what the line of least squares through its block energies rises from first to last."""
    times = np.arange(len(blocks)) - (len(blocks) - 1) / 2.0
    return (len(blocks) - 1) * (times @ blocks) / (times @ times)


def _ratio(value: float, error: float) -> float:
    """NaN without an error to compare with: chains that never moved, or all moved alike."""
    return value / error if error > 0 else float("nan")


def evidence_lines(evidence: dict[str, Any]) -> list[str]:
    """The evidence for people: a line for each kind, and the verdict."""
    energy, virial = evidence["energy"], evidence["virial"]
    what = evidence.get("rhat_distances_of", "pair distances")
    swaps, blocks = (" ".join(map(_text, evidence[name])) for name in ("swap_rates", "block_energies"))
    lines = [
        f"energy       {_with_error(energy)}, standard deviation {_text(energy['std'])}",
        f"R-hat        {_text(evidence['rhat_distances'])} ({what}), {_text(evidence['rhat_energy'])} (energy)",
        f"virial       {_with_error(virial)}, exact {virial['expected']}",
        f"blocks       {blocks}, each +- {_text(evidence['block_standard_error'])}",
        f"swap rates   {swaps}, {evidence['round_trips']:,} round trips",
    ]
    if "population" in evidence:
        share = evidence["population"]
        sides = "; by start " + ", ".join(map(_share, share["by_start"])) if "by_start" in share else ""
        lines.append(f"population   {_share(share)} in {share['mode']}{sides}")
    if evidence["is_converged"]:
        return [*lines, "converged    every check passed"]
    return [*lines, *(f"NOT CONVERGED: {problem}" for problem in evidence["problems"])]


def _text(value: float | None) -> str:
    return "not finite" if value is None else f"{value:.3f}"


def _share(estimate: dict[str, Any]) -> str:
    return f"{estimate['share']:.5f} +- {estimate['standard_error']:.5f}"


def _with_error(estimate: dict[str, Any]) -> str:
    return f"{_text(estimate['mean'])} +- {_text(estimate['standard_error'])}"
