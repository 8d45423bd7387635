"""The figures of `sampler.plot`: which there are, and the numbers in them, read back from the axes."""

import dataclasses
import logging
import shutil

import jax
import matplotlib
import numpy as np
import pytest

from support.exact_sampler import linear_denoiser, sampler_of
from tempering.errors import RunFolderError
from tempering.lab.metrics.particles import pair_distances
from tempering.lab.report.contents import read_contents
from tempering.plots.sampler_figures import (
    SamplerContents,
    _shares,
    sampler_figures,
    write_figures,
)
from tempering.plots.style import bytes_of, render
from tempering.registry import make_target
from tempering.runs.records import LevelRecord, level_table
from tempering.runs.storage import read_json, write_arrays
from tempering.transforms.centred import Centred
from tempering.weights.pareto import pareto_k

RNG = np.random.default_rng(1)
DRAWS = (RNG.normal(size=(600, 2)) * np.array([[2.0, 0.5]]) + np.array([[3.0, -1.0]])).astype(np.float32)
LOG_WEIGHTS = (0.8 * DRAWS[:, 0] + 0.1 * RNG.normal(size=600)).astype(np.float32)


def _facts(plane_run) -> dict:
    return read_json(plane_run / "result.json")


def _texts(figure) -> list[str]:
    return [text.get_text() for axes in figure.axes for text in axes.texts]


@pytest.mark.slow
def test_a_run_has_every_figure_and_they_are_written(plane_run, tmp_path):
    known = SamplerContents(_facts(plane_run), DRAWS, LOG_WEIGHTS, folder=plane_run)
    figures = sampler_figures(known)
    assert list(figures) == ["levels", "ladder", "marginals", "corner", "level_energies", "weights", "training"]
    paths = write_figures(figures, tmp_path / "new" / "figures")
    assert [path.name for path in paths] == [f"{name}.png" for name in figures]
    for path in paths:
        pixels = matplotlib.image.imread(path)
        assert 150 < pixels.shape[0] < 1500 and 500 < pixels.shape[1] < 1500 and pixels[..., :3].std() > 0.01
    before = {path: path.read_bytes() for path in paths}
    write_figures(sampler_figures(known), tmp_path / "new" / "figures")
    assert {path: path.read_bytes() for path in paths} == before, "the same numbers give the same bytes"
    with pytest.raises(RunFolderError, match="is a file"):
        write_figures(figures, paths[0])


def test_the_table_holds_the_records(plane_run):
    facts = _facts(plane_run)
    figure = sampler_figures(SamplerContents(facts, DRAWS))["levels"]
    texts = _texts(figure)
    header, *rows = level_table([LevelRecord.from_dict(record) for record in facts["levels"]])
    cells = [cell for row in (header, *rows) for cell in row]
    for cell in set(cells) - {"-"}:
        assert texts.count(cell) >= cells.count(cell), cell
    assert "PTSD" not in texts[0] and texts[0] == "Sampler (ptsd) of 2 dimensions"
    assert texts[1] == "1,340,000 evaluations   final ESS 43.0%   Pareto k 0.38   log Z 0.013 ± 0.021"


def test_the_curves_are_the_records(plane_run):
    contents = read_contents(plane_run)
    rates = sampler_figures(SamplerContents(_facts(plane_run), DRAWS))["ladder"].axes[0]
    drawn = [np.column_stack([line.get_xdata(), line.get_ydata()]) for line in rates.lines]
    for name in ("ess_fraction", "swap_rate", "acceptance"):
        points = [(r.temperature, getattr(r, name)) for r in contents.levels if getattr(r, name) is not None]
        assert any(curve.shape == (len(points), 2) and np.allclose(curve, points) for curve in drawn), name


def test_marginals_are_those_of_draws_weights_and_levels(plane_run):
    contents = read_contents(plane_run)
    figure = sampler_figures(SamplerContents(_facts(plane_run), DRAWS, LOG_WEIGHTS, folder=plane_run))["marginals"]
    assert len(figure.axes) == 2
    weights = np.exp(LOG_WEIGHTS.astype(np.float64) - LOG_WEIGHTS.max())
    weights /= weights.sum()
    for axis, axes in enumerate(figure.axes):
        *levels, weighted, raw = [stairs.get_data() for stairs in axes.patches]
        assert len(levels) == 7
        expected = [_shares(DRAWS[:, axis], raw.edges, part) for part in (None, weights)]
        scale = max(part.max() for part in expected)
        np.testing.assert_allclose(raw.values, 2 * expected[0] / scale)
        np.testing.assert_allclose(weighted.values, 2 * expected[1] / scale)
        means = [
            np.sum(part.values * (part.edges[1:] + part.edges[:-1])) / (2 * part.values.sum())
            for part in (raw, weighted)
        ]
        assert abs(means[0] - DRAWS[:, axis].mean()) < 0.2
        assert (means[1] - means[0] > 1.0) == (axis == 0), "the weights pull the first coordinate up"
        coldest = levels[-1].values - levels[-1].baseline
        expected = _shares(contents.samples[6].position[:, axis], levels[-1].edges, None)
        np.testing.assert_allclose(coldest, 0.9 * expected / expected.max(), atol=1e-6)
    assert [text for text in _texts(figure) if text.startswith("T = ")] == [
        f"T = {number}" for number in ("60", "30", "15", "7.5", "3.5", "1.8", "1")
    ]


def test_a_pdf_keeps_what_fonts_are_made_of_to_itself(caplog):
    with caplog.at_level(logging.INFO):
        assert bytes_of(render(2.0, 1.0, lambda figure: figure.suptitle("a word")), "pdf").startswith(b"%PDF")
        assert not caplog.records
        logging.getLogger("fontTools.subset").info("this would be seen")
    assert len(caplog.records) == 1


def test_the_tail_of_the_weights_says_what_it_is_worth(plane_run):
    heavy = (3.0 * RNG.standard_exponential(600)).astype(np.float32)
    heavy[:5] = -np.inf
    for log_weights, words in (
        (LOG_WEIGHTS, "good: at most 0.7"),
        (heavy, "above 0.7: a heavy tail"),
    ):
        figure = sampler_figures(SamplerContents(_facts(plane_run), DRAWS, log_weights))["weights"]
        title = figure.axes[0].get_title(loc="left")
        weights = np.exp(log_weights.astype(np.float64) - log_weights.max())
        ess = weights.sum() ** 2 / (weights**2).sum()
        assert f"ESS {ess:,.0f} of 600" in title and words in title
        assert f"Pareto k {pareto_k(log_weights):.2f}" in title
        curve = figure.axes[0].lines[1].get_ydata()
        np.testing.assert_allclose(curve, np.sort(600 * weights / weights.sum())[::-1][: len(curve)])


def test_without_folder_density_or_levels_there_is_less(plane_run, tmp_path):
    facts = _facts(plane_run)
    assert list(sampler_figures(SamplerContents(facts, DRAWS))) == [
        "levels",
        "ladder",
        "marginals",
        "corner",
        "training",
    ]
    assert list(sampler_figures(SamplerContents({**facts, "levels": []}, DRAWS))) == ["marginals", "corner"]
    gone = sampler_figures(SamplerContents(facts, DRAWS, folder=tmp_path / "gone"))
    assert "level_energies" not in gone
    shutil.copytree(plane_run / "levels", tmp_path / "levels")
    (tmp_path / "levels" / "03" / "buffer.npz").write_bytes(b"damaged")
    assert "level_energies" not in sampler_figures(SamplerContents(facts, DRAWS, folder=tmp_path))
    undefined = np.full(600, -np.inf, np.float32)
    (axes, _) = sampler_figures(SamplerContents(facts, DRAWS, undefined))["marginals"].axes
    assert len(axes.patches) == 1, "no weight is positive: the draws alone"


@pytest.mark.slow
def test_named_draws_and_many_coordinates(plane_run):
    tree = {"tau": DRAWS[:, 0], "theta": np.tile(DRAWS, (1, 4))}
    known = SamplerContents(_facts(plane_run), tree, outer=lambda p: {"tau": p[:, 0], "theta": np.tile(p, (1, 4))})
    figure = sampler_figures(dataclasses.replace(known, folder=plane_run))["marginals"]
    assert [axes.get_xlabel() for axes in figure.axes] == ["tau", *(f"theta[{k}]" for k in range(5))]
    assert "first 6 of 9 coordinates" in [text.get_text() for text in figure.legends[0].get_texts()]
    one = sampler_figures(SamplerContents(_facts(plane_run), DRAWS[:, :1]))["marginals"]
    assert len(one.axes) == 1


def test_particles_have_configurations(plane_run):
    geometry = Centred(4, 2)
    points = RNG.normal(size=(50, 8)).astype(np.float32)
    figures = sampler_figures(SamplerContents(_facts(plane_run), points, geometry=geometry))
    assert {"configurations", "distances"} <= figures.keys() and "marginals" not in figures


@pytest.fixture
def internal_run(tmp_path):
    """The facts and the buffers of a run on alanine dipeptide in internal coordinates, and draws as a user has them."""
    inner = make_target("aldp_internal")
    y = 0.3 * jax.random.normal(jax.random.key(0), (40, inner.dim))
    levels = [LevelRecord(0, 5.0).as_dict(), LevelRecord(1, 1.0).as_dict()]
    facts = {"method": "ptsd", "dim": 66, "levels": levels, "ledger": {}, "chart": inner.chart.as_dict()}
    buffer = {"position": np.asarray(y), "log_density": np.asarray(jax.jit(jax.vmap(inner.chart.log_volume))(y))}
    parts = {f"{part}/{name}": array for part in ("hot", "cold") for name, array in buffer.items()}
    write_arrays(tmp_path / "levels" / "01" / "buffer.npz", parts)
    seen = jax.jit(jax.vmap(inner.chart.embed))
    return SamplerContents(facts, np.asarray(seen(y)), None, seen, tmp_path), inner.target


def test_internal_coordinates_are_shown_as_atoms(internal_run):
    known, molecule = internal_run
    figures = sampler_figures(known)
    assert list(figures) == ["levels", "ladder", "marginals", "level_energies", "distances", "configurations"]
    assert len(figures["configurations"].axes[0].lines) == len(molecule.bonds)
    assert figures["distances"].axes[-1].get_xlabel() == "distance of two atoms, nm"
    distances, _ = figures["marginals"].axes
    assert distances.get_xlabel() == "distance of two atoms, nm"
    # Levels are those same draws: distances of pairs, whatever the conformations' place and turn.
    coldest = distances.patches[-1].get_data()
    exact = pair_distances(known.draws, num_particles=22, spatial_dim=3).ravel()
    counts, _ = np.histogram(exact, coldest.edges)
    np.testing.assert_allclose(coldest.values, 0.92 * counts / counts.max(), atol=0.03)
    # The buffer's log densities are the chart's volume alone, which is none of a conformation's energy.
    energies = figures["level_energies"].axes[0]
    low, high = energies.get_xlim()
    assert low <= 0.0 <= high and high - low < 1.0
    # The saboteur: single coordinates, as of any other chart.
    other = dataclasses.replace(known, facts={**known.facts, "chart": None})
    assert len(sampler_figures(other)["marginals"].axes) == 6


def test_bonds_of_a_molecule_are_those_of_its_network(plane_run):
    points = RNG.normal(size=(5, 12)).astype(np.float32)
    facts = {**_facts(plane_run), "network": {"bonds": [[0, 1], [1, 2], [2, 3]]}}
    figures = sampler_figures(SamplerContents(facts, points, geometry=Centred(4, 3)))
    assert len(figures["configurations"].axes[0].lines) == 3


def test_a_sampler_plots_itself_and_counts_what_it_weighs(tmp_path):
    sampler = sampler_of(linear_denoiser())
    figures = sampler.plot(tmp_path, num=200, seed=3)
    assert list(figures) == ["levels", "ladder", "marginals", "corner", "weights"]
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(f"{name}.png" for name in figures)
    assert sampler.ledger.points["sampling"] == 200
    assert list(dataclasses.replace(sampler, target=None).plot(num=200)) == ["levels", "ladder", "marginals", "corner"]
