"""PyMC models: densities, transforms, names and priors against PyMC's own. Skipped where PyMC is not installed."""

import os
import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tempering as tp
from tempering.adapters import fingerprint
from tempering.adapters.own import as_fitted
from tempering.errors import SettingsError

pm = pytest.importorskip("pymc", reason="PyMC is not installed: pip install 'tempering[pymc]'")

Y, SE = np.array([28.0, 8, -3, 7, -1, 1, 18, 12]), np.array([15.0, 10, 16, 11, 9, 11, 10, 18])


def schools():
    with pm.Model(coords={"school": np.arange(8)}) as model:
        mu = pm.Normal("mu", 1.0, 5.0)
        tau = pm.HalfNormal("tau", 5.0)
        eta = pm.Normal("eta", dims="school")
        theta = pm.Deterministic("theta", mu + tau * eta, dims="school")
        pm.Dirichlet("w", np.array([1.0, 2.0, 3.0]))
        pm.Uniform("u", 0.0, 1.0 + tau)  # a support that depends on another variable
        pm.Normal("y", theta, SE, observed=Y)
    return model


@pytest.fixture(scope="module")
def model():
    return schools()


@pytest.fixture(scope="module")
def target(model):
    return tp.from_pymc(model)


def _point(model, target, x):
    """PyMC's own dict of value variables."""
    parts = target.model.inner.unflatten(x)
    return {model.rvs_to_values[rv].name: np.asarray(parts[rv.name], float) for rv in model.free_RVs}


def test_the_density_is_pymcs(model, target):
    right = model.compile_logp(mode="FAST_COMPILE")
    for seed in range(3):
        x = jnp.asarray(np.random.default_rng(seed).normal(size=target.dim), jnp.float32)
        assert float(target.log_density(x)) == pytest.approx(float(right(_point(model, target, x))), rel=1e-5)
    slope = jax.grad(target.log_density)(x)
    step = 1e-2 * jnp.eye(target.dim)[3]
    change = (target.log_density(x + step) - target.log_density(x - step)) / 2e-2
    assert float(slope[3]) == pytest.approx(float(change), rel=1e-2)


def test_the_chart_leads_to_constrained_values_and_back(model, target):
    x = jnp.linspace(-0.5, 0.9, target.dim, dtype=jnp.float32)
    outer = target.chart.embed(x)
    np.testing.assert_allclose(target.chart.restrict(outer), x, atol=1e-5)
    point = _point(model, target, x)
    both = [model.compile_logp(jacobian=jacobian, mode="FAST_COMPILE")(point) for jacobian in (True, False)]
    assert float(target.chart.log_volume(x)) == pytest.approx(float(both[0] - both[1]), rel=1e-4)
    assert bool(target.chart.contains(outer))
    names = list(target.model.outer.names)
    tau = sum(int(np.prod(shape)) for shape in target.model.outer.shapes[: names.index("tau")])
    assert not bool(target.chart.contains(outer.at[tau].set(-1.0)))


def test_draws_have_names_shapes_and_what_is_computed(target):
    rows = np.asarray(jax.vmap(target.chart.embed)(jnp.zeros((3, target.dim))))
    draws = target.structure.restore(rows)
    shapes = {name: value.shape for name, value in draws.items()}
    assert shapes == {"eta": (3, 8), "mu": (3,), "tau": (3,), "theta": (3, 8), "u": (3,), "w": (3, 3)}
    np.testing.assert_allclose(draws["theta"], draws["mu"][:, None] + draws["tau"][:, None] * draws["eta"], rtol=1e-5)
    np.testing.assert_allclose(draws["w"].sum(1), 1.0, rtol=1e-5)
    assert target.structure.dims["theta"] == ["school"] and target.structure.dims["w"] == ["w_dim_0"]
    np.testing.assert_array_equal(target.structure.flatten(draws, "draws"), rows)


def test_the_prior_is_a_normalised_reference(target):
    draws = np.asarray(target.reference.sample(jax.random.key(0), 400))
    assert draws.shape == (400, target.dim) and np.all(np.isfinite(draws))
    again = np.asarray(target.reference.sample(jax.random.key(0), 400))
    np.testing.assert_array_equal(draws, again)
    assert np.any(draws != np.asarray(target.reference.sample(jax.random.key(1), 400)))
    place = [*target.model.inner.names].index("mu")
    mu = draws[:, sum(int(np.prod(s)) for s in target.model.inner.shapes[:place])]
    assert abs(mu.mean() - 1.0) < 5 * 5.0 / 20 and 4.0 < mu.std() < 6.0


def test_precision_and_devices_stay_as_they_were(target):
    assert target and not jax.config.read("jax_enable_x64")
    assert "device_count" not in os.environ.get("XLA_FLAGS", "")
    assert target.log_density(jnp.zeros(target.dim)).dtype == jnp.float32


def test_the_fingerprint_is_that_of_the_model(target):
    with pm.Model() as other:
        pm.Normal("y", pm.Normal("mu", 0.0, 5.0), 1.0, observed=Y)
    assert fingerprint(target) == fingerprint(tp.from_pymc(schools())) != fingerprint(tp.from_pymc(other))


def test_it_is_what_fit_takes(target):
    assert as_fitted(target, None, None, None).dim == target.dim


def test_a_prior_without_draws_is_no_reference():
    with pm.Model() as flat:
        pm.Normal("y", pm.Flat("mu"), 1.0, observed=Y)
    assert tp.from_pymc(flat).reference is None
    with pm.Model() as ordered:
        x = pm.Normal("x", 0.0, 1.0, shape=3, transform=pm.distributions.transforms.ordered, initval=[-1.0, 0.0, 1.0])
        pm.Normal("y", x.sum(), 1.0, observed=Y)
    assert tp.from_pymc(ordered).reference is None


def test_what_is_no_model_is_refused():
    with pytest.raises(SettingsError, match="model is an int; give a pymc.Model"):
        tp.from_pymc(3)
    with pm.Model() as empty:
        pass
    with pytest.raises(SettingsError, match="no free variable"):
        tp.from_pymc(empty)
    with pm.Model() as discrete:
        pm.Normal("y", pm.Poisson("n", 3.0), 1.0, observed=Y)
    with pytest.raises(SettingsError, match="'n' are discrete"):
        tp.from_pymc(discrete)
    with pm.Model() as prior:
        pm.Normal("mu")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        tp.from_pymc(prior)
    assert any("no observed variable" in str(each.message) for each in caught)
