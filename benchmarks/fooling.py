"""Targets made to fool the library: for each the truth, the answer, the verdict, and whether the pair is honest.

    python benchmarks/fooling.py --names ring banana --seeds 0 1 --out results/fooling.json
    python benchmarks/fooling.py --table docs/trust.md        # only write the table from what is there

A pair is honest if every statistic of the weighted draws is within four stated errors of the truth (or within a small
tolerance, for errors are themselves estimated), or if the verdict is not trustworthy. Each fit has the defaults of
`tp.fit` but for `--budget` and `--steps`, which shortens training. Results are written after every fit; a pair of
target and seed that is there is not run again.
"""

import argparse
import dataclasses
import json
import time
from pathlib import Path
from typing import Any

import jax
import numpy as np
from fooling_targets import FOOLING
from measure import commit

import tempering as tp
from tempering.settings import PTSDSettings, resolved
from tempering.targets import ExactTarget

NUM_DRAWS, NUM_TRUE = 4000, 200_000
QUANTILES = (0.1, 0.5, 0.9)
TOLERANCE = {"region": 0.01, "below": 0.02, "log Z": 0.05}
"""What counts as right whatever the error: of weights of regions, of masses below exact quantiles, and of log Z."""
REFERENCED = {"student-mixture, reference": ("student-mixture", tp.StudentT([0.0, 0.0], 6.0, nu=2.0))}
"""The same target once more along a path from a reference: what the verdict advises."""
NAMES = [*FOOLING, *REFERENCED]
MARKERS = "<!-- fooling: begin -->", "<!-- fooling: end -->"


def truths(target: ExactTarget) -> tuple[np.ndarray, np.ndarray]:
    """Exact region weights, and quantiles of every coordinate from many exact samples: axes (quantile, dim)."""
    exact = np.asarray(target.sample(jax.random.key(123), NUM_TRUE))
    return np.asarray(target.region_weights()), np.quantile(exact, QUANTILES, axis=0)


def weighted_shares(values: np.ndarray, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Weighted means of bounded columns, and their standard errors."""
    share = weights @ values
    return share, np.sqrt(np.sum((weights[:, None] * (values - share[None])) ** 2, axis=0))


def judge(target: ExactTarget, sampler: tp.Sampler) -> dict:
    """The answer against the truth: every statistic with its error, and whether all are right."""
    regions, quantiles = truths(target)
    draws, log_weights = sampler.sample_weighted(NUM_DRAWS, seed=1)
    if not np.any(np.isfinite(log_weights)):  # a sampler that has nothing to say has no right answer
        log_weights = np.full(len(log_weights), np.nan)
    weights = np.exp(log_weights - np.max(log_weights))
    weights = weights / weights.sum()
    indicators = np.asarray(jax.vmap(target.region_indicators)(draws), np.float64)
    found, found_error = weighted_shares(indicators, weights)
    columns = np.concatenate([draws <= row[None] for row in quantiles], axis=1).astype(np.float64)
    below, below_error = weighted_shares(columns, weights)
    true_below = np.repeat(QUANTILES, draws.shape[1])
    plain = np.mean(np.asarray(jax.vmap(target.region_indicators)(sampler.sample(NUM_DRAWS, seed=2))), axis=0)
    log_z = np.array([np.nan if sampler.log_z is None else sampler.log_z])
    log_z_error = np.array([np.nan if sampler.log_z_error is None else sampler.log_z_error])
    off = {
        "region": excess(found, regions, found_error, TOLERANCE["region"]),
        "below": excess(below, true_below, below_error, TOLERANCE["below"]),
        "log Z": excess(log_z, np.array([target.log_z()]), log_z_error, TOLERANCE["log Z"]),
    }
    return {
        "regions": {"true": regions.tolist(), "found": found.tolist(), "error": found_error.tolist()},
        "plain_regions": plain.tolist(),
        "log_z": {"true": target.log_z(), "found": sampler.log_z, "error": sampler.log_z_error},
        "largest_error_of_shares": float(np.max(np.abs(below - true_below))),
        "excess": off,
        "is_right": max(off.values()) <= 1.0,
    }


def excess(found: np.ndarray, true: np.ndarray, error: np.ndarray, tolerance: float) -> float:
    """The largest deviation in units of what is allowed; above 1 the answer is wrong, and NaN is wrong."""
    ratio = np.abs(found - true) / np.maximum(4.0 * error, tolerance)
    return float(np.max(np.where(np.isnan(ratio), np.inf, ratio)))


def run(name: str, seed: int, budget: int, steps: int | None) -> dict:
    """One fit, its answer and its verdict."""
    plain, reference = REFERENCED.get(name, (name, None))
    target = FOOLING[plain]()
    settings = resolved(PTSDSettings(), target.dim)
    if steps is not None:
        training = dataclasses.replace(settings.training, num_steps=steps, num_finetune_steps=max(1, steps // 4))
        settings = dataclasses.replace(settings, training=training)
    begin = time.perf_counter()
    sampler = tp.fit(target, budget=budget, seed=seed, settings=settings, reference=reference, progress=False)
    seconds = time.perf_counter() - begin
    verdict = sampler.diagnose()
    answer = judge(target, sampler)
    return {
        "name": name,
        "seed": seed,
        "dim": target.dim,
        "budget": budget,
        "steps": steps,
        "evaluations": sampler.ledger.total,
        "seconds": round(seconds, 1),
        "ess_fraction": sampler.ess_fraction,
        "pareto_k": sampler.pareto_k,
        **answer,
        "verdict": verdict.as_dict(),
        "is_honest": answer["is_right"] or not verdict.is_trustworthy,
        "checks": sampler.checks.as_dict(),
        "levels": [record.as_dict() for record in sampler.levels],
    }


def table(entries: list[dict]) -> str:
    """The table of docs/trust.md."""
    lines = [
        "| target | seed | evaluations | truth | answer | log Z: truth, answer | right | verdict | because of |",
        "| --- | --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for entry in sorted(entries, key=lambda entry: (NAMES.index(entry["name"]), entry["seed"])):
        regions, log_z = entry["regions"], entry["log_z"]
        true = ", ".join(f"{value:.3f}" for value in regions["true"][:4])
        found = ", ".join(
            f"{value:.3f} ± {error:.3f}"
            for value, error in zip(regions["found"][:4], regions["error"][:4], strict=True)
        )
        answer = "none" if log_z["found"] is None else f"{log_z['found']:.2f} ± {log_z['error'] or 0:.2f}"
        status = entry["verdict"]["status"]
        troubles = "; ".join(f["name"] for f in entry["verdict"]["findings"] if f["status"] not in ("good", "note"))
        is_honest = "" if entry["is_honest"] else " **dishonest**"
        lines.append(
            f"| {entry['name']} | {entry['seed']} | {entry['evaluations']:,} | {true} | {found} | {log_z['true']:.2f}, "
            f"{answer} | {'yes' if entry['is_right'] else 'no'} | {status}{is_honest} | {troubles} |"
        )
    return "\n".join(lines)


def write_table(page: Path, content: dict) -> None:
    """Put the table between the markers of a page."""
    text = page.read_text()
    before, rest = text.split(MARKERS[0])
    after = rest.split(MARKERS[1])[1]
    page.write_text(f"{before}{MARKERS[0]}\n{table(content['entries'])}\n{MARKERS[1]}{after}")


def main() -> None:
    """Run what is asked for and not there yet."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--names", nargs="+", choices=NAMES, default=[])
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    parser.add_argument("--budget", type=int, default=40_000)
    parser.add_argument("--steps", type=int, default=None, help="training steps of the first and last fit")
    parser.add_argument("--out", type=Path, default=Path("results/fooling.json"))
    parser.add_argument("--table", type=Path, default=None, help="a page with markers to put the table in")
    options = parser.parse_args()
    content: dict[str, Any] = {"entries": []}
    if options.out.exists():
        content = json.loads(options.out.read_text())
    content["command"] = "python benchmarks/fooling.py, with the names, budgets and steps of the entries"
    for name in options.names:
        for seed in options.seeds:
            known = [entry for entry in content["entries"] if (entry["name"], entry["seed"]) == (name, seed)]
            if known:
                continue
            entry = run(name, seed, options.budget, options.steps)
            content["entries"].append(entry)
            content["commits"] = sorted({*content.get("commits", []), commit()})
            options.out.write_text(json.dumps(content, indent=1, sort_keys=True) + "\n")
            line = "honest" if entry["is_honest"] else "DISHONEST"
            right = "right" if entry["is_right"] else "wrong answer"
            print(name, seed, f"{entry['seconds']:.0f} s", right, entry["verdict"]["status"], line, flush=True)
    if options.table is not None:
        write_table(options.table, content)


if __name__ == "__main__":
    main()
