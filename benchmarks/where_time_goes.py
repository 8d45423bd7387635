"""Where the seconds of a fit go: imports, tracing, lowering, compiling, and every stage, without and with a cache.

    python benchmarks/where_time_goes.py --out results/time-cpu.json --figure docs/figures/time-cpu.png
    python benchmarks/where_time_goes.py --cases five mog40 --against /path/to/another/checkout

Every case runs in a process of its own: first with an empty compilation cache (cold), then again with what that left
(warm). JAX itself reports how long it traces, lowers and compiles; the rest of a stage is computing, and work of the
host. What is compiled on another thread, ahead of its use, is counted apart: it takes CPU seconds but no waiting.
`--against` runs the same cases with the code of another checkout, side by side in time, for ratios.
"""

import argparse
import contextlib
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections import defaultdict
from pathlib import Path
from typing import Any

from measure import commit

COMPILER = {
    "jaxpr_trace_duration": "tracing",
    "jaxpr_to_mlir_module_duration": "lowering",
    "backend_compile_duration": "compiling",
}
STAGES = {
    "searching for modes": "search",
    "fitting the modes": "search",
    "drawing from the modes": "chains",
    "learning coordinates": "search",
    "pilot": "pilot",
    "initial PT": "chains",
    "refinement": "chains",
    "choosing a proposal": "densities",
    "guided sampling": "densities",
    "training": "training",
    "final weights": "densities",
}
NUM_NAMED = 60
"""Programs whose seconds are kept by name, the slowest first."""

CASES = ("five", "mixture-8", "logistic-25", "mog40", "mw32")


def density(name: str) -> tuple[Any, dict[str, Any]]:
    """A density, and the other arguments of its fit."""
    import jax
    import jax.numpy as jnp
    import numpy as np

    rng = np.random.default_rng(3)
    if name == "five":
        mode = lambda x, centre: -0.5 * jnp.sum((x - centre) ** 2)  # noqa: E731
        return lambda x: jnp.logaddexp(mode(x, 4.0), mode(x, -4.0) + 1.0), {"dim": 2}
    if name == "mixture-8":
        means = jnp.asarray(5.0 * rng.normal(size=(5, 8)), jnp.float32)
        log_weights = jnp.log(jnp.asarray([0.4, 0.3, 0.15, 0.1, 0.05]))
        parts = lambda x: log_weights - 0.5 * jnp.sum((x[None] - means) ** 2, axis=1)  # noqa: E731
        return lambda x: jax.nn.logsumexp(parts(x)), {"dim": 8}
    if name == "logistic-25":
        rows = jnp.asarray(rng.normal(size=(500, 25)), jnp.float32)
        chance = 1.0 / (1.0 + np.exp(-np.asarray(rows) @ (0.5 * rng.normal(size=25))))
        labels = jnp.asarray(rng.random(500) < chance, jnp.float32)

        def posterior(x):
            logits = rows @ x
            return jnp.sum(labels * logits - jnp.logaddexp(0.0, logits)) - 0.5 * jnp.sum(x**2)

        return posterior, {"dim": 25}
    try:
        from tempering.targets.densities.gaussian_mixture import mog40
        from tempering.targets.densities.many_well import ManyWell
    except ImportError:  # where they were at c7caf6b
        from tempering.targets.gaussian_mixture import mog40  # pyright: ignore[reportMissingImports]
        from tempering.targets.many_well import ManyWell  # pyright: ignore[reportMissingImports]
    made = mog40() if name == "mog40" else ManyWell(32)
    return made, {"budget": {"mog40": 20_000, "mw32": 300_000}[name]}


def child(name: str) -> dict[str, Any]:
    """One fit in this process, and where its seconds went."""
    began = time.perf_counter()
    import jax

    times: dict[str, float] = defaultdict(float)
    spent: dict[str, float] = defaultdict(float)
    by_program: dict[str, dict[str, float]] = defaultdict(lambda: defaultdict(float))
    main, num_programs = threading.get_ident(), 0

    def on_duration(event: str, seconds: float, fun_name: str = "", **_: Any) -> None:
        nonlocal num_programs
        kind = COMPILER.get(event.rsplit("/", 1)[-1])
        if kind is None:
            return
        num_programs += kind == "compiling"
        program = by_program[fun_name.removeprefix("jit_").removeprefix("jit(").removesuffix(")")]
        program["ahead" if threading.get_ident() != main else kind] += seconds
        program["num"] += kind == "compiling"
        if threading.get_ident() != main:
            times["ahead"] += seconds
        else:
            times[kind] += seconds
            spent[kind] += seconds

    jax.monitoring.register_event_duration_secs_listener(on_duration)  # pyright: ignore[reportArgumentType]
    import tempering as tp

    times["import"] = time.perf_counter() - began
    last = time.perf_counter()

    def close(kind: str) -> None:
        nonlocal last
        now = time.perf_counter()
        times[kind] += max(0.0, now - last - sum(spent.values()))
        spent.clear()
        last = now

    @contextlib.contextmanager
    def watched(*_: Any, **__: Any):
        yield lambda event: close(STAGES.get(event.stage, "host") if event.done > 0 else "host")

    log_density, options = density(name)
    arguments = {"progress": False, "callback": lambda event: close(STAGES.get(event.stage, "host"))}
    try:
        sampler = tp.fit(log_density, seed=0, **options, **arguments)
    except TypeError:  # an older checkout, without callbacks
        import tempering.api

        tempering.api.__dict__["choose_display"] = watched
        sampler = tp.fit(log_density, seed=0, **options)
    close("diagnosis")
    fitted = time.perf_counter() - began
    sampler.sample(10_000, seed=1)
    close("10,000 draws")
    sampler.sample_weighted(10_000, seed=2)
    close("10,000 weighted draws")
    wall = time.perf_counter() - began
    return {
        "wall_s": wall,
        "fit_s": fitted,
        "cpu_s": time.process_time(),
        "split_s": dict(times),
        "num_programs": num_programs,
        "programs": dict(sorted(by_program.items(), key=lambda item: -sum(item[1].values()))[:NUM_NAMED]),
        "evaluations": sampler.evaluations,
        "ess": sampler.ess_fraction,
        "log_z": sampler.log_z,
        "verdict": sampler.diagnose().status,
        "training_steps": [level.training_steps for level in sampler.levels],
        "device": jax.devices()[0].device_kind,
        "jax": jax.__version__,
    }


def measured(name: str, source: Path, cache: str) -> dict[str, Any]:
    """One case in a fresh process with the code of a checkout."""
    environment = os.environ | {"PYTHONPATH": f"{source / 'src'}", "TEMPERING_CACHE": cache}
    environment |= {"JAX_COMPILATION_CACHE_DIR": cache, "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0"}
    command = [sys.executable, __file__, "--child", name]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    if done.returncode:
        return {"error": done.stderr[-2000:]}
    return json.loads(done.stdout.strip().split("\n")[-1])


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--cases", nargs="+", choices=CASES, default=list(CASES))
    parser.add_argument("--against", type=Path, help="another checkout, for ratios")
    parser.add_argument("--turns", nargs="+", default=["cold", "warm"], choices=("cold", "warm"))
    parser.add_argument("--out", type=Path)
    parser.add_argument("--figure", type=Path)
    parser.add_argument("--child", choices=CASES, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.child:
        print(json.dumps(child(given.child)))
        return
    here = Path(__file__).parent.parent
    sources = {"here": here} | ({"against": given.against} if given.against else {})
    rows = []
    for name in given.cases:
        with tempfile.TemporaryDirectory() as folder:
            for turn in given.turns:
                for label, source in sources.items():
                    row = {"case": name, "turn": turn, "code": label, "commit": commit(source)}
                    row |= measured(name, source, f"{folder}/{label}")
                    rows.append(row)
                    told = {key: row.get(key) for key in ("wall_s", "fit_s", "cpu_s", "ess", "error")}
                    print(
                        name, turn, label, {key: value for key, value in told.items() if value is not None}, flush=True
                    )
    if given.out:
        command = "python benchmarks/where_time_goes.py --cases " + " ".join(given.cases)
        given.out.write_text(
            json.dumps({"command": command, "commit": commit(here), "seeds": [0], "rows": rows}, indent=1) + "\n"
        )
    if given.figure:
        from time_figure import draw

        draw(rows, given.figure)


if __name__ == "__main__":
    main()
