"""Draws and networks that are of no use are noticed, mended or replaced, and a fit ends in a sampler that says so."""

import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tempering.methods.learn as learning
import tempering.methods.stages as stages
from support.tiny import quick_compilation, tiny_ptsd
from support.tiny_fits import density
from tempering.adapters import as_target
from tempering.buffer import Buffer, covariance, from_states, spread
from tempering.diffusion.calibrate import dataset_of, inner_scale, usable_gradients
from tempering.diffusion.fit import FitInfo
from tempering.diffusion.networks import make_network
from tempering.kernels import ChainState
from tempering.methods import ptsd
from tempering.runs.ledger import Ledger
from tempering.settings import Network, Noise

TARGET = as_target(density(), 2)
ONE = jnp.ones(())
NETWORK = Network(width=4, depth=2)
usable, scale_of, made_network = jax.jit(usable_gradients), jax.jit(inner_scale), eqx.filter_jit(make_network)


@pytest.fixture(scope="module", autouse=True)
def compiled_quickly():
    with quick_compilation():
        yield


def _buffer(num: int = 400) -> Buffer:
    """Samples of a normal of widths (1, 2), with their gradients."""
    position = np.random.default_rng(0).normal(size=(num, 2)) * [1.0, 2.0]
    gradient = -position / np.array([1.0, 4.0])
    arrays = position, -0.5 * np.sum((position / [1.0, 2.0]) ** 2, axis=1), gradient
    return from_states(ChainState(*(jnp.asarray(array, jnp.float32) for array in arrays)), "initial_pt")


def _set(array, place, value):
    array = np.array(array)
    array[place] = value
    return jnp.asarray(array)


def _with(buffer: Buffer, row: int, gradient: float, log_weight: float = 0.0) -> Buffer:
    own = _set(buffer.log_density_grad, (row, 0), gradient)
    weight = _set(buffer.log_weight, row, log_weight)
    return eqx.tree_at(lambda tree: (tree.log_density_grad, tree.log_weight), buffer, (own, weight))


def test_ordinary_gradients_are_left_as_they_are():
    buffer = _buffer()
    beta = jnp.asarray(0.25)
    np.testing.assert_array_equal(usable(buffer, beta), buffer.states().tempered_grad(beta))


def test_a_narrow_mode_beside_a_wide_one_has_no_outliers():
    wide, narrow = _buffer(970), _buffer(30)
    narrow = eqx.tree_at(
        lambda tree: (tree.position, tree.log_density_grad),
        narrow,
        (np.asarray(narrow.position) / 100 + 5, 100 * np.asarray(narrow.log_density_grad)),
    )
    both = jax.tree.map(lambda a, b: jnp.asarray(np.concatenate([a, b])), wide, narrow)
    assert np.all(np.isfinite(usable(both, ONE)))


@pytest.mark.parametrize("gradient", [1e36, jnp.inf, jnp.nan, -1e5])
@pytest.mark.parametrize("log_weight", [0.0, -1e30])
def test_one_outlying_gradient_does_not_set_the_scales(gradient, log_weight):
    buffer = _buffer()
    bad = _with(buffer, 7, gradient, log_weight)
    gradients = np.asarray(usable(bad, ONE))
    assert np.all(np.isnan(gradients[7])) and np.sum(np.isnan(gradients)) == 2
    np.testing.assert_allclose(scale_of(bad, ONE), scale_of(buffer, ONE), rtol=0.02)


def test_a_sample_without_gradient_is_learnt_from_by_itself():
    network = made_network(jax.random.key(1), 2, NETWORK)
    buffers = [_with(_buffer(), 7, value) for value in (jnp.nan, 1e36)]

    def data_of(buffer, use_gradients):
        return dataset_of(Noise(), (buffer,), jnp.ones(1), jnp.asarray(10.0), use_gradients=use_gradients)

    blended, plain = data_of(buffers[0], True), data_of(buffers[1], False)
    place, key = jnp.zeros((), jnp.int32), jax.random.key(2)
    loss_of = eqx.filter_jit(lambda data, row: data.levels.loss(network, key, place, row))

    def loss(data, row):
        return float(loss_of(data, jnp.asarray(row)))

    np.testing.assert_allclose(loss(blended, 7), loss(plain, 7), rtol=1e-5)
    assert abs(loss(blended, 8) - loss(plain, 8)) > 1e-3  # the others are blended


def test_a_sample_without_weight_may_be_anywhere():
    buffer = _buffer()
    far = eqx.tree_at(
        lambda tree: (tree.position, tree.log_weight),
        buffer,
        (_set(buffer.position, 3, 1e30), _set(buffer.log_weight, 3, -np.inf)),
    )
    for numbers in (*jax.jit(spread)(far), jax.jit(covariance)(far)):
        assert np.all(np.isfinite(numbers))


def test_soundness_of_a_fit():
    network = made_network(jax.random.key(1), 2, NETWORK)
    stacked = jax.tree.map(lambda leaf: leaf[None] if eqx.is_array(leaf) else leaf, network)
    one, count = jnp.ones(1), jnp.ones(1, jnp.int32)
    info = FitInfo(one, one, count, count)
    assert learning.is_sound(stacked, info)
    for loss in (jnp.inf, jnp.nan, 50.0):
        assert not learning.is_sound(stacked, FitInfo(one, one * loss, count, count))
    broken = jax.tree.map(lambda leaf: leaf * jnp.nan if eqx.is_inexact_array(leaf) else leaf, stacked)
    assert not learning.is_sound(broken, info)


def _fit(settings=None):
    return ptsd.fit(TARGET, jax.random.key(3), settings or tiny_ptsd(), ledger=Ledger())


def _rescue_of(sampler):
    verdict = sampler.diagnose()
    found = [finding for finding in verdict.findings if finding.name == "levels that went wrong"]
    return verdict, found


def _broken(networks):
    return jax.tree.map(lambda leaf: leaf * jnp.nan if eqx.is_inexact_array(leaf) else leaf, networks)


@pytest.mark.parametrize("num_failures", [1, 100])
def test_training_that_goes_wrong_is_repeated_or_taken_back(monkeypatch, num_failures):
    calls, real = [], learning.fit_networks

    def failing(keys, networks, data, training, **rest):
        calls.append((training.learning_rate, float(jnp.sum(data.levels.blend_variance))))
        fitted, info = real(keys, networks, data, training, **rest)
        return (_broken(fitted), info) if len(calls) <= num_failures else (fitted, info)

    monkeypatch.setattr(learning, "fit_networks", failing)
    sampler = _fit()
    assert calls[1] == (0.1 * calls[0][0], 0.0)  # more carefully, without gradients
    assert np.all(np.isfinite(sampler.sample(20)))
    rescues = [record.rescue for record in sampler.levels if record.rescue is not None]
    assert ("kept" in rescues[0]) == (num_failures > 1) and rescues
    verdict, found = _rescue_of(sampler)
    assert found[0].status == ("note" if num_failures == 1 else "doubtful") and not verdict.is_trustworthy


def test_draws_that_are_not_finite_give_way_to_the_level_above(monkeypatch):
    real = stages.DiffusionModel.draw

    def no_number(self, *args, **kwargs):
        x, log_q = real(self, *args, **kwargs)
        return x * jnp.nan, None if log_q is None else log_q * jnp.nan

    monkeypatch.setattr(stages.DiffusionModel, "draw", no_number)
    sampler = _fit(dataclasses.replace(tiny_ptsd(), num_final_draws=0))
    assert sampler.ledger.points.get("importance_weights", 0) == 0  # nothing is spent on them
    verdict, found = _rescue_of(sampler)
    assert found[0].status == "doubtful" and "none of" in found[0].measured and not verdict.is_trustworthy


def test_a_final_model_without_numbers_gives_way_to_a_normal(monkeypatch):
    monkeypatch.setattr(ptsd, "learn", lambda run, levels: dataclasses.replace(levels, networks=_broken(run.networks)))
    monkeypatch.setattr(ptsd, "draw", lambda run, levels, model: stages.Draws(model, *_nothing(run, levels)))
    sampler = _fit(dataclasses.replace(tiny_ptsd(), num_final_draws=64))
    assert np.all(np.isfinite(sampler.sample(20))) and sampler.ess_fraction is not None
    verdict, found = _rescue_of(sampler)
    assert "normal distribution" in str(sampler.levels[-1].rescue) and not verdict.is_trustworthy and found


def _nothing(run, levels):
    return jnp.full((8, run.target.dim), jnp.nan), jnp.full((8,), jnp.nan)
