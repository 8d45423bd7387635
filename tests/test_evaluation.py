"""How a sampler is judged: which draws by which solver, and floors at the number of what they stand beside."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from support.molecules import turned_alanine
from support.tiny import quick_compilation
from tempering.diffusion import DiffusionModel
from tempering.experiments.config import MetricsConfig
from tempering.experiments.evaluation import _reweighted, judge
from tempering.metrics import molecule_metrics
from tempering.settings import Sampling
from tempering.targets import make_target
from test_sampler import linear_denoiser, sampler_of


@pytest.fixture(scope="module", autouse=True)
def compiled_quickly():
    with quick_compilation():
        yield


def check_solvers(monkeypatch, sampler) -> None:
    """What is compared is drawn as `sample` draws; what is weighted comes from the flow, as in `sample_weighted`."""
    calls = []

    def recorded(self, key, num, sampling, *, with_density):
        calls.append((num, sampling.solver, sampling.num_steps, with_density))
        return jax.random.normal(key, (num, 3)), jnp.zeros((num,))

    with monkeypatch.context() as patched:
        patched.setattr(DiffusionModel, "draw", recorded)
        _, arrays = judge(sampler, jax.random.key(1), MetricsConfig(num_samples=12, num_transport=10, num_weighted=7))
    assert arrays["draws"].shape == (12, 3) and arrays["log_weights"].shape == (7,)
    assert calls == [(12, "churn", 5, False), (7, "heun", 4, True)]


def test_draws_are_raw_and_weights_are_the_flows(monkeypatch):
    sampling = Sampling(num_steps=4, raw_solver="churn", raw_num_steps=5)
    check_solvers(monkeypatch, sampler_of(linear_denoiser(), sampling=sampling))
    # The saboteurs: one solver for both purposes, whichever it is.
    for one in (sampling.raw, dataclasses.replace(sampling, raw_solver=None, raw_num_steps=None)):
        with pytest.raises(AssertionError):
            check_solvers(monkeypatch, sampler_of(linear_denoiser(), sampling=one))


# Floors of weighted draws of molecules.

ALDP = make_target("aldp", chirality="L")


def _conformations(num: int, seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return turned_alanine(ALDP, rng.normal(-1.3, 0.3, num), rng.normal(2.6, 0.5, num), 0.003, seed)


@pytest.mark.parametrize("sizes", [(600, 400), (800,)], ids=["two sets", "halves of one"])
def test_floors_of_weighted_draws_are_at_their_number(sizes):
    draws, sets = _conformations(3_000, 0), [_conformations(num, 1 + place) for place, num in enumerate(sizes)]
    log_weights = np.where(np.arange(3_000) % 4 == 0, -np.inf, 0.0).astype(np.float32)
    found = _reweighted(ALDP, draws, log_weights, sets)
    assert all(name.endswith("_reweighted") for name in found)
    rare = found.pop("rare_mode_error_reweighted")
    assert rare.num_samples == 3_000 and "3,000 weighted draws, worth 2,250 equal ones" in rare.description
    for name, metric in found.items():
        assert metric.num_samples == metric.num_floor == 400, name
        assert "400 weighted draws, worth 300 equal ones; floor: 400 exact samples" in metric.description
    kl = found["ramachandran_kl_reweighted"]
    assert kl.value > kl.floor, "of draws as good as exact ones a quarter is lost"
    # The saboteur: of all draws, exact ones would pass for better than exact.
    second = sets[1] if len(sets) > 1 else None
    kl = molecule_metrics(ALDP, draws, sets[0], reference_second=second, log_weights=log_weights)["ramachandran_kl"]
    assert kl.value < 0.8 * kl.floor


def test_fewer_weighted_draws_than_trusted_samples_all_count():
    sets, draws = [_conformations(60, 1), _conformations(60, 2)], _conformations(40, 0)
    found = _reweighted(ALDP, draws, np.zeros(40, np.float32), sets)
    assert {(metric.num_samples, metric.num_floor) for metric in found.values()} == {(40, 40)}
    assert _reweighted(ALDP, draws, np.full(40, -np.inf, np.float32), sets) == {}
