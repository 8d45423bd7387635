"""The picture of `where_time_goes.py`: seconds by what they were spent on, a bar for every case and turn."""

import argparse
import json
from pathlib import Path
from typing import Any

KINDS = {
    "import": "#9aa5b1",
    "tracing": "#f2b872",
    "lowering": "#e8913a",
    "compiling": "#c65d1e",
    "search": "#7fb8d4",
    "pilot": "#4f97bd",
    "chains": "#2b6f99",
    "training": "#3d9970",
    "densities": "#86c5a4",
    "host": "#cfd6dd",
    "diagnosis": "#8e7cc3",
    "10,000 draws": "#d4b8e0",
    "10,000 weighted draws": "#a66bbe",
}


def draw(rows: list[dict[str, Any]], path: Path) -> None:
    """Horizontal bars, one for each row that has times."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    rows = [row for row in rows if "split_s" in row]
    is_compared = any(row["code"] == "against" for row in rows)
    figure, axes = plt.subplots(figsize=(8.0, 0.9 + 0.36 * len(rows)), layout="constrained")
    for index, row in enumerate(rows):
        left = 0.0
        for kind, colour in KINDS.items():
            seconds = row["split_s"].get(kind, 0.0)
            label = kind if index == 0 else None
            axes.barh(index, seconds, left=left, color=colour, label=label, height=0.72)
            left += seconds
        axes.text(left, index, f" {left:.0f} s", va="center", fontsize=8)
    code = lambda row: ("" if row["code"] == "here" else f", {row['commit'][:7]}") if is_compared else ""  # noqa: E731
    axes.set_yticks(range(len(rows)), [f"{row['case']}, {row['turn']}{code(row)}" for row in rows], fontsize=8)
    axes.invert_yaxis()
    axes.set_xlabel(f"seconds, {rows[0]['device']}, JAX {rows[0]['jax']}")
    axes.margins(x=0.08)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    figure.legend(loc="outside lower center", ncols=5, fontsize=7, frameon=False)
    figure.savefig(path, dpi=160)
    plt.close(figure)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("results", type=Path)
    parser.add_argument("figure", type=Path)
    given = parser.parse_args()
    draw(json.loads(given.results.read_text())["rows"], given.figure)


if __name__ == "__main__":
    main()
