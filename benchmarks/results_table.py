"""The README's results table, made from results/: `python benchmarks/results_table.py` rewrites it in place."""

import json
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BEGIN, END = "<!-- results: begin -->", "<!-- results: end -->"

# What the paper reports for the same settings (its Tables 1 and 2); its "W2" is a W1.
PUBLISHED = {
    "mog40-paper": "TVD 0.08, W 1.93",
    "mog40-paper-pt-dm": "TVD 0.13, W 3.01",
    "mw32-paper": "TVD 0.14, W 4.99",
    "mw32-paper-pt-dm": "TVD 0.13, W 5.04",
}
COLUMNS = (
    ("energy TVD", "energy_tvd", 3),
    ("W1", "w1", 2),
    ("largest region error", "region_max_error", 3),
    ("ESS", "ess_fraction", 2),
    ("log Z error", "log_z_error", 3),
)


def cell(row: dict | None, digits: int) -> str:
    """value ± standard error (floor)."""
    if row is None or row["mean"] is None:
        return "–"
    text = f"{row['mean']:.{digits}f}"
    if row["error"] is not None:
        text += f" ± {row['error']:.{digits}f}"
    if row.get("floor") is not None and row["floor"] != 1.0:
        text += f" ({row['floor']:.{digits}f})"
    return text


def table() -> str:
    """Every preset of every file under results/ that `seeds.py` wrote with several seeds; ablations have a page."""
    header = ["preset", "evaluations", *(title for title, _, _ in COLUMNS), "the paper", "seeds", "device"]
    lines = ["| " + " | ".join(header) + " |", "|" + " --- |" * len(header)]
    for path in sorted((ROOT / "results").glob("*.json")):
        if path.stem == "ablations":
            continue
        for name, preset in json.loads(path.read_text()).get("presets", {}).items():
            runs, summary = preset["runs"], preset.get("summary")
            if len(runs) < 2 or summary is None:
                continue
            failed = sum("failed" in run for run in runs)
            seeds = f"{len(runs)}" + (f", {failed} failed" if failed else "")
            devices = {run["device"] for run in runs if "device" in run}
            cells = [cell(summary.get(key), digits) for _, key, digits in COLUMNS]
            spent = f"{summary['evaluations']['mean']:,.0f}"
            row = [f"`{name}`", spent, *cells, PUBLISHED.get(name, "–"), seeds, ", ".join(sorted(devices))]
            lines.append("| " + " | ".join(row) + " |")
    return "\n".join(lines)


def rewritten(text: str) -> str:
    """The README's text with a fresh table."""
    before, rest = text.split(BEGIN)
    return f"{before}{BEGIN}\n{table()}\n{END}{rest.split(END)[1]}"


if __name__ == "__main__":
    readme = ROOT / "README.md"
    readme.write_text(rewritten(readme.read_text()))
    print(table())
