"""A buffer's scales made into what a diffusion model needs: noise range, prior, preconditioning, training data."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from tempering.buffer import Buffer, covariance, padded, spread
from tempering.compilation import quick
from tempering.diffusion.fit import Dataset, LevelData
from tempering.diffusion.noise import NoiseLevels, Prior
from tempering.diffusion.precondition import Denoiser, temperature_input
from tempering.diffusion.process import VariancePreserving
from tempering.settings import Noise
from tempering.types import Array, Float

__all__ = [
    "blank_dataset",
    "blank_levels",
    "dataset_of",
    "denoiser_of",
    "inner_scale",
    "inner_scale_of_values",
    "largest_sigma",
    "location_and_scale",
    "noise_levels",
    "prior_of",
    "stack",
    "unstack",
    "usable_gradients",
]

_INNER_SHARE = 0.03
"""sigma_min over the within-mode scale: inflates a mode's variance by 0.1 %."""
_TRAINING_MARGIN = 3.0
"""Training reaches this much below the level's own sigma_min, because the next, colder level samples there."""
_SPREAD_MULTIPLE = 5.0
"""sigma_max over the spread: the noised density is then Gaussian but for 4 % of its variance; the prior matches."""
_OUTLYING = 1e3
"""Times the median gradient, or the inverse spread, beyond which a gradient is an outlier. A Gaussian's largest of a
million is 8 medians; that of a mode of weight 0.03 beside one 100 times as wide is 700."""
_NUM_ANCHORS, _NUM_AROUND, _NUM_NEAREST = 512, 2048, 3
"""Samples whose neighbourhood is looked at, samples among which neighbours are sought, and neighbours taken of each."""


@quick
def largest_sigma(noise: Noise, hottest: Buffer) -> Float[Array, ""]:
    """sigma_max of the whole run, from the settings or the hottest buffer."""
    if noise.sigma_max is not None:
        return jnp.asarray(noise.sigma_max, jnp.float32)
    _, std = spread(hottest)
    # Variance preserving, the spread is the unit, and the clock says how far the noise goes.
    is_preserving = noise.process == "vp"
    multiple = VariancePreserving.reach(noise.beta_min, noise.beta_max) if is_preserving else _SPREAD_MULTIPLE
    return multiple * jnp.max(std)


def _process(noise: Noise, sigma_max: Float[Array, "*model"]) -> VariancePreserving | None:
    if noise.process == "ve":
        return None
    return VariancePreserving.ending_at(sigma_max, noise.beta_min, noise.beta_max)


@quick
def usable_gradients(buffer: Buffer, beta: Float[Array, ""]) -> Float[Array, "particle dim"]:
    """The gradients at beta, NaN for a sample that has none to learn from: not finite, or an outlier.

    An outlier is beyond what a sample of the level can have, `_OUTLYING` times the weighted median of its coordinate. A
    sample of a steep wall, which the weights all but exclude, would otherwise set all scales and training targets, or
    overflow. The inverse spread is the least that the gradients of a density can have on average (Cramer and Rao): it
    stands in where half of them vanish.
    """
    gradient = buffer.states().tempered_grad(beta)
    size = jnp.where(jnp.isfinite(gradient), jnp.abs(gradient), jnp.inf)
    order = jnp.argsort(size, axis=0)
    below = jnp.cumsum(buffer.weight[order], axis=0)
    middle = jnp.argmax(below >= 0.5 * below[-1:], axis=0)
    median = jnp.take_along_axis(size, jnp.take_along_axis(order, middle[None], axis=0), axis=0)[0]
    _, std = spread(buffer)
    least = 1.0 / jnp.maximum(std, 1e-30)
    limit = _OUTLYING * jnp.maximum(jnp.where(jnp.isfinite(median), median, 0.0), least)
    is_usable = jnp.all(size <= limit[None], axis=1, keepdims=True)
    return jnp.where(is_usable, gradient, jnp.nan)


@quick
def inner_scale(buffer: Buffer, beta: Float[Array, ""]) -> Float[Array, " dim"]:
    """The within-mode scale of every coordinate, s_i = 1 / sqrt(E[g_i^2]), with g the gradient at beta.

    For a Gaussian this is the conditional standard deviation; for separated modes it is the scale inside one, where
    the standard deviation of the positions would give the distance between them. Outliers do not count.
    """
    gradient = usable_gradients(buffer, beta)
    square = jnp.sum(jnp.where(jnp.isnan(gradient), 0.0, buffer.weight[:, None] * gradient**2), axis=0)
    return 1.0 / jnp.sqrt(jnp.maximum(square, 1e-30))


@eqx.filter_jit
def inner_scale_of_values(buffer: Buffer, beta: Float[Array, ""]) -> Float[Array, " dim"]:
    """The within-mode scale of every coordinate without gradients, from the log densities of neighbouring samples.

    Between neighbours d apart the log density l at beta differs by g . d, so that E[(l - l')^2] = sum_i d_i^2 E[g_i^2]:
    a regression on the squares d_i^2 gives the E[g_i^2] = 1 / s_i^2 of `inner_scale`. In many dimensions neighbours are
    not close; for two independent draws of a Gaussian the result is sqrt(2) times too large, which is the worst.
    """
    _, std = spread(buffer)
    std = jnp.maximum(std, 1e-6 * jnp.max(std)) + 1e-30
    value = buffer.states().tempered(beta)
    around = jnp.arange(0, buffer.size, max(1, buffer.size // _NUM_AROUND))[:_NUM_AROUND]
    anchors = around[:: max(1, around.shape[0] // _NUM_ANCHORS)][:_NUM_ANCHORS]
    position = buffer.position / std[None]
    num = min(_NUM_NEAREST, around.shape[0])

    def pairs(anchor: Array) -> tuple[Array, Array]:
        """Shares of the squared distance to the nearest by coordinate, and the squared slope in that direction."""
        squares = (position[around] - position[anchor][None]) ** 2
        distance = jnp.sum(squares, axis=1)
        # A resampled buffer has copies, the anchor itself among them: they say nothing.
        _, order = jax.lax.top_k(jnp.where(distance > 0, -distance, -jnp.inf), num)
        length = jnp.maximum(distance[order], 1e-30)
        slope = (value[around][order] - value[anchor]) ** 2 / length
        is_pair = (distance[order] > 0) & jnp.isfinite(slope)
        shares = jnp.where(is_pair[:, None], squares[order] / length[:, None], 0.0)
        return shares, jnp.where(is_pair, slope, 0.0)

    shares, slope = jax.lax.map(pairs, anchors, batch_size=16)
    weight = jnp.where(jnp.sum(shares, axis=2).reshape(-1) > 0, jnp.repeat(buffer.weight[anchors], num), 0.0)
    weight = weight / jnp.maximum(jnp.sum(weight), 1e-30)
    shares, slope = shares.reshape((-1, std.shape[0])), slope.reshape(-1)
    common = jnp.sum(weight * slope)
    gram = (weight[:, None] * shares).T @ shares
    # A prior that all coordinates are alike, worth one pair for each: in many dimensions single ones are uncertain.
    ridge = std.shape[0] / slope.shape[0] * jnp.mean(jnp.diagonal(gram)) + 1e-30
    moment = shares.T @ (weight * slope) + ridge * common
    square = jnp.linalg.solve(gram + ridge * jnp.eye(std.shape[0]), moment)
    return std / jnp.sqrt(jnp.maximum(square, jnp.maximum(1e-4 * common, 1e-30)))


def _inner_scale(buffer: Buffer, beta: Float[Array, ""], has_gradients: bool) -> Float[Array, " dim"]:
    return (inner_scale if has_gradients else inner_scale_of_values)(buffer, beta)


@quick
def noise_levels(
    noise: Noise,
    buffer: Buffer,
    beta: Float[Array, ""],
    sigma_max: Float[Array, ""],
    *,
    colder_by: Float[Array, ""] | float = 1.0,
    is_training: bool = False,
    has_gradients: bool = True,
) -> NoiseLevels:
    """The noise range for sampling at `beta * colder_by`, or for training at `beta`, from the buffer at `beta`.

    Without gradients the within-mode scale is read off the log densities of neighbouring samples.
    """
    if noise.sigma_min is not None:
        sigma_min = jnp.asarray(noise.sigma_min, jnp.float32)
    else:
        smallest = jnp.min(_inner_scale(buffer, beta, has_gradients)) / jnp.sqrt(jnp.asarray(colder_by, jnp.float32))
        sigma_min = _INNER_SHARE * smallest / (_TRAINING_MARGIN if is_training else 1.0)
        sigma_min = jnp.minimum(sigma_min, 0.1 * sigma_max)  # a flat density has no inner scale
    return NoiseLevels(sigma_min, sigma_max, _process(noise, sigma_max))


@quick
def location_and_scale(noise: Noise, buffer: Buffer) -> tuple[Float[Array, " dim"], Float[Array, " dim"]]:
    """Where a denoiser has its centre, and sigma_data of every coordinate.

    The paper centres nothing and uses one scale; otherwise every coordinate has its own.
    """
    location, std = spread(buffer)
    if noise.is_isotropic:
        mean = jnp.mean(location)  # the spread of all numbers together, as the paper's code has it
        return jnp.zeros_like(location), jnp.full_like(std, jnp.sqrt(jnp.mean(std**2 + (location - mean) ** 2)))
    return location, jnp.maximum(std, 1e-6 * jnp.max(std))


@quick
def prior_of(noise: Noise, buffer: Buffer, sigma_max: Float[Array, ""]) -> Prior:
    """Where sampling starts at sigma_max: the noised buffer's mean and covariance, or plain noise about the origin."""
    location, std = spread(buffer)
    if noise.prior == "noise":
        process = _process(noise, sigma_max)
        # N(0, u^2) of the variance-preserving process, in the coordinates of the other.
        end = sigma_max if process is None else jnp.sqrt(sigma_max**2 + process.unit**2)
        return Prior.diagonal(jnp.zeros_like(location), jnp.full_like(std, end))
    if noise.prior == "isotropic":
        variance = jnp.mean(std**2 + location**2) + sigma_max**2
        return Prior.diagonal(jnp.zeros_like(location), jnp.full_like(std, jnp.sqrt(variance)))
    noised = covariance(buffer) + sigma_max**2 * jnp.eye(location.shape[0])
    return Prior(location, jnp.linalg.cholesky(noised))


def denoiser_of(network, noise: Noise, buffer: Buffer, beta: Float[Array, ""] | float) -> Denoiser:
    """A network preconditioned for a buffer, with its temperature as an input."""
    return Denoiser(network, *location_and_scale(noise, buffer), temperature_input(beta))


@quick
def _places(
    noise: Noise, buffer: Buffer, beta: Array, sigma_max: Array, *, use_gradients: bool, has_gradients: bool, size: int
) -> tuple[tuple[LevelData, ...], Float[Array, " place"]]:
    """A level's data in as many places of `size` samples as it takes, and how much of its weight is in each."""
    num = -(-buffer.size // size)
    full = padded(buffer, num * size)
    gradient, weight = usable_gradients(full, beta), full.weight
    location, scale = location_and_scale(noise, buffer)
    variance = _inner_scale(buffer, beta, has_gradients) ** 2
    if noise.is_isotropic:
        variance = jnp.full_like(variance, 1.0 / jnp.mean(1.0 / variance))

    def place(begin: int) -> LevelData:
        return LevelData(
            full.position[begin : begin + size],
            gradient[begin : begin + size],
            weight[begin : begin + size],
            noise_levels(noise, buffer, beta, sigma_max, is_training=True, has_gradients=has_gradients),
            variance if use_gradients else jnp.zeros_like(variance),
            location,
            scale,
            temperature_input(beta),
        )

    parts = jnp.ones((1,)) if num == 1 else jnp.sum(weight.reshape((num, size)), axis=1)
    return tuple(place(size * k) for k in range(num)), parts


def dataset_of(
    noise: Noise,
    buffers: tuple[Buffer, ...],
    betas: Float[Array, " level"],
    sigma_max: Float[Array, ""],
    *,
    use_gradients: bool,
    has_gradients: bool = True,
    shares: tuple[float, ...] | None = None,
    size: int = 0,
    num_places: int = 0,
) -> Dataset:
    """What one network learns from: the samples of one or of several levels, in places of as many samples each.

    A buffer that is larger than a place takes several, smaller ones are padded, so that levels of unlike size stack and
    compile once.

    Args:
        use_gradients: set the blend to the within-mode variance of each level.
        has_gradients: whether the buffers hold gradients of the target.
        shares: how often each level is seen; None means alike.
        size: samples of a place; 0 takes the largest buffer's.
        num_places: pad with places that are never seen to so many.
    """
    size = size or max(buffer.size for buffer in buffers)
    shares = shares or (1.0,) * len(buffers)
    places: list[LevelData] = []
    share: list[float] = []
    judged: list[float] = []
    for buffer, beta, own in zip(buffers, np.asarray(betas), shares, strict=True):
        level, weights = _places(
            noise,
            buffer,
            jax.device_put(beta),
            sigma_max,
            use_gradients=use_gradients,
            has_gradients=has_gradients,
            size=size,
        )
        parts = np.asarray(weights).tolist()
        places += level
        share += [own * part for part in parts]
        judged += [part if own == max(shares) else 0.0 for part in parts]
    empty = [0.0] * (num_places - len(places))
    stacked = stack(*places, *places[:1] * len(empty))
    padded_share, padded_judged = np.asarray([[*share, *empty], [*judged, *empty]], np.float32)
    return Dataset(stacked, jax.device_put(padded_share), jax.device_put(padded_judged))


def blank_dataset(dim: int, size: int, noise: Noise | None = None) -> Dataset:
    """One place of `size` samples, all at the origin: the shapes of a dataset, before there are samples."""
    shapes = ((1,), (1, size, dim), (1, dim), (1, size))
    one, points, scale, weight = (jax.device_put(np.ones(shape, np.float32)) for shape in shapes)
    levels = LevelData(points, points, weight, blank_levels(noise or Noise(), one), scale, scale, scale, one)
    return Dataset(levels, one, one)


def blank_levels(noise: Noise, number: Float[Array, "*model"]) -> NoiseLevels:
    """Noise levels of the settings' process before there are any."""
    return NoiseLevels(number, 2.0 * number, _process(noise, number))


@quick
def stack(*trees):
    """Pytrees of equal structure along a new leading axis `model`."""
    return jax.tree.map(lambda *leaves: jnp.stack(leaves) if eqx.is_array(leaves[0]) else leaves[0], *trees)


@quick
def unstack(tree, num: int) -> tuple:
    """The inverse of `stack`."""
    return tuple(jax.tree.map(lambda leaf, k=k: leaf[k] if eqx.is_array(leaf) else leaf, tree) for k in range(num))
