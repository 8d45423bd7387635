"""Where does temperature guidance pay? Effective shares of draws with and without it: docs/guidance.md and its figure.

    python benchmarks/where_guidance_pays.py --parts gaussian line   # exact denoisers, nothing random; ten minutes
    python benchmarks/where_guidance_pays.py --parts plane           # exact denoisers of MoG-40
    python benchmarks/where_guidance_pays.py --parts learned continuum --seeds 0 1 2
    python benchmarks/where_guidance_pays.py --page                  # the figure and the tables of docs/guidance.md

Parts are written into results/where-guidance-pays.json as they are done; the others stay. A part with seeds keeps the
rows of other seeds.
"""

import argparse
import json
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from guiding import steps
from guiding.page import rewritten
from guiding.picture import picture
from measure import commit

ROOT = Path(__file__).resolve().parent.parent
OUT = ROOT / "results" / "where-guidance-pays.json"
PAGE, FIGURE = ROOT / "docs" / "guidance.md", ROOT / "docs" / "figures" / "guidance.png"
SEEDED = ("learned", "continuum")


def _learned(name: str) -> Callable[[tuple[int, ...]], Iterable[dict[str, Any]]]:
    from guiding import learned

    return {"learned": learned.learned_rows, "continuum": learned.continuum_rows}[name]


def rows_of(part: str, seed: int) -> Iterable[dict[str, Any]]:
    """The rows of a part, of one seed where it has seeds."""
    if part in SEEDED:
        return _learned(part)((seed,))
    return {"gaussian": steps.gaussian_rows, "line": steps.line_rows, "plane": steps.plane_rows}[part]()


def rounded(row: dict[str, Any]) -> dict[str, Any]:
    """Six digits of every number."""
    return {key: float(f"{value:.6g}") if isinstance(value, float) else value for key, value in row.items()}


def made(part: str, seed: int, content: dict[str, Any], out: Path, at: str) -> None:
    """Make a part and write it."""
    import jax

    began, rows = time.monotonic(), []
    run = {"commit": at, "seed": seed, "device": jax.devices()[0].device_kind, "rows": rows}
    own = content["parts"].setdefault(part, {"runs": []})
    others = [other for other in own["runs"] if part in SEEDED and other["seed"] != seed]
    own["runs"] = sorted([*others, run], key=lambda run: run["seed"])
    content["commits"] = sorted({run["commit"] for part in content["parts"].values() for run in part["runs"]})
    for row in rows_of(part, seed):
        rows.append(rounded(row))
        print(rows[-1], flush=True)
        run |= {"seconds": round(time.monotonic() - began, 1), "is_whole": False}  # a stopped part keeps its rows
        write(content, out)
    run["is_whole"] = True
    write(content, out)


def write(content: dict[str, Any], out: Path) -> None:
    """All parts, a line each."""
    out.write_text(json.dumps(content, separators=(",", ":")).replace('{"commit"', '\n{"commit"') + "\n")


def main() -> None:
    """Make the parts that are asked for, and the figure."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--parts", nargs="*", default=[])
    parser.add_argument("--seeds", nargs="*", type=int, default=[0])
    parser.add_argument("--out", type=Path, default=OUT)
    parser.add_argument("--page", action="store_true", help="write the figure and the tables of the page")
    options = parser.parse_args()
    content = json.loads(options.out.read_text()) if options.out.exists() else {"parts": {}}
    content = {"command": "python benchmarks/where_guidance_pays.py", "commits": [], **content}
    at = commit()  # before the file of results changes
    for part in options.parts:
        for seed in options.seeds if part in SEEDED else [0]:
            made(part, seed, content, options.out, at)
    if options.page:
        FIGURE.write_bytes(picture(content))
        PAGE.write_text(rewritten(PAGE.read_text(), content))


if __name__ == "__main__":
    main()
