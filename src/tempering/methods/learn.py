"""Algorithm 1's learning: from the buffers of the levels to trained networks."""

import math
from collections.abc import Callable
from dataclasses import replace

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from tempering.buffer import Levels
from tempering.compilation import quick, rounded_up
from tempering.diffusion import Dataset, FitInfo, fit_networks
from tempering.diffusion.calibrate import dataset_of, location_and_scale, stack, unstack
from tempering.diffusion.networks import make_network
from tempering.diffusion.networks.mixture import GaussianMixture
from tempering.diffusion.quasi import begin_loading
from tempering.methods.known_modes import has_several, linear_mixture, mixture_of_buffer, with_mixture
from tempering.methods.practise import FIRST_PART, practised
from tempering.methods.run import Run, keeps_networks
from tempering.methods.stages import LEVELS_SHARE, next_temperature
from tempering.runs.records import LevelRecord, finite_or_none
from tempering.settings import DescentSettings, Network, PTSDSettings, Training
from tempering.types import Array, Int, Key, Keys

__all__ = ["fit_soundly", "is_sound", "keys_of", "learn", "new_networks", "note_fit"]

_MEMORY = 0.5
"""With one network for all levels, how often a level's samples are seen for once of the next colder's."""
_BETWEEN = 0.5
"""How often all temperatures between two levels together are seen for once of the colder of the two."""


_TIME_SHARE = 0.85
"""Of a time limit, after which no more steps of training begin; the rest is for the final weights."""
_CAREFUL = 0.1
"""Of the learning rate, where networks are trained again."""
_WORST_LOSS = 10.0
"""Held-out loss above which a network has learnt nothing but noise: the best linear denoiser has 1."""
_MENDED = "training went wrong, and was repeated without gradients at a tenth of the learning rate"
_KEPT = "training went wrong twice: the networks from before it were kept"


def is_sound(networks: eqx.Module, info: FitInfo) -> bool:
    """Whether a fit left numbers: finite weights, and a held-out loss not far above that of a linear denoiser."""
    weights = jax.device_get(jax.tree.leaves(eqx.filter(networks, eqx.is_inexact_array)))
    is_finite = all(bool(np.all(np.isfinite(leaf))) for leaf in weights)
    return is_finite and bool(np.all(np.asarray(info.validation_loss) < _WORST_LOSS))


def new_networks(key: Key, dim: int, network: Network, num: int) -> tuple[eqx.Module, ...]:
    """`num` untrained networks with the same initial weights: guidance takes the difference of what they learn."""
    return (_new_network(key, dim, network),) * num


@quick  # one program, not one for each layer's numbers
def _new_network(key: Key, dim: int, network: Network) -> eqx.Module:
    return make_network(key, dim, network)


@keeps_networks
def learn(run: Run, levels: Levels) -> tuple[eqx.Module, ...]:
    """Fit the networks to what is known now, from where they are; how it went goes into the records."""
    settings, training, num = run.settings, run.settings.training, len(run.networks)
    level, is_first, is_last = max(run.journal.levels), levels.num_done <= 2, levels.temperature <= 1.0
    if not is_last:
        num_levels = levels.num_done + 1
        levels = levels.towards(next_temperature(run, levels))
        is_known = levels.temperatures[-1] <= 1.0
        run.expect(num_levels if is_known else max(run.plan.num_levels, num_levels + 1))
    fitted_levels = tuple(range(level + 1 - num, level + 1))
    if settings.network.is_shared:
        data, networks = (_data_of_all_levels(run, levels),), levels.networks
    else:
        data = _data_of_each(run, levels, num)
        networks = levels.networks if is_first else (levels.networks[-1],) * num
    num_steps = training.num_steps
    if run.start.way is not None and levels.num_done == 1:
        num_steps = max(1, num_steps // FIRST_PART)
    elif not (is_first or is_last):
        num_steps = training.num_finetune_steps or num_steps
    temperature = run.record(level).temperature

    def on_check(step: int, loss: float) -> None:
        if settings.sampling.is_quasi_random:
            begin_loading()  # the device trains by itself
        run.tell("training", level, step, max(step, num_steps), temperature=temperature, loss=loss)

    clock, share = run.journal.ledger.clock, LEVELS_SHARE if not is_last else _TIME_SHARE

    def seconds_left() -> float:
        clock.ends("training", share)
        return clock.left(share)

    keys = keys_of(
        run.key_of(max(1, levels.num_done - 1), "learn"), jax.device_put(np.asarray(fitted_levels, np.int32))
    )
    more_fn = None
    if run.start.way is not None and levels.num_done == 1:
        watch = {"on_check": on_check, "seconds_left": seconds_left}
        more_fn = lambda fitted, info: practised(run, levels, fitted, info, keys, together, **watch)  # noqa: E731
    if is_first and settings.network.num_components:
        networks = run.networks = with_mixture(networks, _mixture(run, levels))
    networks, together = stack(*networks), stack(*data)
    run.ahead.wait(("training", settings.network, together.levels.position.shape[-2]))
    fitted, info = fit_soundly(
        keys, networks, together, training, num_steps, run.record(level), on_check, seconds_left, more_fn
    )
    for index, own in enumerate(fitted_levels):
        note_fit(run.record(own), info, index)
    return unstack(fitted, num)


def _mixture(run: Run, levels: Levels) -> GaussianMixture:
    """Of the modes that the density is drawn from, as its samples show them. Of one mode alone: its spread."""
    found, buffer, num = run.start.found, levels.buffers[-1], run.settings.network.num_components
    assert found is not None
    if has_several(found):
        return mixture_of_buffer(found.reference, buffer, num)
    location, sigma_data = location_and_scale(run.settings.noise, buffer)
    return linear_mixture(np.asarray(location), np.asarray(sigma_data), num)


def fit_soundly(
    keys: Keys,
    networks: eqx.Module,
    data: Dataset,
    training: Training,
    num_steps: int,
    record: LevelRecord,
    on_check: Callable[[int, float], None],
    seconds_left: Callable[[], float] = lambda: math.inf,
    more_fn: Callable[[eqx.Module, FitInfo], tuple[eqx.Module, FitInfo]] | None = None,
) -> tuple[eqx.Module, FitInfo]:
    """`fit_networks`, and again more carefully where it goes wrong; the record says so. Networks are never lost.

    Args:
        more_fn: trains on what the first fit came to.
    """
    watch = {"on_check": on_check, "seconds_left": seconds_left}
    fitted, info = fit_networks(keys, networks, data, training, num_steps=num_steps, **watch)
    fitted, info = (fitted, info) if more_fn is None else more_fn(fitted, info)
    if is_sound(fitted, info):
        return fitted, info
    careful = replace(training, learning_rate=_CAREFUL * training.learning_rate)
    plain = eqx.tree_at(lambda data: data.levels.blend_variance, data, replace_fn=jnp.zeros_like)
    fitted, info = fit_networks(keys, networks, plain, careful, num_steps=num_steps, **watch)
    is_mended = is_sound(fitted, info)
    record.note_rescue(_MENDED if is_mended else _KEPT, is_lasting=not is_mended)
    return (fitted if is_mended else networks), info


def note_fit(record: LevelRecord, info: FitInfo, index: int) -> None:
    """Write down how the fit of one model went."""
    record.train_loss = finite_or_none(np.asarray(info.train_loss)[index])
    record.validation_loss = finite_or_none(np.asarray(info.validation_loss)[index])
    record.training_steps = int(np.asarray(info.num_steps)[index])
    record.num_nonfinite += int(np.asarray(info.num_nonfinite)[index])


def _place_size(settings) -> int:
    """Samples per place of a dataset: those of the usual buffer, rounded up, so that runs share their programs."""
    size = max(settings.buffer_size, settings.level_size or 0) if _is_drawn(settings) else settings.buffer_size
    return rounded_up(size)


def _is_drawn(settings) -> bool:
    """Whether levels are drawn from models, and so may have sizes of their own."""
    return isinstance(settings, PTSDSettings)


def _num_places(settings: DescentSettings, most_levels: int) -> int:
    """Places for the buffers of a run of up to `most_levels` levels, whenever it ends."""
    size, between, planned_last = _place_size(settings), settings.buffer_size, settings.buffer_size
    if isinstance(settings, PTSDSettings):
        between, planned_last = settings.level_size or between, settings.last_buffer_size or planned_last
    planned, planned_last = settings.ladder.num_levels or most_levels, planned_last
    planned_last *= settings.refinement_at(1.0).num_states

    def needed(num_levels: int) -> int:
        # A ladder that ends sooner than planned leaves the evaluations of its missing levels to the last one.
        last = planned_last + max(0, planned - num_levels) * between
        return num_levels - 1 + -(-last // size)

    return max(needed(num_levels) for num_levels in range(2, most_levels + 1))


def _data_of_all_levels(run: Run, levels: Levels) -> Dataset:
    """The data of one network for all levels, hottest first: each is seen half as often as the next.

    Checks judge the levels with the largest share alone, those the fit is for: small buffers of levels long past are
    overfitted while these still improve. The level to reach is anticipated where `guidance` asks for it, and so are
    temperatures between levels. There is room for all levels of the run, so that neither one level more nor the large
    last one is a new program.
    """
    settings, buffers, num = run.settings, levels.buffers, levels.num_done
    shares = [_MEMORY ** (num - 1 - level) for level in range(num)]
    if len(levels.temperatures) > num and settings.guidance.is_anticipating:
        buffers = (*buffers, levels.anticipated())
        shares.append(1.0)
    betas = levels.betas[: len(buffers)]
    num_between = settings.guidance.num_between if len(buffers) > 1 else 0
    if num_between > 0:
        more, own = levels.between(num_between, len(buffers) - 1)
        shares += [_BETWEEN / num_between * share for share in shares[1:] for _ in range(num_between)]
        buffers, betas = (*buffers, *more), jax.device_put(np.asarray([*np.asarray(betas), *own], np.float32))
    # The only level of a run needs no room for others.
    most = run.plan.most_levels
    room = _num_places(settings, most) + num_between * (most - 1) if num > 1 else 0
    return dataset_of(
        settings.noise,
        buffers,
        betas,
        levels.sigma_max,
        use_gradients=settings.training.use_gradients,
        has_gradients=levels.has_gradients,
        shares=tuple(shares),
        size=_place_size(settings),
        num_places=room,
    )


def _data_of_each(run: Run, levels: Levels, num: int) -> tuple[Dataset, ...]:
    """The data of one network per level, for the `num` coldest levels that are done."""
    settings, betas, size = run.settings, levels.betas, _place_size(run.settings)
    coldest = range(levels.num_done - num, levels.num_done)
    room = max(-(-levels.buffers[k].size // size) for k in coldest)
    return tuple(
        dataset_of(
            settings.noise,
            (levels.buffers[k],),
            betas[k : k + 1],
            levels.sigma_max,
            use_gradients=settings.training.use_gradients,
            has_gradients=levels.has_gradients,
            size=size,
            num_places=room,
        )
        for k in coldest
    )


@quick
def keys_of(key: Key, levels: Int[Array, " model"]) -> Keys:
    """A key for each of the levels."""
    return jax.vmap(lambda level: jax.random.fold_in(key, level))(levels)
