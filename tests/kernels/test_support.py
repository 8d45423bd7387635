"""Densities with an edge, a pole or a hole: -inf is never entered, NaN and +inf are refused and counted."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from support.random_checks import assert_same_distribution_ks, must_fail
from support.tempered import fitting_step_size, tempered_draws, walk
from support.tiny import quick_compilation
from tempering.kernels import MALA, ChainState, init
from tempering.kernels.base import accept_or_stay
from tempering.targets import Gaussian, Target

NUM_CHAINS = 20_000
BETA = 0.4
KEY = jax.random.key(22)


@pytest.fixture(scope="module", autouse=True)
def compiled_quickly():
    with quick_compilation():
        yield


class Truncated(Target):
    """A Gaussian cut off a little below its mean in the first coordinate."""

    inner: Gaussian
    dim: int = eqx.field(static=True, default=3)

    @property
    def edge(self):
        """Where the support begins."""
        return self.inner.location[0] - 0.4

    def log_density(self, x):
        return jnp.where(x[0] > self.edge, self.inner.log_density(x), -jnp.inf)


class Hazardous(Target):
    """A Gaussian with a region each of NaN, of +inf, of -inf, and of a NaN gradient beside a finite value."""

    inner: Gaussian
    dim: int = eqx.field(static=True, default=3)

    def log_density(self, x):
        z = x - self.inner.location
        value = self.inner.log_density(x)
        value = jnp.where(z[0] > 1.0, jnp.nan, value)
        value = jnp.where(z[1] > 1.0, jnp.inf, value)
        # Outside the square root's support the value is the other branch's, and the gradient is 0 * NaN.
        value = value + jnp.where(z[2] > 1.0, 0.0, jnp.sqrt(1.0 - z[2]) * 1e-3)
        return jnp.where(z[0] + z[1] < -2.0, -jnp.inf, value)


def _truncated_draws(target: Truncated, key) -> jax.Array:
    draws = tempered_draws(target.inner, key, 2 * NUM_CHAINS, BETA)
    return draws[draws[:, 0] > target.edge][:NUM_CHAINS]


def _check_truncated(target: Truncated, positions) -> None:
    positions = np.asarray(positions)
    assert np.all(positions[:, 0] > target.edge), f"{np.sum(positions[:, 0] <= target.edge)} chains left the support"
    reference = _truncated_draws(target, jax.random.fold_in(KEY, 2))
    white = [
        np.asarray(values - target.inner.location[None]) @ target.inner.whitening.T for values in (positions, reference)
    ]
    assert_same_distribution_ks(positions, np.asarray(reference), name="truncated coordinates", key=KEY)
    assert_same_distribution_ks(white[0], white[1], name="whitened truncated coordinates", key=KEY)


def test_truncated_density_is_invariant_and_never_left(kernel, gaussian):
    target = Truncated(gaussian)
    positions = _truncated_draws(target, jax.random.fold_in(KEY, 1))
    states, info = walk(KEY, target, kernel, positions, jnp.asarray(BETA), fitting_step_size(kernel, BETA))
    _check_truncated(target, states.position)
    # Outside the support is a legal answer: rejected, and nothing to report.
    assert np.any(np.asarray(info.acceptance_probability) == 0.0)
    assert not np.any(np.asarray(info.is_nonfinite))


def test_moving_proposals_back_to_the_edge_would_show(gaussian):
    target = Truncated(gaussian)
    positions = _truncated_draws(target, jax.random.fold_in(KEY, 1))
    step_size = fitting_step_size(MALA(), BETA)
    states, _ = walk(KEY, gaussian, MALA(), positions, jnp.asarray(BETA), step_size)
    clipped = states.position.at[:, 0].max(jnp.nextafter(target.edge, jnp.inf))
    must_fail(_check_truncated, target, clipped)
    must_fail(_check_truncated, target, states.position)


def _is_bad(target: Hazardous, positions) -> tuple[np.ndarray, np.ndarray]:
    """Where the density must not be entered and is to be counted, and where it must not be entered at all."""
    z = np.asarray(positions) - np.asarray(target.inner.location)
    outside = z[..., 0] + z[..., 1] < -2.0
    bad = (z[..., 0] > 1.0) | (z[..., 1] > 1.0) | (z[..., 2] > 1.0)
    return bad & ~outside, bad | outside


def test_bad_values_are_rejected_and_counted(kernel, gaussian):
    target = Hazardous(gaussian)
    draws = tempered_draws(gaussian, KEY, 4 * NUM_CHAINS, BETA)
    positions = jnp.asarray(np.asarray(draws)[~_is_bad(target, draws)[1]][:5_000])
    states, info = walk(KEY, target, kernel, positions, jnp.asarray(BETA), fitting_step_size(kernel, BETA))
    assert not np.any(_is_bad(target, states.position)[1])
    for leaf in (states.position, states.log_density, states.log_density_grad, info.acceptance_probability):
        assert np.all(np.isfinite(leaf))
    assert np.all(np.asarray(info.acceptance_probability)[np.asarray(info.is_nonfinite)] == 0.0)
    assert 0.05 < np.mean(info.is_nonfinite) < 0.95
    assert np.any(info.is_accepted)


def test_mala_counts_exactly_the_proposals_that_were_bad(gaussian):
    target = Hazardous(gaussian)
    step_size = fitting_step_size(MALA(), BETA)
    draws = tempered_draws(gaussian, KEY, 4 * NUM_CHAINS, BETA)
    positions = jnp.asarray(np.asarray(draws)[~_is_bad(target, draws)[1]][:5_000])
    _, info = walk(KEY, target, MALA(), positions, jnp.asarray(BETA), step_size)
    # The first step's proposals, made again from its keys.
    keys = jax.random.split(jax.random.split(KEY, 4)[0], 5_000)
    noise = jax.vmap(lambda key: jax.random.normal(jax.random.split(key)[0], (3,)))(keys)
    drift = step_size * BETA * jax.vmap(lambda x: init(x, target).log_density_grad)(positions)
    proposals = positions + drift + jnp.sqrt(2.0 * step_size) * noise
    np.testing.assert_array_equal(np.asarray(info.is_nonfinite)[0], _is_bad(target, proposals)[0])


NAN, INF = float("nan"), float("inf")


@pytest.mark.parametrize(
    ("log_density", "grad", "log_ratio", "is_accepted", "is_nonfinite"),
    [
        (-1.0, 0.0, 0.0, True, False),
        (-1.0, 0.0, INF, True, False),
        (-1.0, 0.0, -INF, False, False),
        (-1.0, 0.0, NAN, False, False),
        (-INF, 0.0, -INF, False, False),
        (-INF, NAN, NAN, False, False),
        (NAN, 0.0, INF, False, True),
        (INF, 0.0, INF, False, True),
        (-1.0, NAN, 5.0, False, True),
        (-1.0, INF, 5.0, False, True),
    ],
)
@pytest.mark.parametrize("uniform", [0.0, 0.9])
def test_decision_table(log_density, grad, log_ratio, is_accepted, is_nonfinite, uniform):
    state = ChainState(jnp.zeros(2), jnp.asarray(-2.0), jnp.ones(2))
    proposal = ChainState(jnp.ones(2), jnp.asarray(log_density), jnp.asarray([0.0, grad]))
    kept, info = accept_or_stay(jnp.asarray(uniform), state, proposal, jnp.asarray(log_ratio))
    assert (bool(info.is_accepted), bool(info.is_nonfinite)) == (is_accepted, is_nonfinite)
    assert float(kept.log_density) == (log_density if is_accepted else -2.0)
    assert np.all(np.asarray(kept.position) == float(is_accepted))
    assert np.isfinite(float(info.acceptance_probability))
