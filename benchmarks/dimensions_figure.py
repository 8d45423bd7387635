"""How evaluations and quality grow with dimension, from what `seeds.py` wrote for Many-Well at several dimensions.

python benchmarks/seeds.py mw32 mw64 mw128 --seeds 0 --out results/mw-dimensions.json
python benchmarks/dimensions_figure.py results/mw-dimensions.json --out docs/figures/dimensions.png
"""

import argparse
import json
import statistics
from pathlib import Path

PANELS = (
    ("evaluations", "evaluations", 1.0),
    ("ess_fraction", "ESS of raw weights", 1.0),
    ("region_max_error", "largest well error", None),
)


def rows_of(content: dict) -> list[dict]:
    """One row a preset: its dimension, and the mean of every quantity over seeds, with floors where there are any."""
    rows = []
    for name, preset in content["presets"].items():
        good = [run for run in preset["runs"] if "failed" not in run]
        metrics = preset["summary"]
        rows.append(
            {
                "dim": int(name.removeprefix("mw")),
                "evaluations": statistics.fmean(run["evaluations"] for run in good),
                "levels": statistics.fmean(len(run["levels"]) for run in good),
                "ess_fraction": metrics["ess_fraction"]["mean"],
                "region_max_error": metrics["region_max_error"]["mean"],
                "region_floor": metrics["region_max_error"]["floor"],
            }
        )
    return sorted(rows, key=lambda row: row["dim"])


def fill(figure, rows: list[dict]) -> None:
    for index, (key, title, _) in enumerate(PANELS):
        axes = figure.add_subplot(1, len(PANELS), index + 1)
        dims = [row["dim"] for row in rows]
        axes.plot(dims, [row[key] for row in rows], color="#c8102e", marker="o", markersize=4, linewidth=2.2)
        axes.set_xscale("log", base=2)
        axes.set_xticks(dims, [str(dim) for dim in dims])
        if key == "evaluations":
            axes.set_yscale("log")
            for row in rows:
                place = (row["dim"], row[key])
                axes.annotate(
                    f"{row['levels']:.0f} levels", place, xytext=(8, -3), textcoords="offset points", fontsize=8
                )
            axes.set_xlim(dims[0] / 1.2, dims[-1] * 1.9)
        elif key == "ess_fraction":
            axes.set_ylim(0.0, 1.0)
        else:
            axes.plot(dims, [row["region_floor"] for row in rows], color="#8a8a8a", linewidth=1.2)
            axes.annotate(
                "exact samples",
                (dims[0], rows[0]["region_floor"]),
                xytext=(0, -30),
                color="#6a6a6a",
                textcoords="offset points",
                fontsize=8,
            )
            axes.set_ylim(0.0, None)
        axes.set_title(f"Many-Well: {title}", loc="left", fontsize=10)
        axes.set_xlabel("dimension", fontsize=9)


def main() -> None:
    from tempering.plots.style import png_of, render

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("source", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    rows = rows_of(json.loads(options.source.read_text()))
    for row in rows:
        print({key: round(value, 4) for key, value in row.items()})
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_bytes(png_of(render(10.0, 3.0, lambda figure: fill(figure, rows))))


if __name__ == "__main__":
    main()
