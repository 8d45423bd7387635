"""What a sampler says of itself: five lines, a table for notebooks, estimates with errors, figures by name, ArviZ."""

import dataclasses
import html.parser
import warnings

import jax.numpy as jnp
import numpy as np
import pytest

from support.exact_sampler import LOCATION, STD, linear_denoiser, sampler_of
from support.random_checks import assert_fraction, assert_mean, must_fail
from tempering.buffer import ORIGINS, Buffer
from tempering.errors import RunFolderError, SettingsError
from tempering.runs.records import Mode
from tempering.sampler.html import BADGES
from tempering.sampler.load import load_sampler
from tempering.sampler.several import Samplers
from tempering.weights.estimates import LEVELS, estimate, shares_of

MODES = (Mode((2.0, -5.0, 0.5), -1.0, 0.9, 7), Mode((3.0, -1.0, 0.5), -3.0, 0.1, 2))


@pytest.fixture(scope="module")
def sampler():
    """A sampler with 600 draws that were weighed, and times."""
    made = sampler_of(linear_denoiser(), modes=MODES)
    made.sample_weighted(600, seed=5)
    made.seconds = {"initial PT": 61.04, "training": 130.0}
    return made


@pytest.fixture(scope="module")
def bare():
    """One that nothing was paid for, without density and log Z."""
    return sampler_of(linear_denoiser(), target=None, log_z=None, log_z_error=None)


class Reader(html.parser.HTMLParser):
    """Tags that are opened and closed, and all text."""

    def __init__(self, text: str):
        super().__init__()
        self.open, self.words, self.seen = [], "", []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.seen.append(tag)
        if tag != "path":
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert tag == "path" or self.open.pop() == tag

    def handle_startendtag(self, tag, attrs):
        self.seen.append(tag)

    def handle_data(self, data):
        self.words += data


# Estimates.


def _weighted_normal(rng, num: int) -> tuple[np.ndarray, np.ndarray]:
    """Draws of N(0, 1) with weights that make them draws of N(1.2, 0.8^2)."""
    x = rng.standard_normal(num)
    return x, -0.5 * ((x - 1.2) / 0.8) ** 2 + 0.5 * x**2


def test_estimates_are_right_and_errors_are_honest():
    rng, found = np.random.default_rng(0), []
    for _ in range(400):
        x, log_weights = _weighted_normal(rng, 2000)
        found.append(estimate("x", x, shares_of(log_weights, 2000)))
    exact = {"mean": 1.2, "sd": 0.8}
    z = {
        name: np.array([(getattr(f, name) - at) / getattr(f, f"{name}_error") for f in found])
        for name, at in exact.items()
    }
    quantiles = 1.2 + 0.8 * np.array([-1.6448536, 0.0, 1.6448536])
    for k in range(len(LEVELS)):
        z[f"q{k}"] = np.array([(f.quantiles[k] - quantiles[k]) / f.quantile_errors[k] for f in found])
    # Within two errors 95 times of 100; a standard deviation and quantiles are a little off at this size.
    for name, scores in z.items():
        assert abs(scores.mean()) < 0.3, name
        assert 0.8 < scores.std() < 1.35, name
    assert_fraction(np.abs(z["mean"]) < 1.959964, 0.95, name="intervals of two errors")
    # The saboteur: errors of as many draws without weights are too small.
    naive = np.array([(f.mean - 1.2) / (f.sd / np.sqrt(2000)) for f in found])
    assert naive.std() > 1.5
    must_fail(assert_fraction, np.abs(naive) < 1.959964, 0.95)
    assert_mean([f.mean for f in found], 1.2)
    must_fail(assert_mean, [f.mean for f in found], 1.19)
    # As many independent draws would know the mean as well.
    assert np.mean([f.effective for f in found]) == pytest.approx(1 / np.var([f.mean for f in found]) * 0.64, rel=0.3)


def test_estimates_of_odd_draws():
    assert shares_of(np.full(3, -np.inf), 3) is None and shares_of(None, 0) is None
    assert estimate("x", np.array([np.nan, 1.0]), np.array([0.5, 0.5])) is None
    same = estimate("x", np.ones(5), np.full(5, 0.2))
    assert same.mean == 1.0 and same.sd == 0.0 and same.mean_error == 0.0 and same.quantile_errors == (0.0, 0.0, 0.0)
    with_nan = estimate("x", np.array([np.nan, 1.0, 3.0]), np.array([0.5, 0.25, 0.25]))
    assert with_nan.mean == 2.0
    assert with_nan.as_dict()["q50"] == 2.0


# Words.


def test_five_lines_say_what_it_is(sampler, bare):
    lines = repr(sampler).splitlines()
    assert len(lines) == 5 and lines[0] == "Sampler (PTSD) of 3 dimensions: x[0], x[1], x[2]"
    assert "doubtful" in lines[1] and "1.300 ± 0.010" in lines[2] and "600 weighted draws" in lines[3]
    assert lines[4].split(maxsplit=1)[1] == "2,000 evaluations, 3 min 11 s"
    assert len(repr(bare).splitlines()) == 5 and "not estimated" in repr(bare) and "none are kept" in repr(bare)


def test_the_summary_has_the_answer_and_adds_up(sampler, bare):
    lines = sampler.summary().splitlines()
    (row,) = (line for line in lines if line.startswith("x[1]"))
    mean, error = float(row.split()[1]), float(row.split()[3])
    assert mean == pytest.approx(LOCATION[1], abs=6 * error) and error == pytest.approx(STD[1] / np.sqrt(600), rel=0.3)
    at = lines.index("evaluations  2,000")
    stages = [int(line.split()[-1].replace(",", "")) for line in lines[at + 1 : at + 3]]
    assert sum(stages) == 2000 and lines[at + 3] == "after the fit, not part of these"
    assert lines[at + 4].split() == ["sampling", "600"]
    assert "wall time  3 min 11 s" in lines and any(
        line.split() == ["training", "2", "min", "10", "s"] for line in lines
    )
    assert "parameter" not in bare.summary() and "wall time" not in bare.summary()


@pytest.mark.parametrize("origin", ORIGINS)
def test_states_of_chains_and_copies_are_not_called_independent(origin):
    """Without weighed draws the answer is of the last level's samples, and its errors take each for one of its own."""
    made = sampler_of(linear_denoiser(), target=None, log_z=None, log_z_error=None)
    points = np.random.default_rng(0).normal(size=(200, 3)).astype(np.float32)
    numbers, code = np.zeros(200, np.float32), np.full(200, ORIGINS.index(origin), np.int32)
    made.paid.level = Buffer(*map(jnp.asarray, (points, numbers, points, code, numbers)))
    is_dependent = origin in ("initial_pt", "importance_resampled", "refined")
    for text in (repr(made), made.summary(), Reader(made._repr_html_()).words):
        assert ("depend on each other" in text and "worth at most 200" in text) == is_dependent
        assert is_dependent or "worth 200 independent" in text


def test_a_notebook_shows_verdict_table_and_marginals(sampler, bare):
    page = Reader(sampler._repr_html_())
    assert not page.open and page.seen.count("svg") == 3 and page.seen.count("tr") == 4
    for words in ("Doubtful", "log Z 1.300 ± 0.010", "2,000 evaluations", "x[2]", "95 %"):
        assert words in page.words
    assert Reader(bare._repr_html_()).seen.count("table") == 0
    hostile = dataclasses.replace(sampler, method="<script>alert(1)</script>")
    assert "<script>" not in hostile._repr_html_() and set(BADGES) >= {sampler.diagnose().status}


def test_several_samplers_show_themselves(sampler):
    both = Samplers((sampler, sampler_of(linear_denoiser())), (0, 3))
    lines = repr(both).splitlines()
    assert lines[0] == "2 samplers of 3 dimensions" and "0: doubtful, 3: doubtful" in lines[1] and len(lines) == 4
    page = Reader(both._repr_html_())
    assert not page.open and "seed 3" in page.words and page.seen.count("table") == 1


def test_what_is_shown_is_saved_and_costs_nothing(sampler, tmp_path):
    before = sampler.evaluations
    loaded = load_sampler(sampler.save(tmp_path / "a"))
    assert repr(loaded) == repr(sampler) and loaded.summary() == sampler.summary()
    assert loaded.seconds == sampler.seconds and loaded._repr_html_() == sampler._repr_html_()
    assert sampler.evaluations == before and [own.name for own in loaded.estimates()] == ["x[0]", "x[1]", "x[2]"]


# ArviZ.


def test_arviz_has_chains_weights_and_no_complaint(sampler):
    arviz = pytest.importorskip("arviz")
    spent = dict(sampler.ledger.points)
    data = sampler.to_arviz()
    assert data.posterior["x"].shape == (4, 150, 3) and "independent" in data.posterior.attrs["sampling"]
    weights, draws = data.sample_stats["log_weights"].values.ravel(), data.posterior["x"].values.reshape(-1, 3)
    shares = shares_of(weights, 600)
    assert shares @ draws[:, 1] == pytest.approx(sampler.estimates()[1].mean, rel=1e-5)
    log_density = data.sample_stats["log_density"].values.ravel()
    np.testing.assert_allclose(log_density - weights, sampler.log_prob(draws), atol=0.02)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        table = arviz.summary(data)
    assert table["r_hat"].notna().all() and (table["r_hat"] < 1.05).all()
    assert sampler.ledger.points == spent
    assert data.posterior.attrs["verdict"] == sampler.diagnose().line().removeprefix("verdict: ")
    assert f"effective share {np.sum(shares) ** 2 / np.sum(shares**2) / 600:.3f}" in data.posterior.attrs["weights"]
    again = sampler.to_arviz(8, seed=5, weighted=True, num_chains=2)
    assert again.posterior["x"].shape == (2, 4, 3) and {"log_weights", "log_density"} <= set(again.sample_stats)
    np.testing.assert_allclose(again.sample_stats["log_density"].values.ravel(), log_density[:8], rtol=1e-4, atol=1e-3)


def test_a_getdist_file_of_a_sampler(sampler, tmp_path):
    table = np.loadtxt(sampler.save_draws(tmp_path / "chain.txt", 6, seed=5, weighted=True))
    draws, log_weights = sampler.sample_weighted(6, seed=5)
    np.testing.assert_allclose(table[:, 2:], draws, rtol=1e-6)
    np.testing.assert_allclose(table[:, 0], np.exp(log_weights - log_weights.max()), rtol=1e-4)
    np.testing.assert_allclose(-table[:, 1] - log_weights, sampler.log_prob(draws), atol=0.02)


# Figures by name.


def test_one_figure_by_name_as_any_kind_of_file(sampler, tmp_path):
    spent = dict(sampler.ledger.points)
    corner = sampler.plot("corner", tmp_path / "a" / "corner.pdf")
    assert len(corner.axes) == 9 and (tmp_path / "a" / "corner.pdf").read_bytes().startswith(b"%PDF")
    assert corner.axes[6].get_xlabel() == "$x_{0}$"
    svg = sampler.plot("modes", tmp_path / "modes.svg") and (tmp_path / "modes.svg").read_bytes()
    assert b"<svg" in svg and b"mode 2" in svg
    sampler.plot("modes", tmp_path / "modes.svg")
    assert (tmp_path / "modes.svg").read_bytes() == svg, "the same figure has the same bytes"
    for name in ("marginals", "levels", "weights"):
        assert sampler.plot(name).axes
    assert sampler.ledger.points == spent, "looking costs nothing"


def test_what_cannot_be_drawn_is_refused_with_a_reason(sampler, bare, tmp_path):
    with pytest.raises(SettingsError, match=r"did you mean 'marginals'.*write './marginal'"):
        sampler.plot("marginal")
    with pytest.raises(SettingsError, match="no search found modes"):
        bare.plot("modes")
    with pytest.raises(SettingsError, match="no draw was weighed"):
        bare.plot("weights")
    with pytest.raises(SettingsError, match=r"must be one of \.png, \.svg, \.pdf"):
        sampler.plot("corner", tmp_path / "corner.jpg")
    with pytest.raises(SettingsError, match="path is for one figure"):
        sampler.plot(None, tmp_path / "corner.pdf")
    with pytest.raises(RunFolderError, match="is a folder"):
        (tmp_path / "x.pdf").mkdir()
        sampler.plot("corner", tmp_path / "x.pdf")
    assert not any(path.is_file() for path in tmp_path.rglob("*"))
