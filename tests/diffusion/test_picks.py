"""What a training step sees: levels by their share, samples by their weight, and never what is held out or padding."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from support.random_checks import FALSE_FAILURE_PER_CALL, must_fail
from tempering.buffer import from_states
from tempering.diffusion import Dataset
from tempering.diffusion.calibrate import dataset_of
from tempering.diffusion.fit import _parts, _Picks, _search
from tempering.kernels import ChainState
from tempering.settings import Noise

NUM_DRAWS, PERIOD = 40_000, 5
SIZES, PLACES, PADDED = (23, 40), 4, 48
SHARES = np.array([0.3, 1.0])


@pytest.fixture(scope="module")
def data() -> Dataset:
    """Two levels of unlike size and skewed weights, some of them 0, padded with samples and with places."""
    rng, buffers = np.random.default_rng(0), []
    for size in SIZES:
        points = jnp.asarray(rng.normal(size=(size, 2)), jnp.float32)
        buffer = from_states(ChainState(points, jnp.zeros(size), -points), "weighted")
        weights = np.where(np.arange(size) % 7 == 3, 0.0, rng.exponential(size=size) ** 2)
        with np.errstate(divide="ignore"):
            log_weight = jnp.asarray(np.log(weights), jnp.float32)
        buffers.append(eqx.tree_at(lambda tree: tree.log_weight, buffer, log_weight))
    sigma_max = jnp.asarray(10.0)
    betas = jnp.array([0.3, 1.0])
    kwargs = {"use_gradients": True, "shares": tuple(SHARES), "size": PADDED, "num_places": PLACES}
    return dataset_of(Noise(), tuple(buffers), betas, sigma_max, **kwargs)


def drawn(picks: _Picks, key) -> np.ndarray:
    levels, indices = jax.jit(jax.vmap(picks.draw))(jax.random.split(key, NUM_DRAWS))
    return np.bincount(np.asarray(levels * PADDED + indices), minlength=PLACES * PADDED).reshape(PLACES, PADDED)


def expected_of(data: Dataset, kept: np.ndarray, shares: np.ndarray) -> np.ndarray:
    weight = np.where(kept[None], np.asarray(data.levels.weight, np.float64)[:2], 0.0)
    exact = np.zeros((PLACES, PADDED))
    exact[:2] = weight / weight.sum(axis=1, keepdims=True) * (shares / shares.sum())[:, None]
    return exact


def check_counts(counts: np.ndarray, probabilities: np.ndarray) -> None:
    """Nothing without weight, and a chi-square of the rest; cells of fewer than five are put together."""
    assert np.all(counts[probabilities == 0] == 0), "something without weight was drawn"
    expected, seen = NUM_DRAWS * probabilities[probabilities > 0], counts[probabilities > 0]
    is_rare = expected < 5
    expected = np.append(expected[~is_rare], max(expected[is_rare].sum(), 1e-9))
    seen = np.append(seen[~is_rare], seen[is_rare].sum())
    statistic = np.sum((seen - expected) ** 2 / expected)
    assert stats.chi2.sf(statistic, expected.size - 1) > FALSE_FAILURE_PER_CALL


def test_training_draws_levels_by_share_and_samples_by_weight(data):
    is_trained = np.arange(PADDED) % PERIOD != 0
    counts = drawn(_parts(data, PERIOD)[0], jax.random.key(0))
    exact = expected_of(data, is_trained, SHARES)
    check_counts(counts, exact)
    must_fail(check_counts, counts, expected_of(data, np.ones(PADDED, bool), SHARES))  # nothing held out
    must_fail(check_counts, counts, expected_of(data, is_trained, np.ones(2)))  # shares forgotten
    must_fail(check_counts, counts, (exact > 0) / np.sum(exact > 0))  # weights forgotten
    for held_out in (0, PERIOD, 7 * PERIOD):
        assert np.all(counts[:, held_out] == 0)
    assert np.all(counts[0, SIZES[0] :] == 0) and np.all(counts[1, SIZES[1] :] == 0), "padding was drawn"
    assert np.all(counts[2:] == 0), "an empty place was drawn"


def test_checks_draw_the_held_out_samples_of_the_largest_share(data):
    counts = drawn(_parts(data, PERIOD)[1], jax.random.key(1))
    is_held_out = np.arange(PADDED) % PERIOD == 0
    check_counts(counts, expected_of(data, is_held_out, np.array([0.0, 1.0])))
    must_fail(check_counts, counts, expected_of(data, is_held_out, SHARES))
    assert np.all(counts[:, ~is_held_out] == 0)


@pytest.mark.parametrize("size", [1, 2, 3, 8, 9, 1000])
def test_the_search_is_that_of_numpy(size):
    weights = np.random.default_rng(size).integers(0, 3, size=size).astype(np.float32)
    weights[size // 2] = 1.0
    cumulative = jnp.asarray(np.cumsum(weights))  # whole numbers: exact
    numbers = np.linspace(0.0, 0.999, 200, dtype=np.float32)
    found = jax.vmap(lambda number: _search(lambda place: cumulative[place], size, number))(jnp.asarray(numbers))
    expected = np.searchsorted(np.asarray(cumulative), numbers * np.float32(weights.sum()), side="right")
    np.testing.assert_array_equal(found, expected)
    assert np.all(weights[np.asarray(found)] > 0)
    # The largest number there is still falls on a place with weight.
    last = _search(lambda place: cumulative[place], size, jnp.asarray(np.nextafter(np.float32(1), np.float32(0))))
    assert weights[int(last)] > 0


def test_rounding_gives_no_weight_to_what_is_held_out():
    """Prefix sums round each on its own, so that among thousands of zeros some own an ulp: exactly there we draw."""
    size = 20_000
    weight = jnp.asarray(np.random.default_rng(0).exponential(size=size) / size, jnp.float32)
    points = jnp.zeros((size, 1))
    buffer = from_states(ChainState(points, jnp.zeros(size), points), "weighted")
    data = dataset_of(Noise(sigma_min=0.1), (buffer,), jnp.ones(1), jnp.ones(()), use_gradients=False)
    train, _ = _parts(eqx.tree_at(lambda tree: tree.levels.weight, data, weight[None]), 10)
    cumulative = np.asarray(train.weight[0])
    is_held_out = np.arange(size) % 10 == 0
    owners = 1 + np.flatnonzero((np.diff(cumulative) > 0) & is_held_out[1:])
    assert owners.size == 0, f"{owners.size} held-out samples can be drawn, with probability 1e-7 each"
