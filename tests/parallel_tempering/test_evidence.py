"""log Z ratios from draws of every level, against closed forms and quadrature, in units of their own standard error."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from support.compilation import optimised
from support.random_checks import assert_mean, assert_std, must_fail
from support.tempered import tempered_draws
from tempering.parallel_tempering import stepping_stone
from tempering.targets import ManyWell
from tempering.targets.base import evaluate_many

KEY = jax.random.key(80)
BETAS = (0.2, 0.35, 0.6, 1.0)
NUM_DRAWS, NUM_CHAINS, NUM_REPEATS = 20, 50, 100
_GRID = np.linspace(-6.0, 6.0, 40_001)
_LOG_WELL = 0.5 * _GRID + 6.0 * _GRID**2 - _GRID**4


def _gaussian_case(gaussian):
    """Draws of every level of a Gaussian; log Z(beta) = beta * peak + (dim / 2) log(2 pi / beta) + (1/2) log det C."""
    keys = jax.random.split(KEY, len(BETAS))
    num = NUM_REPEATS * NUM_DRAWS * NUM_CHAINS
    positions = [tempered_draws(gaussian, key, num, beta) for key, beta in zip(keys, BETAS, strict=True)]
    exact = (1.0 - BETAS[0]) * float(gaussian.log_peak) + 0.5 * gaussian.dim * np.log(BETAS[0])
    return gaussian, positions, exact


def _log_z_of_well(beta: float) -> float:
    """Trapezoid rule over u, and the Gaussian integral over v."""
    peak = np.max(beta * _LOG_WELL)
    return peak + np.log(np.trapezoid(np.exp(beta * _LOG_WELL - peak), _GRID)) + 0.5 * np.log(2.0 * np.pi / beta)


def _many_well_case():
    """The same for one double well, whose tempered levels are no Gaussians: draws by inverse distribution function."""
    rng = np.random.default_rng(81)
    num = NUM_REPEATS * NUM_DRAWS * NUM_CHAINS
    positions = []
    for beta in BETAS:
        mass = np.exp(beta * (_LOG_WELL - np.max(_LOG_WELL)))
        u = np.interp(rng.uniform(size=num), np.cumsum(mass) / np.sum(mass), _GRID)
        positions.append(jnp.asarray(np.stack([u, rng.normal(size=num) / np.sqrt(beta)], axis=1), jnp.float32))
    return ManyWell(dim=2), positions, _log_z_of_well(1.0) - _log_z_of_well(BETAS[0])


@pytest.fixture(scope="module", params=["gaussian", "many-well"])
def case(request, gaussian):
    """Log densities of axes (repeat, level, draw, chain), and the exact log ratio."""
    target, positions, exact = _gaussian_case(gaussian) if request.param == "gaussian" else _many_well_case()
    log_density = jnp.stack([evaluate_many(target, level)[0] for level in positions])
    shape = (len(BETAS), NUM_REPEATS, NUM_DRAWS, NUM_CHAINS)
    return jnp.swapaxes(log_density.reshape(shape), 0, 1), exact


_repeated = jax.jit(jax.vmap(stepping_stone, in_axes=(0, None)))


def _scores(log_density, betas, exact) -> np.ndarray:
    """(estimate - exact) / standard error, of every repeat."""
    with optimised():
        estimate, error = _repeated(log_density, jnp.asarray(betas))
    assert np.all((np.asarray(error) > 0) & (np.asarray(error) < 0.2)), f"standard errors {np.asarray(error)}"
    return (np.asarray(estimate, np.float64) - exact) / np.asarray(error)


def _check(log_density, betas, exact) -> None:
    """Each estimate within five of its own standard errors, and the errors are of the right size over many."""
    scores = _scores(log_density, betas, exact)
    assert np.all(np.abs(scores) < 6.0), f"off by {np.max(np.abs(scores)):.1f} standard errors"
    # The estimate is unbiased up to 1 / n: a tenth of a standard error at this size.
    assert_mean(scores, 0.0, name="log Z ratio in standard errors", key=KEY)
    assert_std(scores, 1.0, name="spread of the log Z ratio in standard errors", key=KEY)


def test_log_z_ratio_is_exact_within_its_own_error(case):
    log_density, exact = case
    _check(log_density, BETAS, exact)


def test_the_error_covers_correlation_within_chains(case):
    # Every draw of a chain repeated: a tenth of the information, which an error over draws would not notice.
    log_density, exact = case
    sticky = jnp.repeat(log_density[:, :, : NUM_DRAWS // 10], 10, axis=2)
    _check(sticky, BETAS, exact)


def _wrong_sign(log_density, betas):
    return -log_density, betas


def _levels_shifted(log_density, betas):
    return jnp.roll(log_density, 1, axis=1), betas


def _levels_reversed(log_density, betas):
    return log_density[:, ::-1], betas


def _ladder_off(log_density, betas):
    return log_density, (0.21, *betas[1:])


@pytest.mark.parametrize("sabotage", [_wrong_sign, _levels_shifted, _levels_reversed, _ladder_off])
def test_saboteurs_are_rejected(case, sabotage):
    log_density, exact = case
    must_fail(_check, *sabotage(log_density, BETAS), exact)


def test_one_chain_cannot_tell_its_error(case):
    log_density, _ = case
    estimate, error = stepping_stone(log_density[0, :, :, :1], jnp.asarray(BETAS))
    assert np.isfinite(float(estimate)) and np.isnan(float(error))


def test_one_level_is_no_ratio(case):
    log_density, _ = case
    estimate, error = stepping_stone(log_density[0, :1], jnp.ones(1))
    assert float(estimate) == float(error) == 0.0


def test_a_constant_density_factor_moves_the_ratio_exactly(case):
    # log Z(beta) gains beta * c, so that the ratio gains (1 - beta_0) c.
    log_density, _ = case
    plain, error = stepping_stone(log_density[0], jnp.asarray(BETAS))
    moved, same_error = stepping_stone(log_density[0] + 3.0, jnp.asarray(BETAS))
    np.testing.assert_allclose(moved - plain, 3.0 * (1.0 - BETAS[0]), rtol=1e-4)
    np.testing.assert_allclose(same_error, error, rtol=1e-3)
