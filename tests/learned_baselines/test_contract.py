"""One face for every baseline: budget, refusals, draws, files, resuming, and steps that break down."""

import dataclasses
import re

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tempering as tp
from support.tiny_baselines import TINY
from tempering.baselines import train
from tempering.baselines.contract import Cost, row_keys
from tempering.baselines.fab import FAB
from tempering.errors import BudgetError, DensityError, RunFolderError, SettingsError
from tempering.runs.ledger import Ledger
from tempering.targets import anisotropic_gaussian, lennard_jones


def gaussian(x):
    return -0.5 * jnp.sum(x**2) / 4.0


def fit(name, **options):
    return tp.fit(gaussian, 2, method=name, **{"settings": TINY[name], "progress": False, **options})


@pytest.fixture(scope="module", params=[pytest.param(name, marks=pytest.mark.slow) for name in TINY])
def fitted(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp("baselines") / request.param
    return request.param, fit(request.param, out=folder), folder


def test_it_has_the_face_of_a_sampler(fitted):
    name, sampler, _ = fitted
    assert isinstance(sampler, tp.Sampler)
    assert sampler.method.lower() == name and sampler.dim == 2
    # Rounding depends on how many rows a program has, and grows along a path.
    close = {"rtol": 1e-4, "atol": 1e-4} if name in ("dds", "cmcd", "idem", "bnem") else {"rtol": 0, "atol": 0}
    np.testing.assert_allclose(sampler.sample(3, seed=5), sampler.sample(6, seed=5)[:3], **close)
    assert not np.array_equal(sampler.sample(3, seed=5), sampler.sample(3, seed=6))
    summary = sampler.summary()
    assert f"evaluations  {sampler.evaluations:,}" in summary and "verdict" in repr(sampler)
    assert (f"every draw costs {sampler.evaluations_per_draw}" in summary) == (name in ("dds", "cmcd", "idem"))
    assert ("products of the Hessian" in summary) == (name == "cmcd")
    assert sampler.diagnose().status != "trustworthy", "nobody has searched for modes"
    assert sampler.levels[0].training_steps == 3
    with pytest.raises(SettingsError, match="cannot go on"):
        sampler.improve(1000)
    with pytest.raises(SettingsError, match="draws in one way"):
        sampler.sample(2, solver="heun")


def test_weights_are_there_or_refused(fitted):
    _, sampler, _ = fitted
    if not sampler.has_weights:
        assert sampler.log_z is None
        for ask in (lambda: sampler.sample_weighted(5), lambda: sampler.sample_exact(5)):
            with pytest.raises(DensityError, match="has no density of its draws"):
                ask()
        return
    draws, log_weights = sampler.sample_weighted(20, seed=1)
    assert draws.shape == (20, 2) and np.all(np.isfinite(log_weights))
    assert np.isfinite(sampler.log_z) and sampler.log_z_error > 0
    assert sampler.sample_exact(10).shape == (10, 2)
    with pytest.raises(SettingsError, match="is_quasi_random"):
        sampler.sample_even(4)


def test_a_folder_gives_it_back(fitted):
    name, sampler, folder = fitted
    again = fit(name, out=folder)  # finished: read, not fitted
    loaded = tp.load(folder, gaussian)
    for other in (again, loaded):
        np.testing.assert_array_equal(other.sample(4, seed=2), sampler.sample(4, seed=2))
        assert other.evaluations == sampler.evaluations and other.log_z == sampler.log_z
    assert (
        loaded.settings
        == again.settings
        == dataclasses.replace(TINY[name], num_final_draws=loaded.settings.num_final_draws)
    )
    if sampler.evaluations_per_draw == 0:
        np.testing.assert_array_equal(tp.load(folder).sample(4, seed=2), sampler.sample(4, seed=2))


@pytest.mark.slow
def test_a_killed_fit_goes_on_bit_for_bit(fitted, tmp_path, monkeypatch):
    name, sampler, _ = fitted
    monkeypatch.setattr(train, "_KEEP_SECONDS", 0.0)
    monkeypatch.setattr(train, "_BLOCK_SECONDS", 0.0)

    class Killed(Exception):
        pass

    def kill(event):
        if event.stage == "training" and event.done == 2:
            raise Killed

    with pytest.raises(Killed):
        fit(name, out=tmp_path / "run", callback=kill)
    resumed = fit(name, out=tmp_path / "run")
    np.testing.assert_array_equal(resumed.sample(5), sampler.sample(5))
    assert resumed.evaluations == sampler.evaluations and resumed.log_z == sampler.log_z
    with pytest.raises(RunFolderError, match="another density"):
        fit(name, out=tmp_path / "run", seed=1)


@pytest.mark.parametrize("name", TINY)
def test_a_budget_sets_the_steps_and_is_never_exceeded(name):
    from tempering.baselines.plan import least_budget, planned

    open_ended = dataclasses.replace(TINY[name], num_steps=None)
    for budget in (2_000, 2_777, 10_000):
        plan = planned(open_ended, 2, budget)
        assert plan.evaluations <= budget < plan.evaluations + plan.step.points
    with pytest.raises(BudgetError, match=r"below one step: one step of .* costs \d+ evaluations") as refusal:
        planned(open_ended, 2, 10)
    least = int(re.search(r"give at least ([\d,]+)", str(refusal.value))[1].replace(",", ""))
    assert least == least_budget(open_ended, 2) and planned(open_ended, 2, least).num_steps == 1
    with pytest.raises(BudgetError, match="below one step"):
        planned(open_ended, 2, least - 1)
    with pytest.raises(BudgetError, match="needs a `budget`, or num_steps"):
        planned(open_ended, 2, None)
    with pytest.raises(BudgetError, match="more than the budget of 60"):
        planned(TINY[name], 2, 60)


def test_a_refused_budget_has_spent_nothing():
    ledger = Ledger(budget=10)
    with pytest.raises(BudgetError):
        train.fit(
            anisotropic_gaussian(2), jax.random.key(0), dataclasses.replace(TINY["fab"], num_steps=None), ledger=ledger
        )
    assert ledger.points == {}


def test_what_a_method_cannot_serve_is_refused():
    blind = tp.from_callable(lambda x: -0.5 * float(np.sum(x**2)), 2)
    for name in set(TINY) - {"bnem"}:
        with pytest.raises(SettingsError, match="needs the gradient"):
            tp.fit(blind, method=name, settings=TINY[name], progress=False)
    for name in set(TINY) - {"idem", "bnem"}:
        with pytest.raises(SettingsError, match="no equivariant network"):
            tp.fit(lennard_jones(3), method=name, settings=TINY[name], progress=False)
    for name in TINY:
        with pytest.raises(SettingsError, match="is not for method"):
            fit(name, ladder=[2.0, 1.0])
        with pytest.raises(SettingsError, match="is not for method"):
            fit(name, init=np.zeros((4, 2)))
    finite = tp.from_callable(lambda x: -0.5 * float(np.sum(x**2)), 2, gradient="finite")
    with pytest.raises(SettingsError, match="differentiates the gradient"):
        tp.fit(finite, method="cmcd", settings=TINY["cmcd"], progress=False)
    with pytest.raises(SettingsError, match="two coordinates or more"):
        tp.fit(gaussian, 1, method="fab", settings=TINY["fab"], progress=False)
    with pytest.raises(SettingsError, match="did you mean 'num_steps'"):
        fit("fab", settings={"num_step": 3})
    with pytest.raises(SettingsError, match="takes FABSettings, not DiKLSettings"):
        fit("fab", settings=TINY["dikl"])


class _Breaking(FAB):
    """FAB whose every step breaks down."""

    def step(self, key, state, target, settings):
        state, info = super().step(key, state, target, settings)
        return eqx.tree_at(lambda own: own.model.location, state, state.model.location * jnp.nan), info


@pytest.mark.slow
def test_a_step_that_breaks_down_is_left_out_and_told(monkeypatch):
    monkeypatch.setattr("tempering.baselines.train.baseline_of", lambda name: _Breaking())
    sampler = train.fit(anisotropic_gaussian(2), jax.random.key(0), TINY["fab"])
    assert sampler.levels[0].num_nonfinite == 3
    assert np.all(np.isfinite(sampler.sample(5)))
    (finding,) = [own for own in sampler.findings if own.name == "steps of training"]
    assert finding.status == "wrong" and "3 of 3" in finding.measured


@pytest.mark.slow
def test_a_time_limit_ends_training_early():
    sampler = fit("dikl", settings=dataclasses.replace(TINY["dikl"], num_steps=10**9), time_limit=4.0)
    assert 0 < sampler.levels[0].training_steps < 10**9
    assert sampler.evaluations == sampler.levels[0].training_steps * 44
    assert any(finding.name == "time" for finding in sampler.findings)


@pytest.mark.slow
def test_the_record_has_what_was_made_and_not_what_was_planned():
    sampler = fit("fab", settings=dataclasses.replace(TINY["fab"], num_steps=10**9), time_limit=2.0)
    assert sum(sampler.levels[0].evaluations.values()) == sampler.evaluations


@pytest.mark.slow
def test_units_change_no_normaliser():
    sampler = fit("fab", scale=2.0, settings={**dataclasses.asdict(TINY["fab"]), "scale": 1.0})
    # In units of its own width the density is the standard normal, which the flow begins as.
    assert sampler.settings.scale == 2.0
    assert sampler.log_z == pytest.approx(np.log(2 * np.pi * 4), abs=0.1)
    draws, log_weights = sampler.sample_weighted(50)
    np.testing.assert_allclose(sampler.log_prob(draws) + log_weights, jax.vmap(gaussian)(draws), atol=1e-4)


def test_costs_add_up():
    cost = Cost(5, 2, 1) + Cost(1) * 3
    assert cost == Cost(8, 2, 1) and cost - Cost(3) == Cost(5, 2, 1)
    assert cost.in_points(1) == 8 and cost.in_points(4) == 6 * 4 + 2


def test_rows_have_keys_of_their_own():
    key = jax.random.key(0)
    data = jax.random.key_data
    np.testing.assert_array_equal(data(row_keys(key, 3)), data(row_keys(key, 9))[:3])
    np.testing.assert_array_equal(data(row_keys(key, 4, 5)), data(row_keys(key, 9))[5:])
