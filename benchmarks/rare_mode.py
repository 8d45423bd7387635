"""The rare mode of alanine dipeptide in finished runs, before and after reweighting, from many draws and few weights.

    python benchmarks/rare_mode.py RUN [RUN ...] [--draws 10000] [--rounds 10] [--weighted 200] [--seed 100]
        [--chunk 2000] [--out results/aldp-rare-mode.json]

RUN is a folder that `tempering run aldp` made. Draws of the flow cost no evaluation and no determinants, so that there
may be many: `--rounds` times `--draws`. All in 0 < phi < 120 degrees and, in every round, `--weighted` of the others
are made once more with their exact densities and weighed (`population_of_two_stages`). With `--weighted 0` the
mean weight is that of the run's own final draws, its log Z, in place of a sample of the others. Figures so far are
written after every round.
"""

import dataclasses
import math
import time
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt
from measure import finish, parser

import tempering as tp
from tempering.compilation import keep_programs
from tempering.lab.metrics import MetricError
from tempering.lab.metrics.populations import RARE_MODE, Population, population
from tempering.molecules import phi_psi
from tempering.runs.folder import RunFolder
from tempering.runs.ledger import Ledger
from tempering.weights.ess import effective_size
from tempering.weights.weigh import weigh

PAD = 16


def population_of_two_stages(
    is_inside: npt.ArrayLike, log_weights_inside: npt.ArrayLike, log_weights_outside: npt.ArrayLike
) -> Population:
    """The share of samples that are inside, where all of those and some of the others have weights.

    p / (1 - p) = sum_in w / (n_out mean_out w). Of a mode of 0.2 % ten times as many draws are seen at the price of one
    tenth more weights.

    Args:
        is_inside: of every sample, independent draws; shape (num,).
        log_weights_inside: of all samples inside.
        log_weights_outside: of a random choice of at least two of the others, on the same scale.

    Raises:
        MetricError: for other shapes, or weights that are none.
    """
    inside = np.asarray(is_inside)
    sides = [np.asarray(logs, np.float64) for logs in (log_weights_inside, log_weights_outside)]
    num_outside = int(np.sum(~inside)) if inside.dtype == bool else 0
    is_right = inside.dtype == bool and inside.ndim == 1 and sides[0].shape == (int(inside.sum()),)
    if not (is_right and sides[1].ndim == 1 and 2 <= len(sides[1]) <= num_outside):
        raise MetricError(
            f"is_inside is {inside.dtype} of shape {inside.shape}, with {sides[0].shape} log weights inside and "
            f"{sides[1].shape} outside; give booleans (num,), a log weight of each inside, and of 2 or more outside"
        )
    both = np.concatenate(sides)
    if np.any(np.isnan(both)) or np.any(both == np.inf) or not np.any(np.isfinite(sides[1])):
        raise MetricError("log weights must be finite or -inf, and not all of those outside -inf")
    num_inside = int(inside.sum())
    log_out, worth_out = _log_total(sides[1])
    # Of those outside some were chosen, and how many there are is random itself.
    squared_out = 1.0 / worth_out - 1.0 / len(sides[1]) + 1.0 / num_outside
    num_effective = worth_out * num_outside / len(sides[1])
    if not np.any(np.isfinite(sides[0])):
        return Population(0.0, 1.0 / num_effective, num_inside, int(inside.size), num_effective)
    log_in, worth_in = _log_total(sides[0])
    odds = log_in - log_out - math.log(num_outside / len(sides[1]))
    share = 1.0 / (1.0 + math.exp(-min(odds, 700.0))) if odds > -700.0 else 0.0
    num_effective += worth_in
    error = share * (1.0 - share) * math.sqrt(1.0 / worth_in + squared_out)
    return Population(share, max(error, 1.0 / num_effective), num_inside, int(inside.size), num_effective)


def _log_total(logs: np.ndarray) -> tuple[float, float]:
    """log sum w, and the effective size: 1 / squared relative error of the sum, whose number of terms is random."""
    top = float(np.max(logs))
    weights = np.exp(logs - top)
    total = float(np.sum(weights))
    return top + math.log(total), effective_size(weights / total)


def one_round(key, sampler, options) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Which draws are inside, and log weights of those and of some of the others."""
    key_draw, key_choice = jax.random.split(key)
    target = sampler.target
    quick = dataclasses.replace(sampler.sampling, chunk_size=min(options.chunk, options.draws))
    draws, _ = sampler.model.draw(key_draw, options.draws, quick, with_density=False)
    phi = np.degrees(np.asarray(jax.jit(jax.vmap(lambda x: phi_psi(target.chart.embed(x))[0]))(draws)))
    is_inside = (phi > RARE_MODE[0]) & (phi < RARE_MODE[1])
    inside = np.flatnonzero(is_inside)
    others = np.asarray(jax.random.choice(key_choice, np.flatnonzero(~is_inside), (options.weighted,), replace=False))
    rows = np.concatenate([inside, others]).astype(int)
    if len(rows) == 0:
        return is_inside, np.zeros(0), np.zeros(0)
    padded = jnp.asarray(np.resize(rows, -(-len(rows) // PAD) * PAD))  # else every round would compile anew
    again, log_q = sampler.model.draw(key_draw, options.draws, sampler.sampling, with_density=True, rows=padded)
    again, log_q = again[: len(rows)], log_q[: len(rows)]
    # Where the two solves differ the weight belongs to another point, which is as good a draw: told, if there are many.
    apart = np.max(np.abs(np.asarray(again) - np.asarray(draws)[rows]), axis=1)
    if np.mean(apart > 1e-3) > 0.01:
        print(f"{np.mean(apart > 1e-3):.1%} of the draws were not found again, by up to {np.max(apart):.2g} nm")
    weighted = weigh(target, again, log_q, jnp.ones(()), ledger=Ledger(), stage="metrics")
    logs = np.asarray(weighted.log_weights, np.float64)
    return is_inside, logs[: len(inside)], logs[len(inside) :]


def share_of(logs: np.ndarray) -> float | None:
    """Effective share of weights."""
    if not np.any(np.isfinite(logs)):
        return None
    weights = np.exp(logs - np.max(logs))
    return float(np.sum(weights) ** 2 / np.sum(weights**2) / len(weights))


def summary(folder: Path, sampler, rounds: list[tuple], seconds: float) -> dict:
    """Both populations from the rounds so far."""
    is_inside, within, without = (np.concatenate(parts) for parts in zip(*rounds, strict=True))
    raw = population(is_inside)
    if len(without):
        found = population_of_two_stages(is_inside, within, without)
        reweighted = {"share": found.share, "error": found.error}
    else:
        total = float(np.sum(np.exp(within - float(sampler.log_z))))
        spread = math.sqrt(float(np.sum(np.exp(2.0 * (within - float(sampler.log_z))))))
        share = total / len(is_inside)
        error = math.hypot(spread / len(is_inside), share * float(sampler.log_z_error))
        reweighted = {"share": share, "error": max(error, 1.0 / len(is_inside))}
    return {
        "seed": RunFolder.read_config(folder).seed,
        "num_draws": len(is_inside),
        "num_inside": int(is_inside.sum()),
        "num_weighted_outside": len(without),
        "raw": {"share": raw.share, "error": raw.error},
        "reweighted": reweighted,
        "ess_fraction_inside": share_of(within),
        "ess_fraction_outside": share_of(without),
        "ess_fraction_of_the_run": sampler.ess_fraction,
        "log_z": [float(sampler.log_z), float(sampler.log_z_error)],
        "evaluations": len(within) + len(without),
        "seconds": round(seconds, 1),
    }


def main() -> None:
    made = parser(__doc__)
    made.add_argument("runs", type=Path, nargs="+")
    made.add_argument("--draws", type=int, default=10_000, help="of a round")
    made.add_argument("--rounds", type=int, default=10)
    made.add_argument("--weighted", type=int, default=200, help="draws outside the mode that are weighed in a round")
    made.add_argument("--seed", type=int, default=100, help="of the draws")
    made.add_argument("--chunk", type=int, default=2_000, help="draws at a time without densities")
    options = made.parse_args()
    if options.quick:
        options.draws, options.rounds, options.weighted = min(options.draws, 50), 1, min(options.weighted, 4)
    keep_programs()
    rows: list[dict] = []
    for folder in options.runs:
        begun, sampler = time.perf_counter(), tp.load(folder)
        rounds: list[tuple] = []
        rows.append({})
        for index in range(options.rounds):
            rounds.append(one_round(jax.random.fold_in(jax.random.key(options.seed), index), sampler, options))
            rows[-1] = summary(folder, sampler, rounds, time.perf_counter() - begun)
            print(rows[-1], flush=True)
            finish(options, {"runs": rows}, draws=options.draws, weighted=options.weighted, seed=options.seed)


if __name__ == "__main__":
    main()
