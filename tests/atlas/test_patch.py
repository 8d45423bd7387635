"""Components beyond the optima: are shoulders and wide modes about narrow ones found, and is nothing added in vain?"""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tempering.adapters import as_target
from tempering.atlas.adapt import adapted
from tempering.atlas.optima import Optima, Shape
from tempering.atlas.patch import MOST_PATCHES, cost_of_patches, has_much_heavy, with_patches
from tempering.kernels import kernel_of
from tempering.methods import atlas
from tempering.parallel_tempering.initial import normal_start
from tempering.runs.ledger import Ledger
from tempering.settings import Exploration
from tempering.weights.pareto import pareto_k


def normal(x, mean, width):
    return -0.5 * jnp.sum((x - mean) ** 2) / width**2 - x.shape[0] * (math.log(width) + 0.5 * math.log(2.0 * math.pi))


def shoulder(x):
    """A twentieth of the mass at 3.2 widths of a mode three times as wide: no optimum of its own."""
    far = jnp.zeros(x.shape).at[0].set(3.2)
    return jnp.logaddexp(math.log(0.95) + normal(x, 0.0, 1.0), math.log(0.05) + normal(x, far, 1.2))


def concentric(x):
    """Half of the mass with width 0.1, in the middle of the other half with width 3."""
    return jnp.logaddexp(math.log(0.5) + normal(x, 0.0, 0.1), math.log(0.5) + normal(x, 0.0, 3.0))


def one_optimum(log_density, dim: int) -> Optima:
    optima, top = Optima(dim), jnp.zeros(dim)
    hessian = np.asarray(jax.jit(jax.hessian(log_density))(top), np.float64)
    optima.add(Shape.at(np.zeros(dim), float(jax.jit(log_density)(top)), np.zeros(dim), hessian))
    return optima


def room(ledger: Ledger, dim: int, affordable: int = 12_000):
    return atlas._Room(affordable, kernel_of(Exploration(), dim), normal_start(dim, 1.0), ledger, lambda *a, **k: None)


def test_a_patch_is_as_wide_as_the_density_at_a_heavy_point():
    target, ledger = as_target(concentric, 4), Ledger()
    points = np.array([[2.0, -1.0, 0.5, 1.0], [0.0, 0.0, 0.0, 0.05]], np.float32)
    before = one_optimum(concentric, 4)
    patched = with_patches(target, before, points, np.array([9.0, 0.0]), -0.7, ledger)
    assert len(before) == 1 and len(patched) == 2
    np.testing.assert_allclose(patched.position[1], 0.0, atol=1e-3)
    np.testing.assert_allclose(patched.covariance[1], 9.0 * np.eye(4), rtol=1e-3, atol=1e-3)
    assert ledger.points == {"reference": 4 + 1} and ledger.total <= cost_of_patches(target)


def test_nothing_is_added_where_no_point_is_heavy_and_no_more_than_a_few_where_all_are():
    target, ledger, points = as_target(concentric, 2), Ledger(), np.random.default_rng(0).normal(size=(400, 2)) * 30.0
    optima = one_optimum(concentric, 2)
    assert len(with_patches(target, optima, points, np.zeros(400), 0.0, ledger)) == 1 and ledger.total == 0
    assert len(with_patches(target, optima, points, np.full(400, 9.0), 0.0, ledger)) <= 1 + MOST_PATCHES
    assert ledger.total <= cost_of_patches(target)


@pytest.mark.parametrize("value", [jnp.nan, 0.0])
def test_a_point_without_second_derivatives_adds_nothing(value):
    target = as_target(lambda x: jnp.sum(jnp.abs(x)) * value, 2)
    patched = with_patches(target, one_optimum(concentric, 2), np.ones((1, 2)), np.array([9.0]), 0.0, Ledger())
    assert len(patched) == 1 and np.all(np.isfinite(patched.covariance))


def test_what_only_chains_find_becomes_a_part_of_the_reference(monkeypatch):
    dim = 4
    target, optima = as_target(concentric, dim), one_optimum(concentric, dim)
    tried = atlas._tried(jax.random.key(0), target, optima, room(Ledger(), dim))
    assert tried is not None and tried.judgement.is_good and abs(tried.drawn.log_z) < 0.02
    # The saboteur, no patches: its own weights look as good, half of the mass is missing, and only the referee knows.
    monkeypatch.setattr(atlas, "with_patches", lambda target, optima, *own: optima)
    tried = atlas._tried(jax.random.key(0), target, optima, room(Ledger(), dim))
    assert tried is not None and tried.judgement.share > 0.6 and tried.drawn.log_z < -0.6 and not tried.judgement.covers


def test_rounds_that_go_on_count_every_draw_by_the_mixture_it_came_from():
    # A mixture that was made and not drawn from must give way: else log Z is off by many nats.
    target, optima = as_target(shoulder, 2), one_optimum(shoulder, 2)
    drawn = adapted(jax.random.key(0), target, optima, 500, 3, Ledger())
    drawn = adapted(jax.random.key(1), target, optima, 500, 3, Ledger(), before=drawn)
    assert len(drawn.mixtures) == len(drawn.nums) + 1 and len(drawn.position) == sum(drawn.nums)
    assert abs(drawn.log_z) < 0.05


def test_a_flat_top_ends_in_no_error():
    # Second derivatives in the middle of a plateau are 1e-30 and less: a width of 1e15, which no chain could start in.
    dim = 3
    plateau = lambda x: -((jnp.sum(x**2) / 25.0) ** 10)  # noqa: E731
    optima = Optima(dim)
    optima.add(Shape.at(np.zeros(dim), 0.0, np.zeros(dim), -1e-40 * np.eye(dim)))
    tried = atlas._tried(jax.random.key(0), as_target(plateau, dim), optima, room(Ledger(), dim))
    assert tried is None or not tried.judgement.is_good


def test_a_little_too_little_in_many_places_is_much():
    """A tenth of the mass in draws of five times the mean: no tail of the weights tells of it."""
    light = np.zeros(2000)
    ends = np.where(np.arange(2000) < 40, np.log(5.0), np.log((2000 - 200) / 1960))
    assert not has_much_heavy(light) and has_much_heavy(ends)
    assert pareto_k(ends) < 0.5
    few = np.where(np.arange(2000) < 5, np.log(5.0), 0.0)
    assert not has_much_heavy(few), "a hundredth of the mass is no reason"
    assert not has_much_heavy(np.full(3, -np.inf))
