"""Fitting: it learns, it stops, it keeps the best, it counts what is not finite, and it compiles once."""

from dataclasses import replace

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from support.oracle import GaussianDenoiser
from support.random_checks import assert_fraction, must_fail
from support.tiny import quick_compilation
from tempering.buffer import Buffer, from_states, reweighted
from tempering.diffusion import DiffusionModel, fit_networks
from tempering.diffusion.calibrate import (
    dataset_of,
    denoiser_of,
    largest_sigma,
    noise_levels,
    prior_of,
    stack,
    unstack,
)
from tempering.diffusion.fit import _VALIDATION_DRAWS, _batch, _Fit, _kept, _mean_loss, _parts
from tempering.diffusion.networks import make_network
from tempering.diffusion.precondition import output_scale
from tempering.kernels import ChainState
from tempering.settings import Network, Noise, Sampling, Training
from tempering.targets import Gaussian, GaussianMixture
from tempering.targets.base import evaluate_many
from tempering.weights.ess import ess_fraction
from tempering.weights.resample import evened

NOISE, NETWORK = Noise(), Network(width=32, depth=2, coordinate_width=8)
# One set of shapes for the whole file: only the tiny buffer is compiled apart.
TRAINING = Training(batch_size=128, learning_rate=5e-3, check_every=50, patience=6)
SIZE, NUM_STEPS = 1000, 400
COVARIANCES = np.array([[[1.0, 0.6], [0.6, 0.8]], [[0.4, -0.2], [-0.2, 0.9]]])
MIXTURE = GaussianMixture([[4.0, 2.0], [-3.0, 0.5]], weights=[2.0, 1.0], covariances=COVARIANCES)
COMPONENTS = [GaussianDenoiser(mean, cov) for mean, cov in zip(MIXTURE.means, COVARIANCES, strict=True)]
GAUSSIAN = Gaussian([-1.0, 6.0], [[2.0, 1.2], [1.2, 1.0]])
BETA = 0.5  # of the Gaussian's level

TRACES = []


@pytest.fixture(scope="module", autouse=True)
def compiled_quickly():
    with quick_compilation():
        yield


class Counted(eqx.Module):
    """A network that notes when it is traced."""

    inner: eqx.Module

    def __call__(self, x, c_noise, c_temperature):
        TRACES.append(1)
        return self.inner(x, c_noise, c_temperature)


def buffer_of(target, x) -> Buffer:
    return from_states(ChainState(x, *evaluate_many(target, x)), "refined")


def hot_gaussian(seed, size=SIZE, beta=BETA):
    """Exact samples of the Gaussian at T = 1 / beta, with what the target itself says of them."""
    x = GAUSSIAN.sample(jax.random.key(seed), size)
    return buffer_of(GAUSSIAN, GAUSSIAN.location[None] + (x - GAUSSIAN.location[None]) / np.sqrt(beta))


@eqx.filter_jit
def untrained():
    return Counted(make_network(jax.random.key(0), 2, NETWORK))


def denoisers_of(networks, buffers, betas=(1.0, BETA)):
    """Stacked networks, each with the scales of its buffer."""
    triples = zip(unstack(networks, 2), buffers, betas, strict=True)
    return tuple(denoiser_of(network, NOISE, buffer, beta) for network, buffer, beta in triples)


def data_of(buffers, betas, use_gradients):
    sigma_max = largest_sigma(NOISE, buffers[0])
    pairs = zip(buffers, jnp.asarray(betas), strict=True)
    return stack(*(dataset_of(NOISE, (b,), beta[None], sigma_max, use_gradients=use_gradients) for b, beta in pairs))


def fitted(buffers, betas, *, seed=1, num_steps=NUM_STEPS, training=TRAINING, change=lambda data: data, **kwargs):
    """Both models side by side; `change` may spoil the stacked data."""
    data = change(data_of(buffers, betas, training.use_gradients))
    keys = jax.random.split(jax.random.key(seed), len(buffers))
    networks = stack(*(untrained() for _ in buffers))
    return fit_networks(keys, networks, data, training, num_steps=num_steps, **kwargs)


@pytest.fixture(scope="module")
def buffers():
    return buffer_of(MIXTURE, MIXTURE.sample(jax.random.key(0), SIZE)), hot_gaussian(1)


@pytest.fixture(scope="module")
def trained(buffers):
    return fitted(buffers, (1.0, BETA))


def exact_mixture(x, sigma):
    """The denoiser of the mixture at T = 1: the components' own, mixed by their weight in the noised density."""
    noised = COVARIANCES + sigma**2 * jnp.eye(2)[None]
    log_parts = jnp.log(MIXTURE.weights) + jax.vmap(
        lambda mean, covariance: jax.scipy.stats.multivariate_normal.logpdf(x, mean, covariance)
    )(MIXTURE.means, noised)
    parts = jnp.stack([component(x, sigma) for component in COMPONENTS])
    return jax.nn.softmax(log_parts) @ parts


def excess_loss(denoiser, exact, x, sigma_max):
    """What training can remove: E |D - exact|^2 / c_out^2, over noise levels evenly spaced in the logarithm."""
    sigmas = jnp.geomspace(0.02, sigma_max, x.shape[0])
    noisy = x + sigmas[:, None] * jax.random.normal(jax.random.key(8), x.shape)

    @eqx.filter_jit
    def errors(denoiser):
        def one(point, sigma):
            return (denoiser(point, sigma) - exact(point, sigma)) / output_scale(sigma, denoiser.sigma_data)

        return jax.vmap(one)(noisy, sigmas)

    return float(jnp.mean(errors(denoiser) ** 2))


def test_it_learns_the_denoiser(buffers, trained):
    networks, info = trained
    denoisers = denoisers_of(networks, buffers)
    fresh = MIXTURE.sample(jax.random.key(5), SIZE)
    hot = hot_gaussian(6).position
    exact_gaussian = GaussianDenoiser(GAUSSIAN.location, GAUSSIAN.covariance(), 1 / BETA)

    def check(denoisers):
        mixture, gaussian = denoisers
        assert excess_loss(mixture, exact_mixture, fresh, 17.0) < 0.02
        assert excess_loss(gaussian, exact_gaussian, hot, 17.0) < 0.005

    check(denoisers)
    must_fail(check, denoisers_of(stack(untrained(), untrained()), buffers))
    must_fail(check, denoisers[::-1])
    # Both blends leave about 0.2 that no denoiser removes, and 0.02 of chance in 100 held-out samples; without training
    # the losses are above 0.3.
    assert np.all(info.validation_loss < 0.28), info.validation_loss
    assert np.all(info.train_loss < 1.5 * info.validation_loss)
    assert np.all(info.num_nonfinite == 0) and np.all(info.num_steps == NUM_STEPS)


def test_its_samples_are_nearly_exact(buffers, trained):
    """The ESS of importance weights sees every error of samples and densities at once; moments say the same aloud."""
    sigma_max = largest_sigma(NOISE, buffers[0])

    def check(denoiser, target, buffer, beta, mean, covariance):
        beta = jnp.asarray(beta)
        levels = noise_levels(NOISE, buffer, beta, sigma_max)
        model = DiffusionModel(denoiser, prior_of(NOISE, buffer, sigma_max), levels)
        x, log_q = model.draw(jax.random.key(3), 2000, Sampling(num_steps=40), with_density=True)
        stds = np.sqrt(np.diag(covariance))
        assert np.max(np.abs(np.mean(x, axis=0) - mean) / stds) < 0.15
        assert np.max(np.abs(np.cov(np.asarray(x).T) - covariance) / np.outer(stds, stds)) < 0.15
        assert ess_fraction(beta * evaluate_many(target, x)[0] - log_q) > 0.85

    centred = np.asarray(MIXTURE.means - MIXTURE.mean()[None], np.float64)
    weights = np.array([2 / 3, 1 / 3])
    covariance = np.einsum("k,kij->ij", weights, COVARIANCES + centred[:, :, None] * centred[:, None, :])
    mixture, gaussian = denoisers_of(trained[0], buffers)
    check(mixture, MIXTURE, buffers[0], 1.0, MIXTURE.mean(), covariance)
    check(gaussian, GAUSSIAN, buffers[1], BETA, GAUSSIAN.mean(), GAUSSIAN.covariance() / BETA)
    start = denoiser_of(untrained(), NOISE, buffers[0], 1.0)
    must_fail(check, start, MIXTURE, buffers[0], 1.0, MIXTURE.mean(), covariance)


def test_a_model_does_not_see_its_neighbour(buffers, trained):
    """Bit for bit: neither the neighbour's data nor its stopping may reach it."""

    def without_neighbour(data):
        return eqx.tree_at(lambda data: data.levels.position, data, data.levels.position.at[1].set(jnp.nan))

    models, info = fitted(buffers, (1.0, BETA), change=without_neighbour)
    first, alone = unstack(trained[0], 2)[0], unstack(models, 2)[0]
    for a, b in zip(jax.tree.leaves(first), jax.tree.leaves(alone), strict=True):
        np.testing.assert_array_equal(a, b)
    for name in ("train_loss", "validation_loss", "num_steps", "num_nonfinite"):
        assert getattr(info, name)[0] == getattr(trained[1], name)[0]
    # The neighbour itself: nothing to learn from, so its first weights came back, and every step was counted.
    assert np.isinf(info.validation_loss[1])
    assert info.num_steps[1] == TRAINING.patience * TRAINING.check_every
    assert info.num_nonfinite[1] == info.num_steps[1] + TRAINING.patience
    for a, b in zip(jax.tree.leaves(untrained()), jax.tree.leaves(unstack(models, 2)[1]), strict=True):
        np.testing.assert_array_equal(a, b)


def test_non_finite_gradients_are_skipped_and_counted(buffers):
    """One bad sample spoils the batches it is in, and no others."""
    keys = jax.random.split(jax.random.key(1), 2)

    def one_nan(data):
        spoilt = data.levels.position.at[0, 0, 7, 1].set(jnp.nan)  # 7 is not held out: every tenth is, from 0 on
        return eqx.tree_at(lambda data: data.levels.position, data, spoilt)

    models, info = fitted(buffers, (1.0, BETA), change=one_nan)
    num_steps, num_trained = int(info.num_steps[0]), int(SIZE * (1 - TRAINING.validation_fraction))
    hit = np.arange(num_steps) < int(info.num_nonfinite[0])
    assert_fraction(hit, 1 - (1 - 1 / num_trained) ** TRAINING.batch_size, key=keys[0])
    assert info.num_nonfinite[1] == 0
    assert all(np.all(np.isfinite(leaf)) for leaf in jax.tree.leaves(models))
    fresh = MIXTURE.sample(jax.random.key(5), SIZE)
    assert excess_loss(denoisers_of(models, buffers)[0], exact_mixture, fresh, 17.0) < 0.02
    # Followed, it would have been the end of the weights: the mean over a batch with NaN is NaN.
    batch = jnp.asarray([1.0, jnp.nan, 2.0])
    assert np.isnan(jax.grad(lambda w: jnp.mean((w * batch) ** 2))(1.0))


def test_it_stops_early_and_keeps_the_best(buffers):
    period = round(1 / TRAINING.validation_fraction)
    place = np.arange(SIZE)
    is_held_out = place % period == 0

    def few(data):
        """24 samples have all the weight of the part that is trained on; the held-out part is as it was."""
        weight = jnp.where(is_held_out | (place < 27), data.levels.weight, 0.0)
        return eqx.tree_at(lambda data: data.levels.weight, data, weight)

    assert np.sum(~is_held_out[:27]) == 24
    # Plain denoising score matching, which can be learned by heart.
    training, told = replace(TRAINING, use_gradients=False, patience=3), []
    kwargs = {"training": training, "num_steps": 1000, "change": few, "on_check": lambda *args: told.append(args)}
    models, info = fitted(buffers, (1.0, BETA), **kwargs)
    assert np.all(info.num_steps < 1000) and np.all(info.num_steps % 50 == 0)
    assert told[-1][0] == int(np.max(info.num_steps))
    losses = [loss for _, loss in told]
    assert losses == sorted(losses, reverse=True) and losses[-1] == pytest.approx(float(np.mean(info.validation_loss)))

    # The held-out loss of what came back is the best one that was seen...
    data = few(data_of(buffers, (1.0, BETA), False))
    _, held_out = _parts(data, period)
    keys = jax.vmap(lambda key: jax.random.split(key)[1])(jax.random.split(jax.random.key(1), 2))

    def held_out_loss(network, key, data, picks):
        return _mean_loss(network, data, _batch(key, picks, _VALIDATION_DRAWS))

    losses = eqx.filter_jit(eqx.filter_vmap(held_out_loss))(models, keys, data, held_out)
    np.testing.assert_allclose(losses, info.validation_loss, rtol=1e-4)
    # ... and better than that of the last weights, which patience 0 keeps.
    _, last = fitted(buffers, (1.0, BETA), **(kwargs | {"training": replace(training, patience=0)}))
    assert np.all(last.num_steps == 1000)
    assert np.all(last.validation_loss > 1.05 * info.validation_loss)


def test_a_full_schedule_keeps_its_last_weights_unless_they_are_clearly_worse():
    """Stopped early; run out and hardly worse; run out and clearly worse; run out without a loss."""
    best, last, zeros = {"w": jnp.zeros((4, 2))}, {"w": jnp.ones((4, 2))}, jnp.zeros(4, jnp.int32)
    is_stopped = jnp.array([True, False, False, False])
    fit = _Fit(last, last, optax.EmptyState(), best, jnp.full(4, 2.0), zeros, zeros, zeros, is_stopped)
    kept = _kept(fit, 2.0 * jnp.array([1.01, 1.01, 1.2, jnp.nan]))
    np.testing.assert_array_equal(kept["w"], [[0.0, 0.0], [1.0, 1.0], [0.0, 0.0], [0.0, 0.0]])


@pytest.mark.slow
def test_weights_do_what_resampling_does(buffers, trained):
    """Hotter samples weighted for the level, and the same resampled by these weights, teach the same denoiser."""
    del trained
    hotter = hot_gaussian(4, beta=0.5 * BETA)
    weighted = reweighted(hotter, jnp.asarray(0.5 * BETA), jnp.asarray(BETA))
    resampled = evened(jax.random.key(5), weighted, "systematic")
    hot = hot_gaussian(6).position
    exact = GaussianDenoiser(GAUSSIAN.location, GAUSSIAN.covariance(), 1 / BETA)

    def check(*pair):
        betas = (BETA, BETA)
        ours, theirs = denoisers_of(fitted(pair, betas)[0], pair, betas)
        assert excess_loss(ours, exact, hot, 17.0) < 0.01
        assert excess_loss(theirs, exact, hot, 17.0) < 0.01
        assert excess_loss(ours, theirs, hot, 17.0) < 0.01

    check(weighted, resampled)
    must_fail(check, hotter, resampled)  # the weights forgotten


def test_gradients_do_no_harm(buffers, trained):
    """Nowhere worse than plain denoising score matching by more than noise; for a Gaussian, far better."""
    fresh, hot = MIXTURE.sample(jax.random.key(5), SIZE), hot_gaussian(6).position
    exact = exact_mixture, GaussianDenoiser(GAUSSIAN.location, GAUSSIAN.covariance(), 1 / BETA)
    plain, _ = fitted(buffers, (1.0, BETA), training=replace(TRAINING, use_gradients=False))

    def losses(networks):
        triples = zip(denoisers_of(networks, buffers), exact, (fresh, hot), strict=True)
        return np.array([excess_loss(denoiser, oracle, x, 17.0) for denoiser, oracle, x in triples])

    with_gradients, without = losses(trained[0]), losses(plain)
    assert np.all(with_gradients < without + 0.002), (with_gradients, without)
    assert with_gradients[1] < 0.5 * without[1], (with_gradients, without)


def test_one_trace_for_every_level(buffers, trained):
    del trained  # whatever it compiled is compiled
    before = len(TRACES)
    assert before > 0
    told = []
    for call in range(5):
        shifted = tuple(eqx.tree_at(lambda b: b.position, b, b.position + call) for b in buffers)
        steps = 50 * (call % 2 + 1)
        fitted(shifted, (1.0 / (call + 1), 0.3), seed=call, num_steps=steps, on_check=lambda *args: told.append(args))
    assert len(told) == 7
    assert len(TRACES) == before, f"{len(TRACES) - before} more traces"


def test_steps_are_rounded_up_to_whole_checks(buffers, trained):
    del trained
    told = []
    _, info = fitted(buffers, (1.0, BETA), num_steps=60, on_check=lambda *args: told.append(args))
    assert [step for step, _ in told] == [50, 60] and np.all(info.num_steps == 100)
