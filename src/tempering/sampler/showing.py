"""How a sampler shows itself and hands its draws to others: words, tables, figures, ArviZ, files."""

import difflib
from importlib import import_module
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np

from tempering.compilation import methods_in_plain_jax
from tempering.errors import SettingsError, require_extra
from tempering.runs.exports import check_place, inference_data, named_arrays, write_draws
from tempering.sampler.answer import Answer, answer_of, user_log_density
from tempering.sampler.facts import facts_of
from tempering.sampler.html import html_of
from tempering.sampler.paid import Paid, is_independent
from tempering.sampler.words import lines_of, summary_of
from tempering.settings import require, require_count, require_flag, require_seed
from tempering.transforms import Chart
from tempering.transforms.centred import Centred
from tempering.weights.ess import ess_fraction
from tempering.weights.estimates import Estimate

__all__ = ["FIGURES", "Shown"]

FIGURES = ("corner", "marginals", "modes", "levels", "weights", "ladder", "level_energies", "training")
"""What `plot` draws by name; of particles and molecules `distances` and `configurations` as well."""
_NUM_PLOTTED = 2000
_WEIGHTED = (
    "sample_stats.log_weights has the weights of these draws, of effective share {:.3f}; ArviZ does not use them"
)


@methods_in_plain_jax
class Shown:
    """The part of a `Sampler` that people and other programs look at."""

    target: Any
    structure: Any
    chart: Chart | None
    folder: Path | None
    paid: Paid
    sample: Any
    sample_weighted: Any
    sample_even: Any
    log_prob: Any
    diagnose: Any
    outer: Any
    geometry: Centred | None
    _seen: Any

    def __repr__(self) -> str:
        return lines_of(self)

    def _repr_html_(self) -> str:
        """What a notebook shows: verdict, log Z, cost, and a table of the parameters with their marginals."""
        return html_of(self)

    def answer(self) -> Answer | None:
        """The weighted draws that the fit and later calls paid for, as named columns. None if none are kept.

        It costs nothing. `sample_weighted` makes more draws, which are then part of it.
        """
        return answer_of(self)

    def estimates(self) -> list[Estimate]:
        """Mean, standard deviation and quantiles of every parameter, with Monte Carlo standard errors.

        It costs no evaluation. For particles and molecules the estimates are of the energy, the radius of gyration and
        the mean distance of two particles.
        """
        answer = answer_of(self)
        return [] if answer is None else answer.estimates()

    def summary(self) -> str:
        """A text with the answer, the cost, ESS, log Z, the table of levels, the verdict and the findings behind it.

        Findings that are good are left out. It costs no evaluation.
        """
        return summary_of(self)

    def facts(self) -> dict[str, Any]:
        """Everything but the arrays, in a form that can be written as JSON."""
        return facts_of(self)

    def to_arviz(
        self,
        num: int | None = None,
        *,
        seed: int = 0,
        num_chains: int = 4,
        weighted: bool = False,
        coords: dict[str, Any] | None = None,
        dims: dict[str, list[str]] | None = None,
        with_log_prob: bool = False,
    ) -> Any:
        """Draws as ArviZ inference data. Variables have their names, or the name x for plain rows.

        Draws are independent. They are divided into chains only so that ArviZ can compare parts of them: R-hat is then
        near 1, and effective sizes are near the number of draws. ArviZ knows no weights. `sample_stats` has
        `log_weights` and `log_density` of every draw if they are known. `sample_exact` makes draws without weights.

        Args:
            num: the number of new draws, as for `sample`. None takes the weighted draws that were paid for; this costs
                no evaluation.
            seed: the seed of new draws, as for `sample`.
            num_chains: the number of parts. They have equal length; draws that are left over are left out.
            weighted: weigh the `num` new draws. It costs one evaluation per draw.
            coords: labels along named dimensions.
            dims: names of the dimensions of variables. The plates of a NumPyro model are known.
            with_log_prob: add the sampler's own log density as `log_prob` in `sample_stats`. This costs no evaluation
                of the target, but the flow's equation is solved for every draw.
        """
        require_extra("arviz", "inference data")
        require_flag("with_log_prob", with_log_prob)
        require_flag("weighted", weighted)
        require_count("num_chains", num_chains)
        require_seed("seed", seed)
        draws, stats = self._draws_with_stats(num, seed, weighted=weighted)
        if with_log_prob:
            stats["log_prob"] = self.log_prob(draws)
        known = {} if self.structure is None else self.structure.dims
        labels = {"coords": coords, "dims": {**known, **(dims or {})}}
        data = inference_data(named_arrays(draws), stats, int(num_chains), **labels)
        # ArviZ's own numbers say nothing of this: R-hat is near 1 also where the verdict is "wrong".
        data.posterior.attrs["verdict"] = self.diagnose().line().removeprefix("verdict: ")
        if "log_weights" in stats:
            share = float(ess_fraction(jnp.asarray(stats["log_weights"])))
            data.posterior.attrs["weights"] = _WEIGHTED.format(share)
        return data

    def _draws_with_stats(self, num: int | None, seed: int, *, weighted: bool) -> tuple[Any, dict[str, np.ndarray]]:
        """New draws, weighed or not; for `num` None those that were paid for. With what is known of each."""
        if num is None:
            buffers = [own for name, own in self.paid.draws.items() if is_independent(name)]
            if buffers and not weighted:
                parts = ("position", "log_density", "log_weight")
                position, log_density, log_weights = (
                    np.concatenate([np.asarray(getattr(own, part)) for own in buffers]) for part in parts
                )
                known = {"log_weights": log_weights, "log_density": user_log_density(self.chart, position, log_density)}
                return self._seen(jnp.asarray(position)), known
            num = _NUM_PLOTTED
        if not weighted:
            return self.sample(num, seed=seed), {}
        draws, log_weights = self.sample_weighted(num, seed=seed)
        return draws, {"log_weights": log_weights, "log_density": self._log_density(seed, num, log_weights, draws)}

    def _log_density(self, seed: int, num: int, log_weights: np.ndarray, draws: Any) -> np.ndarray:
        """Log densities of draws that were just weighed: as kept, or from weights and the model's density."""
        kept = self.paid.draws.get(f"seed-{seed}")
        if kept is not None and kept.position.shape[0] >= num:
            return user_log_density(self.chart, np.asarray(kept.position[:num]), np.asarray(kept.log_density[:num]))
        return log_weights + self.log_prob(draws)

    def save_draws(
        self,
        path: str | Path,
        num: int,
        *,
        seed: int = 0,
        weighted: bool = False,
        is_quasi_random: bool = False,
        is_even: bool = False,
        solver: str | None = None,
        num_steps: int | None = None,
    ) -> Path:
        """Write draws into a new file for other programs. The suffix decides: .npz, .csv, .parquet, .nc or .txt.

        Args:
            path: the file. It must not exist; its folder is made. A `.txt` file is for GetDist, and a `.paramnames`
                file is written beside it.
            num, seed: as for `sample`.
            weighted: add log weights that correct expectations (`sample_weighted`). It costs one evaluation per draw.
            is_quasi_random: as for `sample_weighted`, for weighted draws only.
            is_even: write the points of `sample_even` instead, without weights. It costs two evaluations per point.
            solver, num_steps: as for `sample`, for draws without weights only.

        Returns:
            The file.

        Raises:
            SettingsError: for another suffix, or if the package that writes it is not installed.
            RunFolderError: if the file exists or cannot be written.
        """
        place = check_place(path)  # before anything is drawn
        require_flag("weighted", weighted)
        require_flag("is_quasi_random", is_quasi_random)
        allowed = "False without weights: draws that nobody weighs are independent"
        require(weighted or not is_quasi_random, "is_quasi_random", is_quasi_random, allowed)
        require_flag("is_even", is_even)
        require(not (is_even and weighted), "is_even", is_even, "False with weights: even points have none")
        for name, given in (("solver", solver), ("num_steps", num_steps)):
            allowed = "None with weights or even points: those need the density of the fit's own solver"
            require(given is None or not (weighted or is_even), name, given, allowed)
        if is_even:
            return write_draws(place, self.sample_even(num, seed=seed))
        if weighted:
            draws, log_weights = self.sample_weighted(num, seed=seed, is_quasi_random=is_quasi_random)
            is_kept = place.suffix == ".txt" and not is_quasi_random
            log_density = self._log_density(seed, num, log_weights, draws) if is_kept else None
            return write_draws(place, draws, log_weights, log_density)
        how = {name: given for name, given in (("solver", solver), ("num_steps", num_steps)) if given is not None}
        return write_draws(place, self.sample(num, seed=seed, **how))

    def plot(
        self,
        what: str | Path | None = None,
        path: str | Path | None = None,
        *,
        num: int | None = None,
        seed: int = 0,
    ) -> Any:
        """Draw figures: one by its name, or all of them.

        `sampler.plot("corner")` returns one figure. `sampler.plot("corner", "corner.pdf")` writes it as well, as .png,
        .svg or .pdf. `sampler.plot()` returns all figures by name. `sampler.plot("figures")` also writes them into the
        folder `figures`.

        Args:
            what: corner, marginals, modes, levels (the table), ladder, weights, level_energies or training. For
                particles and molecules there are distances and configurations too. Anything else is a folder for PNG
                files of all figures. Give a `pathlib.Path` for a folder that has the name of a figure.
            path: a file for the one figure. An older file is replaced.
            num: the number of new draws to show. None shows the weighted draws that were paid for, which costs no
                evaluation; if there are none, it makes 2,000. If the density is there, new draws are weighed. Each
                costs one evaluation, which the ledger has as `sampling`.
            seed: the seed of new draws.

        Returns:
            A Matplotlib figure, or a dict of figures by name. Figures without numbers are left out. Samples by level
            come from the run folder, if `fit(out=...)` made one.

        Raises:
            SettingsError: if this sampler has no numbers for the figure. The message has the reason.
        """
        require_extra("matplotlib", "figures")
        from tempering.plots.sampler_figures import (
            figure_file,
            figures_folder,
            sampler_figures,
            write_figure,
            write_figures,
        )

        name, folder = _figure_or_folder(what)
        place = None if folder is None else figures_folder(folder)  # before anything is drawn
        if path is not None:
            if name is None:
                raise SettingsError("path is for one figure; name it, as in plot('corner', 'corner.pdf')")
            path = figure_file(path)
        figures = sampler_figures(self._contents(num, seed), None if name is None else (name,))
        if name is None:
            if place is not None:
                write_figures(figures, place)
            return figures
        if name not in figures:
            raise SettingsError(f"there is no figure {name!r} of this sampler: {_missing(name)}")
        if path is not None:
            write_figure(figures[name], path)
        return figures[name]

    def report(self, file: str | Path = "report.html") -> Path:
        """Write a report about this sampler: one web page that needs no network. It costs no evaluation.

        It is the page that `tempering report FOLDER` makes for a run folder. It has the answer, the verdict, the cost,
        how the fit went, and how to repeat and cite it. If the sampler has a folder, from `fit(out=...)` or `tp.load`,
        the page shows its levels as well.

        Args:
            file: the file of the page. It must end in .html. An older page there is replaced.

        Returns:
            The file.

        Raises:
            SettingsError: for another ending, or if the extra `plots` is not installed.
            RunFolderError: if the file cannot be written.
        """
        # By name: the page belongs to the laboratory, and a room imports only rooms below it.
        return import_module("tempering.lab.report").report_of(self, file)

    def _contents(self, num: int | None, seed: int) -> Any:
        from tempering.plots.sampler_figures import SamplerContents

        require_seed("seed", seed)
        if num is None and any(map(is_independent, self.paid.draws)):
            draws, stats = self._draws_with_stats(None, seed, weighted=False)
            log_weights = stats["log_weights"]
        elif self.target is None:
            draws, log_weights = self.sample(_NUM_PLOTTED if num is None else num, seed=seed), None
        else:
            draws, log_weights = self.sample_weighted(_NUM_PLOTTED if num is None else num, seed=seed)
        return SamplerContents(self.facts(), draws, log_weights, self._seen, self.folder, self.geometry)


def _figure_or_folder(what: Any) -> tuple[str | None, Any]:
    """The name of a figure, or a folder; a word that is nearly a figure's name is refused."""
    known = (*FIGURES, "distances", "configurations")
    if not isinstance(what, str) or what == "":
        return None, what
    if what in known:
        return what, None
    near = difflib.get_close_matches(what, known, n=1, cutoff=0.75)
    if near:
        raise SettingsError(
            f"there is no figure {what!r} (did you mean {near[0]!r}?); for a folder of that name write './{what}'"
        )
    return None, what


def _missing(name: str) -> str:
    reasons = {
        "modes": "no search found modes before the fit",
        "level_energies": "samples by level are kept in the folder of a run; fit with `out=`",
        "weights": "no draw was weighed; give the density with tp.load(folder, log_density)",
        "training": "no training losses are on record",
        "corner": "it has one coordinate, or shows particles, whose single coordinates mean nothing",
    }
    return reasons.get(name, "it is for particles and molecules")
