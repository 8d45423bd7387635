"""What is no prior, or does not fit, is refused in the user's words before anything is evaluated."""

import jax.numpy as jnp
import numpy as np
import pytest

import tempering as tp
from support.unchecked import unchecked


@pytest.fixture(autouse=True)
def as_users_run_it():
    with unchecked():
        yield


def log_likelihood(x):
    return -jnp.sum(x**2)


def of_names(params):
    return -params["a"] - params["b"]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: tp.Uniform(0.0, np.inf), r"Uniform's high = inf is not allowed: it must be finite: a prior must be"),
        (lambda: tp.Uniform(1.0, 1.0), r"Uniform\(1.0, 1.0\) is not allowed: low must be less than high"),
        (lambda: tp.Uniform(2.0, 1.0), "low must be less than high"),
        (lambda: tp.Uniform(-3e38, 3e38), "hold their difference"),
        (lambda: tp.Uniform(1e9, 1e9 + 1), "single precision"),
        (lambda: tp.Normal(0.0, 0.0), "Normal's std = 0.0 is not allowed: it must be finite and positive"),
        (lambda: tp.Normal(0.0, np.inf), "std = inf"),
        (lambda: tp.Normal(np.nan, 1.0), "mean = nan is not allowed: it must be finite"),
        (lambda: tp.Normal("0", 1.0), "Normal takes real numbers"),
        (lambda: tp.Normal(1j), "Normal takes real numbers"),
        (lambda: tp.Normal([0.0, 1.0], [1.0, 1.0, 1.0]), r"mean of shape \(2,\), std of shape \(3,\)"),
        (lambda: tp.LogNormal(0.0, -1.0), "LogNormal's std = -1.0"),
        (lambda: tp.HalfNormal(-1.0), "HalfNormal's std = -1.0"),
        (lambda: tp.Exponential(0.0), "Exponential's rate = 0.0"),
        (lambda: tp.Beta(0.0, 1.0), "Beta's a = 0.0"),
        (lambda: tp.Gamma(2.0, -1.0), "Gamma's rate = -1.0"),
        (lambda: tp.StudentT(0.0, 1.0, 0.0), "StudentT's nu = 0.0 is not allowed"),
        (lambda: tp.StudentT(0.0, 1.0, [1.0, 2.0]), "it must be one number"),
        (lambda: tp.StudentT(0.0, 0.0), "StudentT's scale = 0.0"),
        (lambda: tp.Exponential(1e-50), "Exponential's rate = 1e-50"),
    ],
)
def test_improper_distributions(make, message):
    with pytest.raises(tp.SettingsError, match=message):
        make()


UNIT = tp.Uniform(0.0, 1.0)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"prior": UNIT}, "dim is missing: one distribution does not say"),
        ({"prior": [UNIT], "dim": 2}, "prior has 1 entries for 2 coordinates"),
        ({"prior": [], "dim": 2}, "prior has 0 entries for 2"),
        ({"prior": [UNIT, 3.0], "dim": 2}, r"prior\[1\] is a float; give a distribution such as tp.Uniform"),
        ({"prior": [UNIT, None], "dim": 2}, r"prior\[1\] is None"),
        ({"prior": tp.Normal, "dim": 2}, "prior is the class Normal; give its numbers too"),
        ({"prior": lambda u: u, "dim": 2}, "a function of the unit cube is `prior_transform=`"),
        ({"prior": tp.positive, "dim": 2}, "prior is a _Above"),
        ({"prior": [tp.Normal([0.0, 1.0]), UNIT], "dim": 2}, r"prior\[0\] is of shape \(2,\), for parameters of one"),
        ({"prior": tp.Normal([0.0, 1.0, 2.0]), "dim": 2}, r"prior is of shape \(3,\), for parameters of shape \(2,\)"),
        ({"prior": UNIT, "dim": 0}, "dim = 0 is not allowed"),
        ({"prior": UNIT, "dim": 2, "support": tp.positive}, "support and a prior both say where the parameters lie"),
        ({"prior": UNIT, "dim": 2, "reference": tp.Normal(0.0)}, "reference and a prior both say what the path"),
        ({"prior": UNIT, "dim": 2, "reference": "none"}, "reference and a prior both say"),
        ({"prior": UNIT, "dim": 2, "scale": 2.0}, "scale and a prior both say where chains start.*`init=`"),
        ({"prior": UNIT, "dim": 2, "prior_transform": lambda u: u}, "prior and prior_transform both say"),
        ({"prior": UNIT, "dim": 2, "init": [[0.5, 1.5]]}, r"1 of 1 points outside the support \(Uniform for 2"),
        ({"prior": UNIT, "dim": 2, "init": [[0.5, 1.0]]}, "give points inside, off the boundary"),
        ({"prior": {"a": UNIT}, "dim": 2}, "dim = 2 contradicts the parameters, which have 1 numbers"),
        ({"prior": {"a": UNIT, "b": 1.0}}, r"prior\['b'\] is a float"),
        ({"prior": {"a": UNIT}, "like": {"a": 0.0, "b": 0.0}}, "prior has no distribution for 'b'"),
        ({"prior": {"a": UNIT, "c": UNIT}, "like": {"a": 0.0}}, "prior has 'c', which the parameters do not have"),
        ({"prior": {"a": [UNIT]}, "like": {"a": 0.0}}, r"prior\['a'\] is a list, where the parameters have an array"),
        ({"prior": tp.StudentT([0.0, 0.0]), "dim": 3}, r"prior is of shape \(2,\)"),
        ({"prior": {}}, "no numbers in it"),
        ({"prior_transform": lambda u: u}, "dim is missing: with prior_transform it is the dimension of the unit cube"),
        ({"prior_transform": 3, "dim": 2}, "prior_transform is an int; give a function"),
        ({"prior_transform": lambda u: u, "dim": 2, "like": {"a": 0.0}}, "like is not for prior_transform"),
        ({"prior_transform": lambda u: u, "dim": 2, "scale": 1.0}, "scale and a prior both say"),
        ({"prior_transform": lambda u: np.asarray(u) + 1, "dim": 2}, "prior_transform is not traceable by JAX"),
        ({"prior_transform": lambda u: u if u[0] > 0 else -u, "dim": 2}, "prior_transform is not traceable by JAX"),
        ({"prior_transform": lambda u: u[:, None] @ u, "dim": 2}, "prior_transform raised"),
        ({"prior_transform": lambda u: jnp.sum(u), "dim": 2}, r"returns an array of shape \(\)"),
        ({"prior_transform": lambda u: u[None], "dim": 2}, r"returns an array of shape \(1, 2\)"),
        ({"prior_transform": lambda u: jnp.round(u).astype(int), "dim": 2}, "dtype int32"),
        ({"prior_transform": lambda u: [], "dim": 2}, "returns a list of 0 arrays"),
        (
            {"prior_transform": lambda u: jnp.log(u - 0.5), "dim": 2},
            "leaves the finite numbers at .* points of the unit",
        ),
    ],
)
def test_priors_that_do_not_fit(options, message):
    function = of_names if isinstance(options.get("prior"), dict) else log_likelihood
    with pytest.raises(tp.SettingsError, match=message):
        tp.fit(function, progress=False, **options)


def test_an_init_needs_a_transform_that_can_be_inverted():
    with pytest.raises(tp.SettingsError, match="its inverse is not known"):
        mixing = lambda u: jnp.stack([u[0], u[0] * u[1]])  # noqa: E731
        tp.fit(log_likelihood, dim=2, prior_transform=mixing, init=[[0.5, 0.2]], progress=False)


def test_targets_with_coordinates_of_their_own_take_no_prior():
    with pytest.raises(tp.SettingsError, match="coordinates or a reference of its own"):
        tp.fit(tp.PairPotential(lambda r: r**2, 3, 2), prior=tp.Normal(0.0), progress=False)
    box = tp.from_callable(lambda x: -np.sum(x**2), 2)
    with pytest.raises(tp.SettingsError, match="of a plain vector; give a list"):
        tp.fit(box, prior={"a": UNIT, "b": UNIT}, progress=False)
    with pytest.raises(tp.DensityError, match="must be a function of the parameters"):
        tp.fit(3, prior={"a": UNIT}, progress=False)
    with pytest.raises(tp.DensityError, match="log_density raised KeyError"):
        tp.fit(of_names, prior={"a": UNIT}, progress=False)


@pytest.mark.parametrize(
    ("function", "trouble"),
    [
        (log_likelihood, "unsupported operand"),  # written for a vector
        (lambda a, b: -a - jnp.sum(b), "missing 1 required positional argument"),  # and for arguments by name
    ],
)
def test_a_likelihood_of_another_form_than_the_prior_is_told_what_it_gets(function, trouble):
    message = rf"{trouble}.*takes one argument, the nested parameters$"
    with pytest.raises(tp.DensityError, match=message) as caught:
        tp.fit(function, prior={"a": UNIT, "b": tp.Normal(jnp.zeros(3))}, progress=False)
    assert "parameters nested as you gave them (a (), b (3,))" in str(caught.value)
    assert "not a batch" not in str(caught.value) and "with dim=" not in str(caught.value)


def test_distributions_of_numpyro_that_are_no_priors():
    dist = pytest.importorskip("numpyro.distributions")
    bad = {
        "which is discrete": dist.Poisson(2.0),
        "depend on each other": dist.Dirichlet(jnp.ones(2)),
        "which is improper": dist.ImproperUniform(dist.constraints.real, (), ()),
        "neither `icdf` nor `cdf`, so that [^()]*$": dist.VonMises(0.0, 1.0),
        "Normal's std = inf": dist.Normal(0.0, jnp.inf),
    }
    for message, each in bad.items():
        with pytest.raises(tp.SettingsError, match=message):
            tp.fit(log_likelihood, dim=2, prior=each, progress=False)
