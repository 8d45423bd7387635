"""The choice of a proposal: what it predicts is what is found, and it takes the better of two."""

from dataclasses import replace

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from support.oracle import GaussianDenoiser, OracleNetwork, quadrature_denoiser
from support.random_checks import must_fail
from tempering.buffer import Buffer, Levels, from_states, reweighted
from tempering.diffusion import Denoiser, DiffusionModel, NoiseLevels, Prior
from tempering.diffusion.calibrate import denoiser_of
from tempering.diffusion.networks import make_network
from tempering.guidance.choose import candidates, choose, denoiser_at, predicted_ess
from tempering.guidance.extrapolate import Guided, extrapolation_weights
from tempering.kernels import ChainState
from tempering.lab.extrapolation import WAYS, Rescaled, Taylor
from tempering.settings import Guidance, Initial, Network, Noise, PTSDSettings, Sampling
from tempering.targets import Gaussian, GaussianMixture
from tempering.targets.base import evaluate_many
from tempering.weights.ess import ess_fraction

TARGET = Gaussian([2.0, -5.0], [[1.0, 0.9], [0.9, 2.0]])
SAMPLING = Sampling(num_steps=30, chunk_size=1000)
NETWORK = Network(width=8, depth=2, is_shared=False)
HOT, COLD, NEXT = 9.0, 4.0, 1.6


def buffer_of(target, x) -> Buffer:
    return from_states(ChainState(x, *evaluate_many(target, x)), "refined")


def gaussian_buffer(temperature, seed=0, size=1000) -> Buffer:
    """Exact samples of the tempered Gaussian."""
    x = TARGET.sample(jax.random.key(seed), size)
    return buffer_of(TARGET, TARGET.location[None] + np.sqrt(temperature) * (x - TARGET.location[None]))


def levels_of(sigma_min, sigma_max) -> NoiseLevels:
    return NoiseLevels(*(jnp.asarray(n) for n in (sigma_min, sigma_max)))


def gaussian_model(coordinate="T") -> DiffusionModel:
    """Guided from the exact denoisers of two hotter levels to the next; biased, except in log T."""
    cold, hot = (GaussianDenoiser(TARGET.location, TARGET.covariance(), t) for t in (COLD, HOT))
    weights = extrapolation_weights(jnp.asarray(NEXT), jnp.asarray([COLD, HOT]), coordinate)
    covariance = NEXT * TARGET.covariance() + 40.0**2 * jnp.eye(2)
    prior = Prior(TARGET.location, jnp.linalg.cholesky(covariance))
    return DiffusionModel(Guided((cold, hot), weights), prior, levels_of(0.02, 40.0))


def mixture_model(target) -> DiffusionModel:
    """The same for a mixture on a line, by quadrature."""
    cold, hot = (quadrature_denoiser(target, t, low=[-22.0], high=[22.0], num=500) for t in (3.0, 5.0))
    weights = extrapolation_weights(jnp.asarray(1.0), jnp.asarray([3.0, 5.0]), "T")
    prior = Prior.diagonal(jnp.array([-0.5]), jnp.array([np.sqrt(30.0**2 + 11.0)], jnp.float32))
    return DiffusionModel(Guided((cold, hot), weights), prior, levels_of(0.1, 30.0))


def realised_ess(model, target, beta) -> float:
    num = 1000
    x, log_q = model.draw(jax.random.key(11), num, replace(SAMPLING, chunk_size=num), with_density=True)
    return float(ess_fraction(beta * evaluate_many(target, x)[0] - log_q))


def test_the_predicted_effective_size_is_the_realised_one():
    """From exact samples of the level, and from hotter ones weighted for it."""
    model, beta = gaussian_model(), jnp.asarray(1 / NEXT)
    realised = realised_ess(model, TARGET, beta)
    assert 0.1 < realised < 0.9, realised

    def check(buffer, beta=beta):
        predicted = float(predicted_ess(jax.random.key(1), model, buffer, beta, SAMPLING))
        assert abs(predicted - realised) < 0.08, (predicted, realised)

    hotter = gaussian_buffer(1.2 * NEXT, seed=2)
    weighted = reweighted(hotter, jnp.asarray(1 / (1.2 * NEXT)), beta)
    check(gaussian_buffer(NEXT))
    check(weighted)
    must_fail(check, gaussian_buffer(2.5 * NEXT))  # samples of another level
    must_fail(check, gaussian_buffer(NEXT), jnp.ones(()))  # another temperature's densities
    # Samples without weight say nothing, even where the model has no density for them.
    nowhere = eqx.tree_at(lambda tree: tree.log_weight, weighted, weighted.log_weight.at[::3].set(-jnp.inf))
    check(nowhere)


def test_the_exact_model_promises_one():
    predicted = predicted_ess(
        jax.random.key(1), gaussian_model("log_T"), gaussian_buffer(NEXT), jnp.asarray(1 / NEXT), SAMPLING
    )
    assert 0.97 < predicted <= 1.0 + 1e-5


def test_the_prediction_holds_for_a_mixture():
    target = GaussianMixture([[-3.0], [4.0]], weights=[2.0, 1.0], covariances=[[[1.0]], [[0.5]]])
    beta, model = jnp.ones(()), mixture_model(target)
    grid = np.linspace(-15.0, 15.0, 20_001)
    log_densities = jax.jit(jax.vmap(target.log_density))(jnp.asarray(grid[:, None], jnp.float32))
    mass = np.exp(np.asarray(log_densities, np.float64))
    cumulative = np.cumsum(mass) / np.sum(mass)
    places = np.random.default_rng(0).permutation((np.arange(1000) + 0.5) / 1000)
    x = jnp.asarray(np.interp(places, cumulative, grid)[:, None], jnp.float32)
    predicted = float(predicted_ess(jax.random.key(1), model, buffer_of(target, x), beta, SAMPLING))
    realised = realised_ess(model, target, beta)
    assert realised < 0.95 and abs(predicted - realised) < 0.08, (predicted, realised)


def test_a_model_without_a_density_promises_nothing():
    broken = eqx.tree_at(lambda model: model.denoise.weights, gaussian_model(), jnp.array([1.0, jnp.nan]))
    assert predicted_ess(jax.random.key(1), broken, gaussian_buffer(NEXT), jnp.asarray(1 / NEXT), SAMPLING) == 0.0


def settings_of(guidance=None, **network) -> PTSDSettings:
    return PTSDSettings(
        initial=Initial(num_chains=200),
        network=replace(NETWORK, **network),
        sampling=SAMPLING,
        noise=Noise(),
        guidance=guidance or Guidance(coordinate="T", is_anticipating=False),
    )


class Solved(eqx.Module):
    """The hot model for which guidance of weight w ends at the exact one: ((1 + w) D(T1) - D(T)) / w."""

    cold: GaussianDenoiser
    exact: GaussianDenoiser
    weight: jax.Array

    def __call__(self, x_noisy, sigma):
        cold, exact = self.cold(x_noisy, sigma), self.exact(x_noisy, sigma)
        return ((1.0 + self.weight) * cold - exact) / self.weight


def history_of(hot_oracle, settings) -> Levels:
    """Two levels, the denoisers of which are oracles whatever the scales of the buffers are."""
    buffers, betas = (gaussian_buffer(HOT, 3), gaussian_buffer(COLD, 4)), jnp.array([1 / HOT, 1 / COLD, 1 / NEXT])
    oracles, networks = (hot_oracle, GaussianDenoiser(TARGET.location, TARGET.covariance())), []
    for buffer, beta, oracle in zip(buffers, betas[:2], oracles, strict=True):
        scales = denoiser_of(oracle, settings.noise, buffer, beta)
        networks.append(OracleNetwork(oracle, scales.location, scales.sigma_data))
    return Levels((HOT, COLD, NEXT), buffers, jnp.ones(2), jnp.asarray(40.0), tuple(networks))


def test_the_better_of_two_is_chosen():
    """Linear in log T is exact for a Gaussian; a hot model made for it makes linear in T exact instead."""
    settings = settings_of()
    exact, cold = (GaussianDenoiser(TARGET.location, TARGET.covariance(), t) for t in (NEXT, COLD))
    weight = jnp.asarray((COLD - NEXT) / (HOT - COLD))
    for best, hot in (("log_T", cold), ("T", Solved(cold, exact, weight))):
        history = history_of(hot, settings)
        name, _, promises = choose(jax.random.key(0), history, settings)
        assert name == best and set(promises) == {"log_T", "T"}
        other = "T" if best == "log_T" else "log_T"
        assert promises[best] > 0.9 and promises[other] < 0.9 * promises[best], promises


@pytest.fixture(scope="module")
def shared():
    """Three levels and the one to reach, with one network for all."""
    temperatures = (16.0, HOT, COLD)
    network = eqx.filter_jit(make_network)(jax.random.key(0), 2, replace(NETWORK, is_shared=True))
    buffers = tuple(gaussian_buffer(t, seed=5, size=100) for t in temperatures)
    return Levels((*temperatures, NEXT), buffers, jnp.ones(2), jnp.asarray(40.0), (network,))


def test_candidates_by_kind(shared):
    def only(kind, **kwargs):
        guidance = Guidance(**{"kind": kind, "coordinate": "T", "is_anticipating": False, **kwargs})
        found = candidates(shared, settings_of(guidance, is_shared=True), WAYS)
        assert list(found) == [kind]
        return found[kind].denoise

    two, three = only("finite_difference"), only("second_order", coordinate="log_T")
    assert [guided.weights.shape[0] for guided in (two, three)] == [2, 3]
    np.testing.assert_allclose(three.c_temperature, np.log([COLD, HOT, 16.0]) / 2, rtol=1e-5)
    weight = (COLD - NEXT) / (HOT - COLD)
    np.testing.assert_allclose(two.weights, [1 + weight, -weight], rtol=1e-5)

    conditioned = only("conditioned")
    assert isinstance(conditioned, Denoiser)
    np.testing.assert_allclose(conditioned.c_temperature, np.log(NEXT) / 2, rtol=1e-5)
    taylor, rescaled, none = only("autodiff", coordinate="log_T"), only("rescale"), only("none")
    assert isinstance(taylor, Taylor) and isinstance(rescaled, Rescaled) and isinstance(none, Denoiser)
    np.testing.assert_allclose(taylor.step, np.log(NEXT / COLD) / 2, rtol=1e-5)
    np.testing.assert_allclose(rescaled.ratio, COLD / NEXT, rtol=1e-6)
    np.testing.assert_allclose(none.c_temperature, np.log(COLD) / 2, rtol=1e-6)


def test_automatic_candidates_follow_the_network_and_the_levels(shared):
    early = replace(shared, buffers=shared.buffers[1:], temperatures=shared.temperatures[1:])
    apart = replace(shared, networks=shared.networks * 2)
    assert list(candidates(apart, settings_of())) == ["log_T", "T"]
    assert list(candidates(early, settings_of(is_shared=True))) == ["log_T", "T", "conditioned"]
    everything = candidates(shared, settings_of(is_shared=True))
    assert list(everything) == ["log_T", "T", "conditioned", "log_T, second order"]
    assert everything["log_T, second order"].denoise.weights.shape == (3,)


def test_one_network_asked_for_all_levels_at_once_is_guidance_by_each(shared):
    settings = settings_of(Guidance("second_order", coordinate="log_T"), is_shared=True)
    at_once = candidates(shared, settings, WAYS)["second_order"].denoise
    one_by_one = Guided(tuple(denoiser_at(shared, age, settings) for age in (1, 2, 3)), at_once.weights)
    x, sigma = jnp.array([0.3, -1.2])[: at_once.location.shape[1]], jnp.asarray(0.7)
    np.testing.assert_allclose(at_once(x, sigma), one_by_one(x, sigma), rtol=1e-5)
    swapped = Guided(one_by_one.models[::-1], at_once.weights)
    assert not np.allclose(at_once(x, sigma), swapped(x, sigma), rtol=1e-3)


def test_a_single_candidate_is_taken_unseen(shared):
    name, _, promises = choose(jax.random.key(0), shared, settings_of(Guidance(kind="none", is_anticipating=False)))
    assert name == "none" and promises == {}


def test_what_is_anticipated_sets_scales_and_prior(shared):
    """The last buffer reweighted to the next temperature is narrower, and so is all that is read off it."""
    kinds = (Guidance(kind="conditioned", is_anticipating=is_anticipating) for is_anticipating in (True, False))
    ahead, behind = (candidates(shared, settings_of(kind, is_shared=True))["conditioned"] for kind in kinds)
    assert np.all(ahead.denoise.sigma_data < behind.denoise.sigma_data)
    assert np.linalg.det(ahead.prior.scale) < np.linalg.det(behind.prior.scale)
    # Without anticipation sigma_min is scaled by the square root of the temperatures' ratio: about the same.
    np.testing.assert_allclose(ahead.levels.sigma_min, behind.levels.sigma_min, rtol=0.3)
    weight = shared.anticipated().weight
    expected = jax.nn.softmax((1 / NEXT - 1 / COLD) * shared.buffers[-1].log_density)
    np.testing.assert_allclose(weight, expected, rtol=1e-4)
