"""Throughput of a costly density on 8 virtual devices, and what one device costs: values of many points, and chains.

    python benchmarks/bench_devices.py [--quick] [--cost 1] [--out results/devices.json]

Two processes take turns. One sees every core and has eight virtual devices by XLA's flag; the other is held on one core
and has one device. The density is a reaction that spreads along a line of cells, solved by small steps. Linear is the
throughput of the single core times the cores that exist; the aim for 8 devices is at least 0.85 of it. `devices=1` over
plain programs, both on one core, has the aim of at most 1.05 in seconds. The same with every core says what is lost
where a plain program uses them all: the parts of `devices=1` come one after another. `--cost 10` makes the density ten
times as costly.

Where others use the machine, seconds of two threads and of one cannot be compared. So the same ratios are given once
more in seconds of the processors: these tell what the work has become, not whether it ran side by side.
"""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial

import numpy as np

NUM_TURNS, NUM_ROWS, NUM_CHAINS, NUM_STEPS, NUM_CELLS, SOLVER_STEPS = 15, 512, 256, 4, 128, 600


def serve(num_rows: int, num_chains: int, num_steps: int, cost: int) -> None:
    """Carry out what is asked for, one word a line, and say when it is done."""
    import jax
    import jax.numpy as jnp

    from tempering.adapters import as_target
    from tempering.devices import by_row, on_devices, use
    from tempering.kernels import RandomWalk
    from tempering.parallel_tempering import Rules, advance, betas_of, start
    from tempering.runs.ledger import Ledger

    def log_density(x):
        def step(_, cells):
            spread = jnp.roll(cells, 1) + jnp.roll(cells, -1) - 2.0 * cells
            return cells + 0.1 * (x[0] ** 2 * spread + jnp.tanh(x[1] * cells) - x[2] * cells**3)

        start = jnp.sin(jnp.arange(NUM_CELLS) * 0.1) + x[3]
        end = jax.lax.fori_loop(0, cost * SOLVER_STEPS, step, start)
        return -0.5 * jnp.sum(jnp.tanh(end - 0.7) ** 2) - 0.5 * jnp.sum(x**2)

    target, kernel, betas = as_target(log_density, 4), RandomWalk(), betas_of((2.0, 1.0))
    points = jax.random.normal(jax.random.key(0), (num_rows, 4))
    positions = jax.random.normal(jax.random.key(0), (2, num_chains // 2, 4))
    state, _ = start(jax.random.key(1), target, kernel, positions, betas, Ledger(), "initial_pt")
    rules = Rules.of(0.234, 5, num_steps, "even_odd")
    evaluated = on_devices(lambda target, points: by_row(target.log_density)(points))
    work = {
        "values": lambda: evaluated(target, points),
        "chains": lambda: advance(jax.random.key(2), target, kernel, state, betas, rules, num_steps),
    }
    print("ready", flush=True)
    for line in sys.stdin:
        name, devices = line.split()
        begin = time.process_time()
        with use(None if devices == "plain" else int(devices)):
            jax.block_until_ready(work[name]())
        print("done", time.process_time() - begin, flush=True)


class Other:
    """A process that works when it is told to."""

    def __init__(self, num_devices: int, on_one_core: bool, sizes: tuple[int, ...]):
        flags = f"{os.environ.get('XLA_FLAGS', '')} --xla_force_host_platform_device_count={num_devices}"
        environment = {**os.environ, "XLA_FLAGS": flags, "JAX_PLATFORMS": "cpu"}
        command = [sys.executable, __file__, "serve", json.dumps({"on_one_core": on_one_core, "sizes": sizes})]
        pipe = subprocess.PIPE
        self._process = subprocess.Popen(command, env=environment, stdin=pipe, stdout=pipe, text=True)
        self.cpu: dict[tuple[str, str], list[float]] = {}
        self._heard("ready")

    def do(self, name: str, devices: str) -> None:
        """One piece of work, waited for; seconds of the processors are noted."""
        assert self._process.stdin is not None
        print(name, devices, file=self._process.stdin, flush=True)
        self.cpu.setdefault((name, devices), []).append(float(self._heard("done")))

    def close(self) -> None:
        """End it."""
        self._process.kill()
        self._process.wait()

    def _heard(self, word: str) -> str:
        assert self._process.stdout is not None
        found, _, rest = self._process.stdout.readline().strip().partition(" ")
        if found != word:
            raise RuntimeError(f"the process said {found!r} where {word!r} was due")
        return rest


def compared(seconds: dict[str, np.ndarray], others: np.ndarray, num_cores: int) -> dict[str, dict]:
    """The ratios that have aims, and of 8 devices over a plain program."""
    from measure import ratio

    plain = seconds["plain devices"]
    return {
        "8 devices, of linear": ratio(seconds["one core"], num_cores * seconds["8 devices"], others),
        "1 device over plain": ratio(seconds["1 devices"], plain, others),
        "8 devices over plain": ratio(seconds["8 devices"], plain, others),
        "1 device over plain, on one core": ratio(seconds["1 device on one core"], seconds["one core"], others),
    }


def main() -> None:
    from measure import Patience, finish, interleave, parser, quartiles, show

    made = parser(__doc__)
    made.add_argument("--cost", type=int, default=1, help="how many times as costly the density is")
    made.add_argument("--turns", type=int, default=NUM_TURNS)
    given = made.parse_args()
    turns = 2 if given.quick else given.turns
    sizes = (64, 32, 2, given.cost) if given.quick else (NUM_ROWS, NUM_CHAINS, NUM_STEPS, given.cost)
    num_cores = len(os.sched_getaffinity(0))
    all_cores, one_core = Other(8, False, sizes), Other(1, True, sizes)
    figures, patience = {}, Patience(given.wait)
    try:
        for name in ("values", "chains"):
            sides: dict[str, Callable[[], object]] = {
                "8 devices": partial(all_cores.do, name, "8"),
                "1 devices": partial(all_cores.do, name, "1"),
                "plain devices": partial(all_cores.do, name, "plain"),
                "one core": partial(one_core.do, name, "plain"),
                "1 device on one core": partial(one_core.do, name, "1"),
            }
            found = interleave(sides, turns, patience)
            figures[name] = compared(found.seconds, found.others, num_cores)
            work = {f"{side} devices": all_cores.cpu[name, side][-turns:] for side in ("8", "1", "plain")}
            work |= {"one core": one_core.cpu[name, "plain"][-turns:]}
            work |= {"1 device on one core": one_core.cpu[name, "1"][-turns:]}
            whole = {side: np.asarray(values) for side, values in work.items()}
            figures[f"{name}, seconds of the processors"] = compared(whole, found.others, 1)
            figures[f"{name}, seconds"] = {side: quartiles(values) for side, values in found.seconds.items()}
            for title in (name, f"{name}, seconds of the processors"):
                show(title, figures[title], "ratios within a turn")
    finally:
        all_cores.close()
        one_core.close()
    finish(
        given, figures, num_cores=num_cores, sizes=sizes, num_cells=NUM_CELLS, solver_steps=given.cost * SOLVER_STEPS
    )


if __name__ == "__main__":
    if sys.argv[1:2] == ["serve"]:
        asked = json.loads(sys.argv[2])
        if asked["on_one_core"]:  # before JAX counts the cores
            os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
        serve(*asked["sizes"])
    else:
        main()
