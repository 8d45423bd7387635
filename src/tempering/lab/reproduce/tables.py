"""The paper's tables, ours beside its numbers. Each takes a view of records and gives rows of text."""

from typing import Any

from tempering.lab.catalogue import read
from tempering.lab.reproduce.extrapolating import TARGETS as EXTRAPOLATED
from tempering.lab.reproduce.published import METHODS, TARGETS, published
from tempering.lab.reproduce.two_levels import TITLES
from tempering.lab.reproduce.variants import VARIANTS
from tempering.lab.reproduce.view import Found, Table, View, number, with_error

__all__ = [
    "ablation", "aldp", "calls", "extrapolation", "illustration", "langevin", "likelihood", "observables", "pareto",
    "quality",
]  # fmt: skip

OURS = {"": "our default"}
"""Beside the paper's rows, the preset of the target's own name."""
W_POINTS, W_PARTICLES = ("paper_w2", "w1"), ("paper_aligned_w2", "aligned_w2")
"""The paper's W by target: its code's variant where it was computed, else the nearest of ours."""
TVD, MMD = "energy_tvd", "energy_mmd_squared"
_TOLD = "A number in brackets is the floor: exact samples in place of the draws, as many of them."


def preset_name(target: str, method: str) -> str:
    """Of a row: mog40-paper, mog40-fab; mog40 for ours."""
    return f"{target}-{method}" if method else target


def rows_of(target: str) -> dict[str, str]:
    """Methods by the end of the preset's name: the paper's, then ours, which is not PTSD on every target."""
    return {**METHODS, "": f"our default: {read()[target]['method']}"}


def paper_cell(value: Any, digits: int = 2) -> str:
    """A published number: a pair with its deviation, or one alone; a dash where the paper has a dash or nothing."""
    if value is None:
        return "–"
    return with_error(*value, digits=digits) if isinstance(value, tuple) else number(value, digits)


def _power(value: int | float | None) -> str:
    return "–" if value is None else f"{value:.3g}".replace("e+0", "e").replace("e+", "e")


def w_names(target: str) -> tuple[str, ...]:
    """The metrics that stand for the paper's W on a target."""
    return W_PARTICLES if target in ("lj55", "aldp") else W_POINTS


def quality(view: View, targets: tuple[str, ...] = tuple(TARGETS)) -> Table:
    """Table 1, or its columns for some of the targets."""
    rows, known = [], published("table-quality")["rows"]
    for target in targets:
        for method, words in rows_of(target).items():
            found = view.of(preset_name(target, method))
            paper = known[target].get(method, (None,) * 3)
            ours = [found.metric(TVD, digits=3), found.metric(MMD, digits=3), found.metric(*w_names(target))]
            cells = [cell for pair in zip(ours, map(paper_cell, paper), strict=True) for cell in pair]
            rows.append([TARGETS[target], words, _spent(found), *cells, found.seeds, found.made])
    header = ["target", "method", "evaluations", "TVD", "paper", "MMD", "paper", "W", "paper", "seeds", "made at"]
    view.note(_TOLD)
    if "lj55" in targets:
        view.note("W on LJ-55 is the paper's per-atom variant where it was measured, else W2 after Kabsch alignment.")
    return Table(header, rows, view.notes)


def _spent(found: Found) -> str:
    row = found.summary.get("evaluations")
    return "–" if row is None or row["mean"] is None else f"{row['mean']:,.0f}"


def calls(view: View) -> Table:
    """Table 2: what the ledger holds, or, where nothing was run, what the plan of the preset says."""
    rows, known, catalogue = [], published("table-calls")["rows"], read()
    for method, words in {**METHODS, **OURS}.items():
        cells = []
        for place, target in enumerate(TARGETS):
            name = preset_name(target, method)
            found = view.of(name)
            about = catalogue.get(name, {})
            planned = f"{about['evaluations']:,} planned" if about else "no preset yet"
            first = f", first step at {about['least_budget']:,}" if "least_budget" in about else ""
            cells += [(f"{_spent(found)} counted" if found.good else planned) + first]
            cells += [_power(known[method][place]) if method in known else "–"]
        rows.append([words, *cells])
    header = ["method", *(cell for title in TARGETS.values() for cell in (title, "paper"))]
    view.note("Counted: every evaluation of the fit, in the ledger. The paper leaves out those of importance weights.")
    view.note("First step: the smallest budget with which the other methods can make a step of training at all.")
    return Table(header, rows, view.notes)


def observables(view: View) -> Table:
    """The error of E|x|^2."""
    rows, known = [], published("table-observables")["rows"]
    for method, words in {**METHODS, **OURS}.items():
        cells = []
        for place, target in enumerate(TARGETS):
            found = view.of(preset_name(target, method))
            cells += [found.metric("second_moment_error") if found.good else found.status]
            cells += [paper_cell(known[method][place]) if method in known else "–"]
        rows.append([words, *cells])
    header = ["method", *(cell for title in TARGETS.values() for cell in (title, "paper"))]
    view.note(_TOLD)
    view.note("The paper multiplies by a λ that it does not print: its 1.35 on MoG-40 is below the floor of λ = 1.")
    return Table(header, rows, view.notes)


def ablation(view: View) -> Table:
    """Table 3, with what else the method is sensitive to."""
    rows, known = [], published("table-ablation")["rows"]
    names = ["mw32-paper", *(name for name in VARIANTS if name.startswith("mw32-paper") and "pt-dm" not in name)]
    names += ["mog40-paper", *(name for name in VARIANTS if name.startswith("mog40-paper") and "pt-dm" not in name)]
    for name in names:
        found, paper = view.of(name), known.get(name, (None, None))
        what = VARIANTS[name][2] if name in VARIANTS else "nothing: the paper's settings, truncation at 0.99"
        shown = [found.metric(TVD, digits=3), paper_cell(paper[0]), found.metric(*W_POINTS), paper_cell(paper[1])]
        shown += [found.metric("region_max_error", digits=3), found.metric("ess_fraction")]
        rows.append([f"`{name}`", what, *shown, found.seeds, found.made])
    header = ["cell", "what is different", "TVD", "paper", "W", "paper", "largest region error", "ESS", "seeds"]
    view.note(_TOLD)
    return Table([*header, "made at"], rows, view.notes)


def pareto(view: View, names: dict[str, tuple[int, ...]]) -> Table:
    """Every point of the figure: a variant at a budget."""
    rows = []
    for name, budgets in names.items():
        for budget in budgets:
            found = view.of(name, budget=budget)
            shown = [found.metric(TVD, digits=3), found.metric(*W_POINTS), found.metric("region_max_error", digits=3)]
            rows.append([f"`{name}`", f"{budget:,}", _spent(found), *shown, found.seeds, found.made])
    view.note("Every method is judged by plain, independent draws: no weights, no quasi-random points, no thinning.")
    header = ["cell", "budget", "evaluations", "TVD", "W", "largest region error", "seeds", "made at"]
    return Table(header, rows, view.notes)


def illustration(view: View) -> Table:
    """The ways to T = 1 on LJ-55."""
    rows = []
    for name, whose in (("lj55", "ours"), ("lj55-paper", "the paper's")):
        found = view.of(name, "illustration")
        for way, title in TITLES.items():
            shown = [_over(found, way, metric, digits) for metric, digits in (("energy_tvd", 2), ("distance_tvd", 3))]
            rows.append([whose, title, *shown, found.seeds, found.made])
    return Table(["settings", "way", "energy TVD", "distance TVD", "seeds", "made at"], rows, view.notes)


def _over(found: Found, way: str, metric: str, digits: int) -> str:
    from tempering.lab.reproduce.records import mean_and_error

    values = [run["ways"][way][metric] for run in found.good if way in run["ways"]]
    values = [value for value in values if value is not None]
    if not values:
        return "–"
    row = mean_and_error(values)
    assert row["mean"] is not None
    return with_error(row["mean"], row["error"], digits)


def extrapolation(view: View) -> Table:
    """The ways to T = 0.1, and the Langevin steps that finite differences need."""
    rows, known = [], published("figure-extrapolation")["rows"]
    for name in EXTRAPOLATED:
        found = view.of(name, "extrapolation")
        cells = [_over(found, way, "energy_tvd", 2) for way in ("me", "ad", "fd", "fd-log", "none")]
        floors = [run["floor"] for run in found.good if run.get("floor") is not None]
        floor = number(sum(floors) / len(floors), 2) if floors else "–"
        steps = [run["ways"]["fd"].get("steps_to_truth", "–") for run in found.good]
        told = ", ".join("over 1,000" if each is None else str(each) for each in steps) or "–"
        rows.append([name, *cells, floor, told, *map(str, known.get(name, ("–",))), found.seeds, found.made])
    view.note(
        "Energy TVD against chains at T = 0.1 that start from samples of T = 1: the paper's truth. Steps: the first of "
        "0, 1, 2, 5, 10, 20, 50, … at which draws by finite differences are within half as much again of the floor."
    )
    header = ["target", "ME", "AD", "FD in T", "FD in log T", "T = 1 as it is", "floor", "steps of FD", "paper"]
    return Table([*header, "seeds", "made at"], rows, view.notes)


def likelihood(view: View, targets: tuple[str, ...]) -> Table:
    """The refitted log likelihood of every method."""
    rows = []
    for target in targets:
        for method, words in rows_of(target).items():
            name = preset_name(target, method)
            found, fit = view.of(name, "refit"), view.of(name)
            medians = [run["log_likelihood_median"] for run in found.good if run["log_likelihood_median"] is not None]
            middle = number(sum(medians) / len(medians), 2) if medians else "–"
            shown = found.metric("refitted_log_likelihood")
            rows.append([TARGETS[target], words, _spent(fit), shown, middle, found.seeds, found.made])
    header = ["target", "method", "evaluations", "mean log likelihood (of the target)", "median", "seeds", "made at"]
    view.note("In brackets: what the target itself gives the same samples. No method can have more on average.")
    return Table(header, rows, view.notes)


def aldp(view: View) -> Table:
    """Table 4, and what it does not show."""
    rows, known = [], published("table-aldp")["rows"]
    for name in ("aldp-paper", "aldp-paper-pt-dm", "aldp", "aldp-pt-dm"):
        words = read()[name]["method"]
        found, paper = view.of(name), known.get(name, (None, None))
        shown = [found.metric("log_likelihood"), paper_cell(paper[0])]
        shown += [found.metric("ramachandran_kl_many", digits=3), paper_cell(paper[1], 3)]
        shown += [found.metric("ramachandran_kl", digits=3)]
        shown += [
            found.metric(TVD, digits=3),
            found.metric("phi_tvd", digits=3),
            found.metric("ess_fraction", digits=3),
        ]
        rows.append([f"`{name}`", words, _spent(found), *shown, found.seeds, found.made])
    header = ["cell", "method", "evaluations", "log likelihood", "paper", "KL of 1,000,000", "paper", "KL of 10,000"]
    view.note(_TOLD)
    view.note(
        "KL: of Ramachandran histograms, the paper's definition, from as many draws as the column says (quick: "
        "2,000); the paper has 1e6."
    )
    return Table([*header, "energy TVD", "φ TVD", "ESS", "seeds", "made at"], rows, view.notes)


def langevin(view: View) -> Table:
    """LJ-55 after Langevin steps."""
    rows, known = [], published("table-lj55-langevin")["rows"]
    for method, words in rows_of("lj55").items():
        found = view.of(preset_name("lj55", method))
        ours = [found.metric(f"{TVD}_langevin", digits=3), found.metric(f"{MMD}_langevin", digits=3)]
        ours.append(found.metric(*(f"{name}_langevin" for name in W_PARTICLES)))
        paper = known.get(method, (None,) * 3)
        cells = [cell for pair in zip(ours, map(paper_cell, paper), strict=True) for cell in pair]
        rows.append([words, *cells, found.seeds, found.made])
    view.note(_TOLD)
    return Table(["method", "TVD", "paper", "MMD", "paper", "W", "paper", "seeds", "made at"], rows, view.notes)
