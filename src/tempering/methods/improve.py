"""Going on with a sampler instead of starting over: search, draw, weigh, pool, learn, weigh.

Consumes a sampler and what was paid for it (`sampler.paid`); produces a new sampler. Searches look for modes that the
model does not cover. Draws come from the model and, where it lacks modes, from these; all that is known goes into one
weighted set, which the network is trained on from where it is. A model that became worse gives way to the one before.
"""

import dataclasses
from dataclasses import dataclass

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from tempering._compat import collected_seldom
from tempering.adapters import reporting
from tempering.atlas.adapt import first_guess
from tempering.atlas.mixture import StudentMixture
from tempering.atlas.optima import Optima
from tempering.atlas.survey import Survey, missing_chance, survey
from tempering.buffer import Buffer
from tempering.diffusion import DiffusionModel
from tempering.diffusion.calibrate import dataset_of, largest_sigma, stack, unstack
from tempering.errors import BudgetError, DensityError
from tempering.methods.budget import num_final_draws
from tempering.methods.finish import determinants, model_of, modes_of, with_final_weights
from tempering.methods.learn import fit_soundly, note_fit
from tempering.methods.pooling import Pool, balanced, joined_buffer, share_of_modes, together
from tempering.runs.display import choose_display
from tempering.runs.ledger import Ledger
from tempering.runs.records import IMPROVED, Checks, LevelRecord, finite_or_none
from tempering.sampler import Sampler
from tempering.sampler.diagnosis.thresholds import HIDDEN_MARGIN, HIDDEN_RATIO
from tempering.sampler.paid import FIT, Paid, usable, weighted_buffer
from tempering.settings import MethodSettings, PTSDSettings, Resampling, require_count, require_flag, require_seed
from tempering.settings import resolved as resolved_settings
from tempering.targets import Target
from tempering.targets.cost import has_gradient, points_per_gradient
from tempering.types import Array, Event, Float, Key, OnEvent
from tempering.weights.ess import NUM_JUDGED, predicted_ess_fraction
from tempering.weights.log_z import log_z_with_tail
from tempering.weights.resample import indices_by_weight
from tempering.weights.truncate import truncated
from tempering.weights.weigh import Weighted, weigh

__all__ = ["go_on", "improve"]

_LEAST = 1000
"""Points below which neither searches nor draws nor weights say anything."""
_SEARCH_SHARE = 0.25
"""Of the budget, for searches, at the most."""
_LARGEST_DIM = 256
"""As of the atlas: second derivatives are as many evaluations for every optimum."""
_ENOUGH_DRAWS = 500
"""Weighted draws of the model from which its log Z is known well enough to say what it lacks."""
_LEAST_OF_MODES, _MOST_OF_MODES = 0.2, 0.8
"""Of the new draws, where modes are missing."""
_MATTERS = 1e-4
"""Mass of a missing mode, by Laplace's approximation, from which it is drawn from."""
_WIDEST = 5.0
"""Searches start from samples moved by up to so many of their spreads."""
_RELIABLE = 0.5
"""Pareto k up to which an estimate of log Z has an error that can be pooled by."""
_KEPT = "training did not make the model better: the one from before was kept"


def improve(sampler: Sampler, budget: int, *, seed: int = 0, progress: bool = True) -> Sampler:
    """What `Sampler.improve` does; arguments and refusals as there."""
    require_count("budget", budget)
    require_seed("seed", seed)
    require_flag("progress", progress)
    with choose_display(quiet=not progress) as on_event:
        return go_on(sampler, int(budget), jax.random.key(int(seed)), on_event)


def go_on(sampler: Sampler, budget: int, key: Key, on_event: OnEvent) -> Sampler:
    """The same with a key and an observer."""
    if sampler.target is None:
        raise DensityError("improving needs the density, which is not stored: load with tp.load(folder, log_density)")
    going = _begin(sampler, budget, key, on_event)
    with collected_seldom(), reporting(going.target):
        known = _draw_first(going)
        surveyed = _search(going, known)
        modes = _missing_modes(going, known, surveyed)
        pool, drawn = _draw(going, known, modes)
        samples = _pooled(going, pool, modes)
        model = _learn(going, samples)
        return _finish(going, model, samples, drawn, surveyed, modes)


Sampler.improver = staticmethod(improve)


@dataclass
class _Going:
    """What every stage needs.

    Args:
        ledger: a copy of the sampler's, with `budget` evaluations more.
        keys: one for each stage, by name.
        plan: points of the searches, of the draws and of the final weights.
        record: of this improvement.
    """

    sampler: Sampler
    target: Target
    settings: MethodSettings
    ledger: Ledger
    keys: dict[str, Key]
    plan: dict[str, int]
    record: LevelRecord
    on_event: OnEvent

    def log_model(self, key: Key, position: Float[Array, "point dim"]) -> np.ndarray:
        """Log density of the model from before."""
        if position.shape[0] == 0:
            return np.zeros(0)
        return np.asarray(self.sampler.model.log_prob(key, position, self.sampler.sampling), np.float64)

    def tell(self, stage: str, done: int, total: int, **numbers) -> None:
        """Report progress."""
        level, spent, planned = self.record.level, self.ledger.total, self.ledger.budget or 0
        self.on_event(Event(stage, level, level + 1, done, total, spent, planned, temperature=1.0, **numbers))

    def draw(self, key: Key, num: int, model: DiffusionModel, stage: str) -> tuple[Array, Array]:
        """Draws of a model with their log densities."""
        tell = lambda done: self.tell(stage, done, num)  # noqa: E731
        return model.draw(key, num, self.sampler.sampling, with_density=True, on_chunk=tell)


class _Known(eqx.Module):
    """Weighted draws of the model from before, with its log density at each, and log Z from them."""

    draws: Buffer
    log_model: np.ndarray
    log_z: float


def _begin(sampler: Sampler, budget: int, key: Key, on_event: OnEvent) -> _Going:
    target, settings = sampler.target, _settings(sampler)
    each = points_per_gradient(target)
    num = budget // each
    if num < _LEAST:
        raise BudgetError(
            f"a budget of {budget:,} evaluations is too small to improve a sampler: give at least {_LEAST * each:,}"
        )
    old = sampler.ledger
    ledger = Ledger(old.total + budget, dict(old.points), dict(old.value_only))
    # Another call with the same seed must not make the same draws again.
    names = ("first", "search", "modes", "draw", "pool", "learn", "judge", "final")
    keys = dict(zip(names, jax.random.split(jax.random.fold_in(key, old.total % 2**32), len(names)), strict=True))
    is_searched = has_gradient(target) and target.geometry is None and target.dim <= _LARGEST_DIM
    is_flow = sampler.sampling.solver in ("heun", "euler")  # weights of churned paths have no density to mix with
    final = num_final_draws(settings, num)
    search = int(_SEARCH_SHARE * num) if is_searched and is_flow else 0
    plan = {"search": search, "final": final, "draw": num - final - search}
    record = LevelRecord(len(sampler.levels), 1.0, proposal=IMPROVED)
    return _Going(sampler, target, settings, ledger, keys, plan, record, on_event)


def _settings(sampler: Sampler) -> MethodSettings:
    """Those of the fit, or the defaults where they are not known."""
    if sampler.settings is not None:
        return sampler.settings
    particles = {} if sampler.geometry is None else sampler.geometry.as_dict()
    own = PTSDSettings(network=sampler.network, sampling=sampler.sampling)
    return resolved_settings(own, sampler.target.dim, **particles)


def _draw_first(going: _Going) -> _Known:
    """The draws of the model that were weighed before; some more where these are few."""
    buffers = list(going.sampler.paid.draws.values())
    log_models = [np.asarray(own.log_density, np.float64) - np.asarray(own.log_weight, np.float64) for own in buffers]
    missing = min(_ENOUGH_DRAWS, going.plan["draw"] // 4) - sum(own.size for own in buffers)
    if missing > 0:
        x, log_q = going.draw(going.keys["first"], missing, going.sampler.model, "drawing")
        weighted = weigh(going.target, x, log_q, jnp.ones(()), ledger=going.ledger, stage="importance_weights")
        going.plan["draw"] -= missing
        buffers.append(weighted_buffer(weighted))
        log_models.append(np.asarray(log_q, np.float64))
    draws, log_model = joined_buffer(buffers), np.concatenate(log_models)
    return _Known(draws, log_model, log_z_with_tail(draws.log_weight)[0])


def _search(going: _Going, known: _Known) -> Survey | None:
    """More searches uphill, from other starts; what they leave of their evaluations goes into draws."""
    affordable, each = going.plan["search"], points_per_gradient(going.target)
    if affordable == 0:
        return None
    before, paid = going.ledger.total, going.sampler.paid
    seed = int(jax.random.randint(going.keys["search"], (), 0, 2**31 - 1))
    surveyed = survey(
        seed,
        going.target,
        going.ledger,
        affordable * each,
        scale=going.settings.initial.scale,
        own_fn=_starts(going, known),
        optima=None if paid.optima is None else _copy(paid.optima),
        on_look=lambda done, total: going.tell("searching for modes", going.ledger.total - before, affordable * each),
    )
    going.plan["draw"] += affordable - (going.ledger.total - before) // each
    return surveyed


def _copy(optima: Optima) -> Optima:
    """With hits of its own, which a survey counts in place."""
    copied = dataclasses.replace(optima)
    for name in ("position", "log_density", "precision", "covariance", "is_peak", "hits"):
        setattr(copied, name, np.array(getattr(optima, name)))
    return copied


def _starts(going: _Going, known: _Known):
    """Starts of searches: samples that the model does not cover, where there are any; else all, moved far and near."""
    paid = going.sampler.paid
    buffers = [*paid.witnesses, *([] if paid.level is None else [paid.level])]
    rows = np.concatenate([np.asarray(own.position) for own in map(usable, buffers or [known.draws])])
    for witness in map(usable, paid.witnesses):
        ratio = np.asarray(witness.log_density) - going.log_model(going.keys["search"], witness.position) - known.log_z
        is_hidden = ~(ratio <= HIDDEN_RATIO + HIDDEN_MARGIN)
        rows = np.asarray(witness.position)[is_hidden] if np.sum(is_hidden) > 2 else rows
    width = np.maximum(np.std(rows, axis=0), 1e-6)

    def own_fn(rng: np.random.Generator, num: int) -> tuple[np.ndarray, np.ndarray]:
        factors = np.exp(rng.uniform(np.log(0.1), np.log(_WIDEST), num))
        moved = factors[:, None] * width * rng.normal(size=(num, rows.shape[1]))
        return rows[rng.integers(len(rows), size=num)] + moved, factors * float(np.mean(width))

    return own_fn


def _missing_modes(going: _Going, known: _Known, surveyed: Survey | None) -> tuple[StudentMixture, float] | None:
    """Modes that matter and that the model does not cover, and their mass over that of all; None without any."""
    if surveyed is None or len(surveyed.optima) == 0:
        return None
    optima = surveyed.optima
    log_q = going.log_model(going.keys["modes"], jnp.asarray(optima.position, jnp.float32))
    log_z = known.log_z
    is_missing = ~(optima.log_density - log_q - log_z <= HIDDEN_RATIO + HIDDEN_MARGIN) & optima.is_peak
    log_mass = optima.log_mass()
    log_all = np.logaddexp(log_z, np.logaddexp.reduce(log_mass[is_missing], initial=-np.inf))
    is_missing &= log_mass - log_all > np.log(_MATTERS)
    if not np.any(is_missing):
        return None
    chosen = Optima(optima.dim)
    for name in ("position", "log_density", "precision", "covariance", "is_peak", "hits"):
        setattr(chosen, name, getattr(optima, name)[is_missing])
    return first_guess(chosen), float(np.exp(np.logaddexp.reduce(log_mass[is_missing]) - log_all))


_Modes = tuple[StudentMixture, float] | None


def _draw(going: _Going, known: _Known, modes: _Modes) -> tuple[Pool, Weighted]:
    """New draws of the model, and of modes that it lacks, weighed together with the draws from before.

    Returns:
        All of them, and those of the model among the new ones.
    """
    num = going.plan["draw"]
    of_modes = 0 if modes is None else int(np.clip(modes[1], _LEAST_OF_MODES, _MOST_OF_MODES) * num)
    going.plan["of_modes"] = of_modes
    key_model, key_modes, key_density = jax.random.split(going.keys["draw"], 3)
    x, log_q = going.draw(key_model, num - of_modes, going.sampler.model, "drawing")
    log_model = np.asarray(log_q, np.float64)
    if modes is not None:
        at_modes = _sample(key_modes, modes[0], of_modes)
        x, log_model = jnp.concatenate([x, at_modes]), np.append(log_model, going.log_model(key_density, at_modes))
    # Weights come below: here only what has no density of its own loses its weight.
    log_known = jnp.where(jnp.all(jnp.isfinite(x), axis=1), 0.0, jnp.nan)
    weighted = weigh(going.target, x, log_known, jnp.ones(()), ledger=going.ledger, stage="importance_weights")
    new = weighted_buffer(weighted)
    together_with = joined_buffer([known.draws, new])
    pool = balanced(together_with, np.append(known.log_model, log_model), of_modes, modes and modes[0])
    own = slice(0, num - of_modes)
    by_model = Weighted(
        jax.tree.map(lambda leaf: leaf[own], weighted.states), (weighted.log_weights[own] - log_q), 0
    )
    _note_draws(going, pool, num, weighted.num_nonfinite)
    return pool, by_model


@eqx.filter_jit
def _sample(key: Key, modes: StudentMixture, num: int) -> Float[Array, "num dim"]:
    return modes.sample(key, num)


def _note_draws(going: _Going, pool: Pool, num: int, num_nonfinite: int) -> None:
    """Write down what the weights of all draws say."""
    record, weighted = going.record, _weighted(pool.buffer)
    weighted.require_weight()
    record.ess_fraction, record.num_draws = weighted.ess_fraction, pool.buffer.size
    record.pareto_k, record.num_nonfinite = finite_or_none(weighted.pareto_k), num_nonfinite
    spent = going.ledger.points.get("importance_weights", 0)
    before = going.sampler.ledger.points.get("importance_weights", 0)
    record.evaluations = {"importance_weights": spent - before}
    if determinants(going.sampler.sampling, going.target.dim) == "exact":
        record.log_z, record.log_z_error = (finite_or_none(number) for number in weighted.log_z)


def _weighted(buffer: Buffer) -> Weighted:
    return Weighted(buffer.states(), buffer.log_weight, 0)


def _pooled(going: _Going, pool: Pool, modes: _Modes) -> Buffer:
    """All that is known of the density as one weighted set: draws, and samples of the last level."""
    key_density, key_order = jax.random.split(going.keys["pool"])
    cut = truncated(_weighted(pool.buffer), getattr(going.settings, "resampling", Resampling()))
    going.record.truncated_ess_fraction = cut.ess_fraction
    pool = Pool(eqx.tree_at(lambda tree: tree.log_weight, pool.buffer, cut.log_weights), pool.of_modes)
    level = going.sampler.paid.level
    level = None if level is None else usable(level)
    of_modes = np.zeros(0 if level is None else level.size)
    if level is not None and modes is not None:
        log_model = going.log_model(key_density, level.position)
        of_modes = share_of_modes(level, log_model, going.plan["of_modes"], pool.buffer.size, modes[0])
    return together(key_order, pool, level, of_modes)


def _learn(going: _Going, samples: Buffer) -> DiffusionModel:
    """The network trained on all samples from where it is; the model from before where that is no better."""
    before, settings, record = going.sampler.model, going.settings, going.record
    noise, training, has_gradients = settings.noise, settings.training, has_gradient(going.target)
    sigma_max = jnp.maximum(before.levels.sigma_max, largest_sigma(noise, samples))
    data = dataset_of(
        noise,
        (samples,),
        jnp.ones((1,)),
        sigma_max,
        use_gradients=training.use_gradients and has_gradients,
        has_gradients=has_gradients,
    )
    tell = lambda step, loss: going.tell("training", step, training.num_steps, loss=loss)  # noqa: E731
    keys = jax.random.split(going.keys["learn"], 1)
    network = before.denoise.network  # pyright: ignore[reportFunctionMemberAccess]
    fitted, info = fit_soundly(keys, stack(network), stack(data), training, training.num_steps, record, on_check=tell)
    note_fit(record, info, 0)
    after = model_of(noise, samples, sigma_max, unstack(fitted, 1)[0], has_gradients=has_gradients)
    promises = [_promise(going, model, samples) for model in (before, after)]
    record.predicted_ess_fraction = promises[1]
    if promises[1] >= promises[0]:
        return after
    record.note_rescue(_KEPT, is_lasting=False)
    return before


def _promise(going: _Going, model: DiffusionModel, samples: Buffer) -> float:
    """The effective share that a model's weights will have, from samples of the density."""
    key_pick, key_density = jax.random.split(going.keys["judge"])
    rows = indices_by_weight(key_pick, samples.log_weight, NUM_JUDGED, "systematic")
    log_q = model.log_prob(key_density, samples.position[rows], going.sampler.sampling)
    even = jnp.full((NUM_JUDGED,), -jnp.log(float(NUM_JUDGED)))
    return float(predicted_ess_fraction(samples.log_density[rows] - log_q, even))


def _finish(
    going: _Going, model: DiffusionModel, samples: Buffer, drawn: Weighted, surveyed: Survey | None, modes: _Modes
) -> Sampler:
    """The new sampler, weighed, with all that is known now."""
    old, record, num = going.sampler, going.record, going.plan["final"]
    optima = old.paid.optima if surveyed is None else surveyed.optima
    sampler = dataclasses.replace(
        old,
        model=model,
        levels=[*old.levels, record],
        ledger=going.ledger,
        log_z=record.log_z if record.log_z is not None else old.log_z,
        log_z_error=record.log_z_error if record.log_z is not None else old.log_z_error,
        checks=_searched(old.checks, surveyed),
        modes=old.modes if surveyed is None else modes_of(optima, old.chart),
        settings=going.settings,
        folder=None,
    )
    paid = Paid(samples, old.paid.witnesses, optima)
    if model is old.model:
        paid.weights = _renamed(old.paid.weights, going.ledger.total)
        if modes is None:  # else the samples hold the draws, and those at the modes besides
            paid.level, paid.draws = old.paid.level, _renamed(old.paid.draws, going.ledger.total)
            paid.note(f"improved-{going.ledger.total}", drawn)
    if num > 0:
        x, log_q = going.draw(going.keys["final"], num, model, "final weights")
        weighted = weigh(going.target, x, log_q, jnp.ones(()), ledger=going.ledger, stage="final_weights")
        evidence = tuple((own, jnp.ones(())) for own in (*old.paid.witnesses, samples))
        others = _other_estimates(going, modes)
        sampler = with_final_weights(sampler, going.keys["final"], weighted, others, evidence, optima)
        paid.note(FIT, weighted)
    sampler.paid = paid
    return sampler


def _renamed(own: dict, total: int) -> dict:
    """Draws of a fit under another name, so that new ones can take theirs."""
    return {(f"{FIT}-{total}" if name == FIT else name): draws for name, draws in own.items()}


def _other_estimates(going: _Going, modes: _Modes) -> list[tuple[float | None, float | None]]:
    """Estimates of log Z that the final draws are pooled with: trustworthy ones that lack no mode that is known now."""
    record, old = going.record, going.sampler
    last = old.levels[-1] if old.levels else None
    found = [(record.log_z, record.log_z_error, record.pareto_k)]
    if modes is None and record.log_z is None:
        found.append((old.log_z, old.log_z_error, old.pareto_k))
    elif modes is None and last is not None:
        found.append((last.log_z, last.log_z_error, last.pareto_k))
    return [(log_z, error) for log_z, error, k in found if k is not None and k <= _RELIABLE]


def _searched(checks: Checks, surveyed: Survey | None) -> Checks:
    """The checks with the searches of before and of now together."""
    if surveyed is None:
        return checks
    num = (checks.atlas_num_searches or 0.0) + surveyed.num_searches
    optima = surveyed.optima
    return dataclasses.replace(
        checks,
        num_optima=len(optima),
        atlas_num_searches=num,
        atlas_num_lost=(checks.atlas_num_lost or 0.0) + surveyed.num_lost,
        atlas_missing=missing_chance(optima.hits, optima.local_weight(), int(num)),
    )
