"""Priors as users write them become charts and targets: lists, names, trees, NumPyro, cubes, boxes, folders."""

import dataclasses
import json

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import integrate, special, stats

import tempering as tp
from support.random_checks import must_fail
from support.tiny import quick_compilation, tiny_ptsd
from support.unchecked import unchecked
from support.untrained import untrained
from tempering import api
from tempering.adapters.own import _on_path
from tempering.adapters.prior import posterior_of, read_prior
from tempering.methods.own_folder import identity_of
from tempering.methods.registry import METHODS
from tempering.priors import PriorChart
from tempering.priors.cube import CubeChart
from tempering.registry import chart_from
from tempering.settings import Ladder
from tempering.targets.posterior import Posterior, in_coordinates, within_bounds
from tempering.transforms import Constrained, flat_chart

Z = jnp.asarray([0.4, -1.1, 2.0])


def chart_of(prior, dim=None, like=None):
    return read_prior(prior, None, dim, like)[0]


def log_sum(x):
    return -jnp.sum(x)


# What is written, and what it means.


def test_one_for_all_and_one_for_each():
    np.testing.assert_allclose(chart_of(tp.Normal(1.0, 2.0), 3).embed(Z), 1.0 + 2.0 * Z, rtol=1e-6)
    mixed = [tp.Normal(1.0, 2.0), tp.Uniform(0.0, 2.0), tp.Normal(-1.0, 0.5)]
    chart = chart_of(mixed, 3)
    assert (chart.dim, chart.full_dim, len(chart.parts)) == (3, 3, 2), "two normals share a part"
    expected = [1.8, 2.0 * special.ndtr(-1.1), 0.0]
    np.testing.assert_allclose(eqx.filter_jit(chart.embed)(Z), expected, rtol=1e-5)
    np.testing.assert_allclose(eqx.filter_jit(chart.restrict)(chart.embed(Z)), Z, atol=1e-5)
    assert chart_of(mixed).dim == 3, "a list says how many"


def test_vectors_of_parameters():
    chart = chart_of(tp.Normal([1.0, 2.0, 3.0], 0.5))
    np.testing.assert_allclose(chart.embed(Z), np.asarray([1.0, 2.0, 3.0]) + 0.5 * Z, rtol=1e-6)
    assert len(chart_of(tp.StudentT(np.zeros(3), 1.0, 4.0)).parts) == 1
    assert chart_of(tp.StudentT(np.zeros(3))).parts[0].name == "joint StudentT"
    assert chart_of(tp.StudentT(0.0), 3).parts[0].name == "StudentT"


def test_names_make_a_likelihood_of_a_dict():
    prior = {"mass": tp.LogNormal(0.0, 1.0), "angle": tp.Uniform(0.0, 3.0), "w": {"deep": tp.Normal([0.0, 1.0], 1.0)}}
    seen = {}

    def log_likelihood(params):
        seen.update(jax.tree.map(jnp.shape, params))
        return -params["mass"] - params["angle"] - jnp.sum(params["w"]["deep"])

    target = posterior_of(log_likelihood, None, None, prior, None)
    assert seen == {"mass": (), "angle": (), "w": {"deep": (2,)}} and target.dim == 4
    z = jnp.asarray([0.1, 0.2, 0.3, 0.4])
    point = target.structure.unflatten(target.chart.embed(z))
    np.testing.assert_allclose(point["mass"], np.exp(0.2), rtol=1e-5)
    np.testing.assert_allclose(point["w"]["deep"], [0.3, 1.4], rtol=1e-5)
    expected = log_likelihood(point) + np.sum(stats.norm.logpdf(z))
    np.testing.assert_allclose(target.log_density(z), expected, rtol=1e-5)


def test_a_prefix_of_a_tree():
    like = {"a": jnp.zeros((2, 2)), "b": {"c": 0.0, "d": jnp.zeros(2)}}
    prior = {"a": tp.Exponential(2.0), "b": tp.Uniform(-1.0, 1.0)}
    chart, structure = read_prior(prior, None, None, like)
    assert chart.dim == 7 and structure.names == ("a", "b.c", "b.d")
    x = np.asarray(eqx.filter_jit(chart.embed)(jnp.zeros(7)))
    np.testing.assert_allclose(x, [*[np.log(2.0) / 2.0] * 4, 0.0, 0.0, 0.0], atol=1e-6)
    by_column = chart_of({"a": tp.Normal([0.0, 10.0], 1.0), "b": tp.Normal(0.0)}, None, like)
    np.testing.assert_allclose(eqx.filter_jit(by_column.embed)(jnp.zeros(7))[:4], [0.0, 10.0, 0.0, 10.0])


def test_numpyros_distributions_are_ours_by_another_name_or_tables():
    dist = pytest.importorskip("numpyro.distributions")
    alike = [
        (dist.Uniform(-1.0, 2.0), tp.Uniform(-1.0, 2.0)),
        (dist.Normal(1.0, 2.0), tp.Normal(1.0, 2.0)),
        (dist.LogNormal(1.0, 2.0), tp.LogNormal(1.0, 2.0)),
        (dist.HalfNormal(2.0), tp.HalfNormal(2.0)),
        (dist.Exponential(3.0), tp.Exponential(3.0)),
        (dist.Gamma(2.0, 3.0), tp.Gamma(2.0, 3.0)),
        (dist.Beta(2.0, 3.0), tp.Beta(2.0, 3.0)),
        (dist.StudentT(3.0, 1.0, 2.0), tp.StudentT(1.0, 2.0, 3.0)),
    ]
    for theirs, ours in alike:
        assert chart_of(theirs, 1).as_dict() == chart_of(ours, 1).as_dict()
    named = {"a": dist.Normal(jnp.zeros(2), 1.0).to_event(1), "b": dist.Normal(0.0, 1.0).expand([3])}
    assert chart_of(named).dim == 5 and chart_of(named).as_dict()["name"] == "prior"


TABLED = {
    "Gumbel": (lambda dist: dist.Gumbel(1.0, 2.0), stats.gumbel_r(1.0, 2.0)),
    "Cauchy": (lambda dist: dist.Cauchy(1.0, 2.0), stats.cauchy(1.0, 2.0)),
    "HalfCauchy": (lambda dist: dist.HalfCauchy(2.0), stats.halfcauchy(scale=2.0)),
    "LogUniform": (lambda dist: dist.LogUniform(1.0, 100.0), stats.loguniform(1.0, 100.0)),
    "InverseGamma, by its cdf": (lambda dist: dist.InverseGamma(3.0, 2.0), stats.invgamma(3.0, scale=2.0)),
    "Weibull, by its cdf": (lambda dist: dist.Weibull(2.0, 1.5), stats.weibull_min(1.5, scale=2.0)),
    "truncated": (lambda dist: dist.TruncatedNormal(0.0, 1.0, low=0.5), stats.truncnorm(0.5, np.inf)),
    "truncated above": (lambda dist: dist.TruncatedNormal(0.0, 1.0, high=0.5), stats.truncnorm(-np.inf, 0.5)),
    "truncated twice": (lambda dist: dist.TruncatedNormal(0.0, 1.0, low=-1.0, high=2.0), stats.truncnorm(-1.0, 2.0)),
}


TELLING = ("Gumbel", "InverseGamma, by its cdf", "truncated")


@pytest.mark.parametrize(
    ("make", "exact"),
    [pytest.param(*TABLED[name], id=name, marks=[] if name in TELLING else [pytest.mark.slow]) for name in TABLED],
)
def test_other_distributions_of_numpyro(make, exact):
    dist = pytest.importorskip("numpyro.distributions")
    with unchecked():
        chart = chart_of(make(dist), 1)
    z = np.linspace(-4.0, 4.0, 41).astype(np.float32)
    x = np.asarray(jax.jit(jax.vmap(lambda z: chart.embed(z[None])[0]))(z))
    expected = np.where(z < 0, exact.ppf(special.ndtr(z)), exact.isf(special.ndtr(-z)))
    np.testing.assert_allclose(x, expected, rtol=3e-5, atol=1e-5)
    log_slope = np.asarray(jax.jit(jax.vmap(lambda z: chart.log_volume(z[None])))(z))
    np.testing.assert_allclose(log_slope, stats.norm.logpdf(z) - exact.logpdf(expected), atol=2e-3)
    slope = jax.jit(jax.vmap(jax.grad(lambda z: chart.embed(z[None])[0])))
    far = np.asarray(slope(np.asarray([-30.0, -8.0, 8.0, 30.0], np.float32)))
    assert np.all(np.isfinite(far))
    assert chart.as_dict()["name"] == "given prior"


def test_a_batch_of_a_distribution_of_numpyro():
    dist = pytest.importorskip("numpyro.distributions")
    chart = chart_of({"a": dist.Gumbel(jnp.asarray([0.0, 5.0]), 1.0), "b": tp.Normal(0.0)})
    np.testing.assert_allclose(chart.embed(jnp.zeros(3)), [0.36651, 5.36651, 0.0], atol=1e-4)


# Targets.


def evidence(target, num: int = 4001) -> float:
    """The integral over z of a target in one dimension."""
    z = np.linspace(-10.0, 10.0, num).astype(np.float32)
    values = np.asarray(jax.jit(jax.vmap(target.log_density))(z[:, None]), np.float64)
    return float(np.log(integrate.trapezoid(np.exp(values), z)))


def check_evidence(target, expected: float) -> None:
    assert evidence(target) == pytest.approx(expected, abs=1e-4)


def test_the_evidence_is_that_of_the_prior():
    """Conjugate pairs: the integral over z is known in closed form."""
    normal = posterior_of(lambda x: jnp.sum(-0.5 * (x - 3.0) ** 2), 1, None, tp.Normal(0.0, 2.0), None)
    check_evidence(normal, -0.5 * 9.0 / 5.0 + 0.5 * np.log(1.0 / 5.0))
    poisson = posterior_of(lambda x: jnp.sum(4.0 * jnp.log(x) - 3.0 * x), 1, None, tp.Gamma(2.0, 1.0), None)
    check_evidence(poisson, special.gammaln(6.0) - 6.0 * np.log(4.0))
    binomial = posterior_of(lambda x: jnp.sum(7.0 * jnp.log(x) + jnp.log1p(-x)), 1, None, tp.Beta(0.5, 0.5), None)
    check_evidence(binomial, special.betaln(7.5, 1.5) - special.betaln(0.5, 0.5))
    must_fail(check_evidence, normal, 0.5 * np.log(2.0 * np.pi))
    np.testing.assert_allclose(normal.reference.log_density(jnp.zeros(1)), -0.5 * np.log(2.0 * np.pi), rtol=1e-6)


def test_a_box_has_its_volume_and_a_uniform_reference():
    box = api.as_fitted(lambda x: jnp.sum(jnp.log(x)), 1, None, tp.interval(0.0, 3.0))
    assert isinstance(box, Posterior) and box.chart.is_box and box.reference is not None
    check_evidence(box, np.log(4.5))
    prior = posterior_of(lambda x: jnp.sum(jnp.log(x)), 1, None, tp.Uniform(0.0, 3.0), None)
    check_evidence(prior, np.log(1.5))
    must_fail(check_evidence, prior, np.log(4.5))
    z = jnp.asarray([0.7])
    x = box.chart.embed(z)
    np.testing.assert_allclose(box.log_density(z), jnp.log(x[0]) + box.chart.log_volume(z), rtol=1e-5)


def test_which_supports_are_boxes():
    both = {"a": tp.interval(0.0, 1.0), "b": tp.interval(-1.0, 1.0)}
    like = {"a": jnp.zeros(2), "b": 0.0}
    tree = api.as_fitted(lambda p: -jnp.sum(p["a"]) - p["b"], None, like, both)
    assert isinstance(tree, Posterior) and tree.chart.dim == 3
    np.testing.assert_allclose(tree.chart.embed(jnp.zeros(3)), [0.5, 0.5, 0.0])
    listed = api.as_fitted(log_sum, 2, None, [tp.interval(0.0, 1.0), tp.interval(2.0, 4.0)])
    np.testing.assert_allclose(listed.chart.embed(jnp.zeros(2)), [0.5, 3.0])
    mixed = api.as_fitted(log_sum, 2, None, [tp.interval(0.0, 1.0), tp.positive])
    assert isinstance(mixed.chart, Constrained) and mixed.reference is None
    for reference in ("none", tp.Normal([0.5, 0.5], 1.0)):
        asked = api.as_fitted(log_sum, 2, None, tp.interval(0.0, 1.0), reference)
        assert isinstance(asked.chart, Constrained), "what is said of a reference counts"
    own = within_bounds(_on_path(mixed.target, tp.Normal([0.0, 0.0])), flat_chart(tp.interval(0.0, 1.0), 2))
    assert isinstance(own.chart, Constrained)


def test_one_normal_is_a_reference_for_all_coordinates():
    target = api.as_fitted(log_sum, 2, None, None, tp.Normal(1.0, 2.0))
    np.testing.assert_allclose(target.reference.mean, [1.0, 1.0])
    assert target.reference.sample(jax.random.key(0), 3).shape == (3, 2)


# Cubes.


def test_a_transform_of_the_cube():
    transform = lambda u: jnp.stack([10.0 * u[0] - 5.0, -jnp.log1p(-u[1]), 1.0 - 2.0 * u[2]])  # noqa: E731
    target = posterior_of(log_sum, 3, None, None, transform)
    chart, embed = target.chart, eqx.filter_jit(target.chart.embed)
    assert isinstance(chart, CubeChart) and chart.dim == chart.full_dim == 3
    u = special.ndtr(np.asarray(Z, float))
    expected = [10.0 * u[0] - 5.0, -np.log1p(-u[1]), 1.0 - 2.0 * u[2]]
    np.testing.assert_allclose(embed(Z), expected, rtol=1e-5)
    np.testing.assert_allclose(eqx.filter_jit(chart.restrict)(embed(Z)), Z, atol=1e-4)
    log_prior = stats.uniform(-5, 10).logpdf(expected[0]) + stats.expon.logpdf(expected[1]) + np.log(0.5)
    by_chart = np.sum(stats.norm.logpdf(Z)) - eqx.filter_jit(chart.log_volume)(Z)
    np.testing.assert_allclose(by_chart, log_prior, atol=1e-4)
    contains = eqx.filter_jit(chart.contains)
    assert bool(contains(embed(Z))) and not bool(contains(jnp.asarray([6.0, 1.0, 0.0])))
    far = jnp.asarray([[-40.0] * 3, [40.0] * 3])
    assert np.all(np.isfinite(jax.jit(jax.vmap(chart.embed))(far)))
    assert np.all(np.isfinite(jax.jit(jax.vmap(jax.grad(target.log_density)))(far)))


@pytest.mark.parametrize(
    "transform",
    [
        lambda u: jnp.stack([u[0], u[0] * u[1]]),
        lambda u: jnp.stack([u[0], (u[1] - 0.5) ** 2]),
        lambda u: jnp.stack([u[0], u[1], u[0] + u[1]]),
    ],
    ids=["mixes", "not monotone", "more numbers"],
)
def test_a_transform_without_an_inverse_can_be_sampled(transform):
    target = posterior_of(log_sum, 2, None, None, transform)
    assert np.isfinite(target.log_density(jnp.zeros(2)))
    with pytest.raises(tp.SettingsError, match="its inverse is not known"):
        target.chart.restrict(target.chart.embed(jnp.zeros(2)))


def test_a_transform_may_name_what_it_returns():
    transform = lambda u: {"mass": 10.0 ** (2.0 * u[0]), "angle": 3.0 * u[1]}  # noqa: E731
    target = posterior_of(lambda p: -p["mass"] - p["angle"], 2, None, None, transform)
    assert target.structure.names == ("angle", "mass")
    np.testing.assert_allclose(target.chart.embed(jnp.zeros(2)), [1.5, 10.0], rtol=1e-5)
    # Coordinates come back in another order than that of the cube, which is no transform of single ones.
    assert target.chart.signs is None


# Folders.


@pytest.fixture
def fit(monkeypatch):
    """`tp.fit` that gives a sampler which was never trained."""
    tiny = tiny_ptsd(ladder=Ladder(hottest=2.0, num_levels=2))
    monkeypatch.setitem(METHODS, "ptsd", dataclasses.replace(METHODS["ptsd"], default=lambda **_: tiny, fit=untrained))
    with unchecked(), quick_compilation():
        yield lambda *args, **options: tp.fit(*args, progress=False, **options)


EVERY = {
    "a": tp.Uniform(0.0, 1.0),
    "b": tp.Normal([0.0, 1.0], 1.0),
    "c": tp.LogNormal(0.0),
    "d": tp.HalfNormal(),
    "e": tp.Exponential(),
    "f": tp.Gamma([2.0, 3.0]),
    "g": tp.Beta(2.0, 3.0),
    "h": tp.StudentT(0.0, 1.0, 3.0),
    "i": tp.StudentT([0.0, 1.0], 1.0, 4.0),
}


def test_a_chart_is_read_back_from_json():
    chart = chart_of(EVERY)
    stored = json.loads(json.dumps(chart.as_dict()))
    again = chart_from(stored, chart.full_dim)
    assert isinstance(again, PriorChart) and again.as_dict() == chart.as_dict()
    z = np.linspace(-2.0, 2.0, chart.dim, dtype=np.float32)
    embed = eqx.filter_jit(lambda chart, z: chart.embed(z))
    np.testing.assert_array_equal(embed(again, z), embed(chart, z))
    with pytest.raises(tp.SettingsError, match="the same prior, or none"):
        chart_from(stored, chart.full_dim, given=chart_of({**EVERY, "c": tp.LogNormal(0.5)}))
    with pytest.raises(tp.RunFolderError, match="another version"):
        chart_from({**stored, "parts": [{"name": "os.system", "places": [0], "parameters": {}}]}, chart.full_dim)


def log_likelihood(params):
    return -sum(jnp.sum(leaf**2) for leaf in jax.tree.leaves(params))


def test_a_sampler_with_a_prior_comes_back_from_its_folder(fit, tmp_path):
    sampler = fit(log_likelihood, prior=EVERY)
    draws, log_weights = sampler.sample_weighted(64, seed=1)
    assert np.all(draws["a"] > 0) and np.all(draws["a"] < 1) and draws["f"].shape == (64, 2)
    assert np.all(np.isfinite(sampler.log_prob(draws)))
    folder = sampler.save(tmp_path / "saved")
    loaded = tp.load(folder, log_likelihood)
    np.testing.assert_array_equal(loaded.sample_weighted(64, seed=1)[1], log_weights)
    np.testing.assert_array_equal(loaded.log_prob(draws), sampler.log_prob(draws))
    np.testing.assert_array_equal(tp.load(folder, log_likelihood, prior=EVERY).sample(3)["c"], sampler.sample(3)["c"])
    with pytest.raises(tp.SettingsError, match="the same prior, or none"):
        tp.load(folder, log_likelihood, prior={**EVERY, "c": tp.LogNormal(0.5)})
    outside = {**{name: np.asarray(value[0]) for name, value in draws.items()}, "a": np.float32(1.5)}
    assert sampler.log_prob(outside) == -np.inf


def test_log_prob_is_a_density_of_the_users_coordinates(fit):
    """A sampler that is the standard normal in z is the prior in x: its density is the prior's."""
    sampler = fit(lambda x: -jnp.sum(x), dim=2, prior=tp.Gamma(2.5, 2.0))
    x = np.asarray([[0.5, 1.0], [1.5, 2.0], [0.3, 3.0]], np.float32)
    z = np.asarray(jax.jit(jax.vmap(sampler.chart.restrict))(x))
    plain = dataclasses.replace(sampler, chart=None, structure=None)
    expected = plain.log_prob(z) - stats.norm.logpdf(z).sum(axis=1) + stats.gamma(2.5, scale=0.5).logpdf(x).sum(axis=1)
    np.testing.assert_allclose(sampler.log_prob(x), expected, atol=1e-4)


def test_a_box_comes_back_from_its_folder(fit, tmp_path):
    sampler = fit(log_sum, dim=2, support=tp.interval(-1.0, 3.0))
    loaded = tp.load(sampler.save(tmp_path / "saved"), log_sum)
    assert loaded.chart.is_box and isinstance(in_coordinates(sampler.target.target, loaded.chart), Posterior)
    np.testing.assert_array_equal(loaded.sample_weighted(8)[1], sampler.sample_weighted(8)[1])


def test_a_transform_is_needed_again(fit, tmp_path):
    transform = lambda u: 4.0 * u - 2.0  # noqa: E731
    sampler = fit(log_sum, dim=2, prior_transform=transform)
    folder = sampler.save(tmp_path / "saved")
    for bad in ({}, {"prior": tp.Uniform(-2.0, 2.0)}, {"prior_transform": lambda u: jnp.concatenate([u, u])}):
        with pytest.raises(tp.SettingsError, match="prior_transform=..."):
            tp.load(folder, log_sum, **bad)
    loaded = tp.load(folder, log_sum, prior_transform=transform)
    np.testing.assert_array_equal(loaded.sample_weighted(8)[1], sampler.sample_weighted(8)[1])
    np.testing.assert_allclose(loaded.log_prob(loaded.sample(4)), sampler.log_prob(sampler.sample(4)))
    mixing = fit(log_sum, dim=2, prior_transform=lambda u: jnp.stack([u[0], u[0] * u[1]]))
    assert np.all(np.isfinite(mixing.sample_weighted(8)[1]))
    with pytest.raises(tp.SettingsError, match="its inverse is not known"):
        mixing.log_prob([0.5, 0.2])


def test_numpyros_distributions_are_needed_again(fit, tmp_path):
    dist = pytest.importorskip("numpyro.distributions")
    prior = [dist.Gumbel(0.0, 1.0), tp.Normal(0.0)]
    sampler = fit(log_sum, prior=prior)
    folder = sampler.save(tmp_path / "saved")
    with pytest.raises(tp.SettingsError, match=r"tp.load\(folder, log_likelihood, prior=...\)"):
        tp.load(folder, log_sum)
    loaded = tp.load(folder, log_sum, prior=prior)
    np.testing.assert_array_equal(loaded.sample_weighted(8)[1], sampler.sample_weighted(8)[1])


def test_folders_tell_priors_apart():
    def identity(prior, transform=None):
        return identity_of(posterior_of(log_sum, 2, None, prior, transform), None, None)

    with unchecked():
        given = [identity(tp.Normal(0.0, std)) for std in (1.0, 2.0)] + [identity(tp.Uniform(0.0, 1.0))]
        given += [identity(None, lambda u: u), identity(None, lambda u: 2.0 * u)]
        given.append(identity_of(api.as_fitted(log_sum, 2, None, tp.interval(0.0, 1.0)), None, None))
    assert len({json.dumps(each) for each in given}) == len(given)
