"""The variance-preserving process: its clock, and that it is a change of variables of the variance-exploding one."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from support.random_checks import assert_mean, assert_std, must_fail
from tempering.diffusion import DiffusionModel, NoiseLevels, VariancePreserving, sigma_grid
from tempering.diffusion.churn import Kicks
from tempering.diffusion.divergence import flow_step
from tempering.diffusion.objective import denoising_loss
from tempering.diffusion.precondition import Denoiser
from tempering.diffusion.solve import Method, draw, flow
from tempering.guidance.extrapolate import Guided
from tempering.settings import Sampling

NUM = 64
PROCESS = VariancePreserving.ending_at(jnp.asarray(12.0), 0.1, 8.0)  # a unit of 1.6, near the data's own


def preserving(exact, process=PROCESS):
    """The same Gaussian, noised and denoised by the other clock."""
    return exact._replace(levels=NoiseLevels(exact.levels.sigma_min, exact.levels.sigma_max, process))


def model_of(exact):
    return DiffusionModel(exact.denoise, exact.prior, exact.levels)


def drawn(exact, num_steps, solver="heun", process=PROCESS, num=NUM, divergence="exact", kicks=None):
    grid = sigma_grid(preserving(exact).levels, num_steps)
    how = Method(solver, divergence, 1, kicks, process)
    return draw(jax.random.key(0), num, exact.denoise, exact.prior, grid, how, chunk_size=num)


def expected_of(exact, num=NUM):
    first = jax.jit(jax.vmap(lambda key: exact.prior.sample(jax.random.split(key)[0])))
    starts = np.asarray(first(jax.random.split(jax.random.key(0), num)), np.float64)
    return exact.mean + (starts - exact.mean) @ exact.transport.T


class Drifting(VariancePreserving):
    """A saboteur: the step is not taken back from y = s x to x."""

    def step(self, denoise, x, sigma, sigma_next, *, is_second_order):
        moved, denoised = super().step(denoise, x, sigma, sigma_next, is_second_order=is_second_order)
        return moved * self.scale_at(sigma_next) / self.scale_at(sigma), denoised


def test_the_clock_runs_from_no_noise_to_the_end_and_back():
    times = jnp.linspace(1e-4, 1.0, 50)
    sigma = PROCESS.sigma_at(times)
    np.testing.assert_allclose(PROCESS.time_at(sigma), times, rtol=1e-4)
    np.testing.assert_allclose(sigma[-1], 12.0, rtol=1e-5)
    # s^2 (u^2 + sigma^2) = u^2: the variance of data of one unit is preserved.
    scale = jax.vmap(PROCESS.scale_at)(sigma)
    np.testing.assert_allclose(scale**2 * (PROCESS.unit**2 + sigma**2), PROCESS.unit**2, rtol=1e-5)
    # The usual clock of Song et al. ends with 152 units of noise.
    np.testing.assert_allclose(VariancePreserving.reach(0.1, 20.0), np.sqrt(np.exp(10.05) - 1.0), rtol=1e-9)
    level_clock = VariancePreserving(jnp.asarray(2.0), 3.0, 3.0)  # a rate that does not change
    np.testing.assert_allclose(level_clock.time_at(level_clock.sigma_at(times)), times, rtol=1e-4)


def test_training_and_grid_are_even_in_the_roots_of_time():
    levels = NoiseLevels(jnp.asarray(0.05), jnp.asarray(12.0), PROCESS)
    grid = sigma_grid(levels, 20)
    np.testing.assert_allclose(grid[jnp.array([0, -1])], [12.0, 0.05], rtol=1e-4)
    roots = np.sqrt(PROCESS.time_at(grid))
    np.testing.assert_allclose(np.diff(roots), np.diff(roots)[0], rtol=1e-3)
    keys = jax.random.split(jax.random.key(3), 4000)
    seen = jax.jit(jax.vmap(levels.sample))(keys)
    assert np.min(seen) >= 0.05 and np.max(seen) <= 12.0
    low, high = roots[-1], roots[0]
    assert_mean(np.sqrt(PROCESS.time_at(seen)), 0.5 * (low + high), key=jax.random.key(3))
    plain = NoiseLevels(levels.sigma_min, levels.sigma_max)
    exploding = jax.jit(jax.vmap(plain.sample))(keys)
    must_fail(assert_mean, np.sqrt(PROCESS.time_at(exploding)), 0.5 * (low + high))


def test_a_step_of_euler_is_that_of_the_textbook(correlated):
    """dy / dt = -(beta / 2) (y + u^2 score of y), with the score of y itself in closed form, in float64."""
    sigma, sigma_next, x = 3.0, 2.2, np.array([4.0, -1.0])
    unit, (low, high) = float(PROCESS.unit), (0.1, 8.0)
    time, time_next = (float(PROCESS.time_at(jnp.asarray(s))) for s in (sigma, sigma_next))
    scale, scale_next = (1.0 / np.sqrt(1.0 + (s / unit) ** 2) for s in (sigma, sigma_next))
    y, beta = scale * x, low + time * (high - low)
    covariance = scale**2 * correlated.denoise.covariance_at(sigma)
    score = -np.linalg.solve(covariance, y - scale * correlated.mean)
    expected = (y - 0.5 * beta * (time_next - time) * (y + unit**2 * score)) / scale_next

    def check(process):
        sigmas = jnp.asarray(sigma), jnp.asarray(sigma_next)
        point = jnp.asarray(x, jnp.float32)
        moved, _ = flow_step(correlated.denoise, point, *sigmas, is_second_order=False, process=process)
        np.testing.assert_allclose(moved, expected, rtol=2e-4)

    check(PROCESS)
    must_fail(check, None)  # the step of the other process, between the same noise levels
    must_fail(check, Drifting(PROCESS.unit, 0.1, 8.0))


@pytest.mark.parametrize(
    ("solver", "num_steps", "order"), [pytest.param("euler", 400, 1, marks=pytest.mark.slow), ("heun", 100, 2)]
)
def test_both_processes_have_one_flow(correlated, solver, num_steps, order):
    """The same denoiser and start end at the same point with the same density, as steps grow, each at its own order."""
    expected = expected_of(correlated)

    def errors_of(process):
        found = []
        for num in (num_steps // 2, num_steps):
            x, log_q = drawn(correlated, num, solver, process)
            change = np.asarray(log_q, np.float64) - correlated.log_prob(expected)
            found.append([np.max(np.abs(np.asarray(x) - expected)), np.max(np.abs(change))])
        return np.array(found)

    def check(process):
        errors = errors_of(process)
        assert np.max(errors[1]) < 0.06, f"off by {errors[1]}"
        np.testing.assert_allclose(np.log2(errors[0] / errors[1]), order, atol=0.4)

    check(PROCESS)
    must_fail(check, Drifting(PROCESS.unit, 0.1, 8.0))


def test_likelihoods_agree(correlated):
    points = jnp.asarray(correlated.mean, jnp.float32)[None] + jax.random.normal(jax.random.key(5), (NUM, 2))
    sampling = Sampling("heun", 100, divergence="exact")
    exploding = model_of(correlated).log_prob(jax.random.key(0), points, sampling)
    other = preserving(correlated)
    np.testing.assert_allclose(exploding, correlated.log_prob(points), atol=2e-2)

    def check(process):
        found = model_of(preserving(correlated, process)).log_prob(jax.random.key(0), points, sampling)
        np.testing.assert_allclose(found, exploding, atol=2e-2)

    check(other.levels.process)
    must_fail(check, Drifting(PROCESS.unit, 0.1, 8.0))


def test_the_reverse_sde_is_ddpms(correlated):
    """An ancestral step in x is the Gaussian posterior of the variance-preserving chain in y = s x."""
    sigma, sigma_next = 3.0, 2.2
    unit = float(PROCESS.unit)
    x, denoised = np.array([4.0, -1.0]), np.array([1.0, 0.5])
    # DDPM (Eq. 7): alpha_bar = s^2, noise in units of u.
    bar, bar_next = (1.0 / (1.0 + (s / unit) ** 2) for s in (sigma, sigma_next))
    alpha = bar / bar_next
    mean = np.sqrt(bar_next) * (1 - alpha) / (1 - bar) * denoised + np.sqrt(alpha) * (1 - bar_next) / (1 - bar) * (
        np.sqrt(bar) * x
    )
    variance = (1 - bar_next) / (1 - bar) * (1 - alpha) * unit**2
    share = (sigma_next / sigma) ** 2
    np.testing.assert_allclose(mean / np.sqrt(bar_next), denoised + share * (x - denoised), rtol=1e-9)
    np.testing.assert_allclose(variance / bar_next, sigma_next**2 * (1 - share), rtol=1e-9)


@pytest.mark.parametrize("solver", ["sde", pytest.param("churn", marks=pytest.mark.slow)])
def test_stochastic_draws_have_the_exact_moments(diagonal, solver):
    kicks = Kicks(20.0, None) if solver == "churn" else None
    x, _ = drawn(diagonal, 300 if solver == "sde" else 60, solver, num=4000, divergence="none", kicks=kicks)
    key = jax.random.key(0)
    assert_mean(x, diagonal.mean, key=key)
    assert_std(x, np.sqrt(np.diag(diagonal.covariance)), key=key)
    must_fail(assert_std, x, np.sqrt(np.diag(diagonal.covariance) / 1.7))


def test_guidance_is_the_same_in_both(diagonal):
    """Denoisers combine in x, so that guided flows agree too."""
    hot = diagonal.denoise
    cold = eqx.tree_at(lambda tree: tree.temperature, hot, jnp.asarray(1.2))
    guided = Guided((cold, hot), jnp.array([1.5, -0.5]))
    point = jnp.array([6.0, 3.0])

    @jax.jit
    def end(process):
        grid = sigma_grid(NoiseLevels(diagonal.levels.sigma_min, diagonal.levels.sigma_max, process), 200)
        return flow(guided, point, grid, jax.random.key(0), Method("heun", "exact", 1, None, process))

    for exploding, other in zip(end(None), end(PROCESS), strict=True):
        np.testing.assert_allclose(exploding, other, atol=2e-2)


def test_the_loss_regresses_on_the_same_data_at_the_noise_of_the_clock():
    """With the exact denoiser of a point the loss is 0 at every noise level of either process."""
    x = jnp.array([2.0, -5.0])
    zero = Denoiser(lambda scaled, *_: jnp.zeros_like(scaled), x, 1e-3 * jnp.ones(2), jnp.zeros(()))
    for process in (None, PROCESS):
        levels = NoiseLevels(jnp.asarray(0.5), jnp.asarray(12.0), process)
        loss = denoising_loss(zero, jax.random.key(0), x, jnp.zeros(2), levels, jnp.zeros(2))
        assert loss < 1e-4


def test_one_program_serves_all_levels(correlated):
    """The unit of length is an array: another sigma_max is no other program."""
    count = 0

    @eqx.filter_jit
    def step(x, process):
        nonlocal count
        count += 1
        return process.step(correlated.denoise, x, jnp.asarray(3.0), jnp.asarray(2.0), is_second_order=True)[0]

    for sigma_max in (12.0, 40.0):
        step(jnp.ones(2), VariancePreserving.ending_at(jnp.asarray(sigma_max), 0.1, 20.0))
    assert count == 1
