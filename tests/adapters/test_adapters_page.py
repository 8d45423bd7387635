"""The examples of docs/adapters.md run as printed, at a tiny size; what they make is saved and loaded.

They get a sampler that was never trained, whose draws are standard normals in the coordinates that a method works in:
what is guarded is the way from there to the user. The slow tests fit them all.
"""

import dataclasses
import re
from pathlib import Path

import jax
import numpy as np
import pytest

import tempering as tp
from support.compilation import optimised
from support.tiny import quick_compilation, tiny_ptsd
from support.unchecked import unchecked
from support.untrained import untrained
from tempering.methods.registry import METHODS
from tempering.settings import Ladder

PAGE = Path(__file__).parent.parent.parent / "docs" / "adapters.md"
SLOW = pytest.mark.slow


@pytest.fixture(scope="module", autouse=True)
def as_users_run_it():
    allowed = jax.numpy_rank_promotion("allow"), jax.numpy_dtype_promotion("standard")
    with allowed[0], allowed[1], unchecked(), quick_compilation():
        yield


def blocks() -> list[str]:
    return re.findall(r"^```python\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)


@pytest.fixture(params=["untrained", pytest.param("fitted", marks=SLOW)])
def run_block(request, monkeypatch, capsys):
    """A function that runs an example and gives the names that it defines and what it prints."""
    return _runner(monkeypatch, capsys, request.param == "fitted")


def _runner(monkeypatch, capsys, is_fitted: bool):
    tiny = tiny_ptsd(ladder=Ladder(hottest=2.0, num_levels=2))
    fit = METHODS["ptsd"].fit if is_fitted else untrained
    monkeypatch.setitem(METHODS, "ptsd", dataclasses.replace(METHODS["ptsd"], default=lambda **_: tiny, fit=fit))

    def run(number: int) -> tuple[dict, str]:
        names: dict = {}
        exec(compile(blocks()[number], str(PAGE), "exec"), names)
        return names, capsys.readouterr().out

    return run


def test_the_page_has_an_example_of_each():
    assert len(blocks()) == 3
    for block, word in zip(blocks(), ("like=", "support=[", "tp.from_numpyro"), strict=True):
        assert word in block


def test_a_tree_of_parameters(run_block, tmp_path):
    names, printed = run_block(0)
    assert "(1000,)" in printed and "(4, 250)" in printed
    sampler, log_density = names["sampler"], names["log_density"]
    draws, log_weights = sampler.sample_weighted(16)
    assert np.all(draws["noise"] > 0) and np.all(np.isfinite(log_weights))
    loaded = tp.load(sampler.save(tmp_path / "saved"), log_density)
    np.testing.assert_array_equal(loaded.sample_weighted(16)[1], log_weights)
    np.testing.assert_array_equal(loaded.sample(1000)["line"]["slope"], sampler.sample(1000)["line"]["slope"])


def test_supports_of_a_plain_vector(run_block):
    names, printed = run_block(1)
    assert "-inf" in printed
    draws = names["sampler"].sample(1000)
    assert draws.shape == (1000, 2) and np.all(draws > 0) and np.all(draws[:, 1] < 1)


def test_a_numpyro_model(run_block, tmp_path):
    pytest.importorskip("numpyro")
    names, printed = run_block(2)
    assert "(1000, 8)" in printed and "('chain', 'draw', 'school')" in printed
    sampler, target = names["sampler"], names["target"]
    draws = sampler.sample(1000)
    theta = draws["mu"][:, None] + draws["tau"][:, None] * draws["offset"]
    np.testing.assert_allclose(draws["theta"], theta, rtol=1e-4, atol=1e-4)
    assert sampler.log_prob(draws).shape == (1000,) and np.all(draws["tau"] > 0)
    folder = sampler.save(tmp_path / "saved")
    np.testing.assert_array_equal(tp.load(folder, target).sample(1000)["theta"], draws["theta"])
    with pytest.raises(tp.SettingsError, match=r"tp.load\(folder, tp.from_numpyro"):
        tp.load(folder)


@SLOW
def test_a_fit_with_supports_finds_what_is_known():
    """The gamma and beta variables of the second example, whose moments are exact, fitted as a user would."""
    names: dict = {}
    block = blocks()[1].replace("seed=0)", "seed=0, budget=20_000, progress=False)")
    with optimised():
        exec(compile(block, str(PAGE), "exec"), names)
    draws, log_weights = names["sampler"].sample_weighted(4000, seed=1)
    means = np.average(draws, axis=0, weights=np.exp(log_weights - log_weights.max()))
    np.testing.assert_allclose(means, [1.0, 1.0 / 3.0], atol=0.05)  # Gamma(3, rate 3) and Beta(2, 4)
    # Z = Gamma(3) / 3^3 times B(2, 4) = 1/20.
    assert names["sampler"].log_z == pytest.approx(np.log(2.0 / 27.0 / 20.0), abs=0.05)
