"""The tables of docs/results.md, docs/reproduction.md and the README, made from results/.

    python benchmarks/results_table.py

A result that is older than the code it rests on has a mark behind its commit: the number of commits since then that
touched the algorithm, its metrics or its presets.
"""

import json
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
README, PAGE, PAPER = ROOT / "README.md", ROOT / "docs" / "results.md", ROOT / "docs" / "reproduction.md"
FIGURES = ROOT / "docs" / "figures" / "reproduce"
BEGIN, END = "<!-- {}: begin -->", "<!-- {}: end -->"

# What the paper reports for the same settings (its Tables 1 and 2); its "W2" is a W1.
PUBLISHED = {
    "mog40-paper": "TVD 0.08, W 1.93",
    "mog40-paper-pt-dm": "TVD 0.13, W 3.01",
    "mw32-paper": "TVD 0.14, W 4.99",
    "mw32-paper-pt-dm": "TVD 0.13, W 5.04",
    # The best at 370,000 evaluations; the paper's, its PT+DM's; the paper's; the best in internal coordinates, at 1e8.
    "lj13": "W2 0.89",
    "lj55": "TVD 0.79 and 0.64",
    "aldp": "ESS below 0.01",
    "aldp-internal": "ESS 0.96 to 0.98",
}
_LARGEST = 1e4
_ESS = ("ESS", "ess_fraction", 2)
TABLES = {
    "results": (
        ("energy TVD", "energy_tvd", 3),
        ("W1", "w1", 2),
        ("largest region error", "region_max_error", 3),
        _ESS,
        ("log Z error", "log_z_error", 3),
    ),
    "particles": (
        ("energy TVD", "energy_tvd", 3),
        ("W2 of energies", "energy_w2", 2),
        ("distance TVD", "distance_tvd", 4),
        _ESS,
        ("energy TVD after Langevin steps", "energy_tvd_langevin", 3),
    ),
}
"""Titles, metrics and digits; particles are what has distances."""


def cell(row: dict | None, digits: int) -> str:
    """value ± standard error (floor)."""
    if row is None or row["mean"] is None:
        return "–"
    # One draw with two atoms in one place has an energy of 1e13, and a mean over draws with it says no more than that.
    shown = f".{digits}f" if row["mean"] < _LARGEST else ".0e"
    text = f"{row['mean']:{shown}}"
    if row["error"] is not None:
        text += f" ± {row['error']:{shown}}"
    if row.get("floor") is not None and row["floor"] != 1.0:
        text += f" ({row['floor']:.{digits}f})"
    return text


def made(content: dict) -> str:
    """The commits of a file, with the mark of age."""
    from tempering.lab.reproduce.age import made_at

    return made_at(ROOT, content.get("commits") or [content["commit"]])


def methods() -> dict[str, str]:
    """The method that fits each preset, as `tempering list` says it."""
    from tempering.lab.presets import PRESETS
    from tempering.methods.registry import title_of

    return {name: title_of(config.method, config.settings) for name, config in PRESETS.items()}


def table(which: str) -> str:
    """Every preset of every file under results/ that `seeds.py` wrote with several seeds; ablations have a page."""
    columns, method_of = TABLES[which], methods()
    header = ["preset", "method", "evaluations", *(title for title, _, _ in columns), "published", "seeds", "device"]
    header.append("made at")
    lines = ["| " + " | ".join(header) + " |", "|" + " --- |" * len(header)]
    for path in sorted((ROOT / "results").glob("*.json")):
        if path.stem == "ablations":
            continue
        content = json.loads(path.read_text())
        for name, preset in content.get("presets", {}).items():
            runs, summary = preset["runs"], preset.get("summary")
            if len(runs) < 2 or summary is None or ("distance_tvd" in summary) != (which == "particles"):
                continue
            failed = sum("failed" in run for run in runs)
            seeds = f"{len(runs)}" + (f", {failed} failed" if failed else "")
            devices = {run["device"] for run in runs if "device" in run}
            cells = [cell(summary.get(key), digits) for _, key, digits in columns]
            spent = f"{summary['evaluations']['mean']:,.0f}"
            row = [f"`{name}`", method_of[name.split(",")[0]], spent, *cells, PUBLISHED.get(name, "–"), seeds]
            row.append(", ".join(sorted(devices)))
            row.append(made(content))
            lines.append("| " + " | ".join(row) + " |")
    return "\n".join(lines)


def walls() -> str:
    """How long fits took: of every preset and device with a time on record, the shortest and the longest."""
    times: dict[tuple[str, int, str], list[float]] = {}
    for path in sorted((ROOT / "results").glob("*.json")):
        if path.stem == "ablations" or path.stem.startswith("curves"):
            continue
        for name, preset in json.loads(path.read_text()).get("presets", {}).items():
            for run in preset["runs"]:
                if run.get("fit_seconds") is not None:
                    key = (name.split(",")[0], run["evaluations"], run["device"])
                    times.setdefault(key, []).append(run["fit_seconds"])
    lines = ["| preset | evaluations | device | seconds of a fit | fits |", "|" + " --- |" * 5]
    for (name, evaluations, device), seconds in sorted(times.items()):
        low, high = round(min(seconds)), round(max(seconds))
        spread = f"{low:,}" if low == high else f"{low:,} to {high:,}"
        lines.append(f"| `{name}` | {evaluations:,} | {device} | {spread} | {len(seconds)} |")
    return "\n".join(lines)


SHORT = {
    "mog40-cpu": ("mog40", "40 Gaussians in the plane", "region_max_error", 3),
    "mw32-gpu": ("mw32", "Many-Well, 32 dimensions, 65,536 modes", "region_max_error", 3),
    "lj13-gpu": ("lj13", "13 Lennard-Jones particles", "energy_tvd", 3),
    "aldp-internal-gpu": ("aldp-internal", "alanine dipeptide, internal coordinates", "energy_tvd", 3),
}
"""The rows of the README: file, preset, density in words, and the error that is shown."""

_WORDS = {"region_max_error": "largest error of a mode's share", "energy_tvd": "total variation of energies"}


def short() -> str:
    """The README's table: four densities, one error each."""
    header = ["density", "evaluations", "error", "effective share", "seconds of a fit", "seeds, device"]
    header.append("made at")
    lines = ["| " + " | ".join(header) + " |", "|" + " --- |" * len(header)]
    for file, (name, words, metric, digits) in SHORT.items():
        content = json.loads((ROOT / "results" / f"{file}.json").read_text())
        preset = content["presets"][name]
        summary, runs = preset["summary"], preset["runs"]
        error, floor = summary[metric]["mean"], summary[metric]["floor"]
        seconds = sorted(run["fit_seconds"] for run in runs if run.get("fit_seconds") is not None)
        row = [words, f"{summary['evaluations']['mean']:,.0f}"]
        row.append(f"{_WORDS[metric]} {error:.{digits}f} ({floor:.{digits}f})")
        row += [f"{summary['ess_fraction']['mean']:.2f}", f"{seconds[len(seconds) // 2]:,.0f}"]
        oldest = made(content).partition(",")[0]
        lines.append("| " + " | ".join([*row, f"{len(runs)}, {runs[0]['device']}", oldest]) + " |")
    return "\n".join(lines)


def tables() -> dict[str, str]:
    """All tables, by the name of their marks."""
    return {which: table(which) for which in TABLES} | {"walls": walls(), "short": short()}


def rewritten(text: str) -> str:
    """A page's text with fresh tables, where it has marks for them."""
    for which, fresh in tables().items():
        if BEGIN.format(which) not in text:
            continue
        begin, end = BEGIN.format(which), END.format(which)
        before, rest = text.split(begin)
        text = f"{before}{begin}\n{fresh}\n{end}{rest.split(end)[1]}"
    return text


def main() -> None:
    """Write the pages anew."""
    from tempering.lab.reproduce import page as paper

    for page in (README, PAGE):
        page.write_text(rewritten(page.read_text()))
    PAPER.write_text(paper.rewritten(PAPER.read_text(), ROOT))
    for name, picture in paper.drawn(ROOT).items():
        FIGURES.mkdir(parents=True, exist_ok=True)
        (FIGURES / f"{name}.png").write_bytes(picture)
    print("\n\n".join(tables().values()))


if __name__ == "__main__":
    main()
