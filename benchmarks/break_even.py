"""When does a sampler that asks for few evaluations pay? Seconds to an answer against the cost of one evaluation.

    python benchmarks/break_even.py run --method tempering --out results/break-even/tempering.json
    python benchmarks/break_even.py run --method smc nuts pt nautilus --out results/break-even/rivals.json
    python benchmarks/break_even.py check --cost 1e-3 1e-2 --out results/break-even/check.json
    python benchmarks/break_even.py figure

`run` makes rows of the proving ground: every method on every density at growing budgets, with a density that costs
nothing. A row has the processor seconds of the method itself (compiling, chains, training), the evaluations, and
whether the answer is right by the proving ground's rules. Programs that an earlier run has compiled are read back.
If one evaluation takes c seconds, the same run takes

    seconds + c evaluations / 2,

with two evaluations at a time: no method here asks for points one by one but NUTS, whose four chains keep two cores
busy. So slow densities are by arithmetic. `check` measures that formula: it runs ours and SMC with a density that
really sleeps, and puts the seconds beside those that the formula foretells.

`figure` has, for each c, the quickest budget of a method whose answers were right for all seeds, and writes the
seconds at 1 µs, 100 µs, 10 ms and 1 s to results/break-even.json. Rows of the proving ground (results/proving/), of
ours on a GPU and of all methods at their default budgets, are read too.
"""

import argparse
import dataclasses
import json
import math
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
from densities import methods_of
from measure import commit
from proving.catalogue import density_of
from proving.judge import Answer, num_draws
from proving.record import Density
from proving.runner import OURS, read_rows, run

ROOT = Path(__file__).resolve().parent.parent
RESULTS, PROVING = ROOT / "results" / "break-even", ROOT / "results" / "proving"
DENSITIES = ("eggbox", "mixture-9", "banana")
"""18 modes in a box; a random mixture; one curved mode, which is NUTS's own ground."""
BUDGETS = {
    OURS: (5_000, 10_000, 20_000, 40_000, 80_000),
    "smc": (10_000, 30_000, 100_000, 300_000, 1_000_000),
    "nuts": (10_000, 30_000, 100_000, 300_000),
    "pt": (10_000, 30_000, 100_000, 300_000, 1_000_000),
    "nautilus": (None,),
}
NAMES = {OURS: "tempering", "smc": "SMC (BlackJAX)", "nuts": "NUTS (NumPyro)", "pt": "PT alone", "nautilus": "nautilus"}
COSTS = np.logspace(-6, 0, 61)
MARKED = (1e-6, 1e-4, 1e-2, 1.0)
WORKERS = 2
"""Evaluations at a time, of every method."""
CHECKED = {OURS: 20_000, "smc": 100_000}
"""Budgets of `check`: a method that gathers its points itself, and one that has fixed rounds."""


def parallel_tempering(density: Density, seed: int, budget: int | None) -> Answer:
    """PT alone with a geometric ladder of eight temperatures from 100 to 1, from the prior or N(0, (box / 3)^2)."""
    import jax
    from baselines import pt_alone

    from tempering.adapters import FunctionTarget

    has_prior = density.prior is not None
    target = FunctionTarget(density.dim, density.normal_log_density if has_prior else density.log_density)
    scale = 1.0 if has_prior else (density.box or 3.0) / 3.0
    ladder = tuple(float(t) for t in np.geomspace(100.0, 1.0, 8))
    drawn = pt_alone.samples(target, jax.random.key(seed), budget or 100_000, temperatures=ladder, scale=scale)
    points = drawn.points if density.prior is None else jax.vmap(density.prior.from_normal)(drawn.points)
    return Answer(np.asarray(points), np.zeros(len(points)), drawn.evaluations, gives_log_z=False)


def do_run(options: argparse.Namespace) -> None:
    from tempering.compilation import keep_programs

    keep_programs()  # every method with the programs of earlier runs, where there are any
    for method in options.method:
        fits = {"pt": parallel_tempering} if method == "pt" else methods_of([method])
        for budget in options.budgets or BUDGETS[method]:
            run(
                options.density, fits, options.seeds, options.out, budget=budget, commit=commit(),
                say=lambda line: print(line, flush=True),
            )  # fmt: skip


def slowed(log_density: Any, cost: float) -> Any:
    """The same density, whose evaluation makes the host sleep: `cost` seconds a point, shared by the workers."""
    import jax
    import jax.numpy as jnp

    def wait(x: np.ndarray) -> np.ndarray:
        num = max(1, math.prod(x.shape[:-1]))
        time.sleep(cost * num / WORKERS)
        return np.zeros(x.shape[:-1], np.float32)

    def slow(x):
        # Added to the point that is evaluated, so that no compiler leaves it out; the gradient passes by.
        still, nothing = jax.lax.stop_gradient(x), jax.ShapeDtypeStruct((), jnp.float32)
        return log_density(x + jax.pure_callback(wait, nothing, still, vmap_method="expand_dims").astype(x.dtype))

    return slow


def do_check(options: argparse.Namespace) -> None:
    rows = []
    for method in options.method:
        fit = methods_of([method])[method]
        for name in options.density:
            density, free = density_of(name), 0.0
            for cost in (None, 0.0, *options.cost):  # the first run compiles
                slow = density.log_density if not cost else slowed(density.log_density, cost)
                begun = time.perf_counter()
                answer = fit(dataclasses.replace(density, log_density=slow), 0, CHECKED[method])
                seconds = time.perf_counter() - begun
                if not cost:
                    free = seconds
                    continue
                # The points that judge ours are paid for in seconds too, and not counted by the method.
                evaluations = answer.evaluations + (num_draws(density) if method == OURS else 0)
                row: dict[str, Any] = {"density": name, "method": method, "cost_s": cost, "evaluations": evaluations}
                row |= {"seconds_at_no_cost": free, "seconds": seconds}
                rows.append(row | {"foretold": free + cost * evaluations / WORKERS})
                print(json.dumps(rows[-1]), flush=True)
    command = " ".join(["python", "benchmarks/break_even.py", *sys.argv[1:]])
    content = {"command": command, "commit": commit(), "rows": rows}
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(json.dumps(content, indent=1) + "\n")


def known_rows() -> list[dict[str, Any]]:
    """Rows of this benchmark and of the proving ground, where a method has its default budget."""
    proving = [PROVING / f"{name}.json" for name in ("tempering", "random", "rivals")]
    rows = read_rows(*sorted(RESULTS.glob("*.json")), *proving)
    return [row for row in rows if "outcome" in row and row["density"] in DENSITIES and row["method"] in NAMES]


def _seconds_of(row: dict[str, Any]) -> float:
    """Processor seconds on CPUs, where they are known: wall time is that of a machine with nothing else to do."""
    return row["seconds"] if _is_gpu(row) else row.get("cpu_seconds", row["seconds"])


def _is_gpu(row: dict[str, Any]) -> bool:
    return row["device"] != "cpu"


def quickest(rows: list[dict[str, Any]], costs: np.ndarray) -> np.ndarray | None:
    """Seconds at every cost of the quickest budget whose answers were right for all seeds; None where there is none."""
    lines = []
    for budget in {row["budget"] for row in rows}:
        own = [row for row in rows if row["budget"] == budget]
        if own and all(row["is_right"] for row in own):
            seconds = np.mean([_seconds_of(row) for row in own])
            lines.append(seconds + costs * np.mean([row["evaluations"] for row in own]) / WORKERS)
    return np.min(lines, axis=0) if lines else None


def do_figure(options: argparse.Namespace) -> None:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    rows = known_rows()
    names = [name for name in DENSITIES if any(row["density"] == name for row in rows)]
    figure, axes = plt.subplots(1, len(names), figsize=(4.2 * len(names), 3.8), sharey=True, layout="constrained")
    table: list[dict[str, Any]] = []
    for axis, name in zip(np.atleast_1d(axes), names, strict=True):
        missing = []
        for number, (method, title) in enumerate(NAMES.items()):
            for is_gpu in (False, True):
                own = [row for row in rows if row["density"] == name and row["method"] == method]
                own = [row for row in own if _is_gpu(row) == is_gpu]
                if not own:
                    continue
                line, place = quickest(own, COSTS), "H200" if is_gpu else "CPU"
                shown = quickest(own, np.asarray(MARKED))
                at = None if shown is None else dict(zip(map(str, MARKED), shown.round(1).tolist(), strict=True))
                num_seeds = len({row["seed"] for row in own})
                table.append({"density": name, "method": method, "place": place, "seeds": num_seeds, "seconds": at})
                if line is None:
                    missing.append(f"{title}, {place}")
                    continue
                style = {"color": f"C{number}", "ls": "--" if is_gpu else "-", "lw": 2.4 if method == OURS else 1.4}
                axis.loglog(COSTS, line, label=f"{title}, {place}", **style)
        axis.set_title(name)
        axis.set_xlabel("seconds per evaluation")
        if missing:
            words = "no right answer:\n" + "\n".join(missing)
            axis.text(0.03, 0.97, words, transform=axis.transAxes, va="top", fontsize=7)
        axis.grid(alpha=0.3)
    first = np.atleast_1d(axes)[0]
    first.set_ylabel("seconds to a right answer")
    handles: dict[str, Any] = {}
    for axis in np.atleast_1d(axes):
        handles |= {label: handle for handle, label in zip(*axis.get_legend_handles_labels(), strict=True)}
    figure.legend(handles.values(), handles.keys(), loc="outside lower center", ncols=4, fontsize=8)
    figure.savefig(options.out, dpi=150)
    content = {"command": "python benchmarks/break_even.py figure", "commit": commit(), "workers": WORKERS}
    options.table.write_text(json.dumps(content | {"rows": table}, indent=1) + "\n")
    for row in table:
        print(json.dumps(row))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True)
    running = commands.add_parser("run", help="rows of methods at growing budgets")
    running.add_argument("--method", nargs="+", choices=sorted(BUDGETS), default=[OURS])
    running.add_argument("--density", nargs="+", default=list(DENSITIES))
    running.add_argument("--seeds", type=int, nargs="+", default=[0, 1])
    running.add_argument("--budgets", type=int, nargs="*", default=None, help="in place of the method's own list")
    running.add_argument("--out", type=Path, required=True)
    running.set_defaults(do=do_run)
    checking = commands.add_parser("check", help="measure what the formula foretells")
    checking.add_argument("--cost", type=float, nargs="+", default=[1e-3, 1e-2], help="seconds per evaluation")
    checking.add_argument("--method", nargs="+", choices=sorted(CHECKED), default=sorted(CHECKED))
    checking.add_argument("--density", nargs="+", default=["mixture-9"])
    checking.add_argument("--out", type=Path, required=True)
    checking.set_defaults(do=do_check)
    drawing = commands.add_parser("figure", help="draw the figure of all rows")
    drawing.add_argument("--out", type=Path, default=ROOT / "docs" / "figures" / "break-even.png")
    drawing.add_argument("--table", type=Path, default=ROOT / "results" / "break-even.json")
    drawing.set_defaults(do=do_figure)
    options = parser.parse_args()
    options.do(options)


if __name__ == "__main__":
    main()
