"""What it takes to begin: `import tempering` and commands that compute nothing, over importing what it rests on.

    python benchmarks/bench_import.py [--quick] [--out results/import.json]

Every turn starts one fresh interpreter for each side, in an order that is reversed every other turn, and a ratio is
that within a turn: of processor seconds, which others on the machine hardly change, and of wall time, which they do.
The aim is at most 1.3 for `import tempering` and 1.5 for `tempering --help`. `import tempering` loads a name on its
first use; what the first `tempering.fit` loads is a row of its own.

Both sides read bytecode that one unmeasured start wrote, as `pip install` leaves it. PYTHONDONTWRITEBYTECODE in the
environment would make every start of ours compile its sources, while the packages of the base have theirs compiled.
"""

import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from measure import finish, parser, quartiles, show

BASE = "import jax, equinox, optax"
COMMAND = "import sys; sys.argv = ['tempering', *{words!r}]; from tempering.cli import main; main()"
SIDES = {
    BASE: BASE,
    "import tempering": "import tempering",
    "import tempering; tempering.fit": "import tempering; tempering.fit",
    "tempering --help": COMMAND.format(words=["--help"]),
    "tempering --version": COMMAND.format(words=["--version"]),
    "tempering list": COMMAND.format(words=["list"]),
    "tempering run mog4 (a typo)": COMMAND.format(words=["run", "mog4"]),
    "python -c pass": "pass",
}


def seconds_of(statement: str, bytecode: str) -> tuple[float, float]:
    """Processor and wall seconds of a fresh interpreter that keeps its bytecode in the folder `bytecode`."""
    source = str(Path(__file__).parent.parent / "src")
    environment = {**os.environ, "PYTHONPATH": source, "PYTHONPYCACHEPREFIX": bytecode}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    before, begin = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    subprocess.run([sys.executable, "-c", statement], env=environment, capture_output=True, check=False)
    wall, after = time.perf_counter() - begin, resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, wall


def main() -> None:
    options = parser(__doc__).parse_args()
    num_turns = 2 if options.quick else 15
    times: dict[str, list[tuple[float, float]]] = {name: [] for name in SIDES}
    with tempfile.TemporaryDirectory() as bytecode:
        for statement in SIDES.values():  # files of bytecode, and the disk's cache
            seconds_of(statement, bytecode)
        for turn in range(num_turns):
            names = list(SIDES) if turn % 2 == 0 else list(SIDES)[::-1]
            for name in names:
                times[name].append(seconds_of(SIDES[name], bytecode))
    both = {name: np.asarray(values) for name, values in times.items()}
    figures = {}
    for index, kind in enumerate(("processor", "wall")):
        seconds = {name: quartiles(values[:, index]) for name, values in both.items()}
        ratios = {name: quartiles(values[:, index] / both[BASE][:, index]) for name, values in both.items()}
        show(f"{kind} time", seconds, "s")
        show(f"{kind} time over `{BASE}`", ratios, "ratio")
        figures[kind] = {"seconds": seconds, "ratios": ratios}
    finish(options, figures, num_turns=num_turns, base=BASE)


if __name__ == "__main__":
    main()
