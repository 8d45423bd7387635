"""How old a result is: the commits since it was made that changed what it rests on. Consumes git, and no more.

Where git or the commit is missing the age is unknown, and is said to be so.
"""

import re
import subprocess
from functools import cache
from pathlib import Path

__all__ = ["MARK", "age", "commit", "made_at", "without_marks"]

MARK = "†"

_ROOMS = (
    *("settings", "transforms", "priors", "targets", "molecules", "kernels", "parallel_tempering", "diffusion"),
    *("weights", "atlas", "shape", "guidance", "methods", "sampler", "baselines", "buffer.py", "refinement.py"),
    *("numerics.py", "lab/metrics", "lab/evaluation.py", "lab/presets.py", "lab/molecule_presets.py"),
)
"""What a figure depends on: the rooms of the algorithm, what it is judged by, and the named settings."""


def _git(root: Path, *arguments: str) -> str | None:
    """What git prints, or None where it cannot."""
    try:
        done = subprocess.run(["git", *arguments], cwd=root, capture_output=True, text=True, timeout=60, check=False)
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip() if done.returncode == 0 else None


def commit(root: Path, told: str | None = None) -> str:
    """The commit of the checkout at `root`, with a word where files differ from it; `told` where there is no git."""
    found = _git(root, "rev-parse", "HEAD")
    if found is None:
        return told or "unknown"
    return f"{found} with changes" if _git(root, "status", "--porcelain", "--", "src") else found


@cache
def age(root: Path, made: str) -> int | None:
    """Commits since `made` that touched the algorithm's rooms; None where that cannot be told."""
    name = made.split()[0] if made.split() else ""
    if not name or name == "unknown":
        return None
    counted = _git(root, "rev-list", "--count", f"{name}..HEAD", "--", *(f"src/tempering/{room}" for room in _ROOMS))
    return None if counted is None else int(counted)


def made_at(root: Path, commits: list[str]) -> str:
    """The oldest commit of a row, with a mark where code came after it, and how many commits are later."""
    names = list(dict.fromkeys(name.split()[0][:7] for name in commits if name.split()))
    if not names:
        return "–"
    ages = {name: age(root, name) for name in names}
    oldest = max(names, key=lambda name: (ages[name] is None, ages[name] or 0))
    since = ages[oldest]
    mark = f" {MARK}?" if since is None else (f" {MARK}{since}" if since else "")
    return f"{oldest}{mark}" + (f", {len(names) - 1} later" if len(names) > 1 else "")


def without_marks(text: str) -> str:
    """A page without its marks of age: they change with every commit, and the page need not."""
    return re.sub(rf" {MARK}(\d+|\?)", "", text)
