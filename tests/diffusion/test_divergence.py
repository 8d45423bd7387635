"""The density of a discretely integrated sample is that of the discrete map, however coarse the grid."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from support.random_checks import assert_mean, must_fail
from tempering.diffusion import sigma_grid
from tempering.diffusion.divergence import step_with_log_det
from tempering.diffusion.solve import Method, flow

NUM_STEPS = 9  # coarse enough that the divergence integrated along the path is visibly off


def exact_log_det(correlated, solver: str) -> float:
    """Sum of log |det| of the linear steps of a Gaussian's flow, in float64."""
    sigmas = np.asarray(sigma_grid(correlated.levels, NUM_STEPS), np.float64)
    covariance = correlated.denoise.covariance_at(0.0)
    identity, total = np.eye(2), 0.0
    for sigma, sigma_next in zip(sigmas, sigmas[1:], strict=False):
        here, there = (
            (identity - covariance @ np.linalg.inv(covariance + s**2 * identity)) / s for s in (sigma, sigma_next)
        )
        h = sigma_next - sigma
        euler = identity + h * here
        jacobian = euler if solver == "euler" else identity + 0.5 * h * (here + there @ euler)
        total += np.linalg.slogdet(jacobian)[1]
    return total


@pytest.mark.parametrize("solver", ["euler", "heun"])
def test_log_q_is_that_of_the_discrete_map(correlated, solver):
    sigmas = sigma_grid(correlated.levels, NUM_STEPS)
    method = Method(solver, "exact", 1)
    _, change = flow(correlated.denoise, jnp.array([3.0, -20.0]), sigmas, jax.random.key(0), method)
    np.testing.assert_allclose(change, -exact_log_det(correlated, solver), rtol=1e-5)


def test_the_integrated_divergence_would_be_off(correlated):
    """The saboteur: the trapezoidal rule on tr dv/dx, which is what a log density is usually taken from."""
    sigmas = sigma_grid(correlated.levels, NUM_STEPS)
    point = jnp.array([3.0, -20.0])
    traces = [jnp.trace(jax.jacfwd(correlated.denoise)(point, sigma)) for sigma in sigmas]
    divergences = [float((2.0 - trace) / sigma) for trace, sigma in zip(traces, sigmas, strict=True)]
    integrated = np.trapezoid(divergences, np.asarray(sigmas, np.float64))
    assert abs(integrated - exact_log_det(correlated, "heun")) > 0.05


MATRIX = np.array([[0.72, 0.05, 0.02], [0.04, 0.81, -0.06], [0.0, -0.05, 0.93]])


@pytest.mark.parametrize("scale", [0.8, 1.0])
def test_probes_estimate_the_log_determinant(scale):
    """Any scale is right; what the series leaves out is of fifth order in the spread about it."""
    matrix, key = jnp.asarray(MATRIX, jnp.float32), jax.random.key(3)
    exact = np.linalg.slogdet(MATRIX)[1]

    def estimate(key):
        return step_with_log_det(
            lambda x: matrix @ x, jnp.ones(3), key, jnp.asarray(scale), divergence="hutchinson", num_probes=1
        )

    _, estimates, means = jax.vmap(estimate)(jax.random.split(key, 20_000))
    estimates = np.asarray(estimates, np.float64)
    left_out = 3 * max(abs(np.linalg.eigvals(MATRIX) / scale - 1)) ** 5 / 5
    assert abs(estimates.mean() - exact) < left_out + 5 * estimates.std() / np.sqrt(estimates.size)
    first_order = 3 * np.log(scale) + np.trace(MATRIX / scale - np.eye(3))
    must_fail(assert_mean, estimates, first_order, key=key)  # the trace alone, as an integrated divergence has it
    assert_mean(np.asarray(means), np.trace(MATRIX) / 3, key=key)


def test_probes_agree_with_the_discrete_map(correlated):
    """A whole coarse path: the mean over probes is the exact log determinant of the map."""
    sigmas, key = sigma_grid(correlated.levels, NUM_STEPS), jax.random.key(5)
    method = Method("heun", "hutchinson", 1)

    def change(key):
        return flow(correlated.denoise, jnp.array([3.0, -20.0]), sigmas, key, method)[1]

    changes = np.asarray(jax.jit(jax.vmap(change))(jax.random.split(key, 4000)), np.float64)
    assert abs(changes.mean() + exact_log_det(correlated, "heun")) < 0.01 + 5 * changes.std() / np.sqrt(changes.size)


def test_none_tracks_nothing():
    moved, log_det, _ = step_with_log_det(
        lambda x: 2.0 * x, jnp.ones(2), jax.random.key(0), jnp.ones(()), divergence="none", num_probes=1
    )
    np.testing.assert_array_equal(moved, [2.0, 2.0])
    assert log_det == 0
