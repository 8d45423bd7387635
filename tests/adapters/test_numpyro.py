"""NumPyro models as targets, against NumPyro's own densities: coordinates, names, the prior, refusals. No fits.

Users' models promote ranks and dtypes freely, as does NumPyro: the suite's strictness is off here.
"""

import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import integrate, stats

import tempering as tp
from support.random_checks import assert_mean, assert_std, must_fail
from support.tiny import quick_compilation
from support.unchecked import unchecked
from tempering.errors import DensityError, SettingsError

numpyro = pytest.importorskip("numpyro")
dist = pytest.importorskip("numpyro.distributions")
infer = pytest.importorskip("numpyro.infer.util")
control_flow = pytest.importorskip("numpyro.contrib.control_flow")

X, Y = np.linspace(-1.0, 1.0, 4), np.array([1.0, 2.0, 3.5, 2.0])


@pytest.fixture(scope="module", autouse=True)
def as_users_run_it():
    allowed = jax.numpy_rank_promotion("allow"), jax.numpy_dtype_promotion("standard")
    with allowed[0], allowed[1], unchecked(), quick_compilation():
        yield


def model(x, y=None):
    """Every kind of site at once: a support that depends on another site, a simplex, a matrix, a plate, a series."""
    tau = numpyro.sample("tau", dist.HalfNormal(2.0))
    low = numpyro.sample("low", dist.Uniform(0.0, tau))
    numpyro.sample("w", dist.Dirichlet(jnp.array([1.0, 2.0, 3.0])))
    numpyro.sample("L", dist.LKJCholesky(2))
    with numpyro.plate("school", 4):
        noise = numpyro.sample("noise", dist.HalfNormal(1.0))
        theta = numpyro.sample("theta", dist.Normal(0.5, tau))
        numpyro.deterministic("twice", 2.0 * theta)
        numpyro.sample("y", dist.Normal(theta * x + low, noise), obs=y)

    def step(carry, _):
        z = numpyro.sample("z", dist.LogNormal(carry, 1.0))
        return jnp.log(z), None

    control_flow.scan(step, 0.0, jnp.arange(3))


NAMES = ("L", "low", "noise", "tau", "theta", "w", "z")


@pytest.fixture(scope="module")
def target():
    return tp.from_numpyro(model, X, y=Y)


@pytest.fixture(scope="module")
def points(target):
    """Anywhere: every point of the unconstrained space is allowed."""
    return np.random.default_rng(0).normal(0.2, 1.0, (6, target.dim)).astype(np.float32)


def oracle(target, y):
    """NumPyro's own log joint density, in its own unconstrained coordinates by name."""
    return -infer.potential_energy(model, (X,), {"y": Y}, target.model.inner.unflatten(y))


def check_equal(values, expected) -> None:
    np.testing.assert_allclose(values, expected, rtol=1e-4, atol=1e-3)


def test_the_density_is_numpyros(target, points):
    assert target.dim == 1 + 1 + 4 + 1 + 4 + 2 + 3
    expected = jax.jit(jax.vmap(lambda y: oracle(target, y)))(points)
    values, volumes = jax.jit(jax.vmap(lambda y: (target.log_density(y), target.chart.log_volume(y))))(points)
    check_equal(values, expected)
    must_fail(check_equal, values - volumes, expected)


def test_the_prior_is_the_joint_without_the_likelihood(target, points):
    def difference(y):
        return target.log_density(y) - target.reference.log_density(y)

    latent = target.model.outer.restore(np.asarray(jax.jit(jax.vmap(target.chart.embed))(points)))
    by_site = infer.log_likelihood(model, latent, X, y=Y)
    np.testing.assert_allclose(jax.jit(jax.vmap(difference))(points), by_site["y"].sum(axis=1), rtol=1e-4, atol=1e-3)


def test_the_way_to_constrained_values_and_back(target, points):
    chart = target.chart
    there = jax.jit(jax.vmap(chart.embed))
    back = jax.jit(jax.vmap(lambda x: (chart.restrict(x), chart.contains(x))))
    x = there(points)
    assert x.shape == (6, chart.full_dim) == (6, 4 + 1 + 4 + 1 + 4 + 3 + 3)
    returned, is_inside = back(x)
    np.testing.assert_allclose(returned, points, atol=1e-3)
    assert np.all(is_inside)
    place = 4 + 1 + 4  # tau, after L, low and noise
    changed = np.array(x)
    changed[0, place] = -1.0
    changed[1, 4] = changed[1, place] + 0.5  # low above tau, where its support ends
    np.testing.assert_array_equal(back(changed)[1], [False, False, True, True, True, True])


def test_names_and_deterministic_values_come_back(target, points):
    x = np.asarray(jax.jit(jax.vmap(target.chart.embed))(points))
    named = target.structure.restore(x)
    assert set(named) == {*NAMES, "twice"} and named["L"].shape == (6, 2, 2) and named["tau"].shape == (6,)
    np.testing.assert_allclose(named["twice"], 2.0 * named["theta"], rtol=1e-6)
    np.testing.assert_allclose(named["w"].sum(axis=1), 1.0, rtol=1e-5)
    np.testing.assert_array_equal(target.structure.flatten(named, "x"), x)
    with pytest.raises(SettingsError, match="not nested like"):
        target.structure.flatten({name: named[name] for name in NAMES[1:]}, "x")
    assert target.structure.dims["theta"] == target.structure.dims["twice"] == ["school"]
    assert target.structure.dims["tau"] == [] and target.structure.dims["L"] == ["L_dim_0", "L_dim_1"]


# The prior as a reference.


def simple(y=None):
    place = numpyro.sample("place", dist.Normal(1.0, 2.0))
    scale = numpyro.sample("scale", dist.LogNormal(0.5, 0.7))
    numpyro.sample("y", dist.Normal(place, scale), obs=y)


def check_prior(log_density) -> None:
    """Integral one, on a grid in (place, log scale)."""
    place, scale = np.linspace(-15.0, 17.0, 300), np.linspace(-6.0, 7.0, 300)
    grid = np.stack(np.meshgrid(place, scale, indexing="ij"), axis=-1).reshape(-1, 2).astype(np.float32)
    values = np.exp(np.asarray(jax.jit(jax.vmap(log_density))(grid), np.float64)).reshape(300, 300)
    assert integrate.trapezoid(integrate.trapezoid(values, scale), place) == pytest.approx(1.0, abs=1e-3)


def test_the_prior_is_normalised_and_drawn_from():
    target = tp.from_numpyro(simple, y=0.3)
    reference, chart = target.reference, target.chart
    check_prior(reference.log_density)
    must_fail(check_prior, lambda y: reference.log_density(y) - chart.log_volume(y))
    must_fail(check_prior, target.log_density)
    draws = np.asarray(jax.jit(lambda key: reference.sample(key, 4000))(jax.random.key(3)))
    assert_mean(draws, [1.0, 0.5], key=3)
    assert_std(draws, [2.0, 0.7], key=3)
    must_fail(assert_mean, np.exp(draws), [1.0, 0.5])
    expected = stats.norm(1.0, 2.0).logpdf(0.4) + stats.norm(0.5, 0.7).logpdf(-0.2)
    np.testing.assert_allclose(reference.log_density(jnp.array([0.4, -0.2])), expected, rtol=1e-4)


def improper(y=None):
    place = numpyro.sample("place", dist.ImproperUniform(dist.constraints.real, (), ()))
    numpyro.sample("y", dist.Normal(place, 1.0), obs=y)


def rescaled(y=None):
    with numpyro.handlers.scale(scale=2.0):
        place = numpyro.sample("place", dist.Gamma(2.0))
    numpyro.sample("y", dist.Normal(place, 1.0), obs=y)


def masked(y=None):
    with numpyro.handlers.mask(mask=False):
        place = numpyro.sample("place", dist.Gamma(2.0))
    numpyro.sample("y", dist.Normal(place, 1.0), obs=y)


@pytest.mark.parametrize(
    ("unusual", "exact"),
    [
        (improper, lambda y: stats.norm.logpdf(0.3 - y)),
        # The Jacobian is no part of the prior: neither a scale nor a mask touches it.
        (rescaled, lambda y: 2 * stats.gamma(2.0).logpdf(np.exp(y)) + stats.norm.logpdf(0.3 - np.exp(y)) + y),
        (masked, lambda y: stats.norm.logpdf(0.3 - np.exp(y)) + y),
    ],
)
def test_a_prior_without_a_normaliser_is_no_reference(unusual, exact):
    target = tp.from_numpyro(unusual, y=0.3)
    assert target.reference is None and target.dim == 1
    np.testing.assert_allclose(target.log_density(jnp.array([0.7])), exact(0.7), rtol=1e-4)


# What is refused.


def discrete(y=None):
    group = numpyro.sample("group", dist.Bernoulli(0.3))
    numpyro.sample("y", dist.Normal(group, 1.0), obs=y)


def delta(y=None):
    place = numpyro.sample("place", dist.Delta(1.0))
    numpyro.sample("y", dist.Normal(place, 1.0), obs=y)


def with_param(y=None):
    place = numpyro.param("place", 0.0)
    numpyro.sample("scale", dist.HalfNormal(1.0))
    numpyro.sample("y", dist.Normal(place, 1.0), obs=y)


def subsampled(y=None):
    place = numpyro.sample("place", dist.Normal(0.0, 1.0))
    with numpyro.plate("rows", 10, subsample_size=3):
        numpyro.sample("y", dist.Normal(place, 1.0), obs=jnp.zeros(3))


def raising(y=None):
    raise RuntimeError("no data\nat all")


@pytest.mark.parametrize(
    ("bad", "kind", "message"),
    [
        (discrete, SettingsError, "latent sites 'group' are discrete; sum them out"),
        (delta, SettingsError, "'place' have a Delta distribution; use numpyro.deterministic"),
        (with_param, SettingsError, "numpyro.param 'place'; give them a prior"),
        (subsampled, SettingsError, "the plates 'rows' take subsamples"),
        (lambda y=None: numpyro.sample("y", dist.Normal(0.0, 1.0), obs=y), SettingsError, "no latent site"),
        (lambda y=None: None, SettingsError, "no latent site"),
        (raising, DensityError, "the model raised RuntimeError: no data; it must run with the arguments"),
        (lambda: None, DensityError, "the model raised TypeError"),
        (3, SettingsError, "model is an int; give a function"),
    ],
)
def test_models_that_cannot_be_sampled_are_refused(bad, kind, message):
    with pytest.raises(kind, match=message):
        tp.from_numpyro(bad, y=0.3)


def test_making_a_target_evaluates_nothing():
    seen = []

    def watched(y=None):
        place = numpyro.sample("place", dist.Normal(0.0, 1.0))
        jax.debug.callback(lambda value: seen.append(value), place)
        numpyro.sample("y", dist.Normal(place, 1.0), obs=y)

    target = tp.from_numpyro(watched, y=0.3)
    jax.effects_barrier()
    assert seen == []
    target.log_density(jnp.array([0.5])).block_until_ready()
    jax.effects_barrier()
    assert len(seen) == 1


def test_a_model_without_data_warns_once_that_it_is_the_prior():
    def model(y=None):
        mean = numpyro.sample("mean", dist.Normal(0.0, 1.0))
        numpyro.sample("y", dist.Normal(mean, 1.0), obs=y)

    with pytest.warns(UserWarning, match="no observed site.*the prior") as caught:
        tp.from_numpyro(model)
    assert len(caught) == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        tp.from_numpyro(model, y=1.5)


def test_a_factor_counts_as_data():
    def model():
        mean = numpyro.sample("mean", dist.Normal(0.0, 1.0))
        numpyro.factor("likelihood", -0.5 * (mean - 1.0) ** 2)

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        tp.from_numpyro(model)
