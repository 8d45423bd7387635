"""Starting points: bad ones are replaced and counted, hopeless ones refused with the reason."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tempering.errors import BudgetError, DensityError
from tempering.kernels import MALA
from tempering.parallel_tempering import start
from tempering.parallel_tempering.initial import normal_start, rows_start
from tempering.runs.ledger import Ledger
from tempering.targets import Gaussian, Target, anisotropic_gaussian

KEY = jax.random.key(70)


class _Holed(Target):
    """A Gaussian with -inf left of `hole`, NaN right of `nan`."""

    inner: Gaussian
    hole: jax.Array
    nan: jax.Array
    dim: int = eqx.field(static=True, default=2)

    def log_density(self, x):
        value = jnp.where(x[0] < self.hole, -jnp.inf, self.inner.log_density(x))
        return jnp.where(x[0] > self.nan, jnp.nan, value)


def _holed(hole: float = -jnp.inf, nan: float = jnp.inf) -> _Holed:
    return _Holed(anisotropic_gaussian(dim=2, seed=2), jnp.asarray(hole), jnp.asarray(nan))


def _start(target, positions):
    ledger = Ledger()
    betas = jnp.linspace(0.2, 1.0, positions.shape[0])
    state, num_replaced = start(KEY, target, MALA(), positions, betas, ledger, "initial_pt")
    return state, num_replaced, ledger


POSITIONS = jax.random.normal(jax.random.key(71), (3, 40, 2))


def test_good_points_are_kept_as_they_are():
    state, num_replaced, ledger = _start(_holed(), POSITIONS)
    assert num_replaced == 0 and ledger.points == {"initial_pt": 120}
    np.testing.assert_array_equal(state.chain.position, POSITIONS)
    assert int(state.step) == 0
    assert state.step_sizes.log_step_size.shape == (3,)
    # The first guess follows the temperature: MALA's step is longer where it is hotter.
    assert np.all(np.diff(state.step_sizes.log_step_size) < 0)


def test_bad_points_are_replaced_by_good_ones_of_their_level():
    state, num_replaced, _ = _start(_holed(hole=-1.0, nan=1.2), POSITIONS)
    first = np.asarray(POSITIONS[..., 0])
    is_bad = (first < -1.0) | (first > 1.2)
    assert num_replaced == np.sum(is_bad) > 0
    positions = np.asarray(state.chain.position)
    np.testing.assert_array_equal(positions[~is_bad], np.asarray(POSITIONS)[~is_bad])
    for level in range(3):
        good = {tuple(point) for point in np.asarray(POSITIONS)[level][~is_bad[level]].tolist()}
        assert {tuple(point) for point in positions[level].tolist()} <= good
    # What is stored belongs to the new positions.
    expected = jax.vmap(jax.vmap(_holed().log_density))(state.chain.position)
    np.testing.assert_allclose(state.chain.log_density, expected, rtol=1e-5)
    assert np.all(np.isfinite(state.chain.log_density_grad))


def test_a_level_without_a_good_point_takes_those_of_another():
    positions = POSITIONS.at[2, :, 0].set(-50.0)
    state, num_replaced, _ = _start(_holed(hole=-40.0), positions)
    assert num_replaced == 40
    given = {tuple(point) for point in np.asarray(positions)[:2].reshape((-1, 2)).tolist()}
    assert {tuple(point) for point in np.asarray(state.chain.position)[2].tolist()} <= given


def test_no_good_point_at_all_is_refused_with_the_reasons():
    positions = POSITIONS.at[0, :, 0].set(99.0)
    with pytest.raises(
        DensityError, match=r"none of the 120 starting points \(40 NaN, 80 -inf, 0 \+inf.*init=.*scale="
    ):
        _start(_holed(hole=50.0, nan=90.0), positions)


class _Stepped(Target):
    """A density of which jax.grad sees nothing, although it varies."""

    dim: int = eqx.field(static=True, default=2)

    def log_density(self, x):
        return -0.5 * jnp.sum(jnp.round(x * 10.0) ** 2)


class _Flat(Target):
    dim: int = eqx.field(static=True, default=2)

    def log_density(self, x):
        return jnp.where(jnp.all(jnp.abs(x) < 9.0), 0.0 * jnp.sum(x), -jnp.inf)


def test_a_density_without_a_gradient_is_refused():
    with pytest.raises(DensityError, match=r"no gradient.*jax\.grad is 0 at every one"):
        _start(_Stepped(), POSITIONS)


def test_a_uniform_density_is_not_mistaken_for_one_without_a_gradient():
    state, _, _ = _start(_Flat(), POSITIONS)
    assert np.all(np.isfinite(state.step_sizes.log_step_size))


def test_a_budget_too_small_refuses_before_evaluating():
    ledger = Ledger(budget=119)
    with pytest.raises(BudgetError, match="120.*119"):
        start(KEY, _Stepped(), MALA(), POSITIONS, jnp.ones(3), ledger, "initial_pt")
    assert ledger.total == 0


def test_rows_are_used_once_while_they_last():
    rows = jnp.arange(10.0).reshape((5, 2))
    np.testing.assert_array_equal(rows_start(rows)(KEY, 3), rows[:3])
    many = np.asarray(rows_start(rows)(KEY, 40))
    np.testing.assert_array_equal(many[:5], rows)
    assert {tuple(row) for row in many.tolist()} == {tuple(row) for row in rows.tolist()}


def test_normal_starts_have_the_scale_they_are_given():
    key = jax.random.key(72)
    np.testing.assert_allclose(normal_start(3, 20.0)(key, 50), 20.0 * normal_start(3, 1.0)(key, 50), rtol=1e-6)
    assert normal_start(3, 1.0)(key, 50).shape == (50, 3)
