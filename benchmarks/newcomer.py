"""A newcomer's path, timed: a new environment, `pip install .`, the README's lines, one's own density, its report.

    python benchmarks/newcomer.py            # writes results/newcomer.json, docs/newcomer.md and the README's output
    python benchmarks/newcomer.py --here     # in the environment that runs this, without installing; writes nothing

Every step is a process of its own, as a newcomer would start it. The first Python block of the README is pasted as it
is. Then its density is replaced by another, and lines that draw figures and write the report are added. At last the
same density stands in a file, and the command fits it.
"""

import argparse
import json
import math
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
README, PAGE, RESULT = ROOT / "README.md", ROOT / "docs" / "newcomer.md", ROOT / "results" / "newcomer.json"
BEGIN, END = "<!-- {}: begin -->", "<!-- {}: end -->"

OWN = """\
t, y = jnp.array([0.0, 1.0, 2.0, 3.0, 4.0, 5.0]), jnp.array([1.1, 2.8, 5.2, 6.9, 9.1, 10.8])


def log_density(x):  # a line through six points: slope, offset and the logarithm of the noise
    log_likelihood = -0.5 * jnp.sum(((y - x[0] * t - x[1]) / jnp.exp(x[2])) ** 2) - 6 * x[2]
    return log_likelihood - 0.5 * jnp.sum(x**2) / 9  # a normal prior of width 3
"""
FIVE = "the README's five lines, pasted"
PICTURE = 'sampler.plot("figures")\nsampler.report("mine.html")\n'


def pasted() -> str:
    """The first Python block of the README."""
    found = re.search(r"^```python\n(.*?)^```", README.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    assert found is not None, "README.md has no Python block"
    return found[1]


def edited(code: str) -> str:
    """The README's lines with a density of one's own in three dimensions, figures and a page."""
    code, changed = re.subn(r"^log_density = .*\n", lambda _: OWN, code, flags=re.MULTILINE)
    assert changed == 1 and "dim=2" in code, "the README's lines have another form than this script expects"
    return code.replace("dim=2", "dim=3") + PICTURE


def timed(steps: list[dict[str, Any]], name: str, command: list[str], folder: Path, hidden: tuple[str, ...]) -> str:
    """Run a command without some variables of the environment, note how long it took, and give what it printed."""
    environment = {name: value for name, value in os.environ.items() if name not in hidden}
    environment["TEMPERING_CACHE"] = str(folder / "cache")  # a newcomer's cache is empty
    start = time.perf_counter()
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
    steps.append({"step": name, "seconds": round(time.perf_counter() - start, 1)})
    print(f"{steps[-1]['seconds']:8.1f} s  {name}", flush=True)
    if done.returncode:
        raise SystemExit(f"{name} failed:\n{done.stdout}\n{done.stderr}")
    return done.stdout


def walk(folder: Path, is_here: bool) -> tuple[list[dict[str, Any]], str]:
    """All steps; gives them with their times, and what the README's lines printed."""
    steps: list[dict[str, Any]] = []
    python, hidden = sys.executable, () if is_here else ("PYTHONPATH", "VIRTUAL_ENV")
    if not is_here:
        timed(steps, "`python -m venv`", [python, "-m", "venv", str(folder / "venv")], folder, hidden)
        python = str(folder / "venv" / "bin" / "python")
        install = [python, "-m", "pip", "install", "--quiet", "-c", str(ROOT / "constraints.txt"), f"{ROOT}[plots]"]
        timed(steps, "`pip install '.[plots]'`", install, folder, hidden)
    timed(steps, "`import tempering`, in a new process", [python, "-c", "import tempering"], folder, hidden)
    (folder / "five.py").write_text(pasted())
    printed = timed(steps, FIVE, [python, "five.py"], folder, hidden)
    (folder / "own.py").write_text(edited(pasted()))
    timed(steps, "a density of one's own, with figures and a report", [python, "own.py"], folder, hidden)
    figures = sorted(path.name for path in (folder / "figures").glob("*.png"))
    if not figures or not (folder / "mine.html").is_file():
        raise SystemExit("no figure or no page was made")
    print("figures:", ", ".join(figures))
    (folder / "my_model.py").write_text("import jax.numpy as jnp\n\n" + OWN)
    command = [python, "-m", "tempering", "run", "my_model.py:log_density", "--dim", "3", "--out", "runs/mine"]
    timed(steps, "the same density in a file, by `tempering run`", command, folder, hidden)
    if not (folder / "runs" / "mine" / "report.html").is_file():
        raise SystemExit("the command wrote no report")
    return steps, printed


def table(record: dict[str, Any]) -> str:
    """The steps with their times."""
    lines = ["| step | seconds |", "| --- | --- |"]
    shown = [f"{step['seconds']:.0f}" if step["seconds"] >= 0.5 else "less than 1" for step in record["steps"]]
    lines += [f"| {step['step']} | {words} |" for step, words in zip(record["steps"], shown, strict=True)]
    return "\n".join([*lines, f"| **together** | **{sum(step['seconds'] for step in record['steps']):.0f}** |"])


def rewritten(text: str, record: dict[str, Any]) -> str:
    """A page with fresh times and output, where it has marks for them."""
    seconds = next((step["seconds"] for step in record["steps"] if step["step"] == FIVE), math.nan)
    words = (
        f"Pasted into a file they take {seconds:.0f} s ({record['device']}; [all steps](docs/newcomer.md)) and print:"
    )
    fresh = {"newcomer": table(record), "printed": f"{words}\n\n```text\n{record['printed'].rstrip()}\n```"}
    for which, content in fresh.items():
        begin, end = BEGIN.format(which), END.format(which)
        if begin in text:
            before, rest = text.split(begin)
            text = f"{before}{begin}\n{content}\n{end}{rest.split(end)[1]}"
    return text


def main() -> None:
    """Walk the path, and write what it took."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--here", action="store_true", help="install nothing and write nothing")
    options.add_argument("--note", default="two CPU cores", help="what it ran on, in words")
    chosen = options.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        steps, printed = walk(Path(folder), chosen.here)
    if chosen.here:
        return
    from measure import commit

    # Lines of progress begin with a time in brackets; a terminal shows them in place, and a page need not.
    shown = "\n".join(line.rstrip() for line in printed.splitlines() if not re.match(r"\[[\d.]+ ?(s|min|h)", line))
    record = {"command": "python benchmarks/newcomer.py", "commit": commit(), "device": chosen.note}
    record |= {"steps": steps, "printed": shown}
    RESULT.write_text(json.dumps(record, indent=2, ensure_ascii=False) + "\n")
    for page in (README, PAGE):
        page.write_text(rewritten(page.read_text(encoding="utf-8"), record), encoding="utf-8")


if __name__ == "__main__":
    main()
