"""The report of a run: figures and page from its folder, and nothing else."""

import copy
import shutil
import tempfile
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from tempering.errors import SettingsError, require_extra
from tempering.lab.report.contents import Story, read_contents
from tempering.lab.report.drawing import figure_files
from tempering.lab.report.molecule_report import MOLECULE_FIGURES, in_atoms
from tempering.lab.report.page import page
from tempering.lab.report.sample_figures import energy_figure, samples_figure
from tempering.plots.ladder_figures import ladder_figure, training_figure, weights_figure
from tempering.plots.level_figures import level_energies_figure, levels_figure
from tempering.plots.pair_figures import corner_figure, modes_figure
from tempering.plots.particle_figures import configurations_figure, distances_figure, particle_levels_figure
from tempering.plots.sampler_figures import marginals_figure
from tempering.plots.style import Picture
from tempering.runs.storage import as_path, write_bytes
from tempering.sampler import Sampler

__all__ = ["FIGURES", "PARTICLE_FIGURES", "make_report", "report_of"]

_FORMS = ("png", "svg", "pdf")
_BESIDE = ("config.json", "environment.json", "stats.jsonl", "result.json", "evaluation.npz")


def _corner(story: Story) -> Picture | None:
    answer = story.answer
    return None if answer is None else corner_figure(answer.values, answer.log_weights, answer.names, story.modes)


def _modes(story: Story) -> Picture | None:
    answer = story.answer
    if answer is None or not story.modes:
        return None
    return modes_figure(answer.values, answer.log_weights, answer.names, story.modes)


def _marginals(story: Story) -> Picture | None:
    answer = story.answer
    if answer is None:
        return None
    dims = {part.position.shape[1] for part in story.samples.values()}
    samples = story.samples if dims == {answer.values.shape[1]} else {}
    weights = {} if answer.log_weights is None else {"log_weights": answer.log_weights}
    shown = Story(story.result, {}, {}, {"draws": answer.values, **weights}, story.levels, samples)
    return marginals_figure(shown, answer.names)


def _levels(story: Story) -> Picture | None:
    """Samples by level in the plane; otherwise the marginals show them, where there are any."""
    dims = {part.position.shape[1] for part in story.samples.values()}
    is_shown = story.answer is not None and dims == {story.answer.values.shape[1]}
    return None if is_shown and dims != {2} else levels_figure(story)


def _along(draw: Callable[[Story], Picture | None]) -> Callable[[Story], Picture | None]:
    """A figure along the levels, for a run that has several: one point says nothing that the table does not."""
    return lambda story: draw(story) if max(len(story.levels), len(story.samples)) != 1 else None


FIGURES: dict[str, Callable[[Story], Picture | None]] = {
    "corner": _corner,
    "modes": _modes,
    "weights": weights_figure,
    "marginals": _marginals,
    "ladder": _along(ladder_figure),
    "levels": _levels,
    "level_energies": _along(level_energies_figure),
    "training": _along(training_figure),
    "samples": samples_figure,
    "energy": energy_figure,
}
"""Every figure by the name of its file, in the order of the page."""

PARTICLE_FIGURES: dict[str, Callable[[Story], Picture | None]] = {
    "samples": configurations_figure,
    "distances": distances_figure,
    "weights": weights_figure,
    "ladder": _along(ladder_figure),
    "levels": particle_levels_figure,
    "training": _along(training_figure),
    "energy": energy_figure,
}
"""The same for runs on particles, whose single coordinates mean nothing: any rotation mixes them."""


def make_report(folder: Path) -> Path:
    """Write `figures/*.png`, `.svg` and `.pdf`, and `report.html`, of a folder.

    A pure function of the folder: the same files give the same bytes, and no density is evaluated. What the run did
    not leave behind (no reference samples, no weights, not finished) is left out. The page of a run that is still going
    says so, and reloads itself.

    Args:
        folder: of a run, finished or not, or of a sampler that was saved.

    Returns:
        The path of the page, which holds the figures too and can be sent on its own.

    Raises:
        SettingsError: if Matplotlib or Jinja is not installed.
        RunFolderError: if it is not the folder of a run, is damaged, or cannot be written.
    """
    folder = as_path(folder)
    html, figures = _drawn(folder)
    for name in FIGURES | PARTICLE_FIGURES | MOLECULE_FIGURES:
        for form in _FORMS:
            path = folder / "figures" / f"{name}.{form}"
            if name in figures:
                write_bytes(path, figures[name][form])
            else:
                with suppress(OSError):  # of an earlier report, which may have had more to show
                    path.unlink()
    path = folder / "report.html"
    write_bytes(path, html)
    return path


def report_of(sampler: Sampler, file: str | Path) -> Path:
    """Write the page of a sampler to one file: what `tempering report` makes of its folder, as it is now.

    Args:
        sampler: saved or not. What its folder knows beside it (levels, settings, versions) is on the page too.
        file: of the page, which ends in .html. An older page there is replaced.

    Raises:
        SettingsError: if the file has another ending, or if Matplotlib or Jinja is not installed.
        RunFolderError: if the file cannot be written.
    """
    _require_extras()
    file = as_path(file, "file")
    if file.suffix.lower() not in (".html", ".htm"):
        raise SettingsError(f"the report is a web page, not {file.suffix or 'a file without an ending'}; give .html")
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place) / (sampler.folder or file.with_suffix("")).resolve().name  # which the page is called after
        folder.mkdir()
        if sampler.folder is not None:
            _copy_beside(sampler.folder, folder)
        copy.copy(sampler).save(folder)
        html, _ = _drawn(folder, "" if sampler.folder is None else str(sampler.folder))
    write_bytes(file, html)
    return file


def _copy_beside(source: Path, folder: Path) -> None:
    """Copy what the folder of a run holds beside its sampler; what is not there is left out."""
    for name in _BESIDE:
        if (source / name).is_file():
            shutil.copyfile(source / name, folder / name)
    if (source / "levels").is_dir():
        shutil.copytree(source / "levels", folder / "levels")


def _require_extras() -> None:
    require_extra("matplotlib", "reports")
    require_extra("jinja2", "reports")


def _drawn(folder: Path, named: str | None = None) -> tuple[bytes, dict[str, dict[str, bytes]]]:
    """The page of a folder, and its figures by name and form. `named` is what the page calls the folder, or nothing."""
    _require_extras()
    story = in_atoms(read_contents(folder))
    assert isinstance(story, Story)
    story = story if named is None else replace(story, folder=named)
    drawn_here = MOLECULE_FIGURES | (FIGURES if story.geometry is None else PARTICLE_FIGURES)
    pictures = {name: draw(story) for name, draw in drawn_here.items()}
    order = (name for name in FIGURES | PARTICLE_FIGURES | MOLECULE_FIGURES if pictures.get(name) is not None)
    figures = {name: figure_files(pictures[name]) for name in order}
    return page(story, figures).encode(), figures
