"""Every table and figure of the paper: the cells it needs, its table, its figure. No work is done here."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from tempering.lab.reproduce import figures, panels, tables
from tempering.lab.reproduce.cells import Cell, cells_of
from tempering.lab.reproduce.extrapolating import TARGETS as EXTRAPOLATED
from tempering.lab.reproduce.illustration import NAMES as ILLUSTRATED
from tempering.lab.reproduce.published import METHODS, TARGETS
from tempering.lab.reproduce.variants import VARIANTS, exists
from tempering.lab.reproduce.view import Table, View
from tempering.plots.style import Picture

__all__ = ["REPRODUCTIONS", "Reproduction", "plan_of"]

SEEDS = (0, 1, 2, 3, 4)
FEW = 1
"""Seeds of what takes hours, where none are asked for."""
COSTLY = ("lj55", "aldp")

BUDGETS = {"mog40": (100_000, 300_000, 1_080_000), "mw32": (600_000, 1_800_000, 5_696_000)}
QUICK_BUDGETS = {"mog40": (20_000, 60_000), "mw32": (60_000, 200_000)}
COMPARED = {
    "mog40": ("mog40-paper", "mog40-paper-pt-dm", "mog40-paper-pt-dm-10-levels", "mog40-paper-pt-dm-our-network"),
    "mw32": ("mw32-paper", "mw32-paper-pt-dm", "mw32-paper-pt-dm-our-network"),
}


@dataclass(frozen=True)
class Reproduction:
    """One of them.

    Args:
        cells: of given seeds, or of the default ones for None; the small version if asked for.
        table: what is printed and put on the page.
        figure: what is drawn, where the paper has a figure.
    """

    cells: Callable[[list[int] | None, bool], list[Cell]]
    table: Callable[[View], Table]
    figure: Callable[[View], Picture] | None = None


def _seeds(name: str, seeds: list[int] | None, is_quick: bool) -> list[int]:
    if seeds is not None:
        return seeds
    return list(SEEDS[:FEW] if is_quick or name.startswith(COSTLY) else SEEDS)


def _fits(names: list[str], seeds: list[int] | None, is_quick: bool) -> list[Cell]:
    """Cells of the variants that there are: the first seed of all comes first."""
    cells = [
        cell
        for name in names
        if exists(name)
        for cell in cells_of("fit", [name], _seeds(name, seeds, is_quick), is_quick)
    ]
    return sorted(cells, key=lambda cell: cell.seed)


def _methods(targets: tuple[str, ...]) -> list[str]:
    """Presets of the paper's rows and of ours, the paper's own two methods first."""
    order = ("paper", "paper-pt-dm", "", *(method for method in METHODS if not method.startswith("paper")))
    return [tables.preset_name(target, method) for target in targets for method in order]


def _of_methods(*targets: str) -> Callable[[list[int] | None, bool], list[Cell]]:
    return partial(_fits, _methods(targets))


def _pareto_names(is_quick: bool) -> dict[str, tuple[int, ...]]:
    budgets = QUICK_BUDGETS if is_quick else BUDGETS
    return {name: budgets[target] for target, names in COMPARED.items() for name in names}


def _pareto(seeds: list[int] | None, is_quick: bool) -> list[Cell]:
    cells = [
        Cell("fit", name, seed, budget, is_quick)
        for name, budgets in _pareto_names(is_quick).items()
        for budget in budgets
        for seed in _seeds(name, seeds, is_quick)[:3]
    ]
    return sorted(cells, key=lambda cell: cell.seed)


def _likelihood(seeds: list[int] | None, is_quick: bool) -> list[Cell]:
    names = [name for name in _methods(_judged(is_quick)) if exists(name)]
    cells = [cell for name in names for cell in cells_of("refit", [name], _seeds(name, seeds, is_quick)[:3], is_quick)]
    return sorted(cells, key=lambda cell: cell.seed)


def _judged(is_quick: bool) -> tuple[str, ...]:
    return ("mog40", "mw32") if is_quick else tuple(TARGETS)


def _ablations(seeds: list[int] | None, is_quick: bool) -> list[Cell]:
    changed = [name for name in VARIANTS if "pt-dm" not in name and not name.startswith("lj55")]
    return _fits(["mw32-paper", *changed, "mog40-paper"], seeds, is_quick)


def _extrapolations(seeds: list[int] | None, is_quick: bool) -> list[Cell]:
    names = ["mog40", "dw4"] if is_quick else list(EXTRAPOLATED)
    return cells_of("extrapolation", names, seeds or ([0] if is_quick else [0, 1, 2]), is_quick)


_ALDP = partial(_fits, ["aldp-paper", "aldp-paper-pt-dm", "aldp", "aldp-pt-dm"])
_ALL = _of_methods(*TARGETS)
_OF_MOG40, _OF_MW32 = (partial(tables.quality, targets=(target,)) for target in ("mog40", "mw32"))

REPRODUCTIONS: dict[str, Reproduction] = {
    "table-quality": Reproduction(_ALL, tables.quality),
    "table-calls": Reproduction(_ALL, tables.calls),
    "figure-front": Reproduction(_of_methods("mw32"), _OF_MW32, figures.front),
    "figure-pareto": Reproduction(
        _pareto,
        lambda view: tables.pareto(view, _pareto_names(view.is_quick)),
        lambda view: figures.pareto(view, _pareto_names(view.is_quick)),
    ),
    "table-ablation": Reproduction(_ablations, tables.ablation),
    "figure-lj55-extrapolation": Reproduction(
        lambda seeds, is_quick: cells_of("illustration", list(ILLUSTRATED), seeds or [0], is_quick),
        tables.illustration,
        figures.illustration,
    ),
    "figure-extrapolation": Reproduction(_extrapolations, tables.extrapolation, figures.extrapolation),
    "table-observables": Reproduction(_ALL, tables.observables),
    "figure-likelihood": Reproduction(
        _likelihood,
        lambda view: tables.likelihood(view, _judged(view.is_quick)),
        lambda view: figures.likelihood(view, _judged(view.is_quick)),
    ),
    "table-aldp": Reproduction(_ALDP, tables.aldp),
    "figure-ramachandran": Reproduction(_ALDP, tables.aldp, panels.ramachandran),
    "figure-aldp-marginals": Reproduction(_ALDP, tables.aldp, panels.aldp_marginals),
    "figure-aldp-energy": Reproduction(_ALDP, tables.aldp, panels.aldp_energy),
    "panels-mog40": Reproduction(_of_methods("mog40"), _OF_MOG40, panels.mog40),
    "panels-mw32": Reproduction(_of_methods("mw32"), _OF_MW32, panels.mw32),
    "table-lj55-langevin": Reproduction(_of_methods("lj55"), tables.langevin),
}
"""By the names of `names.NAMES`."""


def plan_of(name: str, seeds: list[int] | None, is_quick: bool, only: list[str] | None = None) -> list[Cell]:
    """The cells of a reproduction, in the order in which they are made.

    Args:
        only: names of variants, or of targets, to which the cells are restricted.
    """
    cells = REPRODUCTIONS[name].cells(seeds, is_quick)
    if only is None:
        return cells
    return [cell for cell in cells if cell.name in only or cell.name.split("-")[0] in only]
