"""kill -9 at random moments, in a loop of small runs: does every one that is gone on with end as an undisturbed one?

    python benchmarks/crashes.py --kills 50 --seed 0 --out results/crashes.json

Three runs take turns, each a process: `tempering run` and `resume` with PTSD and with PT+DM, and `tp.fit(out=…)` of a
density of one's own with a pilot. Three of ten moments are uniform over the time that an undisturbed run takes; the
others over one of its stages, taken at random from those ahead, which a busy machine does not shift. The folder is gone
on with, and killed again, until a process comes to its end. Then every array, the account and the result (bar wall
times) must be those of the undisturbed run to the last bit.

The sources are copied first, so that nobody's edit falls between two runs, and so is what was compiled: the processes
share one compilation cache, as a user's do, and a kill may leave half an entry there too.
"""

import argparse
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
LIMIT = 600.0
"""Seconds after which a process counts as hung."""

FIT = """
import sys
import jax.numpy as jnp
import tempering as tp
from support.tiny import tiny_ptsd
from tempering.compilation import keep_programs
from tempering.settings import Ladder, Pilot

def log_density(x):
    apart = jnp.array([[-4.0, 1.0], [3.0, 2.0]]) - x[None]
    return jnp.logaddexp(-0.5 * jnp.sum(apart[0] ** 2), -0.7 - jnp.sum(apart[1] ** 2))

keep_programs()
pilot = Pilot(num_chains=8, num_steps=16, growth=2.0, max_rounds=3, max_rhat=1.3)
settings = tiny_ptsd(ladder=Ladder(num_levels=3, spacing="geometric"), pilot=pilot)
tp.fit(log_density, dim=2, seed=5, settings=settings, out=sys.argv[1], progress=False)
"""


@dataclass
class Kind:
    """A run: how it starts, how it goes on, and what an undisturbed one took."""

    name: str
    start: list[str]
    go_on: list[str]
    last: str
    reference: Path = Path()
    seconds: float = 0.0
    stages: list[tuple[str, float]] = field(default_factory=list)
    moments: Counter = field(default_factory=Counter)


def kinds(place: Path) -> list[Kind]:
    """The three runs; `{}` in a command is the folder."""
    sys.path[:0] = [str(place / "src"), str(place / "tests")]
    from support.tiny_runs import PT_DM_CHANGES, PTSD_CHANGES

    command = [sys.executable, "-m", "tempering"]
    found = []
    for name, preset, changes in (("ptsd", "mog40", PTSD_CHANGES), ("pt_dm", "mog40-pt-dm", PT_DM_CHANGES)):
        start = [*command, "run", preset, "--out", "{}", "--seed", "11", "--quiet", "--set", *changes]
        found.append(Kind(f"tempering run, {name}", start, [*command, "resume", "{}", "--quiet"], "report.html"))
    fit = [sys.executable, "-c", FIT, "{}"]
    return [*found, Kind("tp.fit(out=…), ptsd with a pilot", fit, fit, "sampler.json")]


def environment(place: Path) -> dict[str, str]:
    """Sources of the copy, the shared compilation cache, and quick compilation, as in the tests."""
    from support.tiny import subprocess_environment

    paths = os.pathsep.join([str(place / "src"), str(place / "tests")])
    quiet = {"JAX_PLATFORMS": "cpu", "TF_CPP_MIN_LOG_LEVEL": "3", "MPLBACKEND": "Agg"}
    return {**subprocess_environment(place / "cache"), **quiet, "PYTHONPATH": paths}


def process(command: list[str], folder: Path, place: Path) -> subprocess.Popen:
    """Start a run in `folder`; what it says is appended to the log beside it."""
    given = [str(folder) if part == "{}" else part for part in command]
    with open(folder.with_suffix(".log"), "ab") as log:
        return subprocess.Popen(given, env=environment(place), cwd=place, stdout=log, stderr=log)


def finish(kind: Kind, command: list[str], folder: Path, place: Path) -> float:
    """A run to its end: its seconds.

    Raises:
        RuntimeError: if it fails or hangs.
    """
    begin = time.monotonic()
    running = process(command, folder, place)
    try:
        code = running.wait(LIMIT)
    except subprocess.TimeoutExpired:
        running.kill()
        running.wait()
        raise RuntimeError(f"{kind.name}: no end after {LIMIT} s in {folder}") from None
    if code:
        log = folder.with_suffix(".log").read_text(errors="replace")
        raise RuntimeError(f"{kind.name}: exit code {code}: {log[-2000:]}")
    return time.monotonic() - begin


def stages_of(folder: Path) -> list[tuple[str, float]]:
    """The files of a finished run in their order, and the seconds from each to the next."""
    files = [path for path in folder.rglob("*") if path.suffix in (".npz", ".json", ".html")]
    ordered = sorted(files, key=lambda path: path.stat().st_mtime_ns)
    times = [path.stat().st_mtime_ns * 1e-9 for path in ordered]
    gaps = [after - before for before, after in zip(times, [*times[1:], times[-1] + 0.5], strict=True)]
    return [(str(path.relative_to(folder)), gap) for path, gap in zip(ordered, gaps, strict=True)]


def stage_of(folder: Path) -> str:
    """The last thing that was finished in the folder."""
    for name in ("report.html", "result.json", "sampler.json", "sampler.npz"):
        if (folder / name).exists():
            return f"after {name}"
    parts = sorted(folder.glob("levels/*/*.npz"), key=lambda path: path.stat().st_mtime_ns)
    if parts:
        return f"after {parts[-1].relative_to(folder)}"
    return "after config.json" if (folder / "config.json").exists() else "before config.json"


def differences(folder: Path, reference: Path) -> list[str]:
    """What is not the same to the last bit, times apart."""
    found = []
    names = {str(path.relative_to(at)) for at in (folder, reference) for path in at.rglob("*.npz")}
    for name in sorted(names):
        if not ((folder / name).exists() and (reference / name).exists()):
            found.append(f"{name} is missing")
            continue
        mine, theirs = (_arrays(at / name) for at in (folder, reference))
        found += [] if mine == theirs else [f"{name} differs"]
    for name in ("config.json", "environment.json", "sampler.json", "result.json"):
        mine, theirs = (_facts(at / name) for at in (folder, reference))
        found += [] if mine == theirs else [f"{name} differs"]
    for path in sorted((reference / "figures").glob("*.png")):
        mine = folder / "figures" / path.name
        found += [] if mine.exists() and mine.read_bytes() == path.read_bytes() else [f"figures/{path.name} differs"]
    return found


def _arrays(path: Path) -> dict[str, tuple]:
    with np.load(path, allow_pickle=False) as archive:
        return {name: (array.dtype, array.shape, array.tobytes()) for name, array in archive.items()}


def _facts(path: Path) -> dict | None:
    if not path.exists():
        return None
    times = ("fit_seconds", "wall_seconds", "sha256")
    return {name: value for name, value in json.loads(path.read_text()).items() if name not in times}


def measure(kind: Kind, place: Path) -> None:
    """The undisturbed run, twice: the first compiles, the second is timed, and both must agree."""
    name = kind.name.split(",")[0].replace(" ", "-") + "-" + kind.name.split()[2]
    first, kind.reference = place / "undisturbed" / f"{name}-0", place / "undisturbed" / f"{name}-1"
    first.parent.mkdir(exist_ok=True)
    finish(kind, kind.start, first, place)
    kind.seconds = finish(kind, kind.start, kind.reference, place)
    kind.stages = stages_of(kind.reference)
    unequal = differences(first, kind.reference)
    if unequal:
        raise RuntimeError(f"{kind.name}: two undisturbed runs differ: {unequal}")


def cycle(kind: Kind, folder: Path, place: Path, draw: random.Random, most: int) -> tuple[int, list[str]]:
    """One run, killed up to `most` times: how often it was, and what is not as in the undisturbed one."""
    num_kills = 0
    while num_kills < most:
        ahead = [stage for stage in kind.stages if not (folder / stage[0]).exists()]
        running = process(kind.go_on if (folder / "config.json").exists() else kind.start, folder, place)
        if ahead and draw.random() < 0.7:
            file, gap = draw.choice(ahead)
            while running.poll() is None and not (folder / file).exists():
                time.sleep(0.002)
            delay = draw.uniform(0.0, gap)
        else:
            delay = draw.uniform(0.0, kind.seconds)
        try:
            code = running.wait(delay)
        except subprocess.TimeoutExpired:
            running.kill()
            code = running.wait()
        if code == 0:
            return num_kills, differences(folder, kind.reference)
        if code != -9:
            return num_kills, [f"exit code {code}: {folder.with_suffix('.log').read_text(errors='replace')[-1000:]}"]
        num_kills += 1
        kind.moments[stage_of(folder)] += 1
    try:
        finish(kind, kind.go_on if (folder / "config.json").exists() else kind.start, folder, place)
    except RuntimeError as error:
        return num_kills, [str(error)]
    return num_kills, differences(folder, kind.reference)


def crash(num_kills: int, seed: int, place: Path) -> dict:
    """Kill `num_kills` times over as many runs as that takes; what came of it."""
    for source in ("src", "tests/support"):
        shutil.copytree(ROOT / source, place / source, ignore=shutil.ignore_patterns("__pycache__"))
    draw, all_kinds, runs = random.Random(seed), kinds(place), []
    for kind in all_kinds:
        measure(kind, place)
        print(f"{kind.name}: {kind.seconds:.1f} s, {len(kind.stages)} stages", flush=True)
    left = num_kills
    while left:
        kind = all_kinds[len(runs) % len(all_kinds)]
        folder = place / f"run-{len(runs):03d}"
        killed, unequal = cycle(kind, folder, place, draw, min(left, 4))
        left -= killed
        runs.append({"run": kind.name, "kills": killed, "differences": unequal})
        print(f"{kind.name}: {killed} kills, {'equal' if not unequal else unequal}; {left} left", flush=True)
        if not unequal:
            shutil.rmtree(folder)
    return {
        "command": f"python benchmarks/crashes.py --kills {num_kills} --seed {seed}",
        "seed": seed,
        "kills": num_kills,
        "runs": len(runs),
        "all_equal": not any(run["differences"] for run in runs),
        "moments": {kind.name: dict(sorted(kind.moments.items())) for kind in all_kinds},
        "seconds_undisturbed": {kind.name: round(kind.seconds, 1) for kind in all_kinds},
        "unequal": [run for run in runs if run["differences"]],
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--seed", type=int, default=0, help="of the moments")
    parser.add_argument("--out", type=Path, help="a JSON file")
    parser.add_argument("--folder", type=Path, help="a new folder to work in and keep; a temporary one if not given")
    given = parser.parse_args()
    place = given.folder or Path(tempfile.mkdtemp(prefix="crashes-"))
    place.mkdir(parents=True, exist_ok=True)
    from measure import commit  # beside this script; the tests load it from elsewhere

    found = {**crash(given.kills, given.seed, place), "commit": commit()}
    text = json.dumps(found, indent=2, ensure_ascii=False) + "\n"
    print(text)
    if given.out:
        given.out.write_text(text, encoding="utf-8")
    if given.folder is None and found["all_equal"]:
        shutil.rmtree(place)
    return 0 if found["all_equal"] else 1


if __name__ == "__main__":
    sys.exit(main())
