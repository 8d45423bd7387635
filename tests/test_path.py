"""Guards the path r^(1 - beta) p^beta: kernels, swaps, weights, ladder and log Z along it, against exact Gaussians.

With p = N(m, s^2) times a constant and r = N(m0, s0^2), the density at beta is Gaussian with precision
beta / s^2 + (1 - beta) / s0^2: everything here is known.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tempering as tp
from support.counting import counting_target
from support.random_checks import assert_mean, assert_std, must_fail
from support.tempered import walk
from support.tiny import quick_compilation, tiny_pt_dm, tiny_ptsd
from support.unchecked import unchecked
from tempering.adapters.own import as_fitted
from tempering.buffer import blank_buffer, from_states, in_units, reweighted
from tempering.diffusion.calibrate import inner_scale
from tempering.errors import SettingsError
from tempering.kernels import HMC, MALA, init
from tempering.methods.start import own_start
from tempering.parallel_tempering import betas_of, next_temperature, stepping_stone
from tempering.parallel_tempering.initial import initial_draws
from tempering.runs.ledger import Ledger
from tempering.settings import Exploration, Initial
from tempering.targets import Referenced, Scaled, Target, Units
from tempering.targets.base import evaluate_reference
from tempering.targets.path import ReferenceValues, log_ratio, tempered
from tempering.targets.references import Normal, StudentT, check_reference
from tempering.types import Array, Float
from tempering.weights.weigh import weigh

LOG_CONSTANT = 1.7


class Shifted(Target):
    """N(m, s^2) coordinate by coordinate, times exp(1.7)."""

    dim: int = eqx.field(static=True)
    own: Normal

    def log_density(self, x: Float[Array, " dim"]) -> Float[Array, ""]:
        return self.own.log_density(x) + LOG_CONSTANT


OWN = Normal([2.0, -1.0], [0.5, 1.5])
REFERENCE = Normal([-1.0, 0.5], [2.0, 3.0])
TARGET = Referenced(2, Shifted(2, OWN), REFERENCE)


def _exact(beta: float) -> tuple[Normal, float]:
    """The normalised density at beta, and log Z there."""
    own, reference = (np.asarray(n.std, np.float64) ** -2.0 for n in (OWN, REFERENCE))
    precision = beta * own + (1 - beta) * reference
    mean = (beta * own * np.asarray(OWN.mean) + (1 - beta) * reference * np.asarray(REFERENCE.mean)) / precision
    exact = Normal(mean, precision**-0.5)
    x = jnp.zeros((2,))
    log_p = beta * TARGET.log_density(x) + (1 - beta) * REFERENCE.log_density(x)
    return exact, float(log_p - exact.log_density(x))


def test_a_missing_reference_is_the_plain_power():
    assert float(tempered(jnp.float32(0.25), jnp.float32(-8.0), None)) == -2.0
    assert float(log_ratio(jnp.float32(-8.0), None)) == -8.0


def test_outside_of_the_reference_counts_for_nothing_at_beta_one_and_rules_below():
    values = tempered(jnp.asarray([1.0, 0.5]), jnp.float32(-3.0), jnp.float32(-jnp.inf))
    assert float(values[0]) == -3.0 and float(values[1]) < -1e28
    slopes = tempered(jnp.asarray([1.0, 0.5]), jnp.float32(2.0), jnp.float32(jnp.nan))
    assert float(slopes[0]) == 2.0 and bool(jnp.isnan(slopes[1]))


@pytest.mark.parametrize("kernel", [MALA(), HMC(num_leapfrog=3)], ids=["mala", "hmc"])
def test_kernels_leave_the_path_invariant(kernel):
    key, beta = jax.random.key(3), 0.3
    exact, _ = _exact(beta)
    positions = exact.sample(jax.random.fold_in(key, 0), 4000)
    step_size = jnp.asarray(0.8 if kernel.scale_power == 1.0 else 0.5)

    def moved(target):
        return np.asarray(walk(key, target, kernel, positions, jnp.asarray(beta), step_size, num_steps=6)[0].position)

    assert_mean(moved(TARGET), np.asarray(exact.mean), key=key)
    assert_std(moved(TARGET), np.asarray(exact.std), key=key)
    must_fail(assert_std, moved(TARGET.target), np.asarray(exact.std))  # the plain power


def test_weights_along_the_path_give_its_log_z():
    beta, key = 0.4, jax.random.key(5)
    exact, log_z = _exact(beta)
    wide = Normal(exact.mean + 0.1, 1.2 * exact.std)
    x = wide.sample(key, 5000)
    log_q = jax.vmap(wide.log_density)(x)

    def excess(target):
        found = weigh(target, x, log_q, jnp.asarray(beta), ledger=Ledger(), stage="importance_weights")
        return np.exp(np.asarray(found.log_weights, np.float64) - log_z)

    assert_mean(excess(TARGET), 1.0, key=key)
    must_fail(assert_mean, excess(TARGET.target), 1.0)


def test_reweighting_and_stepping_stones_between_temperatures():
    key, betas = jax.random.key(6), (0.5, 0.8)
    (hot, log_z_hot), (cold, log_z_cold) = (_exact(beta) for beta in betas)
    draws = [
        jax.vmap(lambda x: init(x, TARGET))(exact.sample(jax.random.fold_in(key, k), 6000))
        for k, exact in enumerate((hot, cold))
    ]
    buffer = reweighted(from_states(draws[0], "initial_pt"), *(jnp.asarray(beta) for beta in betas))
    weight = np.asarray(buffer.weight, np.float64)
    share = 1.0 / (weight.size * np.sum(weight**2))
    assert_mean(
        weight[:, None] * np.asarray(buffer.position) * weight.size,
        np.asarray(cold.mean),
        ess=share * weight.size,
        key=key,
    )
    log_ratios = jnp.stack([states.log_ratio for states in draws]).reshape((2, 60, 100))
    found, error = stepping_stone(log_ratios, jnp.asarray(betas))
    assert abs(float(found) - (log_z_cold - log_z_hot)) < 5 * float(error)
    plain = jnp.stack([states.log_density for states in draws]).reshape((2, 60, 100))
    wrong, error = stepping_stone(plain, jnp.asarray(betas))
    assert abs(float(wrong) - (log_z_cold - log_z_hot)) > 5 * float(error)
    assert next_temperature(draws[0].log_ratio, jnp.ones((6000,)), 2.0) < 2.0


def test_inner_scale_is_that_of_the_path():
    exact, _ = _exact(0.3)
    states = jax.vmap(lambda x: init(x, TARGET))(exact.sample(jax.random.key(7), 4000))
    scale = inner_scale(from_states(states, "initial_pt"), jnp.asarray(0.3))
    np.testing.assert_allclose(scale, exact.std, rtol=0.05)


@pytest.mark.slow
def test_parallel_tempering_reaches_both_ends_of_the_path():
    key, temperatures = jax.random.key(8), (1000.0, 4.0, 1.0)
    initial = Initial(num_chains=200, num_steps=60, burn_in=30, thin=30)
    found = initial_draws(
        key, TARGET, MALA(), REFERENCE.sample, betas_of(temperatures), initial, Exploration(), ledger=Ledger()
    )
    for level, expected in ((0, _exact(0.001)[0]), (2, _exact(1.0)[0])):
        draws = np.asarray(found.draws.position[level, -1])
        assert_mean(draws, np.asarray(expected.mean), key=key)
        assert_std(draws, np.asarray(expected.std), key=key)


def test_units_change_gradients_of_the_reference_alike():
    units = Units(jnp.asarray([2.0, 0.5]))
    x = jnp.asarray([0.3, -0.7])
    there = init(units.inward(x), Scaled(TARGET, units))
    here = init(x, TARGET).in_units(units)
    for mine, other in zip(jax.tree.leaves(here), jax.tree.leaves(there), strict=True):
        np.testing.assert_allclose(mine, other, rtol=1e-5)
    buffer = from_states(jax.tree.map(lambda leaf: leaf[None], init(x, TARGET)), "initial_pt")
    np.testing.assert_allclose(in_units(buffer, units).reference.log_density_grad[0], here.reference.log_density_grad)
    blank = blank_buffer(2, has_reference=True)
    assert jax.tree.structure(blank) == jax.tree.structure(buffer) and isinstance(blank.reference, ReferenceValues)


def test_a_target_without_reference_has_no_reference_values():
    assert evaluate_reference(TARGET.target, jnp.zeros((2,))) is None


@pytest.mark.parametrize(
    "reference", [Normal([0.5, -1.0], [1.0, 2.0]), StudentT([0.5, -1.0], [1.0, 2.0], nu=3.0)], ids=["normal", "student"]
)
def test_references_are_normalised_and_drawn_from(reference):
    grid = np.sinh(np.linspace(-9.0, 9.0, 1201))  # wide enough for Student's tails
    x, y = np.meshgrid(grid, grid, indexing="ij")
    points = jnp.asarray(np.stack([x, y], -1).reshape(-1, 2), jnp.float32)
    density = np.exp(np.asarray(jax.vmap(reference.log_density)(points), np.float64)).reshape(x.shape)
    total = np.trapezoid(np.trapezoid(density, grid, axis=1), grid)
    assert total == pytest.approx(1.0, abs=2e-3)
    # The median of a coordinate and the share within one scale of it, against the same integral.
    draws = np.asarray(reference.sample(jax.random.key(1), 20_000))
    marginal = np.trapezoid(density, grid, axis=1)
    share = np.trapezoid(np.where(np.abs(grid - 0.5) < 1.0, marginal, 0.0), grid)
    assert_mean((draws[:, 0] < 0.5).astype(float), 0.5)
    assert abs(np.mean(np.abs(draws[:, 0] - 0.5) < 1.0) - share) < 0.03


@pytest.mark.slow
@pytest.mark.telling
@pytest.mark.parametrize("method", ["ptsd", "pt_dm"])
def test_a_fit_follows_the_path_and_counts_the_target_only(method, tmp_path):
    counting, counter = counting_target(Shifted(2, OWN))
    settings = tiny_ptsd() if method == "ptsd" else tiny_pt_dm()
    options = {"method": method, "settings": settings, "progress": False}
    with quick_compilation(), unchecked():
        sampler = tp.fit(counting, reference=REFERENCE, out=tmp_path / "run", **options)
    assert counter.total == sampler.ledger.total
    assert np.isfinite(sampler.sample_weighted(8)[1]).any()
    with pytest.raises(tp.RunFolderError, match="another density"):
        tp.fit(counting, reference=Normal([0.0, 0.0]), out=tmp_path / "run", **options)
    again = tp.fit(counting, reference=REFERENCE, out=tmp_path / "run", **options)
    np.testing.assert_array_equal(again.sample(5), sampler.sample(5))


def test_starts_come_from_the_reference_unless_told_otherwise():
    far = Referenced(2, Shifted(2, OWN), Normal([100.0, -100.0], 0.1))
    assert float(own_start(None, far, 1.0, prefers_own=True)(jax.random.key(0), 8)[:, 0].min()) > 90
    assert float(jnp.abs(own_start(None, far, 1.0)(jax.random.key(0), 8)).max()) < 10


def test_a_reference_is_in_the_coordinates_of_the_user():
    target = as_fitted(lambda x: -jnp.sum(x), 2, None, tp.positive, Normal([1.0, 2.0], 0.1))
    y = jnp.asarray([0.3, -0.2])
    expected = Normal([1.0, 2.0], 0.1).log_density(jnp.exp(y)) + jnp.sum(y)
    np.testing.assert_allclose(target.reference.log_density(y), expected, rtol=1e-5)
    assert_mean(np.exp(np.asarray(target.reference.sample(jax.random.key(2), 2000))), np.array([1.0, 2.0]))
    assert as_fitted(target, None, None, None, "none").reference is None


def _kind(bad) -> str:
    return type(bad).__name__


class _NoDraws:
    def log_density(self, x):
        return jnp.sum(x)


class _WrongDraws(_NoDraws):
    def sample(self, key, num):
        return jnp.zeros((num, 3))


@pytest.mark.parametrize("bad", ["prior", 3, _NoDraws(), Normal([0.0])], ids=_kind)
def test_the_door_refuses_what_is_no_reference(bad):
    with pytest.raises(tp.SettingsError, match="reference"):
        tp.fit(lambda x: -jnp.sum(x**2), dim=2, reference=bad, progress=False)


@pytest.mark.parametrize(
    "bad", [None, _NoDraws(), _WrongDraws(), Normal([0.0, 0.0, 0.0])], ids=lambda bad: type(bad).__name__
)
def test_what_cannot_be_a_reference_is_refused(bad):
    with pytest.raises(SettingsError, match="reference"):
        check_reference(bad, 2)


def test_a_distribution_of_numpyro_is_a_reference():
    dist = pytest.importorskip("numpyro.distributions")
    ours, x = Normal([0.5, -1.0], [1.0, 2.0]), jnp.asarray([0.3, 2.0])
    alike = dist.Normal(ours.mean, ours.std)
    for given in (alike, alike.to_event(1)):
        check_reference(given, 2)
        reference = Referenced(2, Shifted(2, OWN), given).reference
        np.testing.assert_allclose(reference.log_density(x), ours.log_density(x), rtol=1e-6)
        assert_mean(np.asarray(reference.sample(jax.random.key(3), 5000)), ours.mean)
        must_fail(assert_mean, np.asarray(reference.sample(jax.random.key(3), 5000)), ours.mean + 0.3)
    target = as_fitted(lambda x: -jnp.sum(x), 2, None, tp.positive, dist.Gamma(jnp.ones(2), 2.0))
    assert evaluate_reference(target, jnp.zeros((2,))).log_density == pytest.approx(2 * np.log(2.0) - 4.0)
    for bad in (dist.Normal(0.0, 1.0), dist.Normal(jnp.zeros(3), 1.0), dist.Poisson(jnp.ones(2))):
        with pytest.raises(SettingsError, match="reference"):
            check_reference(bad, 2)


@pytest.mark.parametrize("make", [lambda: Normal([]), lambda: Normal([0.0], -1.0), lambda: StudentT([0.0], 1.0, 0.0)])
def test_bad_numbers_are_refused(make):
    with pytest.raises(SettingsError):
        make()
