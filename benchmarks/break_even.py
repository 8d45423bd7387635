"""When does a sampler that asks for few evaluations pay? Seconds to an answer against the cost of one evaluation.

    python benchmarks/break_even.py run --method tempering --out results/break-even/tempering.json
    python benchmarks/break_even.py run --method smc nuts pt nautilus --out results/break-even/rivals.json
    python benchmarks/break_even.py check --cost 1e-3 --out results/break-even/check.json
    python benchmarks/break_even.py figure

`run` makes rows of the proving ground: every method on every density at growing budgets, with a density that costs
nothing. A row has the seconds of the method itself (compiling, chains, training), the evaluations, and whether the
answer is right by the proving ground's rules. If one evaluation takes c seconds, the same run takes

    seconds + c evaluations / workers,

because no method here asks for points one by one but NUTS, whose four chains keep two cores busy. The figure has, for
each c, the quickest budget of a method whose answers were right for all seeds. `check` measures that formula: it runs
ours with a density that really sleeps, and puts the seconds beside those that the formula foretells.
"""

import argparse
import json
import math
import time
from pathlib import Path
from typing import Any

import numpy as np
from densities import methods_of
from measure import commit
from proving.catalogue import density_of
from proving.judge import Answer
from proving.record import Density
from proving.runner import OURS, read_rows, run

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "results" / "break-even"
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
        pause = jax.pure_callback(wait, jax.ShapeDtypeStruct((), jnp.float32), x, vmap_method="expand_dims")
        return log_density(x + jax.lax.stop_gradient(pause))

    return slow


def do_check(options: argparse.Namespace) -> None:
    import dataclasses

    from proving.ours import fitted

    rows = []
    for name in options.density:
        density, seconds = density_of(name), {}
        for cost in (0.0, options.cost):
            slow = density.log_density if cost == 0.0 else slowed(density.log_density, cost)
            begun = time.perf_counter()
            sampler, _ = fitted(dataclasses.replace(density, log_density=slow), 0, 20_000)
            seconds[cost] = time.perf_counter() - begun
        foretold = seconds[0.0] + options.cost * sampler.evaluations / WORKERS
        row: dict[str, Any] = {"density": name, "cost_s": options.cost, "evaluations": sampler.evaluations}
        row |= {"seconds_at_no_cost": seconds[0.0], "seconds": seconds[options.cost], "foretold": foretold}
        rows.append(row)
        print(json.dumps(rows[-1]), flush=True)
    command = f"python benchmarks/break_even.py check --cost {options.cost}"
    content = {"command": command, "commit": commit(), "rows": rows}
    options.out.write_text(json.dumps(content, indent=1) + "\n")


def quickest(rows: list[dict[str, Any]], costs: np.ndarray) -> np.ndarray | None:
    """Seconds at every cost of the quickest budget whose answers were right for all seeds; None where there is none."""
    lines = []
    for budget in {row["budget"] for row in rows}:
        own = [row for row in rows if row["budget"] == budget]
        if own and all(row["is_right"] for row in own):
            seconds = np.mean([row["seconds"] for row in own])
            lines.append(seconds + costs * np.mean([row["evaluations"] for row in own]) / WORKERS)
    return np.min(lines, axis=0) if lines else None


def do_figure(options: argparse.Namespace) -> None:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    rows = read_rows(*sorted(RESULTS.glob("*.json")))
    rows = [row for row in rows if "outcome" in row]
    names = [name for name in DENSITIES if any(row["density"] == name for row in rows)]
    figure, axes = plt.subplots(1, len(names), figsize=(4.2 * len(names), 3.8), sharey=True, layout="constrained")
    table: list[dict[str, Any]] = []
    for axis, name in zip(np.atleast_1d(axes), names, strict=True):
        missing = []
        for number, (method, title) in enumerate(NAMES.items()):
            for is_gpu in (False, True):
                own = [row for row in rows if row["density"] == name and row["method"] == method]
                own = [row for row in own if (row["device"] != "cpu") == is_gpu]
                if not own:
                    continue
                line, place = quickest(own, COSTS), "GPU" if is_gpu else "2 cores"
                shown = quickest(own, np.asarray(MARKED))
                at = None if shown is None else dict(zip(map(str, MARKED), shown.round(1).tolist(), strict=True))
                table.append({"density": name, "method": method, "place": place, "seconds": at})
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
    print(json.dumps(table, indent=1))


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
    checking.add_argument("--cost", type=float, default=1e-3, help="seconds per evaluation")
    checking.add_argument("--density", nargs="+", default=["mixture-9"])
    checking.add_argument("--out", type=Path, required=True)
    checking.set_defaults(do=do_check)
    drawing = commands.add_parser("figure", help="draw the figure of all rows")
    drawing.add_argument("--out", type=Path, default=ROOT / "docs" / "figures" / "break-even.png")
    drawing.set_defaults(do=do_figure)
    options = parser.parse_args()
    options.do(options)


if __name__ == "__main__":
    main()
