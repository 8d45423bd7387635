"""Split R-hat: ArviZ's number, and what it says of chains that never moved."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tempering.parallel_tempering.mixing import split_rhat


@pytest.mark.parametrize("num_draws", [4, 50])
def test_agrees_with_arviz(num_draws):
    import arviz  # which takes most of a second, in every process that collects this file

    key_noise, key_mean = jax.random.split(jax.random.key(50))
    shift = jnp.asarray([0.0, 0.3, 3.0])[None, None] * jax.random.normal(key_mean, (1, 12, 3))
    draws = 2.0 + shift + jax.random.normal(key_noise, (num_draws, 12, 3))
    expected = [arviz.rhat(np.asarray(draws[..., axis], np.float64).T, method="split") for axis in range(3)]
    np.testing.assert_allclose(split_rhat(draws), expected, rtol=1e-4)
    assert expected[0] < expected[2]


def test_a_trend_shared_by_all_chains_shows():
    # Plain R-hat would see nothing here: all chains agree, and drift together.
    drift = jnp.linspace(0.0, 5.0, 40)[:, None, None]
    draws = drift + jax.random.normal(jax.random.key(51), (40, 8, 1))
    assert float(split_rhat(draws)[0]) > 1.3


def test_chains_that_never_moved_do_not_count_as_mixed():
    same = jnp.ones((10, 4, 1))
    apart = same * jnp.arange(4.0)[None, :, None]
    assert not float(split_rhat(same)[0]) < 1.3
    assert not float(split_rhat(apart)[0]) < 1.3
