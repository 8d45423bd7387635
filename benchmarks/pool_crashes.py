"""kill -9 of workers and of the parent at random moments: does every run end as an undisturbed one, and pay once?

    python benchmarks/pool_crashes.py --kills 50 --seed 0 --out results/pool-crashes.json

A run walks six chains on two own processes, with a store of points: each step depends on all values before, so that one
wrong or lost value changes the end. Two runs of five do so with a vectorised density in pieces of four points, whose
values tell how many points came with them. Every fifth run is a small fit by `tp.fit(out=…)`, whose chains go at their
own pace where the machine is quick enough. A killed parent is started again until it comes to its end. Then the result
must be the undisturbed one to the last bit, and the list of calls that the density itself wrote must hold no point
twice, but those that a killed process had in hand: one for a worker, two for the parent and its two workers, and four
times as many of a vectorised density.
"""

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LIMIT = 300.0

CHAIN = """
import sys
import numpy as np
from support.host_functions import Noted
from tempering.adapters.black_box import BlackBox

if __name__ == "__main__":
    folder = sys.argv[1]
    box = BlackBox(Noted(folder, seconds=0.02), 2, pool=2, store=folder, chunk_size=1)
    draw = np.random.default_rng(0)
    x, old = draw.normal(size=(6, 2)), np.full(6, -np.inf)
    for step in range(40):
        proposed = x + draw.normal(size=x.shape)
        new = box.values(proposed)
        taken = np.log(draw.uniform(size=6)) < new - old
        x, old = np.where(taken[:, None], proposed, x), np.where(taken, new, old)
    print("end", x.tobytes().hex(), box.use.retried, flush=True)
    box.close()
"""
VECTORISED = """
import sys
import numpy as np
from support.host_functions import NotedRows
from tempering.adapters.black_box import BlackBox

if __name__ == "__main__":
    folder = sys.argv[1]
    box = BlackBox(NotedRows(folder, seconds=0.03), 2, batched=True, pool=2, store=folder, chunk_size=4)
    draw = np.random.default_rng(0)
    x, old = draw.normal(size=(22, 2)), np.full(22, -np.inf)
    for step in range(20):
        proposed = x + draw.normal(size=x.shape)
        new = box.values(proposed)
        taken = np.log(draw.uniform(size=22)) < new - old
        x, old = np.where(taken[:, None], proposed, x), np.where(taken, new, old)
    print("end", x.tobytes().hex() + old.tobytes().hex(), box.use.retried, flush=True)
    box.close()
"""
FIT = """
import sys
import tempering as tp
from support.host_functions import Noted
from support.tiny import quick_compilation, tiny_pt_dm
from tempering.settings import Exploration, Ladder

if __name__ == "__main__":
    settings = tiny_pt_dm(exploration=Exploration(kernel="automatic"), ladder=Ladder(hottest=8.0, num_levels=3))
    density = Noted(sys.argv[1], seconds=0.03)
    with quick_compilation(), tp.from_callable(density, 2, pool=2, chunk_size=1) as target:
        sampler = tp.fit(target, method="pt_dm", settings=settings, out=sys.argv[1] + "/run", progress=False)
    print("end", sampler.sample(50).tobytes().hex() + str(sampler.ledger.points), sampler.host.retried, flush=True)
"""
KINDS = {"chains": CHAIN, "vectorised": VECTORISED, "fit": FIT}
ORDER = ("chains", "vectorised", "chains", "vectorised", "fit")
IN_HAND = {"chains": 1, "vectorised": 4, "fit": 1}
"""Points that a worker has at a time."""


def start(kind: str, folder: Path, place: Path) -> subprocess.Popen:
    """A process that works on the folder."""
    script = place / f"{kind}.py"
    script.write_text(KINDS[kind])
    sys.path[:0] = [str(ROOT / "src"), str(ROOT / "tests")]
    from support.tiny import subprocess_environment

    paths = os.pathsep.join([str(ROOT / "src"), str(ROOT / "tests")])
    environment = {**subprocess_environment(place / "cache"), "JAX_PLATFORMS": "cpu", "PYTHONPATH": paths}
    folder.mkdir(exist_ok=True)
    with open(folder / "log", "ab") as log:
        return subprocess.Popen([sys.executable, script, folder], env=environment, stdout=subprocess.PIPE, stderr=log)


def calls(folder: Path) -> Counter:
    """The points that the density was given, and how often."""
    place = folder / "calls"
    lines = place.read_text().splitlines() if place.exists() else []
    return Counter(line.split()[0] for line in lines)


def workers(pid: int) -> list[int]:
    """Processes that have called the density for the parent: its children that hold a pipe, by their command."""
    found = []
    for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
        try:
            command = Path(f"/proc/{child}/cmdline").read_bytes()
        except OSError:
            continue
        if b"spawn_main" in command:
            found.append(int(child))
    return found


def ending(running: subprocess.Popen) -> tuple[str, int] | None:
    """Result and second tries of a run that came to its end; None for one that was killed.

    Raises:
        RuntimeError: if it failed otherwise.
    """
    out, _ = running.communicate(timeout=LIMIT)
    words = out.decode().split("end ")[-1].rsplit(maxsplit=1)
    if running.returncode == 0:
        return words[0], int(words[1])
    if running.returncode != -signal.SIGKILL:
        raise RuntimeError(f"exit code {running.returncode}")
    return None


def disturbed(kind: str, folder: Path, place: Path, draw: random.Random, most: int) -> tuple[dict, str]:
    """A run with kills until `most` were made or it ended: kills by victim, and its result."""
    kills, total = Counter(), sum(UNDISTURBED[kind].values())
    while True:
        running = start(kind, folder, place)
        while running.poll() is None and sum(kills.values()) < most:
            # A moment somewhere in what is left, counted in calls: waiting for the start would hit the same place.
            aim = sum(calls(folder).values()) + draw.randint(1, max(2, total // 3))
            while running.poll() is None and sum(calls(folder).values()) < aim:
                time.sleep(0.005)
            time.sleep(draw.uniform(0.0, 0.03))
            if running.poll() is not None:
                break
            victims = workers(running.pid)
            is_parent = draw.random() < 0.4 or not victims
            os.kill(running.pid if is_parent else draw.choice(victims), signal.SIGKILL)
            kills["parent" if is_parent else "worker"] += 1
            if is_parent:
                break
        found = ending(running)
        if found is not None:
            return dict(kills), found[0]


UNDISTURBED: dict[str, Counter] = {}


def crash(num_kills: int, seed: int, place: Path) -> dict:
    """Kill `num_kills` times over as many runs as that takes; what came of it."""
    draw, results, runs, left = random.Random(seed), {}, [], num_kills
    for kind in KINDS:
        whole = place / f"undisturbed-{kind}"
        found = ending(start(kind, whole, place))
        assert found is not None
        results[kind], UNDISTURBED[kind] = found[0], calls(whole)
        print(f"{kind}: {sum(UNDISTURBED[kind].values())} points", flush=True)
    while left > 0:
        kind = ORDER[len(runs) % len(ORDER)]
        folder = place / f"run-{len(runs)}"
        kills, result = disturbed(kind, folder, place, draw, min(left, 4))
        left -= sum(kills.values())
        seen = calls(folder)
        again = sum(num - 1 for num in seen.values()) - sum(num - 1 for num in UNDISTURBED[kind].values())
        allowed = IN_HAND[kind] * (kills.get("worker", 0) + 2 * kills.get("parent", 0))
        run = {"kind": kind, "kills": kills, "paid_again": again, "allowed": allowed}
        run |= {"is_equal": result == results[kind] and set(seen) == set(UNDISTURBED[kind])}
        run["is_good"] = run["is_equal"] and again <= allowed
        runs.append(run)
        print(run, f"{left} left", flush=True)
    victims = Counter()
    for run in runs:
        victims.update(run["kills"])
    return {
        "command": f"python benchmarks/pool_crashes.py --kills {num_kills} --seed {seed}",
        "seed": seed,
        "kills": dict(victims),
        "runs": len(runs),
        "points_of_a_run": {kind: sum(counts.values()) for kind, counts in UNDISTURBED.items()},
        "all_equal": all(run["is_equal"] for run in runs),
        "paid_again": sum(run["paid_again"] for run in runs),
        "paid_again_allowed": sum(run["allowed"] for run in runs),
        "all_good": all(run["is_good"] for run in runs),
        "each": runs,
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--seed", type=int, default=0, help="of the moments")
    parser.add_argument("--out", type=Path, help="a JSON file")
    parser.add_argument("--commit", default=None, help="where the tree is not a git checkout")
    given = parser.parse_args()
    from measure import commit  # beside this script

    with tempfile.TemporaryDirectory(prefix="pool-crashes-") as place:
        found = {**crash(given.kills, given.seed, Path(place)), "commit": given.commit or commit()}
    if given.out:
        given.out.write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")
    print(json.dumps({name: value for name, value in found.items() if name != "each"}, indent=2))
    return 0 if found["all_good"] else 1


if __name__ == "__main__":
    sys.exit(main())
