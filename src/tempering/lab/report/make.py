"""The report of a run: figures and page from its folder, and nothing else."""

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from tempering.errors import require_extra
from tempering.lab.report.contents import read_contents
from tempering.lab.report.molecule_report import MOLECULE_FIGURES, in_atoms
from tempering.lab.report.page import page
from tempering.lab.report.sample_figures import energy_figure, samples_figure
from tempering.plots.contents import RunContents
from tempering.plots.ladder_figures import ladder_figure, training_figure, weights_figure
from tempering.plots.level_figures import level_energies_figure, levels_figure
from tempering.plots.particle_figures import configurations_figure, distances_figure, particle_levels_figure
from tempering.plots.style import Picture, png_of
from tempering.runs.storage import as_path, write_bytes

__all__ = ["FIGURES", "PARTICLE_FIGURES", "make_report"]

FIGURES: dict[str, Callable[[RunContents], Picture | None]] = {
    "samples": samples_figure,
    "energy": energy_figure,
    "weights": weights_figure,
    "ladder": ladder_figure,
    "levels": levels_figure,
    "level_energies": level_energies_figure,
    "training": training_figure,
}
"""Every figure by the name of its file, in the order of the page."""

PARTICLE_FIGURES: dict[str, Callable[[RunContents], Picture | None]] = {
    "samples": configurations_figure,
    "energy": energy_figure,
    "distances": distances_figure,
    "weights": weights_figure,
    "ladder": ladder_figure,
    "levels": particle_levels_figure,
    "training": training_figure,
}
"""The same for runs on particles, whose single coordinates mean nothing: any rotation mixes them."""


def make_report(folder: Path) -> Path:
    """Write `figures/*.png` and `report.html` of a run folder.

    A pure function of the folder: the same files give the same bytes, and no density is evaluated. What the run did
    not leave behind (no reference samples, no weights, not finished) is left out.

    Args:
        folder: of a run, finished or not.

    Returns:
        The path of the page, which holds the figures too and can be sent on its own.

    Raises:
        SettingsError: if Matplotlib or Jinja is not installed.
        RunFolderError: if it is not the folder of a run, is damaged, or cannot be written.
    """
    require_extra("matplotlib", "reports")
    require_extra("jinja2", "reports")
    folder = as_path(folder)
    contents = in_atoms(read_contents(folder))
    drawn_here = MOLECULE_FIGURES | (FIGURES if contents.geometry is None else PARTICLE_FIGURES)
    figures = {}
    for name in FIGURES | PARTICLE_FIGURES | MOLECULE_FIGURES:
        place = folder / "figures" / f"{name}.png"
        picture = drawn_here[name](contents) if name in drawn_here else None
        if picture is None:
            with suppress(OSError):  # of an earlier report, which may have had more to show
                place.unlink()
            continue
        figures[name] = png_of(picture)
        write_bytes(place, figures[name])
    path = folder / "report.html"
    write_bytes(path, page(contents, figures).encode())
    return path
