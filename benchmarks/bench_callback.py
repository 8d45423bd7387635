"""What the adapter of black boxes adds to a callable that takes 1 ms a point.

    python benchmarks/bench_callback.py [--seconds 0.001] [--points 8 64 200] [--steps 40] [--out results/callback.json]

A callable that sleeps for a given time at every point (and one that is busy for as long) is stepped by parallel
tempering: two levels, half the points each, a random walk. The figure is the time of the steps over points x steps x
the time that a bare loop over the same points takes. The aim is at most 1.2.
"""

import time
from collections.abc import Callable

import jax
import numpy as np

from tempering.adapters import from_callable
from tempering.kernels import RandomWalk
from tempering.parallel_tempering import Rules, advance, betas_of, start
from tempering.runs.ledger import Ledger

DIM = 5


def sleeping(seconds: float) -> Callable[[np.ndarray], float]:
    def fn(x: np.ndarray) -> float:
        time.sleep(seconds)
        return -0.5 * float(x @ x)

    return fn


def busy(seconds: float) -> Callable[[np.ndarray], float]:
    def fn(x: np.ndarray) -> float:
        end = time.perf_counter() + seconds
        while time.perf_counter() < end:
            pass
        return -0.5 * float(x @ x)

    return fn


def overhead(fn: Callable[[np.ndarray], float], num_points: int, num_steps: int) -> float:
    """Time of parallel tempering through the adapter over that of the bare calls."""
    target, kernel, betas = from_callable(fn, DIM), RandomWalk(), betas_of((2.0, 1.0))
    positions = jax.random.normal(jax.random.key(0), (2, num_points // 2, DIM))
    state, _ = start(jax.random.key(1), target, kernel, positions, betas, Ledger(), "initial_pt")
    rules = Rules.of(0.234, 5, num_steps, "even_odd")

    def walk(steps: int):
        return jax.block_until_ready(advance(jax.random.key(2), target, kernel, state, betas, rules, steps))

    walk(1)  # compiles
    rows = np.asarray(positions, np.float64).reshape((-1, DIM))
    ratios = []
    for _ in range(3):
        begin = time.perf_counter()
        walk(num_steps)
        middle = time.perf_counter()
        for _ in range(num_steps):
            for row in rows:
                fn(row)
        ratios.append((middle - begin) / (time.perf_counter() - middle))
    return float(np.median(ratios))


def main() -> None:
    from measure import finish, parser  # beside this script; a test loads `overhead` from elsewhere

    made = parser(__doc__)
    made.add_argument("--seconds", type=float, default=1e-3, help="time of one point")
    made.add_argument("--points", type=int, nargs="+", default=[8, 64, 200], help="points of a batch")
    made.add_argument("--steps", type=int, default=40, help="steps that are timed")
    given = made.parse_args()
    figures = {}
    for make in (sleeping, busy):
        for points in given.points:
            ratio = overhead(make(given.seconds), points, 5 if given.quick else given.steps)
            figures[f"{make.__name__}, batches of {points}"] = ratio
            print(f"{make.__name__} {1e3 * given.seconds:g} ms a point, batches of {points}: {ratio:.3f} of bare calls")
    finish(given, figures, seconds=given.seconds, steps=given.steps)


if __name__ == "__main__":
    main()
