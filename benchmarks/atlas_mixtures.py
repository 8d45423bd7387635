"""How many modes of random mixtures the search finds, at the default budget: no fit, a few seconds each.

    python benchmarks/atlas_mixtures.py --count 100

A fit can only be right if its modes are found; the verdict cannot see a mode that nothing came near. Rows say what was
found of every mixture of the proving ground's generator, and whether plain uphill searches can find all of it.
"""

import argparse
import json
import multiprocessing
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import jax
import numpy as np
from measure import commit
from proving.mixtures import known_findable, random_mixture, uphill

from tempering.adapters import as_target
from tempering.atlas.survey import survey
from tempering.methods.atlas import SEARCH_SHARE
from tempering.methods.budget import default_budget
from tempering.runs.ledger import Ledger
from tempering.settings import PTSDSettings

OUT = Path(__file__).resolve().parent.parent / "results" / "atlas-mixtures.json"
WRONG = 0.05
"""Lost mass from which a fit is wrong: log Z is off by as much."""


def searched(number: int, seed: int) -> dict:
    """What the search finds of one mixture."""
    mixture = random_mixture(number)
    dim = mixture.dim
    density = mixture.density()
    affordable = int(SEARCH_SHARE * PTSDSettings().atlas.share * default_budget(dim))
    begin = time.perf_counter()
    found = survey(seed, as_target(density.log_density, dim), Ledger(), affordable)
    tops = uphill(mixture.value_and_gradient, mixture.means.copy())
    distance = np.linalg.norm(found.optima.position[:, None] - tops[None], axis=2)
    is_found = np.min(distance, axis=0, initial=np.inf) < 0.2
    return {
        "mixture": mixture.seed,
        "seed": seed,
        "dim": dim,
        "components": len(mixture.weights),
        "findable": known_findable(mixture.seed),
        "lost": float(np.sum(mixture.weights[~is_found])),
        "searches": found.num_searches,
        "missing": found.missing,
        "evaluations": found.evaluations,
        "seconds": round(time.perf_counter() - begin, 1),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--commit", help="where the tree is not a git checkout")
    parser.add_argument("--out", type=Path, default=OUT)
    options = parser.parse_args()
    rows = []
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(options.processes, mp_context=context, max_tasks_per_child=10) as pool:
        for row in pool.map(searched, range(options.count), [options.seed] * options.count):
            rows.append(row)
            print(row, flush=True)
    findable = [row for row in rows if row["findable"]]
    content = {
        "command": f"python benchmarks/atlas_mixtures.py --count {options.count} --seed {options.seed}",
        "commit": options.commit or commit(),
        "device": jax.devices()[0].device_kind,
        "of_all": {"count": len(rows), "lost": sum(row["lost"] > WRONG for row in rows)},
        "of_findable": {"count": len(findable), "lost": sum(row["lost"] > WRONG for row in findable)},
        "rows": rows,
    }
    options.out.write_text(json.dumps(content, indent=1) + "\n")
    print({name: content[name] for name in ("of_all", "of_findable")})


if __name__ == "__main__":
    main()
