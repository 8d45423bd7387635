"""A fit has the same bits whatever a user has switched on in JAX, and outside of it that stays on."""

import threading
import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tempering as tp
from support.tiny_fits import density, fit
from tempering.compilation import methods_in_plain_jax, plain_jax, single


@pytest.fixture
def double():
    """What `jax.config.update("jax_enable_x64", True)` does, for one test."""
    with jax.enable_x64(True):
        yield


def widened():
    """The density of tiny fits with its numbers as JAX makes them in double precision."""
    return jax.tree.map(lambda leaf: jnp.asarray(np.asarray(leaf), jnp.float64), density())


def test_a_fit_is_the_same_and_the_user_keeps_double_precision(tmp_path):
    usual = fit(seed=3)
    with jax.enable_x64(True):
        own = fit(widened(), seed=3)
        assert jnp.ones(()).dtype == jnp.float64  # outside of the library nothing has changed
        draws, weighted = own.sample(5, seed=1), own.sample_weighted(6, seed=2)
        log_prob = own.log_prob(np.zeros((2, 2)))
        loaded = tp.load(own.save(tmp_path / "fit"), density())
        again = loaded.sample_weighted(6, seed=2)
        assert own.diagnose().status == usual.diagnose().status and own.summary() and repr(own)
    assert own.log_z == usual.log_z and own.evaluations == usual.evaluations
    np.testing.assert_array_equal(draws, usual.sample(5, seed=1))
    np.testing.assert_array_equal(log_prob, usual.log_prob(np.zeros((2, 2))))
    for one, two, other in zip(weighted, again, usual.sample_weighted(6, seed=2), strict=True):
        np.testing.assert_array_equal(one, other)
        np.testing.assert_array_equal(two, other)


def test_a_density_that_holds_double_precision_is_rounded_without_a_warning(double):
    data = jnp.asarray([3.0, 4.0, 5.0])  # of the user, in double precision
    turn = jnp.eye(2)
    with warnings.catch_warnings(), jax.numpy_dtype_promotion("standard"):  # as users have it
        warnings.simplefilter("error")
        sampler = fit(lambda x: -0.5 * jnp.sum((turn @ x - jnp.mean(data) / 4.0) ** 2))
    assert sampler.sample(3).dtype == np.float32 and np.isfinite(sampler.log_z)


@pytest.mark.parametrize(
    "options",
    [
        {"prior": [tp.Normal(0.0, 1.0), tp.HalfNormal(1.0)]},
        {"prior_transform": lambda u: 6.0 * u - 3.0},
        {"support": tp.positive},
    ],
    ids=["prior", "transform", "support"],
)
def test_coordinates_of_a_user_are_in_plain_jax(double, options):
    sampler = fit(lambda x: -0.5 * jnp.sum(x**2) - x[1], **options)
    assert np.isfinite(sampler.log_z) and sampler.sample_weighted(4)[1].dtype == np.float32


@pytest.mark.parametrize("search", [jax.debug_nans, jax.debug_infs])
def test_a_search_for_nan_does_not_end_a_fit(search):
    """A point outside of the support is -inf, and what was rejected may be NaN: both are counted, not raised."""
    walled = density(wall=1.5)
    usual = fit(walled, seed=2)
    with search(True):
        with pytest.raises(FloatingPointError):  # it is on
            jax.jit(lambda x: jnp.stack([jnp.log(x), jnp.log(x) * 0.0]))(jnp.zeros(()))
        own = fit(walled, seed=2)
        np.testing.assert_array_equal(own.sample(4), usual.sample(4))
    assert own.log_z == usual.log_z


def test_only_what_is_wide_is_rounded(double):
    tree = {"a": jnp.ones(2), "b": jnp.arange(3), "c": np.ones(2), "d": "word", "e": jnp.ones(2, jnp.float32)}
    found = single(tree)
    assert [str(found[name].dtype) for name in "abce"] == ["float32", "int32", "float64", "float32"]
    narrow = {"e": tree["e"], "d": "word"}
    assert single(narrow) is narrow


def test_a_thread_does_not_know_what_its_maker_has_set(double):
    """Why programs that are compiled ahead set it for themselves."""
    seen = []

    def look():
        seen.append(jax.config.values["jax_enable_x64"])

    with plain_jax():
        look()
        threads = [threading.Thread(target=work) for work in (look, plain_jax()(look))]
        for thread in threads:
            thread.start()
            thread.join()
    look()
    assert seen == [False, False, False, True]  # the global switch of tests is off; a user's is on


def test_public_methods_and_properties_are_meant(double):
    @methods_in_plain_jax
    class Asked:
        def method(self):
            """Says it."""
            return jnp.ones(()).dtype

        @property
        def value(self):
            """The value."""
            return self.method()

        def _own(self):
            return jnp.ones(()).dtype

    asked = Asked()
    assert asked.method() == asked.value == jnp.float32 and asked._own() == jnp.float64
    assert Asked.method.__doc__ == "Says it." and Asked.value.__doc__ == "The value."
