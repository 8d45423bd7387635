"""Throughput of a costly density on 8 virtual devices, and what one device costs: values of many points, and chains.

    python benchmarks/bench_devices.py [--quick] [--cost 1] [--out results/devices.json]

Three processes take turns. One has eight virtual devices by XLA's flag; one is as users have it, with one device; both
see every core. The third is held on one core. The density is a reaction that spreads along a line of cells, solved by
small steps; its gradient keeps every 25th of them and makes the others again, as solvers do. `steps kept` are chains
whose gradient keeps every step: 450 MB, so that memory is the limit and not the cores. `products` are chains of a
logistic regression on 1,000 rows, which is matrix products, and `cheap` of a Gaussian, both in 24 dimensions and with
50 times as many steps: what `devices=1` costs shows there.

Linear is the throughput of a plain program on the single core times the cores that exist; the aim for 8 devices is at
least 0.85 of it. A plain program is what runs where nobody asks for devices; over JAX's own `jit` of the same function
it has the aim of at most 1.05 (`plain over jit`). `devices=1`, which has the bits of several devices on one, is shown
over a plain program, both in the process with one device and every core. `--cost 10` makes the density ten times as
costly.

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

NUM_TURNS, NUM_ROWS, NUM_CHAINS, NUM_STEPS, NUM_CELLS, SOLVER_STEPS, STRETCH = 15, 512, 256, 4, 128, 600, 25
NUM_DIMS, NUM_DATA, MORE_STEPS = 24, 1000, 50


def serve(num_rows: int, num_chains: int, num_steps: int, cost: int) -> None:
    """Carry out what is asked for, one word a line, and say when it is done."""
    import equinox as eqx
    import jax
    import jax.numpy as jnp

    from tempering.adapters import as_target
    from tempering.devices import by_row, on_devices, use
    from tempering.kernels import RandomWalk
    from tempering.parallel_tempering import Rules, advance, betas_of, start
    from tempering.runs.ledger import Ledger

    def log_density(x, kept=1):
        def step(_, cells):
            spread = jnp.roll(cells, 1) + jnp.roll(cells, -1) - 2.0 * cells
            return cells + 0.1 * (x[0] ** 2 * spread + jnp.tanh(x[1] * cells) - x[2] * cells**3)

        start = jnp.sin(jnp.arange(NUM_CELLS) * 0.1) + x[3]
        stretch = lambda _, cells: jax.lax.fori_loop(0, STRETCH, step, cells)  # noqa: E731
        whole = jax.checkpoint(stretch) if kept == 1 else stretch
        end = jax.lax.fori_loop(0, cost * SOLVER_STEPS // STRETCH, whole, start)
        return -0.5 * jnp.sum(jnp.tanh(end - 0.7) ** 2) - 0.5 * jnp.sum(x**2)

    target, kernel, betas = as_target(log_density, 4), RandomWalk(), betas_of((2.0, 1.0))
    keeping = as_target(partial(log_density, kept=STRETCH), 4)
    points = jax.random.normal(jax.random.key(0), (num_rows, 4))
    positions = jax.random.normal(jax.random.key(0), (2, num_chains // 2, 4))
    state, _ = start(jax.random.key(1), target, kernel, positions, betas, Ledger(), "initial_pt")
    rules = Rules.of(0.234, 5, num_steps, "even_odd")
    data, labels = (
        jax.random.normal(jax.random.key(i), shape) for i, shape in ((3, (NUM_DATA, NUM_DIMS)), (4, (NUM_DATA,)))
    )

    def log_posterior(x):
        return jnp.sum(jax.nn.log_sigmoid(jnp.sign(labels) * (data @ x))) - 0.5 * jnp.sum(x**2)

    def walked(log_density):
        wide, many = as_target(log_density, NUM_DIMS), MORE_STEPS * num_steps
        places = jax.random.normal(jax.random.key(5), (2, num_chains // 2, NUM_DIMS))
        begun, _ = start(jax.random.key(1), wide, kernel, places, betas, Ledger(), "initial_pt")
        return lambda: advance(jax.random.key(2), wide, kernel, begun, betas, rules, many)

    evaluated = on_devices(lambda target, points: by_row(target.log_density)(points))
    jitted = eqx.filter_jit(lambda target, points: jax.vmap(target.log_density)(points))
    work = {
        "values": lambda: evaluated(target, points),
        "values by jit": lambda: jitted(target, points),
        "chains": lambda: advance(jax.random.key(2), target, kernel, state, betas, rules, num_steps),
        "chains, steps kept": lambda: advance(jax.random.key(2), keeping, kernel, state, betas, rules, num_steps),
        "chains, products": walked(log_posterior),
        "chains, cheap": walked(lambda x: -0.5 * jnp.sum(x**2)),
    }
    print("ready", flush=True)
    for line in sys.stdin:
        name, devices = line.rsplit(maxsplit=1)
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

    return {
        "8 devices, of linear": ratio(seconds["one core"], num_cores * seconds["8 devices"], others),
        "1 device over plain": ratio(seconds["1 device"], seconds["plain"], others),
        "8 devices over plain": ratio(seconds["8 devices"], seconds["plain"], others),
    }


def main() -> None:
    from measure import Patience, finish, interleave, parser, quartiles, ratio, show

    made = parser(__doc__)
    made.add_argument("--cost", type=int, default=1, help="how many times as costly the density is")
    made.add_argument("--turns", type=int, default=NUM_TURNS)
    given = made.parse_args()
    turns = 2 if given.quick else given.turns
    sizes = (64, 32, 2, given.cost) if given.quick else (NUM_ROWS, NUM_CHAINS, NUM_STEPS, given.cost)
    num_cores = len(os.sched_getaffinity(0))
    eight, alone, one_core = Other(8, False, sizes), Other(1, False, sizes), Other(1, True, sizes)
    figures, patience = {}, Patience(given.wait)
    try:
        for name in ("values", "chains", "chains, steps kept", "chains, products", "chains, cheap"):
            who = {
                "8 devices": (eight, "8"),
                "1 device": (alone, "1"),
                "plain": (alone, "plain"),
                "one core": (one_core, "plain"),
            }
            sides: dict[str, Callable[[], object]] = {
                side: partial(process.do, name, devices) for side, (process, devices) in who.items()
            }
            if name == "values":
                sides["jit"] = partial(alone.do, "values by jit", "plain")
            found = interleave(sides, turns, patience)
            figures[name] = compared(found.seconds, found.others, num_cores)
            if "jit" in found.seconds:
                figures[name]["plain over jit"] = ratio(found.seconds["plain"], found.seconds["jit"], found.others)
            work = {side: process.cpu[name, devices][-turns:] for side, (process, devices) in who.items()}
            whole = {side: np.asarray(values) for side, values in work.items()}
            figures[f"{name}, seconds of the processors"] = compared(whole, found.others, 1)
            figures[f"{name}, seconds"] = {side: quartiles(values) for side, values in found.seconds.items()}
            for title in (name, f"{name}, seconds of the processors"):
                show(title, figures[title], "ratios within a turn")
    finally:
        for process in (eight, alone, one_core):
            process.close()
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
