"""Temperatures between levels: buffers that are reweighted to them, and what one network learns there."""

from dataclasses import replace
from types import SimpleNamespace

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tempering.methods.learn as learning
from support.oracle import GaussianDenoiser, OracleNetwork
from support.random_checks import assert_mean, must_fail
from support.tiny import quick_compilation, tiny_ptsd
from support.tiny_fits import density
from support.unchecked import unchecked
from tempering.adapters import as_target
from tempering.buffer import Buffer, Levels, from_states, reweighted
from tempering.kernels import ChainState
from tempering.methods.budget import Plan, planned
from tempering.methods.learn import _BETWEEN, _data_of_all_levels
from tempering.methods.registry import METHODS
from tempering.settings import Guidance, Ladder, Network, Noise, PTSDSettings, Refinement, resolved
from tempering.targets import Gaussian
from tempering.targets.base import evaluate_many

TARGET = Gaussian([-3.0], [[4.0]])
TEMPERATURES = (9.0, 4.0, 1.6)
NUM_BETWEEN, SIZE = 2, 2000


def buffer_at(temperature: float, seed: int) -> Buffer:
    """Exact samples of the tempered Gaussian."""
    x = TARGET.sample(jax.random.key(seed), SIZE)
    x = TARGET.location[None] + np.sqrt(temperature) * (x - TARGET.location[None])
    return from_states(ChainState(x, *evaluate_many(TARGET, x)), "refined")


def levels_of(num_done: int = 2) -> Levels:
    """Levels that are done and the one to reach."""
    buffers = tuple(buffer_at(t, seed) for seed, t in enumerate(TEMPERATURES[:num_done]))
    return Levels(TEMPERATURES[: num_done + 1], buffers, jnp.ones(2), jnp.asarray(60.0))


def data_of(levels: Levels, num_between: int = NUM_BETWEEN, **guidance):
    settings = PTSDSettings(
        buffer_size=SIZE,
        is_sized_by_budget=False,
        network=Network(width=8, depth=2),
        noise=Noise(),
        guidance=replace(Guidance("automatic", num_between=num_between), **guidance),
    )
    run = SimpleNamespace(settings=resolved(settings, TARGET.dim), plan=Plan(most_levels=4))
    with unchecked():  # a run of which only settings and plan are asked
        return _data_of_all_levels(run, levels)


def check_spread(buffer: Buffer, beta: float) -> None:
    """The weighted variance is T times that of T = 1; weights that sum to one have their own share in the error."""
    square = (np.asarray(buffer.position)[:, 0] - float(TARGET.location[0])) ** 2 * beta / 4.0
    weight = np.asarray(buffer.weight, np.float64) * buffer.size
    assert_mean(weight * (square - 1.0), 0.0, name=f"weighted variance at beta = {beta:.3f}")


def test_buffers_between_are_samples_of_their_temperatures():
    buffers, betas = levels_of().between(NUM_BETWEEN, 2)
    np.testing.assert_allclose(
        1.0 / np.asarray(betas),
        [9 * (4 / 9) ** (1 / 3), 9 * (4 / 9) ** (2 / 3), 4 * 0.4 ** (1 / 3), 4 * 0.4 ** (2 / 3)],
        rtol=1e-6,
    )
    for buffer, beta in zip(buffers, betas, strict=True):
        check_spread(buffer, beta)
        # The saboteurs: weights that are left out, and those of another temperature.
        must_fail(check_spread, replace_weights(buffer, jnp.zeros_like(buffer.log_weight)), beta)
        must_fail(check_spread, reweighted(buffer, jnp.asarray(beta), jnp.asarray(1.3 * beta)), beta)


def replace_weights(buffer: Buffer, log_weight) -> Buffer:
    return replace(buffer, log_weight=log_weight)


def test_pairs_are_those_that_are_asked_for():
    levels = levels_of()
    assert levels.between(0, 2) == ((), ())
    assert len(levels.between(3, 1)[0]) == 3
    assert levels.between(3, 1)[1] == levels.between(3, 2)[1][:3]


@eqx.filter_jit
def mean_loss(levels, network, keys, place, indices):
    return jnp.mean(jax.vmap(lambda key, index: levels.loss(network, key, place, index))(keys, indices))


def losses(data, temperatures: list[float]) -> list[float]:
    """The mean loss of the exact denoiser in every place that is seen, told the temperature of the place."""
    found = []
    exact = GaussianDenoiser(TARGET.location, TARGET.covariance())
    for place, told in enumerate(temperatures):
        location, scale = data.levels.location[place], data.levels.sigma_data[place]
        network = OracleNetwork(exact, location, scale)
        levels = replace(data.levels, c_temperature=data.levels.c_temperature.at[place].set(0.5 * np.log(told)))
        indices = np.argsort(-np.asarray(data.levels.weight[place]))[:200]  # those that count
        keys = jax.random.split(jax.random.key(place), 200)
        found.append(float(mean_loss(levels, network, keys, jnp.asarray(place), indices)))
    return found


def test_the_exact_denoiser_of_each_temperature_is_what_is_learned_there():
    """With gradients the target of a Gaussian has next to no variance: the right denoiser has next to no loss."""
    data = data_of(levels_of())
    temperatures = [*TEMPERATURES, *(9 * (4 / 9) ** (k / 3) for k in (1, 2)), *(4 * 0.4 ** (k / 3) for k in (1, 2))]
    told = np.exp(2.0 * np.asarray(data.levels.c_temperature))[: len(temperatures)]
    np.testing.assert_allclose(told, temperatures, rtol=1e-5)

    def check(temperatures):
        assert max(losses(data, temperatures)) < 2e-3

    check(temperatures)
    for place in range(3, len(temperatures)):
        wrong = list(temperatures)
        wrong[place] *= 1.3
        must_fail(check, wrong)


def test_temperatures_between_are_seen_but_not_judged():
    data = data_of(levels_of())
    share, judged = np.asarray(data.share), np.asarray(data.judged)
    np.testing.assert_allclose(share[:3], [0.5, 1.0, 1.0], rtol=1e-5)
    np.testing.assert_allclose(share[3:7], _BETWEEN / NUM_BETWEEN, rtol=1e-5)
    assert np.all(share[7:] == 0) and np.all(judged[3:] == 0) and judged[1] > 0


def test_a_run_has_one_shape_for_all_its_levels():
    three = replace(levels_of(), buffers=(*levels_of().buffers, buffer_at(1.6, 7)), temperatures=(*TEMPERATURES, 1.0))
    shapes = [data_of(levels).share.shape for levels in (levels_of(), three)]
    assert shapes[0] == shapes[1] and shapes[0][0] > data_of(three, 0).share.shape[0]


def test_without_anticipation_nothing_colder_than_the_levels_is_learned():
    data = data_of(levels_of(), kind="none", is_anticipating=False)
    seen = np.exp(2.0 * np.asarray(data.levels.c_temperature))[np.asarray(data.share) > 0]
    assert len(seen) == 2 + NUM_BETWEEN and seen.min() == pytest.approx(4.0, rel=1e-5)


def test_zero_changes_nothing():
    without, plain = data_of(levels_of(), 0), np.asarray(data_of(levels_of(), 0).share)
    assert int(np.sum(plain > 0)) == 3 and without.levels.position.shape[0] == len(plain)


@pytest.mark.slow
def test_a_whole_run_learns_between_its_levels(monkeypatch):
    """As many evaluations as are planned without: temperatures between cost none, and are learned with the levels."""
    one = {"network": Network(width=8, depth=2, coordinate_width=4), "refinement": Refinement(num_steps=0)}
    guidance, places, real = Guidance("conditioned", num_between=2), [], learning.fit_networks

    def noting(keys, networks, data, training, **rest):
        places.append(int(np.sum(np.asarray(data.share) > 0)))
        return real(keys, networks, data, training, **rest)

    monkeypatch.setattr(learning, "fit_networks", noting)
    settings = tiny_ptsd(**one, guidance=guidance, ladder=Ladder(hottest=4.0, num_levels=3))
    with quick_compilation():
        sampler = METHODS["ptsd"].fit(as_target(density(), 2), jax.random.key(0), settings)
    plain = replace(settings, guidance=replace(guidance, num_between=0))
    assert sampler.evaluations == sum(planned(plain, 2).values())
    assert len(sampler.levels) == 3 and max(places) == 3 + 2 * 2, places
    assert all(np.isfinite(record.ess_fraction) for record in sampler.levels if record.ess_fraction is not None)
