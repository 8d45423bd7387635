"""How a sampler is judged: which draws by which solver, and floors at the number of what they stand beside."""

import dataclasses
import threading
from concurrent.futures import Future
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from support.exact_sampler import LOCATION, STD, linear_denoiser, moved_denoiser, sampler_of
from support.molecules import turned_alanine
from support.tiny import quick_compilation
from support.unchecked import unchecked
from tempering.diffusion import DiffusionModel
from tempering.lab import evaluation, many_draws, run
from tempering.lab.evaluation import _reweighted, judge
from tempering.lab.metrics import molecule_metrics
from tempering.lab.presets import PRESETS
from tempering.registry import make_target, target_of
from tempering.runs.config import MetricsConfig
from tempering.runs.ledger import Ledger
from tempering.settings import Sampling
from tempering.targets import Gaussian


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


# Weighted draws are made beside the transport metrics.

CONFIG = MetricsConfig(num_samples=12, num_transport=10, num_weighted=7, num_likelihood=5)


def judged(on_event=lambda event: None):
    """Metrics, arrays and account of a sampler that is wrong, so that no weight is like another."""
    sampling = Sampling(num_steps=4, chunk_size=12)
    target = Gaussian(LOCATION, np.diag(STD**2))
    sampler = sampler_of(moved_denoiser(), target=target, sampling=sampling, ledger=Ledger())
    metrics, arrays = judge(sampler, jax.random.key(1), CONFIG, on_event)
    return metrics, {name: array.tobytes() for name, array in arrays.items()}, dict(sampler.ledger.points)


class OneAfterAnother:
    """An executor that does its work before anything else goes on."""

    def __init__(self, num_threads: int):
        pass

    def __enter__(self):
        return self

    def __exit__(self, *error):
        pass

    def submit(self, function, *arguments, **options) -> Future:
        """The result, at once."""
        done = Future()
        done.set_result(function(*arguments, **options))
        return done


def patch_weighted_draws(monkeypatch, function) -> None:
    """Let `function` come before every draw that has a density."""
    draw = DiffusionModel.draw

    def patched(self, key, num, sampling, *, with_density):
        if with_density:
            function()
        return draw(self, key, num, sampling, with_density=with_density)

    monkeypatch.setattr(DiffusionModel, "draw", patched)


def test_drawing_beside_the_metrics_finds_what_drawing_before_them_does(monkeypatch):
    drawn, has_begun = [], threading.Event()
    with monkeypatch.context() as patched:
        # The draws end after the metrics have begun: in one thread they would wait for ever.
        patch_weighted_draws(patched, lambda: drawn.append(has_begun.wait(60)))
        beside = judged(lambda event: event.stage != "metrics: draws" and has_begun.set())
    assert drawn == [True]
    monkeypatch.setattr(evaluation, "ThreadPoolExecutor", OneAfterAnother)
    in_order = judged()
    assert beside == in_order
    assert {"w2", "ess_fraction"} <= beside[0].keys() and len(
        set(np.frombuffer(beside[1]["log_weights"], np.float32))
    ) > 1


def test_an_error_beside_the_metrics_is_raised_as_it_is(monkeypatch):
    def fail():
        raise MemoryError("7 draws")

    patch_weighted_draws(monkeypatch, fail)
    with pytest.raises(MemoryError, match="^7 draws$"):
        judged()


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


def test_reference_samples_that_are_missing_or_doubtful_are_noted(monkeypatch):
    config, known = PRESETS["lj13"], SimpleNamespace(positions=np.zeros((4, 39)), is_converged=True)
    target = target_of(config)
    for found, words in (
        (None, ("compared with none", "tempering reference lj13 --n 20", "evaluate")),
        (SimpleNamespace(positions=known.positions, is_converged=False), ("not converged", "mislead")),
        (known, ()),
    ):
        monkeypatch.setattr(run, "load_reference", lambda *_, found=found: found)
        positions, notes = run._trusted(config, 10, target)
        assert positions is (None if found is None else found.positions)
        assert len(notes) == bool(words) and all(word in note.line() for note in notes for word in words)
        assert all(note.status == "note" for note in notes)
    assert run._trusted(config, 10, Gaussian(LOCATION, np.diag(STD))) == (None, ())


# Likelihoods of reference samples, where there are no exact ones.


def check_likelihood(denoiser) -> None:
    """E_p[log q] of a sampler is E_p[log p] where it is right, and below it where it is not."""
    sampler = sampler_of(denoiser, sampling=Sampling(num_steps=40, chunk_size=500))
    reference = LOCATION + STD * np.random.default_rng(0).normal(size=(500, 3))
    found = evaluation._trusted_likelihood(sampler, reference.astype(np.float32))
    white = (reference - LOCATION) / STD
    exact = np.mean(-0.5 * np.sum(white**2, axis=1)) - np.sum(np.log(STD)) - 1.5 * np.log(2 * np.pi)
    mean, median = found["log_likelihood"], found["log_likelihood_median"]
    assert mean.floor is None and mean.num_samples == 500 and mean.failure is None
    assert abs(mean.value - exact) < 0.02, (mean.value, exact)  # the same samples: no noise but that of the solver
    assert abs(median.value - mean.value) < 0.5


def test_likelihood_of_reference_samples():
    check_likelihood(linear_denoiser())
    with pytest.raises(AssertionError):
        check_likelihood(moved_denoiser())
    assert evaluation._trusted_likelihood(sampler_of(linear_denoiser()), np.zeros((0, 3), np.float32)) == {}


class Alanine:
    """A sampler of turned conformations, which notes how many it makes at once."""

    def __init__(self, rare: float):
        self.model, self.sampling, self.sizes, self.rare = self, Sampling(), [], rare

    def draw(self, key, num, sampling, *, with_density):
        """Conformations about two basins, the second of share `rare`."""
        self.sizes.append(num)
        rng = np.random.default_rng(np.asarray(jax.random.key_data(key)))
        phi = np.where(rng.random(num) < self.rare, 1.0, -1.3) + rng.normal(0.0, 0.2, num)
        psi = 2.6 + rng.normal(0.0, 0.5, num)
        return turned_alanine(make_target("aldp"), phi, psi, 0.003, int(rng.integers(1000))), None

    def outer(self, draws):
        """As they are."""
        return draws


def test_a_ramachandran_histogram_of_many_draws_is_made_in_parts(monkeypatch, tmp_path):
    monkeypatch.setattr(many_draws, "_PART", 1_500)
    target, key = make_target("aldp"), jax.random.key(0)
    trusted, _ = Alanine(0.1).draw(jax.random.key(7), 4_000, None, with_density=False)
    config = MetricsConfig(num_ramachandran=4_000)
    right, wrong = Alanine(0.1), Alanine(0.6)
    with unchecked():
        (metric,) = many_draws.many_dihedrals(right, target, key, config, trusted).values()
    assert metric.name == "ramachandran_kl_many" and right.sizes == [1_500, 1_500, 1_000]
    assert metric.num_samples == 4_000 and metric.num_floor == 2_000
    assert 0 < metric.value < 1.2 * metric.floor
    # Parts that a stopped command left are found again; only the missing one is drawn.
    again, empty = Alanine(0.1), tmp_path / "angles"
    with unchecked():
        many_draws.many_dihedrals(again, target, key, config, trusted, store=empty)
        (empty / "000001500-1500.npz").unlink()
        (same,) = many_draws.many_dihedrals(again, target, key, config, trusted, store=empty).values()
    assert again.sizes == [1_500, 1_500, 1_000, 1_500] and same.value == metric.value
    with unchecked():
        (shifted,) = many_draws.many_dihedrals(wrong, target, key, config, trusted).values()
    assert shifted.value > metric.value + 0.1
