"""Going on instead of starting over: the account, what is reused, what is refused. `test_default_fit.py` has a mode."""

import dataclasses
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tempering as tp
from support.tiny import PAIRS, quick_compilation, tiny_ptsd
from support.tiny_fits import density, fit
from support.unchecked import unchecked
from tempering.methods.going import Going, begin_again
from tempering.methods.improve import _checks, _other_estimates
from tempering.runs import storage
from tempering.runs.records import IMPROVED, LevelRecord
from tempering.settings import Network, Noise
from tempering.targets import PairPotential
from tempering.types import ignore_event

BUDGET = 1500


@pytest.fixture(scope="module", autouse=True)
def as_users_run_it():
    with quick_compilation(), unchecked():
        yield


@pytest.fixture(scope="module")
def fitted(tmp_path_factory):
    """A tiny fit in a folder, and what became of it; for reading only."""
    place = tmp_path_factory.mktemp("improve") / "run"
    sampler = fit(seed=1, out=place)
    before = sampler.facts()
    return place, sampler, before, sampler.improve(budget=BUDGET, seed=2, progress=False)


def arrays_of(sampler) -> dict[str, bytes]:
    return {name: array.tobytes() for name, array in storage.arrays_of(sampler.model).items()}


def test_the_account_holds_everything_and_the_budget(fitted):
    _, sampler, before, improved = fitted
    assert sampler.facts() == before, "the sampler that was improved stays as it is"
    assert sampler.evaluations < improved.evaluations <= sampler.evaluations + BUDGET
    for stage, num in sampler.ledger.points.items():
        assert improved.ledger.points[stage] >= num
    record = improved.levels[-1]
    assert record.proposal == IMPROVED and record.level == len(sampler.levels) and record.temperature == 1.0
    new = {stage: num - sampler.ledger.points.get(stage, 0) for stage, num in improved.ledger.points.items()}
    assert record.evaluations == {"importance_weights": new["importance_weights"]}
    assert new["final_weights"] == improved.checks.num_final_draws >= 75
    assert "atlas" not in new, "so few evaluations bring no search to its end"
    # Draws from before are weighed with the new ones, and the level's samples are learnt from as well.
    old = sum(draws.size for draws in sampler.paid.draws.values())
    assert record.num_draws == new["importance_weights"] + old and old == sampler.checks.num_final_draws
    assert improved.paid.level.size == record.num_draws + sampler.paid.level.size


@pytest.mark.slow
def test_searches_find_what_there_is_and_hits_add_up(fitted):
    _, sampler, _, _ = fitted
    improved = sampler.improve(budget=6000, progress=False)
    (mode,) = improved.modes
    np.testing.assert_allclose(mode.position, [1.0, -0.5], atol=1e-3)
    checks = improved.checks
    assert checks.num_optima == 1 and checks.uncovered == 0.0 and checks.atlas_num_searches == mode.hits >= 100
    assert 0 < improved.ledger.points["atlas"] <= 1500 and improved.evaluations <= sampler.evaluations + 6000
    assert improved.log_z == pytest.approx(np.log(4.0 * np.pi), abs=5.0 * improved.log_z_error)
    again = improved.improve(budget=6000, progress=False)
    assert len(again.modes) == 1 and again.checks.atlas_num_searches == again.modes[0].hits > mode.hits


def test_what_first_draws_foretold_is_of_their_model_alone(fitted):
    _, sampler, _, _ = fitted
    seen = dataclasses.replace(sampler.checks, num_first_draws=100, unseen_first=0.05)
    seen = dataclasses.replace(sampler, checks=seen)
    assert _checks(seen, None, is_new=True) == sampler.checks
    assert _checks(seen, None, is_new=False) == seen.checks


def test_a_loaded_sampler_is_improved_to_the_same(fitted):
    place, _, _, improved = fitted
    with pytest.raises(tp.DensityError, match=r"improving needs the density.*tp\.load"):
        tp.load(place).improve(budget=BUDGET, progress=False)
    loaded = tp.load(place, density())
    again = loaded.improve(budget=BUDGET, seed=2, progress=False)
    assert again.ledger.points == improved.ledger.points
    assert arrays_of(again) == arrays_of(improved)


@pytest.mark.slow
def test_without_kept_samples_the_model_alone_is_gone_on_from(fitted, tmp_path):
    _, sampler, _, improved = fitted
    folder = sampler.save(tmp_path / "bare")
    (folder / "samples.npz").unlink()
    again = tp.load(folder, density()).improve(budget=BUDGET, progress=False)
    assert again.evaluations <= sampler.evaluations + BUDGET
    assert again.paid.level.size == again.levels[-1].num_draws < improved.paid.level.size
    # What was improved can be saved, loaded and improved again.
    saved = tp.load(again.save(tmp_path / "again"), density())
    assert saved.facts() == again.facts()


def test_the_same_seed_draws_anew_after_an_improvement(fitted):
    _, sampler, _, improved = fitted
    first, second = (begin_again(own, BUDGET, jax.random.key(0), ignore_event) for own in (sampler, improved))
    assert not np.array_equal(*(jax.random.key_data(going.keys["draw"]) for going in (first, second)))


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"budget": 999}, tp.BudgetError, "999 evaluations is too small.*at least 1,000"),
        ({"budget": 0}, tp.SettingsError, "budget = 0"),
        ({"budget": 1e4 + 0.5}, tp.SettingsError, "budget = 10000.5"),
        ({"budget": BUDGET, "seed": -1}, tp.SettingsError, "seed = -1"),
        ({"budget": BUDGET, "progress": "no"}, tp.SettingsError, "progress"),
    ],
)
def test_what_cannot_be_is_refused(options, error, words, fitted):
    _, sampler, before, _ = fitted
    with pytest.raises(error, match=words):
        sampler.improve(**{"progress": False, **options})
    assert sampler.facts() == before


def test_a_worse_model_gives_way_to_the_one_before(fitted, monkeypatch):
    _, sampler, _, _ = fitted
    promises = iter((0.9, 0.1))
    monkeypatch.setattr("tempering.methods.improve._promise", lambda *_: next(promises))
    kept = sampler.improve(budget=BUDGET, seed=2, progress=False)
    assert arrays_of(kept) == arrays_of(sampler) and "from before was kept" in kept.levels[-1].rescue
    # All weights of the model count then, and the samples are as they were.
    assert (
        kept.weighed.num
        == sampler.weighed.num + kept.checks.num_final_draws + (kept.levels[-1].evaluations["importance_weights"])
    )
    assert kept.paid.level is sampler.paid.level
    # Its draws are weighed again by another improvement, so that their estimate of now must not be pooled with it.
    held = [draws.position for draws in kept.paid.draws.values()]
    assert sum(map(len, held)) == kept.levels[-1].num_draws + kept.checks.num_final_draws
    assert estimates_with(kept) == [(1.0, 0.1)]


def estimates_with(sampler) -> list:
    """What the final draws of another improvement are pooled with, if it finds no mode and log Z = 1.0 ± 0.1."""
    old = dataclasses.replace(sampler, levels=[LevelRecord(0, 1.0, log_z=2.0, log_z_error=0.2, pareto_k=0.1)])
    old.paid = sampler.paid
    record = LevelRecord(1, 1.0, log_z=1.0, log_z_error=0.1, pareto_k=0.1)
    return _other_estimates(SimpleNamespace(sampler=old, record=record), None)


def test_an_estimate_is_pooled_with_others_of_other_draws_alone(fitted):
    _, sampler, _, improved = fitted
    # A fit's last level, and what was known of a model that gave way to another, are of draws that nobody weighs again.
    for own in (sampler, improved):
        assert estimates_with(own) == [(1.0, 0.1), (2.0, 0.2)]


def test_draws_without_a_density_of_their_own_count_for_nothing(fitted, monkeypatch):
    """One such draw used to make every number of all weights NaN, which no limit is above or below."""
    _, sampler, _, _ = fitted
    promises, made = iter((0.9, 0.1)), Going.draw

    def draw(*args):
        x, log_q = made(*args)
        return x, log_q.at[0].set(jnp.nan)

    monkeypatch.setattr("tempering.methods.improve._promise", lambda *_: next(promises))
    monkeypatch.setattr(Going, "draw", draw)
    kept = sampler.improve(budget=BUDGET, seed=2, progress=False)
    weights = np.concatenate(list(kept.paid.weights.values()))
    assert np.sum(np.isneginf(weights)) >= 2 and not np.any(np.isnan(weights))
    assert 0.0 < kept.weighed.ess_fraction <= 1.0


@pytest.mark.slow
def test_particles_are_improved_without_searches():
    springs = PairPotential(lambda r: 0.2 * r**2, 3, 2)
    network = Network("egnn", 8, 2, coordinate_width=0, is_shared=False, num_particles=3, spatial_dim=2)
    settings = tiny_ptsd(network=network, noise=Noise(prior="isotropic", is_isotropic=True), guidance=PAIRS)
    sampler = tp.fit(springs, settings=settings, progress=False)
    improved = sampler.improve(budget=1000, progress=False)
    assert "atlas" not in improved.ledger.points and improved.modes == ()
    assert improved.evaluations == sampler.evaluations + 1000
    assert np.all(np.isfinite(improved.sample(5)))


# Several seeds.


@pytest.fixture(scope="module")
def three(tmp_path_factory):
    place = tmp_path_factory.mktemp("seeds") / "runs"
    return place, fit(seed=[3, 1, 7], out=place)


def test_every_seed_is_fitted_in_a_folder_of_its_own(three):
    place, samplers = three
    assert isinstance(samplers, tp.Samplers) and samplers.seeds == (3, 1, 7) and len(samplers) == 3
    assert sorted(path.name for path in place.iterdir()) == ["samplers.json", "seed-1", "seed-3", "seed-7"]
    assert arrays_of(samplers[1]) == arrays_of(fit(seed=1))
    assert samplers.evaluations == sum(own.evaluations for own in samplers)
    loaded = tp.load(place, density())
    assert loaded.seeds == samplers.seeds and [own.facts() for own in loaded] == [own.facts() for own in samplers]
    assert fit(seed=(3, 1, 7), out=place).seeds == (3, 1, 7)


def test_draws_are_of_all_members_in_turn(three):
    _, samplers = three
    draws = samplers.sample(8, seed=5)
    assert draws.shape == (8, 2)
    np.testing.assert_allclose(samplers.sample(4, seed=5), draws[:4], rtol=1e-5)
    weighted, log_weights = samplers.sample_weighted(8, seed=5)
    for index, (own, num, seed) in enumerate(samplers._shares(8, 5)):
        # Each has the weight that its own member gives it.
        rows, values = own.sample_weighted(num, seed=seed)
        np.testing.assert_allclose(weighted[index::3], rows, rtol=1e-5)
        np.testing.assert_allclose(log_weights[index::3], values, rtol=1e-4)
    assert len(np.unique(weighted, axis=0)) == 8


def test_log_z_is_pooled_and_its_error_knows_the_spread(three):
    _, samplers = three
    pairs = ((1.0, 0.1), (1.3, 0.1), (1.0, 0.1))
    members = [
        dataclasses.replace(own, log_z=value, log_z_error=error)
        for own, (value, error) in zip(samplers, pairs, strict=True)
    ]
    pooled = tp.Samplers(tuple(members), (0, 1, 2))
    assert pooled.log_z == pytest.approx(1.1)
    assert pooled.log_z_error == pytest.approx(np.std([1.0, 1.3, 1.0], ddof=1) / np.sqrt(3.0))
    alike = tp.Samplers((members[0], members[2]), (0, 2))
    assert alike.log_z_error == pytest.approx(0.1 / np.sqrt(2.0))
    bare = dataclasses.replace(members[0], log_z=None)
    assert tp.Samplers((bare,), (0,)).log_z is None


def test_a_member_that_lacks_a_mode_does_not_have_the_word_by_its_small_error(three):
    _, samplers = three
    first, second, third = samplers
    pairs = zip((first, second, third), ((0.0, 0.01), (-0.4, 1e-4), (0.01, 0.01)), strict=True)
    members = tuple(dataclasses.replace(own, log_z=value, log_z_error=error) for own, (value, error) in pairs)
    pooled = tp.Samplers(members, (0, 1, 2))
    # By their errors alone it would be -0.4 ± 0.14.
    assert pooled.log_z == pytest.approx(-0.13) and pooled.log_z_error == pytest.approx(0.27)


def test_the_verdict_names_the_seeds_that_differ(three):
    _, samplers = three
    first, second, third = samplers
    moved = dataclasses.replace(second, log_z=second.log_z + 5.0, log_z_error=0.01)
    several = tp.Samplers((first, moved, third), (3, 1, 7))
    verdict = several.diagnose(num=300)
    assert verdict.status == "wrong"
    named = [finding.name for finding in verdict.findings if finding.status == "wrong" and "log Z" in finding.name]
    assert "seeds 3 and 1: log Z of two fits" in named and not any("3 and 7" in name for name in named)
    assert {"seed 3", "seed 1", "seed 7"} <= {finding.name for finding in verdict.findings}
    before = several.evaluations, moved.ledger.points.get("sampling")
    text = several.summary()
    assert "seeds 3 and 1: log Z of two fits" in text and "3 samplers in 2 dimensions" in text
    assert before == (several.evaluations, moved.ledger.points.get("sampling")), "a summary costs nothing"


def test_several_are_saved_and_improved(three, tmp_path):
    place, _ = three
    samplers = tp.load(place, density())  # without what other tests drew, which is learnt from: sizes that are compiled
    two = tp.Samplers(samplers.members[:2], samplers.seeds[:2])
    improved = two.improve(budget=BUDGET, progress=False)
    assert improved.seeds == two.seeds and improved.evaluations > two.evaluations
    folder = improved.save(tmp_path / "two")
    assert [own.facts() for own in tp.load(folder)] == [own.facts() for own in improved]
    with pytest.raises(tp.RunFolderError, match="already holds samplers"):
        improved.save(folder)


@pytest.mark.parametrize(
    ("seed", "words"),
    [
        ([], "give one seed or more"),
        ([0, 1, 0], "has 0 more than once"),
        ([0, 1.5], "seed = 1.5"),
        ([0, -1], "seed = -1"),
        (["0"], "seed = '0'"),
        ("01", "seed = '01'"),
    ],
)
def test_seeds_that_are_none_are_refused(seed, words, tmp_path):
    with pytest.raises(tp.SettingsError, match=words):
        fit(seed=seed, out=tmp_path / "none")
    assert not (tmp_path / "none").exists()


def test_several_of_different_densities_are_refused(three):
    _, samplers = three
    with pytest.raises(tp.SettingsError, match="1 samplers for 2 seeds"):
        tp.Samplers((samplers[0],), (0, 1))
