"""docs/ablations.md, made from results/ablations.json: `python benchmarks/ablation_table.py` rewrites it in place."""

import json
import statistics
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "ablations.md"
BEGIN, END = "<!-- ablations {}: begin -->", "<!-- ablations {}: end -->"
TARGETS = {"mog40": ("mode-weight TV", "region_tv"), "mw32": ("largest well error", "region_max_error")}


def words() -> dict[str, str]:
    """What each preset does differently."""
    from tempering.lab.presets import PRESETS

    return {name: config.description.split(": ", 1)[-1] for name, config in PRESETS.items()}


def mean(values: list[float], digits: int) -> str:
    """Mean ± standard error; orders of magnitude where a run has gone wild."""
    if not values:
        return "–"
    middle = statistics.fmean(values)
    if abs(middle) >= 100:
        return f"{middle:.0e}"
    text = f"{middle:.{digits}f}"
    if len(values) > 1:
        text += f" ± {statistics.stdev(values) / len(values) ** 0.5:.{digits}f}"
    return text


def table(target: str) -> str:
    """One row a preset: the figures of the raw draws, and what the guided levels on the way were worth."""
    presets, described = json.loads((ROOT / "results" / "ablations.json").read_text())["presets"], words()
    title, metric = TARGETS[target]
    header = ["preset", "what is different", "energy TVD", title, "ESS at the end", "guided ESS, least to most"]
    header += ["log Z error", "seeds"]
    lines = ["| " + " | ".join(header) + " |", "|" + " --- |" * len(header)]
    for name, preset in presets.items():
        if not name.startswith(target):
            continue
        runs = preset["runs"]
        values = lambda key, runs=runs: [  # noqa: E731
            run["metrics"][key]["value"] for run in runs if run["metrics"][key]["value"] is not None
        ]
        levels_of = lambda run: [level["ess_fraction"] for level in run["levels"]]  # noqa: E731
        guided = [[share for share in levels_of(run) if share is not None] for run in runs]
        between = " to ".join(f"{statistics.fmean(pick(levels) for levels in guided):.2g}" for pick in (min, max))
        what = "nothing" if name == target else described.get(name) or name.removeprefix(f"{target} ")
        shown = [mean(values("energy_tvd"), 3), mean(values(metric), 3), mean(values("ess_fraction"), 2), between]
        shown += [mean(values("log_z_error"), 3), str(len(runs))]
        lines.append("| " + " | ".join([f"`{name.split(' ')[0]}`", what, *shown]) + " |")
    return "\n".join(lines)


def rewritten(text: str) -> str:
    """The page with fresh tables."""
    for target in TARGETS:
        begin, end = BEGIN.format(target), END.format(target)
        before, rest = text.split(begin)
        text = f"{before}{begin}\n{table(target)}\n{end}{rest.split(end)[1]}"
    return text


if __name__ == "__main__":
    PAGE.write_text(rewritten(PAGE.read_text()))
    print(PAGE.read_text())
