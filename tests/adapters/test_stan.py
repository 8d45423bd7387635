"""Stan models through BridgeStan: a model written by hand with the same methods, and compiled ones where possible.

Nothing is downloaded by tests. A model that BridgeStan compiles needs BridgeStan's sources, which `BRIDGESTAN` names;
one that `support/compiled_stan.py` compiles needs httpstan's wheel.
"""

import json
import os
import shutil
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

import tempering as tp
from support.compiled_stan import compiled_library
from support.fake_stan import FakeStan
from tempering.adapters import fingerprint
from tempering.adapters.own import as_fitted
from tempering.errors import DensityError, SettingsError

EXAMPLES = Path(__file__).parent.parent.parent / "examples" / "eight_schools"


@pytest.fixture(scope="module")
def target():
    return tp.from_stan(FakeStan())


def test_names_and_shapes_are_those_of_the_model(target):
    shapes = dict(zip(target.model.outer.names, target.model.outer.shapes, strict=True))
    assert shapes == {"m": (2,), "sigma": (), "z": (2, 3)} and target.model.derived == ("twice",)
    assert target.dim == 9 and target.chart.full_dim == 9 and target.reference is None


def test_entries_of_arrays_are_where_stan_says(target):
    y = jnp.array([0.3, 11, 12, 21, 22, 31, 32, -1, -2], jnp.float32)
    rows = np.asarray(target.chart.embed(y))[None]
    draws = target.structure.restore(rows)
    np.testing.assert_allclose(draws["z"], [[[11, 21, 31], [12, 22, 32]]])
    np.testing.assert_allclose(draws["m"], [[-1, -2]])
    np.testing.assert_allclose(draws["sigma"], [np.exp(0.3)], rtol=1e-6)
    np.testing.assert_allclose(draws["twice"], [2 * np.exp(0.3)], rtol=1e-6)
    np.testing.assert_array_equal(target.structure.flatten(draws, "draws"), rows)
    np.testing.assert_allclose(target.chart.restrict(jnp.asarray(rows[0])), y, rtol=1e-5)


def test_value_gradient_and_volume_are_stans(target):
    stan = FakeStan()
    points = np.random.default_rng(0).normal(size=(4, 9)).astype(np.float32)
    values, gradients = jax.jit(jax.vmap(jax.value_and_grad(target.log_density)))(points)
    for point, value, gradient in zip(points.astype(float), values, gradients, strict=True):
        right, slope = stan.log_density_gradient(point, propto=False, jacobian=True)
        assert float(value) == pytest.approx(right, rel=1e-5)
        np.testing.assert_allclose(gradient, slope, rtol=1e-4)
        assert float(value) != pytest.approx(stan.log_density(point, propto=True), rel=1e-5), "constants are kept"
    volumes = jax.jit(jax.vmap(target.chart.log_volume))(jnp.asarray(points))
    np.testing.assert_allclose(volumes, points[:, 0], rtol=1e-4)


def test_a_point_that_stan_rejects_has_density_zero(target):
    value, gradient = jax.jit(jax.value_and_grad(target.log_density))(jnp.zeros(9).at[0].set(30.0))
    assert float(value) == -np.inf and not np.any(np.asarray(gradient))


def test_parameters_out_of_bounds_are_not_contained(target):
    inside = target.chart.embed(jnp.zeros(9))
    outside = inside.at[2].set(-1.0)  # m, m, sigma
    assert bool(target.chart.contains(inside)) and not bool(target.chart.contains(outside))


def test_every_point_reaches_stan_once(target):
    calls = []
    stan = FakeStan()
    counted = stan.log_density_gradient
    stan.log_density_gradient = lambda *args, **kwargs: calls.append(1) or counted(*args, **kwargs)
    other = tp.from_stan(stan)
    calls.clear()
    jax.block_until_ready(jax.jit(jax.vmap(jax.value_and_grad(other.log_density)))(jnp.zeros((5, 9))))
    assert len(calls) == 5


def test_the_fingerprint_tells_models_apart_and_not_objects():
    one, again, other = (fingerprint(tp.from_stan(FakeStan(shift))) for shift in (0.5, 0.5, 0.6))
    assert one == again != other


def test_it_is_what_fit_takes(target):
    fitted = as_fitted(target, None, None, None)
    assert fitted.dim == 9 and fitted.structure is not None and fitted.has_gradient


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: tp.from_stan(3), "model is an int without log_density"),
        (lambda: tp.from_stan(FakeStan(), data={"N": 3}), "a StanModel has its own"),
    ],
)
def test_what_is_no_model_is_refused(call, words):
    with pytest.raises(SettingsError, match=words):
        call()


def test_a_missing_file_is_refused(tmp_path):
    pytest.importorskip("bridgestan", reason="the path of a model needs BridgeStan: pip install 'tempering[stan]'")
    with pytest.raises(SettingsError, match="is not a file"):
        tp.from_stan(tmp_path / "nowhere.stan")


def test_a_compiled_model_has_its_names_and_a_density():
    pytest.importorskip("bridgestan", reason="BridgeStan is not installed: pip install 'tempering[stan]'")
    if not os.environ.get("BRIDGESTAN") or shutil.which("make") is None:
        pytest.skip("no model can be compiled: BRIDGESTAN does not name BridgeStan's sources, or there is no make")
    target = tp.from_stan(EXAMPLES / "eight_schools.stan", EXAMPLES / "eight_schools.json")
    assert target.dim == 10 and target.model.derived == ("theta",)
    assert np.isfinite(float(target.log_density(jnp.zeros(10))))


@pytest.fixture(scope="module")
def schools(tmp_path_factory):
    """Eight schools, compiled, as a user gives it: the path of its library."""
    return compiled_library(EXAMPLES / "eight_schools.stan", tmp_path_factory.mktemp("stan"))


def _log_posterior(y, data):
    """Likelihood, priors and log |d tau / d y| of the eight schools, by SciPy."""
    mu, tau, trans = y[0], np.exp(y[1]), y[2:]
    prior = stats.norm.logpdf(mu, 0, 5) + stats.halfcauchy.logpdf(tau, 0, 5) + stats.norm.logpdf(trans).sum()
    return y[1] + prior + stats.norm.logpdf(data["y"], mu + tau * trans, data["sigma"]).sum()


@pytest.mark.slow
def test_a_model_that_stanc_compiled_is_the_density_of_its_statements(schools):
    data = EXAMPLES / "eight_schools.json"
    target = tp.from_stan(schools, data, warn=False)
    assert target.dim == 10 and target.model.derived == ("theta",)
    points = np.random.default_rng(0).normal(size=(6, 10)).astype(np.float32)
    values, gradients = jax.jit(jax.vmap(jax.value_and_grad(target.log_density)))(points)
    known = json.loads(data.read_text(encoding="utf-8"))
    for y, value, gradient in zip(points.astype(float), values, gradients, strict=True):
        right = _log_posterior(y, known)
        assert float(value) == pytest.approx(right, rel=1e-5)
        assert float(value) != pytest.approx(right - y[1], rel=1e-5), "the volume belongs to it"
        steps = 1e-5 * np.eye(10)
        slopes = [(_log_posterior(y + step, known) - _log_posterior(y - step, known)) / 2e-5 for step in steps]
        np.testing.assert_allclose(gradient, slopes, rtol=1e-3, atol=1e-3)
    draws = target.structure.restore(np.asarray(jax.vmap(target.chart.embed)(jnp.asarray(points))))
    np.testing.assert_allclose(draws["tau"], np.exp(points[:, 1]), rtol=1e-5)
    theta = draws["mu"][:, None] + draws["tau"][:, None] * draws["theta_trans"]
    np.testing.assert_allclose(draws["theta"], theta, rtol=1e-4)


@pytest.mark.slow
def test_data_that_a_compiled_model_does_not_take_are_refused(schools):
    with pytest.raises(DensityError, match="BridgeStan could not compile .*sigma"):
        tp.from_stan(schools, {"J": 2, "y": [1.0, 2.0], "sigma": [1.0, -1.0]}, warn=False)
