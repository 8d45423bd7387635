"""How often does a rule about the largest weights see what is wrong, and how often does it speak in vain? Simulated.

    python benchmarks/tails.py --out results/tails.json

Saboteurs: a region with a share of the mass that `met` draws meet on average, each with a large weight. Clean: weights
that are log-normal, or have a Pareto tail. Wrong is a log Z that is off by more than 0.05. Compared are a Pareto k
above 0.7 and a mass of more than 0.03 beyond the largest weight; both beside the rules for the effective share.
"""

import argparse
import json
from pathlib import Path

import numpy as np
from measure import commit

from tempering.sampler.diagnosis.thresholds import FEW_EFFECTIVE, HIGH_K, LOW_SHARE, MUCH_UNSEEN
from tempering.weights.pareto import pareto_k, unseen_mass

_WRONG = 0.05


def with_region(rng: np.random.Generator, num: int, mass: float, met: float) -> tuple[np.ndarray, bool]:
    """Log weights whose mean is 1 on average, and whether any draw met the region."""
    count = rng.binomial(num, met / num)
    log_weights = np.log((1.0 - mass) / (1.0 - met / num)) + 0.25 * rng.normal(size=num) - 0.5 * 0.25**2
    log_weights[:count] = np.log(mass * num / met) + rng.normal(size=count) - 0.5
    return log_weights, count > 0


def clean(rng: np.random.Generator, num: int, kind: str, size: float) -> np.ndarray:
    """Log weights whose mean is 1 on average."""
    if kind == "log-normal":
        return size * rng.normal(size=num) - 0.5 * size**2
    excess = 0.2 * (rng.uniform(size=num) ** -size - 1.0) / size
    return np.log1p(excess) - np.log1p(0.2 / (1.0 - size))


def rates(sets: list[tuple[np.ndarray, bool]]) -> dict[str, float]:
    """Shares of all sets: wrong, and by either rule silent (where a draw met the region) and alarmed in vain."""
    rows = []
    for log_weights, is_met in sets:
        weights = np.exp(log_weights - np.max(log_weights))
        size = np.sum(weights) ** 2 / np.sum(weights**2)
        is_wrong = abs(np.log(np.mean(weights)) + np.max(log_weights)) > _WRONG
        is_poor = size < max(FEW_EFFECTIVE, LOW_SHARE * len(weights))
        rows.append(
            (
                is_wrong,
                is_met,
                is_poor or pareto_k(log_weights) > HIGH_K,
                is_poor or unseen_mass(log_weights) > MUCH_UNSEEN,
            )
        )
    wrong, met, by_k, by_mass = np.array(rows, bool).T
    found = {"wrong": wrong.mean(), "wrong_and_met": (wrong & met).mean()}
    for name, alarm in (("k", by_k), ("mass", by_mass)):
        found |= {f"silent_{name}": (wrong & met & ~alarm).mean(), f"false_{name}": (~wrong & alarm).mean()}
    return {name: round(float(value), 3) for name, value in found.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=Path("results/tails.json"))
    options = parser.parse_args()
    rng, rows = np.random.default_rng(options.seed), []
    for num in (2000, 20_000):
        for mass in (0.03, 0.1, 0.3):
            for met in (1.0, 3.0, 10.0):
                sets = [with_region(rng, num, mass, met) for _ in range(options.repeats)]
                rows.append({"weights": "region", "num": num, "mass": mass, "met": met, **rates(sets)})
        for kind, size in (
            ("log-normal", 0.3),
            ("log-normal", 0.7),
            ("log-normal", 1.0),
            ("Pareto", 0.3),
            ("Pareto", 0.5),
        ):
            sets = [(clean(rng, num, kind, size), True) for _ in range(options.repeats)]
            rows.append({"weights": kind, "num": num, "size": size, **rates(sets)})
    facts = {
        "command": f"python benchmarks/tails.py --repeats {options.repeats} --seed {options.seed}",
        "commit": commit(),
    }
    lines = ",\n  ".join(json.dumps(row) for row in rows)
    options.out.write_text(json.dumps(facts)[:-1] + f',\n "device": "cpu", "rows": [\n  {lines}\n]}}\n')
    print(options.out.read_text())


if __name__ == "__main__":
    main()
