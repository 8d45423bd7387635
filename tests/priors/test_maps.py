"""Maps to normal coordinates against SciPy: quantiles, slopes, round trips, gradients far out in single precision."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import special, stats

import tempering as tp
from support.random_checks import must_fail
from tempering.adapters.prior import read_prior
from tempering.priors.maps import inside
from tempering.priors.quantiles import NODES, asinh_student, log_gamma, logit_beta


def of(value: float) -> float:
    """As single precision has it."""
    return float(np.float32(value))


PRIORS = {
    "uniform": (tp.Uniform(-1.5, 4.0), stats.uniform(-1.5, 5.5)),
    "uniform from zero": (tp.Uniform(0.0, 3.0), stats.uniform(0.0, 3.0)),
    "uniform to zero": (tp.Uniform(-3.0, 0.0), stats.uniform(-3.0, 3.0)),
    "normal": (tp.Normal(2.0, 0.5), stats.norm(2.0, 0.5)),
    "log-normal": (tp.LogNormal(0.5, 0.75), stats.lognorm(0.75, scale=np.exp(0.5))),
    "half-normal": (tp.HalfNormal(2.0), stats.halfnorm(scale=2.0)),
    "exponential": (tp.Exponential(2.0), stats.expon(scale=0.5)),
    "gamma": (tp.Gamma(2.5, 4.0), stats.gamma(2.5, scale=0.25)),
    "gamma, peaked at zero": (tp.Gamma(0.3, 1.0), stats.gamma(of(0.3))),
    "gamma, narrow": (tp.Gamma(2000.0, 2.0), stats.gamma(2000.0, scale=0.5)),
    "beta": (tp.Beta(2.0, 5.0), stats.beta(2.0, 5.0)),
    "beta, peaked at both ends": (tp.Beta(0.5, 0.5), stats.beta(0.5, 0.5)),
    "beta, narrow": (tp.Beta(300.0, 700.0), stats.beta(300.0, 700.0)),
    "student": (tp.StudentT(1.0, 2.0, 3.0), stats.t(3.0, 1.0, 2.0)),
    "student, heavy": (tp.StudentT(0.0, 1.0, 1.0), stats.cauchy()),
}
EACH = pytest.mark.parametrize(("prior", "exact"), PRIORS.values(), ids=PRIORS.keys())
Z = np.linspace(-8.0, 8.0, 401).astype(np.float32)


class Same:
    """A chart that is itself alone, and so can be a key; a chart's own arrays cannot."""

    def __init__(self, chart):
        self.chart = chart

    def __getattr__(self, name):
        return getattr(self.chart, name)


CHARTS: dict[int, Same] = {}


def chart_of(prior):
    """The one chart of this prior object."""
    return CHARTS.setdefault(id(prior), Same(read_prior(prior, None, 1, None)[0]))


PROGRAMS = {
    "embed": lambda chart, x: chart.embed(x)[0],
    "restrict": lambda chart, x: chart.restrict(x)[0],
    "log_volume": lambda chart, x: chart.log_volume(x),
    "contains": lambda chart, x: chart.contains(x),
    "slope": lambda chart, x: jax.grad(lambda z: jnp.sum(chart.embed(z)))(x)[0],
    "slope_of_volume": lambda chart, x: jax.grad(chart.log_volume)(x)[0],
    "volume_at": lambda chart, x: chart.log_volume(chart.restrict(x)),
}


@functools.cache
def program(name, chart):
    return jax.jit(jax.vmap(lambda x: PROGRAMS[name](chart, x[None])))


def rows(name, chart, points):
    """A function of a chart at each point; padded to one number of points, so that it is compiled once for a chart."""
    padded = np.full(len(Z), points[-1], np.float32)
    padded[: len(points)] = points
    return np.asarray(program(name, chart)(padded))[: len(points)]


def quantiles(exact, z):
    """From the nearer tail, in double precision."""
    z = z.astype(np.float64)
    return np.where(z < 0, exact.ppf(special.ndtr(z)), exact.isf(special.ndtr(-z)))


def check_quantiles(prior, exact, shift: float = 0.0) -> None:
    """x is the quantile, to an error in z that single precision excuses: in x itself, and in what x can tell apart."""
    x = rows("embed", chart_of(prior), Z)
    near = np.abs(Z) < 5.0
    expected = quantiles(exact, Z)
    assert np.all(np.isfinite(x)) and np.all(np.diff(x[near]) >= 0)
    slope = np.exp(stats.norm.logpdf(Z) - exact.logpdf(expected))
    slope = np.where(np.isfinite(slope), slope, 0.0)
    allowed = 3e-6 * slope + 4e-6 * np.abs(expected) + 2.0 * np.finfo(np.float32).tiny
    assert np.all(np.abs(x + shift - expected)[near] <= allowed[near])


@EACH
def test_points_are_the_quantiles(prior, exact):
    check_quantiles(prior, exact)
    must_fail(check_quantiles, prior, exact, shift=1e-3 * exact.std() if np.isfinite(exact.std()) else 1e-3)


def test_lower_tails_keep_their_relative_precision():
    for name in ("uniform from zero", "half-normal", "exponential", "gamma", "beta", "log-normal"):
        prior, exact = PRIORS[name]
        z = np.asarray([-8.0, -6.0, -4.0], np.float32)
        if name == "half-normal":  # SciPy's own has lost its digits there
            expected = 2.0 * np.sqrt(2.0) * special.erfinv(special.ndtr(z.astype(float)))
        else:
            expected = quantiles(exact, z)
        np.testing.assert_allclose(rows("embed", chart_of(prior), z), expected, rtol=1e-5, err_msg=name)
    to_zero = rows("embed", chart_of(PRIORS["uniform to zero"][0]), -z)
    np.testing.assert_allclose(to_zero, -3.0 * special.ndtr(z.astype(float)), rtol=1e-5)


@EACH
def test_the_density_is_that_of_the_prior(prior, exact):
    """N(z) over dx/dz at a point that is given by x: what `log_prob` makes of a model that is the prior."""
    chart = chart_of(prior)
    x = quantiles(exact, np.linspace(-4.0, 4.0, 81)).astype(np.float32)
    x = x[(x > exact.support()[0]) & (x < exact.support()[1])]
    z = rows("restrict", chart, x)
    log_prob = stats.norm.logpdf(z) - rows("volume_at", chart, x)
    # What x rounds to moves the density by its slope times the last digit; near 1 of a beta that is all there is.
    step = np.spacing(np.abs(x))
    log_density = exact.logpdf(x.astype(np.float64))
    shake = np.abs(exact.logpdf(x.astype(np.float64) + step) - exact.logpdf(x.astype(np.float64) - step))
    allowed = 3e-5 + np.where(np.isfinite(shake), shake, np.inf)
    assert np.all(np.abs(log_prob - log_density) <= allowed)
    assert np.sum(np.isfinite(allowed)) > 60
    with np.errstate(invalid="ignore"):
        assert np.any(np.abs(log_prob + 1e-3 - log_density) > allowed), "the check can fail"


@EACH
def test_there_and_back(prior, exact):
    chart = chart_of(prior)
    z = np.linspace(-3.0, 3.0, 121).astype(np.float32)
    x = rows("embed", chart, z)
    # z of the neighbours of x: what single precision of x leaves of z.
    slope = np.exp(rows("log_volume", chart, z))
    allowed = 1e-5 + 3.0 * np.spacing(np.abs(x)) / np.maximum(slope, 1e-30)
    known = allowed < 0.1
    assert np.all(np.abs(rows("restrict", chart, x) - z)[known] <= allowed[known]) and np.mean(known) > 0.7


@EACH
def test_far_out_points_are_inside_and_gradients_finite(prior, exact):
    chart = chart_of(prior)
    z = np.asarray([-40.0, -30.0, -12.0, -8.0, -5.0, 0.0, 5.0, 8.0, 12.0, 30.0, 40.0], np.float32)
    x = rows("embed", chart, z)
    assert np.all(np.isfinite(x)) and np.all(rows("contains", chart, x)), x
    assert np.all(np.diff(rows("embed", chart, Z)) >= 0)
    slope = rows("slope", chart, z)
    assert np.all(np.isfinite(slope)) and np.all(slope >= 0)
    for name in ("log_volume", "slope_of_volume"):
        assert np.all(np.isfinite(rows(name, chart, z))), name
    assert np.all(np.isfinite(rows("restrict", chart, x)))


@EACH
def test_the_volume_is_the_slope_of_the_map(prior, exact):
    chart = chart_of(prior)
    z = np.asarray([-2.9, -1.3, -0.2, 0.0, 0.4, 1.7, 2.8], np.float32)
    slope = rows("slope", chart, z)
    known = slope > 0  # not where x was moved inside
    np.testing.assert_allclose(np.log(slope[known]), rows("log_volume", chart, z)[known], atol=1e-4)


def test_the_boundary_is_outside():
    outside = {"uniform from zero": [0.0, 3.0], "beta": [0.0, 1.0], "student": [np.inf, np.nan]}
    outside |= dict.fromkeys(("log-normal", "half-normal", "exponential", "gamma"), [0.0, -1.0, np.inf, np.nan])
    for name, points in outside.items():
        assert not np.any(rows("contains", chart_of(PRIORS[name][0]), np.asarray(points, np.float32))), name
    least, greatest = inside(0.0, 1.0)
    assert 0 < least < 1e-37 and 1 - 1e-7 < greatest < 1


@pytest.mark.parametrize(
    "values",
    [
        *(logit_beta(*shape) for shape in ((2.0, 5.0), (0.01, 5.0), (3.0, 0.2), (1e4, 1e4), (1e5, 10.0), (0.02, 0.02))),
        *(log_gamma(a) for a in (1e-3, 0.05, 1.0, 50.0, 1e6)),
        *(asinh_student(nu) for nu in (0.05, 1.0, 30.0, 1e6)),
    ],
)
def test_tables_increase_to_their_ends(values):
    assert values.shape == NODES.shape and np.all(np.isfinite(values)) and np.all(np.diff(values) > 0)


def test_the_multivariate_student_is_the_reference_of_that_name():
    """Its density by the chart is the one that `log_density` has, its Jacobian a triangle, and its inverse exact."""
    prior = tp.StudentT([1.0, -2.0, 0.5], [0.5, 2.0, 1.0], nu=3.0)
    chart = read_prior(prior, None, 3, None)[0]
    z = np.random.default_rng(0).normal(size=(200, 3)).astype(np.float32)
    x = jax.jit(jax.vmap(chart.embed))(z)
    np.testing.assert_allclose(jax.jit(jax.vmap(chart.restrict))(x), z, atol=2e-4)
    by_chart = np.sum(stats.norm.logpdf(z), axis=1) - np.asarray(jax.jit(jax.vmap(chart.log_volume))(z))
    np.testing.assert_allclose(by_chart, jax.jit(jax.vmap(prior.log_density))(x), atol=2e-4)
    exact = stats.multivariate_t(prior.mean, np.diag(np.asarray(prior.scale, float) ** 2), df=3.0)
    np.testing.assert_allclose(by_chart, exact.logpdf(np.asarray(x, float)), atol=2e-4)
    apart = read_prior([tp.StudentT(m, s, 3.0) for m, s in ((1.0, 0.5), (-2.0, 2.0), (0.5, 1.0))], None, 3, None)[0]
    alone = np.sum(stats.norm.logpdf(z), axis=1) - np.asarray(jax.jit(jax.vmap(apart.log_volume))(z))
    assert np.max(np.abs(alone - by_chart)) > 0.1, "independent Students are another prior"
    far = jax.jit(jax.jacfwd(chart.embed))(jnp.asarray([8.0, -8.0, 8.0]))
    assert np.all(np.isfinite(far)) and np.all(np.triu(far, 1) == 0)
