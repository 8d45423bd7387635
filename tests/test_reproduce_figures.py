"""Figures of reproductions from made-up records, chains at a temperature, and the tasks themselves in small."""

import dataclasses
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from support.molecules import turned_alanine
from support.random_checks import must_fail
from support.unchecked import unchecked
from tempering.lab.reproduce import extrapolating, refit, tasks
from tempering.lab.reproduce.cells import Cell
from tempering.lab.reproduce.extrapolating import MARKS, Sizes, extrapolated
from tempering.lab.reproduce.pictures import picture_data
from tempering.lab.reproduce.registry import REPRODUCTIONS
from tempering.lab.reproduce.truth import MixtureTruth, exact_buffer, moved
from tempering.lab.reproduce.two_levels import GUIDANCE
from tempering.lab.reproduce.variants import config_of
from tempering.lab.reproduce.view import View
from tempering.plots.style import png_of
from tempering.registry import make_target
from tempering.runs.ledger import Ledger
from tempering.settings import Sampling
from tempering.targets import ExactTarget
from tempering.types import ignore_event

FIGURES = [name for name, one in REPRODUCTIONS.items() if one.figure is not None]


def _counts(num: int = 80) -> dict:
    return {"counts": [3] * num, "num": 3 * num + 1}


def _records() -> dict[str, dict]:
    """One of every kind, with the data that figures read."""
    about = {"seed": 0, "commit": "abcdef0", "evaluations": 1_000.0}
    both = {"limits": [0.0, 1.0], "draws": _counts(), "reference": _counts()}
    torus = {"counts": np.arange(64 * 64).reshape(64, 64).tolist(), "num": 64 * 64 * 2048}
    data = {"points": [[0.0, 1.0], [2.0, 3.0]], "energies": both, "torus": {"draws": torus, "reference": torus}}
    metrics = {
        name: {"value": 0.3, "floor": 0.2}
        for name in ("w1", "energy_tvd", "refitted_log_likelihood", "ramachandran_kl")
    }
    fits = [Cell("fit", name, 0) for name in ("mw32-paper", "mog40-paper", "mog40", "aldp-paper", "aldp-pt-dm")]
    fits += [Cell("fit", "mog40-paper", 0, budget) for budget in (100_000, 300_000)]
    fits += [Cell("refit", "mog40-paper", 0)]
    found = {cell.key: {**about, "metrics": metrics, "data": data, "log_likelihood_median": 0.1} for cell in fits}
    for cell in fits:
        found[cell.key]["evaluations"] = float(cell.budget or 1_000)
    rows = {"energy_tvd": 0.5, "distance_tvd": 0.1, "curve": {str(mark): 0.5 for mark in MARKS}, "steps_to_truth": None}
    ways = dict.fromkeys(GUIDANCE, rows)
    histograms = {name: _counts() for name in ("truth", "reference", "buffer at 2", "model at 2", *GUIDANCE)}
    points = {"points": {name: [[0.0, 1.0]] for name in ("truth", *GUIDANCE)}}
    shown = {**about, "metrics": {}, "floor": 0.1, "ways": ways, "data": {"limits": [0.0, 1.0], **histograms, **points}}
    for cell in (Cell("extrapolation", "mog40", 0), Cell("extrapolation", "dw4", 0), Cell("illustration", "lj55", 0)):
        found[cell.key] = shown
    return found


@pytest.mark.parametrize(
    "name", [name if name == "panels-mw32" else pytest.param(name, marks=pytest.mark.slow) for name in FIGURES]
)
def test_a_figure_is_drawn_from_records_and_from_none(name, tmp_path):
    draw = REPRODUCTIONS[name].figure
    assert draw is not None
    draw(View({}, {}, False, tmp_path))
    assert png_of(draw(View(_records(), {}, False, tmp_path)))[:4] == b"\x89PNG"
    table = REPRODUCTIONS[name].table(View(_records(), {}, False, tmp_path))
    assert table.rows and all(len(row) == len(table.header) for row in table.rows)


def test_a_quick_figure_shows_no_full_record(tmp_path):
    draw = REPRODUCTIONS["figure-front"].figure
    assert draw is not None
    quick, empty, full = (
        png_of(draw(View(records, {}, is_quick, tmp_path)))
        for records, is_quick in ((_records(), True), ({}, True), (_records(), False))
    )
    assert quick == empty != full


def _variance_after(beta: float, *, expected: float) -> None:
    target, ledger = make_target("gaussian", dim=2), Ledger()
    assert isinstance(target, ExactTarget)
    start = jnp.asarray(target.sample(jax.random.key(0), 2_000))
    spread = np.var(np.asarray(start), axis=0)
    done = moved(jax.random.key(1), target, start, beta, (0, 300), ledger)
    np.testing.assert_allclose(np.var(np.asarray(done.position), axis=0), expected * spread, rtol=0.15)
    assert ledger.points["metrics"] == 2_000 * 301 and set(done.energies) == {0, 300}
    still = moved(jax.random.key(1), target, start, beta, (0,), Ledger(), done.step_size)
    np.testing.assert_array_equal(np.asarray(still.position), np.asarray(start))


@pytest.mark.slow
def test_chains_at_a_temperature_sample_it():
    _variance_after(10.0, expected=0.1)
    must_fail(lambda: _variance_after(5.0, expected=0.1))


@pytest.mark.slow
def test_exact_samples_of_a_mixture_have_its_modes():
    truth = MixtureTruth(make_target("mog40"), 1.0)
    np.testing.assert_allclose(truth.region_weights(), 1 / 40, rtol=0.02)
    buffer = exact_buffer(truth, 0, 4_000)
    second = float(jnp.sum(buffer.weight * jnp.sum(buffer.position**2, axis=1)))
    assert abs(second - 1071.37) < 60


def test_picture_data_are_small_and_know_their_coordinates():
    config = config_of(Cell("fit", "mw32-paper", 0))
    draws = np.arange(5_000 * 32, dtype=np.float32).reshape(5_000, 32)
    data = picture_data(
        config, {"draws": draws, "draws_log_density": draws[:, 0], "reference_log_density": draws[:, 0]}
    )
    assert len(data["points"]) <= 1_000 and data["points"][0] == [0.0, 2.0] and data["columns"] == [0, 2]
    assert sum(data["energies"]["draws"]["counts"]) == data["energies"]["draws"]["num"] == 5_000


@pytest.mark.slow
def test_extrapolation_in_small(monkeypatch):
    sizes = Sizes(40, 32, 200, 100, 6, 40, 8)
    monkeypatch.setattr(extrapolating, "sizes_of", lambda cell: sizes)
    record = extrapolated(Cell("extrapolation", "mog40", 0), ignore_event)
    assert set(record["ways"]) == set(GUIDANCE) and 0 <= record["ways"]["fd"]["energy_tvd"] <= 1
    assert record["evaluations_of_chains"] == 200 * 41 + len(GUIDANCE) * 100 * 1_001


@pytest.mark.slow
def test_a_refit_tells_good_draws_from_bad_ones(monkeypatch):
    target = make_target("mog40")
    assert isinstance(target, ExactTarget)
    good, judged = (np.asarray(target.sample(jax.random.key(i), 2_000)) for i in (0, 1))
    sizes = dataclasses.replace(refit.Sizes(), num_draws=2_000, num_steps=1_500, batch_size=256, num_judged=200)
    sizes = dataclasses.replace(sizes, num_solver=64, width=64)
    monkeypatch.setattr(refit, "sizes_of", lambda cell: sizes)
    cell = Cell("refit", "mog40-paper", 0)

    def likelihood(draws: np.ndarray) -> dict:
        found = refit.refitted(cell, config_of(cell), {"draws": draws, "reference": judged}, ignore_event)
        return found["metrics"]["refitted_log_likelihood"]

    of_good, of_bad = likelihood(good), likelihood(good[good[:, 0] < 0])
    assert of_bad["value"] + 0.5 < of_good["value"] < of_good["floor"] + 0.1


class Turned:
    """A sampler of turned conformations of alanine dipeptide, which notes how many it makes."""

    def __init__(self):
        self.model, self.sampling, self.num = self, Sampling(), 0

    def draw(self, key, num, sampling, *, with_density):
        """Conformations about one basin."""
        self.num += num
        rng = np.random.default_rng(np.asarray(jax.random.key_data(key)))
        phi, psi = rng.normal((-1.3, 2.6), 0.3, (num, 2)).T
        return turned_alanine(make_target("aldp"), phi, psi, 0.003, 1), None

    def outer(self, draws):
        """As they are."""
        return draws


def test_a_molecule_is_judged_by_as_many_draws_as_the_papers(monkeypatch, tmp_path):
    """A record has the KL with its floor; a second try finds the angles of the first; other targets have none."""
    sampler, cell = Turned(), Cell("fit", "aldp-paper", 3, None, True)
    trusted, _ = Turned().draw(jax.random.key(7), 1_000, None, with_density=False)
    monkeypatch.setattr(tasks, "load_sampler", lambda folder, target: sampler)
    monkeypatch.setattr(tasks, "load_reference", lambda target, num: SimpleNamespace(positions=trusted))
    with unchecked():
        found = tasks._of_many_draws(cell, config_of(cell), tmp_path, ignore_event)
        assert tasks._of_many_draws(cell, config_of(cell), tmp_path, ignore_event) == found
    metric = found["ramachandran_kl_many"]
    assert sampler.num == metric["num"] == tasks._MANY_OF_QUICK and 0 < metric["value"] < 2 * metric["floor"]
    plane = Cell("fit", "mog40", 3, None, True)
    assert tasks._of_many_draws(plane, config_of(plane), tmp_path, ignore_event) == {}
    monkeypatch.setattr(tasks, "load_reference", lambda target, num: None)
    assert tasks._of_many_draws(cell, config_of(cell), tmp_path, ignore_event) == {}
