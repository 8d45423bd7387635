"""The sampler as a user holds it: draws, weights, densities, a save that changes none of them, the account."""

import dataclasses

import equinox as eqx
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from support.counting import counting_target
from support.exact_sampler import (
    COUNTER,
    LOCATION,
    LOG_Z,
    SIGMA_MIN,
    STD,
    TARGET,
    linear_denoiser,
    moved_denoiser,
    sampler_of,
)
from support.random_checks import assert_fraction, assert_mean, assert_std, must_fail
from support.tiny import quick_compilation
from support.unchecked import unchecked
from tempering import interval, positive
from tempering.adapters import FunctionTarget
from tempering.adapters.structure import structure_of
from tempering.errors import DensityError, SettingsError
from tempering.sampler import Sampler
from tempering.sampler.load import load_sampler
from tempering.targets import Gaussian, in_inner_coordinates
from tempering.transforms import flat_chart
from tempering.weights.resample import resample


@pytest.fixture(scope="module", autouse=True)
def compiled_quickly():
    with quick_compilation():
        yield


@pytest.fixture
def exact():
    return sampler_of(linear_denoiser())


@pytest.fixture
def trained():
    return sampler_of(moved_denoiser())


def test_draws_are_those_of_the_target(exact):
    draws = exact.sample(4000, seed=3)
    assert isinstance(draws, np.ndarray) and draws.shape == (4000, 3) and draws.dtype == np.float32
    assert_mean(draws, LOCATION, key=3)
    assert_std(draws, np.sqrt(STD**2 + SIGMA_MIN**2), key=3)
    must_fail(assert_std, draws, STD[::-1])
    assert exact.dim == 3


def test_the_same_seed_gives_the_same_draws(exact):
    draws = exact.sample(700, seed=3)
    np.testing.assert_array_equal(exact.sample(700, seed=3), draws)
    np.testing.assert_allclose(exact.sample(500, seed=3), draws[:500], rtol=1e-5, atol=1e-5)
    assert np.max(np.abs(exact.sample(500, seed=4) - draws[:500])) > 0.5


@pytest.mark.parametrize("solver", ["euler", "sde"])
def test_other_solvers(exact, solver):
    draws = exact.sample(500, seed=1, solver=solver)
    assert draws.shape == (500, 3) and np.all(np.isfinite(draws))
    assert exact.sampling.solver == "heun"
    gap = np.max(np.abs(draws - exact.sample(500, seed=1)))
    assert gap < 0.5 if solver == "euler" else gap > 1.0  # the same flow, another path


def test_draws_that_nobody_weighs_may_have_a_solver_of_their_own(exact):
    flow = exact.sample(500, seed=1)
    exact.sampling = dataclasses.replace(exact.sampling, raw_solver="churn", raw_num_steps=20, churn=8.0)
    churned = exact.sample(500, seed=1)
    assert np.max(np.abs(churned - flow)) > 0.5
    np.testing.assert_array_equal(exact.sample(500, seed=1, solver="churn"), churned)
    np.testing.assert_array_equal(exact.sample(500, seed=1, solver="heun"), flow)
    np.testing.assert_allclose(exact.sample_weighted(500, seed=1)[0], flow, rtol=1e-4, atol=1e-4)
    assert exact.sampling.raw.num_steps == 20 and exact.sampling.raw.raw == exact.sampling.raw


def test_weights_make_draws_exact_and_are_counted_apart(exact):
    COUNTER.reset()
    draws, log_weights = exact.sample_weighted(500, seed=5)
    assert draws.shape == (500, 3) and log_weights.shape == (500,)
    np.testing.assert_allclose(draws, exact.sample(500, seed=5), rtol=1e-4, atol=1e-4)
    weights = np.exp(log_weights.astype(np.float64) - LOG_Z)
    # The model is the target but for sigma_min and the solver: weights are 1 to a per cent and average to 1.
    assert np.max(np.abs(weights - 1)) < 0.1 and np.mean(weights) == pytest.approx(1.0, abs=5e-3)
    assert exact.ledger.points == {"initial_pt": 1000, "refinement": 1000, "sampling": 500}
    assert exact.evaluations == 2000 and COUNTER.total == 500 and COUNTER.value_only == 0
    exact.sample_weighted(500, seed=6)
    assert exact.ledger.points["sampling"] == 1000 and exact.evaluations == 2000


def assert_even(draws: np.ndarray, slack: float = 1.0) -> None:
    """Means of coordinates and of their squares are closer than those of independent draws nearly ever are."""
    standard = (draws.astype(np.float64) - LOCATION) / STD
    first, second = np.mean(standard, axis=0), np.mean(standard**2, axis=0) - 1.0
    error = slack / np.sqrt(len(draws))
    assert np.sqrt(np.mean(first**2)) < 0.15 * error and np.sqrt(np.mean(second**2)) < 0.3 * np.sqrt(2.0) * error


def test_quasi_random_draws_are_even_and_cost_the_same(exact):
    COUNTER.reset()
    draws, log_weights = exact.sample_weighted(1024, seed=5, is_quasi_random=True)
    assert exact.ledger.points["sampling"] == 1024 and COUNTER.total == 1024
    assert_even(draws)
    must_fail(assert_even, exact.sample_weighted(1024, seed=5)[0])
    # Each draw is one of the model: its weight is 1 to a per cent, as that of others.
    assert np.max(np.abs(np.exp(log_weights.astype(np.float64) - LOG_Z) - 1)) < 0.1
    again, other = (exact.sample_weighted(1024, seed=seed, is_quasi_random=True)[0] for seed in (5, 6))
    np.testing.assert_array_equal(draws, again)
    assert np.min(np.abs(draws - other)) > 0 and np.max(np.abs(draws - other)) > 1


def test_even_points_are_even_and_cost_two_draws_each(exact):
    COUNTER.reset()
    points = exact.sample_even(512, seed=5)
    assert points.shape == (512, 3) and exact.ledger.points["sampling"] == 1024 == COUNTER.total
    assert_even(points, 2.0)
    must_fail(assert_even, exact.sample(512, seed=5), 2.0)
    draws, log_weights = exact.sample_weighted(1024, seed=5, is_quasi_random=True)
    np.testing.assert_array_equal(points, resample(draws, log_weights, 512, seed=5))
    few = exact.sample_even(5, seed=5, num_draws=3)
    assert len(np.unique(few, axis=0)) == 3 and len(few) == 5
    with pytest.raises(SettingsError, match="num_draws = 0"):
        exact.sample_even(5, num_draws=0)
    with pytest.raises(DensityError, match="weights need the density"):
        dataclasses.replace(exact, target=None).sample_even(5)


def test_exact_draws_follow_the_target_where_the_model_does_not(exact):
    """A target narrower than the model and off to one side; the model's own draws are what must be rejected."""
    std, location = 0.75 * STD, LOCATION + 0.3 * STD
    elsewhere, counter = counting_target(Gaussian(location, np.diag(std**2), log_constant=LOG_Z))
    sampler = dataclasses.replace(exact, target=elsewhere)
    draws = sampler.sample_exact(4000, seed=5)
    assert draws.shape == (4000, 3) and draws.dtype == np.float32
    assert sampler.ledger.points["sampling"] == 4000 and counter.total == 4000
    # The chain's relaxation time is max w (Liu 1996), here 1.478 in each of three dimensions.
    ess = 4000 / (2 * 1.478**3 - 1)
    assert ess < np.unique(draws, axis=0).shape[0] < 4000
    assert_mean(draws, location, ess=ess, key=5)
    assert_std(draws, std, ess=ess, key=5)
    below = draws < location + 0.5 * std  # and not only moments
    assert_fraction(below, stats.norm.cdf(0.5), ess=ess, key=5)
    proposals = sampler.sample(4000, seed=5)
    must_fail(assert_mean, proposals, location, ess=ess)
    must_fail(assert_std, proposals, std, ess=ess)
    # Each is one of the model's draws, and the same seed gives the same.
    assert np.max(np.min(np.abs(draws[:50, None] - proposals[None]).max(axis=2), axis=1)) < 1e-3
    np.testing.assert_array_equal(sampler.sample_exact(4000, seed=5), draws)


def test_exact_draws_need_a_density_and_one_usable_draw(exact):
    with pytest.raises(DensityError, match=r"tp.load\(folder, log_density\)"):
        dataclasses.replace(exact, target=None).sample_exact(500)
    nowhere = FunctionTarget(3, lambda x: jnp.where(x[0] < 1e6, -jnp.inf, -jnp.sum(x**2)))
    with pytest.raises(DensityError, match="none of the 500 draws has a usable density"):
        dataclasses.replace(exact, target=nowhere).sample_exact(500)


def test_sampling_is_not_held_to_the_budget(exact):
    exact.ledger.budget = 2000
    exact.sample_weighted(500, seed=5)
    assert exact.evaluations == 2000


def test_draws_and_densities_cost_nothing(exact):
    COUNTER.reset()
    before = dict(exact.ledger.points)
    exact.log_prob(exact.sample(500, seed=3))
    assert COUNTER.total == 0 and exact.ledger.points == before


def test_log_prob_is_the_density_of_the_draws(exact):
    x = LOCATION + 1.5 * STD * np.random.default_rng(0).normal(size=(500, 3))
    expected = stats.norm(LOCATION, np.sqrt(STD**2 + SIGMA_MIN**2)).logpdf(x).sum(axis=1)
    observed = exact.log_prob(x)
    assert isinstance(observed, np.ndarray) and observed.shape == (500,)
    np.testing.assert_allclose(observed, expected, atol=0.1)
    one = exact.log_prob(x[7])
    assert one.shape == () and one == pytest.approx(observed[7], abs=1e-3)
    assert exact.log_prob(np.zeros((0, 3))).shape == (0,)


@pytest.mark.parametrize("x", [np.zeros(2), np.zeros((4, 2)), np.zeros((2, 2, 3)), np.zeros(())])
def test_points_of_another_shape_are_refused(exact, x):
    with pytest.raises(SettingsError, match=r"x has shape .*log_prob takes \(3,\) or \(n, 3\)"):
        exact.log_prob(x)


@pytest.mark.parametrize("seed", [-1, 2**32, 2**70])
@pytest.mark.parametrize("call", ["sample", "sample_weighted", "sample_exact", "sample_even", "log_prob"])
def test_seeds_out_of_range_are_refused(exact, call, seed):
    argument = np.zeros((1, 3)) if call == "log_prob" else 2
    with pytest.raises(SettingsError, match=r"seed = .*an integer from 0 to 2\*\*32 - 1"):
        getattr(exact, call)(argument, seed=seed)
    assert "sampling" not in exact.ledger.points


def test_seeds_of_another_type_are_refused(exact):
    with unchecked():
        for seed in (1.5, "1", None, True, np.array([1, 2])):
            with pytest.raises(SettingsError, match="seed = "):
                exact.sample(500, seed=seed)
        np.testing.assert_array_equal(exact.sample(np.int64(500), seed=np.int64(3)), exact.sample(500, seed=3))


@pytest.mark.parametrize("call", ["sample", "sample_weighted", "sample_exact", "sample_even"])
@pytest.mark.parametrize("num", [0, -3])
def test_numbers_of_draws_are_checked(exact, call, num):
    with pytest.raises(SettingsError, match=f"num = {num} is not allowed: it must be an integer of at least 1"):
        getattr(exact, call)(num)


def test_an_unknown_solver_is_refused(exact):
    with (
        unchecked(),
        pytest.raises(SettingsError, match="sampling.solver = 'rk4'.*'heun', 'euler', 'churn', 'sde'"),
    ):
        exact.sample(500, solver="rk4")


def test_saving_and_loading_is_exact(trained, tmp_path):
    folder = trained.save(tmp_path / "new" / "sampler")
    assert sorted(path.name for path in folder.iterdir()) == ["sampler.json", "sampler.npz"]
    loaded = load_sampler(folder, TARGET)
    np.testing.assert_array_equal(loaded.sample(500, seed=2), trained.sample(500, seed=2))
    for a, b in zip(loaded.sample_weighted(500, seed=2), trained.sample_weighted(500, seed=2), strict=True):
        np.testing.assert_array_equal(a, b)
    x = trained.sample(500, seed=9)
    np.testing.assert_array_equal(loaded.log_prob(x), trained.log_prob(x))
    for field in dataclasses.fields(Sampler):
        if field.name not in ("model", "target", "paid"):
            assert getattr(loaded, field.name) == getattr(trained, field.name), field.name
    assert eqx.tree_equal(loaded.model, trained.model)
    assert loaded.summary() == trained.summary() and loaded.weighed == trained.weighed
    # And not those of a model that lost its weights on the way.
    assert np.max(np.abs(sampler_of(linear_denoiser()).sample(500, seed=2) - loaded.sample(500, seed=2))) > 1e-2


def test_without_a_density_there_are_draws_but_no_weights(trained, tmp_path):
    loaded = load_sampler(trained.save(tmp_path))
    np.testing.assert_array_equal(loaded.sample(500, seed=2), trained.sample(500, seed=2))
    with pytest.raises(DensityError, match=r"tp.load\(folder, log_density\)"):
        loaded.sample_weighted(10)
    assert "sampling" not in loaded.ledger.points


# In a user's own coordinates: the oracle's first coordinate is log x, so that x is log-normal; the last is a logit.

CHART = flat_chart([positive, None, interval(-1.0, 3.0)], 3)
LIKE = {"sigma": 0.0, "theta": np.zeros(2)}


def log_normal_and_logit(x):
    """Log density of exp, identity and a scaled sigmoid of independent normals, unnormalised as the target is."""
    z = jnp.stack([jnp.log(x[0]), x[1], jnp.log(x[2] + 1.0) - jnp.log(3.0 - x[2])])
    location, std = (jnp.asarray(value, jnp.float32) for value in (LOCATION, STD))
    log_volume = z[0] + jnp.log(x[2] + 1.0) + jnp.log(3.0 - x[2]) - jnp.log(4.0)
    constant = LOG_Z - np.sum(np.log(STD)) - 1.5 * np.log(2 * np.pi)
    return -0.5 * jnp.sum(((z - location) / std) ** 2) - log_volume + constant


def charted(structure=None, chart=CHART) -> Sampler:
    target = in_inner_coordinates(FunctionTarget(3, log_normal_and_logit), chart)
    return sampler_of(linear_denoiser(), target=target, chart=chart, structure=structure)


def exact_log_prob(x) -> np.ndarray:
    width = np.sqrt(STD**2 + SIGMA_MIN**2)
    first = stats.lognorm(width[0], scale=np.exp(LOCATION[0])).logpdf(x[:, 0])
    second = stats.norm(LOCATION[1], width[1]).logpdf(x[:, 1])
    logit = np.log((x[:, 2] + 1.0) / (3.0 - x[:, 2]))
    third = stats.norm(LOCATION[2], width[2]).logpdf(logit) + np.log(4.0 / ((x[:, 2] + 1.0) * (3.0 - x[:, 2])))
    return first + second + third


def check_log_prob(sampler: Sampler, x) -> None:
    np.testing.assert_allclose(sampler.log_prob(x), exact_log_prob(np.asarray(x, np.float64)), atol=0.1)


class WithoutVolume(type(CHART)):
    """The saboteur: the same coordinates, the Jacobian forgotten."""

    def log_volume(self, y):
        return jnp.zeros((), y.dtype)


def test_with_a_chart_draws_weights_and_densities_are_the_users():
    sampler = charted()
    draws, log_weights = sampler.sample_weighted(500, seed=5)
    assert np.all(draws[:, 0] > 0) and np.all((draws[:, 2] > -1) & (draws[:, 2] < 3)) and sampler.dim == 3
    assert np.max(np.abs(log_weights - LOG_Z)) < 0.1, "the Jacobian of the target and that of the model cancel"
    check_log_prob(sampler, draws)
    sabotaged = charted(chart=WithoutVolume(CHART.blocks))
    must_fail(check_log_prob, sabotaged, draws)
    assert np.max(np.abs(sabotaged.sample_weighted(500, seed=5)[1] - LOG_Z)) > 1.0
    outside = np.array([[-1.0, 0.0, 0.0], [1.0, 0.0, 3.0], [1.0, 0.0, 0.0]])
    np.testing.assert_array_equal(np.isneginf(sampler.log_prob(outside)), [True, True, False])


def test_draws_in_the_users_own_tree():
    plain, sampler = charted(), charted(structure_of(LIKE))
    draws, rows = sampler.sample(500, seed=3), plain.sample(500, seed=3)
    assert draws["sigma"].shape == (500,) and draws["theta"].shape == (500, 2)
    np.testing.assert_array_equal(np.column_stack([draws["sigma"], draws["theta"]]), rows)
    weighted, exact = sampler.sample_weighted(500, seed=3)[0], sampler.sample_exact(500, seed=3)
    assert {name: leaf.shape for name, leaf in weighted.items()} == {name: leaf.shape for name, leaf in exact.items()}
    np.testing.assert_array_equal(sampler.log_prob(draws), plain.log_prob(rows))
    one = sampler.log_prob({"sigma": draws["sigma"][7], "theta": draws["theta"][7]})
    assert one.shape == () and one == pytest.approx(plain.log_prob(rows[7]), abs=1e-3)
    with pytest.raises(SettingsError, match="not nested like"):
        sampler.log_prob({"sigma": 0.0})


def test_the_chart_and_the_tree_are_saved_with_the_sampler(tmp_path):
    sampler = charted(structure_of(LIKE))
    loaded = load_sampler(sampler.save(tmp_path))
    assert loaded.chart == CHART and loaded.structure == sampler.structure and loaded.geometry is None
    for name, leaf in loaded.sample(500, seed=2).items():
        np.testing.assert_array_equal(leaf, sampler.sample(500, seed=2)[name])


def test_export_to_arviz(exact):
    pytest.importorskip("arviz")
    data = exact.to_arviz(500, seed=3)
    assert data.posterior["x"].shape == (4, 125, 3)
    np.testing.assert_array_equal(data.posterior["x"].values.reshape(500, 3), exact.sample(500, seed=3))


def test_export_of_a_tree_to_arviz():
    pytest.importorskip("arviz")
    sampler = charted(structure_of({"group": {"sigma": 0.0}, "theta": np.zeros(2)}))
    data = sampler.to_arviz(
        500, seed=3, dims={"theta": ["school"]}, coords={"school": ["north", "south"]}, with_log_prob=True
    )
    assert data.posterior["theta"].dims == ("chain", "draw", "school") and list(data.posterior["school"]) == [
        "north",
        "south",
    ]
    draws = sampler.sample(500, seed=3)
    np.testing.assert_array_equal(data.posterior["group.sigma"].values, draws["group"]["sigma"].reshape(4, 125))
    np.testing.assert_array_equal(data.sample_stats["log_prob"].values, sampler.log_prob(draws).reshape(4, 125))
