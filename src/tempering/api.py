"""The library's front door: a density in, a sampler out."""

import dataclasses
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from tempering.adapters import as_target
from tempering.automatic import automatic_settings, default_budget, pilot_settings
from tempering.checkpoint import Nowhere, Progress, Store
from tempering.errors import RunFolderError, SettingsError
from tempering.experiments.config import RunConfig, TargetConfig
from tempering.experiments.methods import METHODS
from tempering.experiments.run import target_of
from tempering.experiments.run_folder import RunFolder
from tempering.ledger import Ledger
from tempering.parallel_tempering.initial import StartFn, normal_start, rows_start
from tempering.preparation import Teller, prepare
from tempering.progress import choose_display
from tempering.sampler import Sampler, load_sampler
from tempering.settings import (
    Initial,
    Ladder,
    PTDMSettings,
    PTSDSettings,
    require_choice,
    require_count,
    require_positive,
)
from tempering.types import OnEvent

__all__ = ["fit", "load"]

_SETTINGS = {"ptsd": PTSDSettings, "pt_dm": PTDMSettings}


def fit(
    log_density: Any,
    dim: int | None = None,
    *,
    method: str = "ptsd",
    budget: int | None = None,
    seed: int = 0,
    scale: float | None = None,
    init: Any = None,
    ladder: Sequence[float] | None = None,
    settings: PTSDSettings | PTDMSettings | None = None,
    out: str | Path | None = None,
    progress: bool = True,
) -> Sampler:
    """Turn an unnormalised density into a sampler.

    Args:
        log_density: a JAX function of one point of shape (dim,), or an object with `dim` and `log_density(x)`.
        dim: the dimension; needed for a function.
        method: ptsd, or pt_dm for parallel tempering with one diffusion model.
        budget: the most evaluations of the density to spend; None takes 50,000 + 10,000 dim. Never exceeded.
        seed: everything random follows from it.
        scale: standard deviation of the starting points around the origin; 1 where neither it nor `init` is given.
        init: starting points: an array (n, dim), or a function (key, num) -> (num, dim).
        ladder: temperatures, hottest first, ending at 1; None finds the hottest by a counted pilot.
        settings: everything by hand; `ladder` and `scale` still win over it.
        out: a folder for checkpoints and the result; the same call with the same folder resumes.
        progress: show a live display, or plain lines where there is no terminal.

    Returns:
        A trained `Sampler`.

    Raises:
        DensityError, SettingsError, BudgetError, RunFolderError: for bad input, before compute is spent where possible.

    Example:
        >>> import jax.numpy as jnp, tempering as tp
        >>> sampler = tp.fit(lambda x: -0.5 * jnp.sum(x**2), dim=2, seed=0)  # doctest: +SKIP
    """
    target = as_target(log_density, dim)
    require_choice("method", method, tuple(METHODS))
    require_count("seed", seed, 0)
    if budget is not None:
        require_count("budget", budget)
    if scale is not None:
        require_positive("scale", scale)
        if init is not None:
            raise SettingsError("scale and init both say where chains start; give one of them")
    base = settings or _SETTINGS[method]()
    if not isinstance(base, _SETTINGS[method]):
        raise SettingsError(f"method {method!r} takes {_SETTINGS[method].__name__}, not {type(base).__name__}")
    width = scale if scale is not None else base.initial.scale
    start_fn = _start_fn(init, target.dim, width)
    ladder_settings = base.ladder if ladder is None else Ladder(temperatures=_as_temperatures(ladder))
    with _store(out, target, method, base, seed, budget, ladder_settings, width) as store:
        with choose_display(quiet=not progress) as on_event:
            if settings is None:
                sampler = _fit_automatic(target, method, budget, seed, start_fn, ladder_settings, width, store, on_event)
            else:
                changed = _replace(base, ladder_settings, width)
                sampler = METHODS[method].fit(
                    target,
                    jax.random.key(seed),
                    changed,
                    start_fn=start_fn,
                    ledger=Ledger(budget),
                    store=store,
                    on_event=on_event,
                )
        if isinstance(store, RunFolder) and not (store.path / "sampler.json").exists():
            sampler.save(store.path)
    return sampler


def load(folder: str | Path, log_density: Any = None) -> Sampler:
    """A sampler that `sampler.save`, `tp.fit(out=…)` or `tempering run` wrote.

    Args:
        log_density: the density, for `sample_weighted`; not needed for a preset's run, whose target is known.
    """
    folder = Path(folder)
    if not (folder / "sampler.json").exists():
        raise RunFolderError(f"{folder} holds no finished sampler (sampler.json is missing); fit or resume it first")
    if log_density is None and (folder / "config.json").exists():
        config = RunFolder.read_config(folder)
        if config.target.name != _OWN_DENSITY:
            return load_sampler(folder, target_of(config))
    sampler = load_sampler(folder)
    if log_density is not None:
        sampler.target = as_target(log_density, sampler.dim)
    return sampler


_OWN_DENSITY = "own density"


def _fit_automatic(
    target: Any,
    method: str,
    budget: int | None,
    seed: int,
    start_fn: StartFn,
    ladder: Ladder,
    scale: float,
    store: Store,
    on_event: OnEvent,
) -> Sampler:
    """Pilot, then settings from what it found and what is left of the budget, then the method."""
    budget = budget or default_budget(target.dim)
    key, ledger = jax.random.key(seed), Ledger(budget)
    progress = Progress(ledger, store)
    needs_pilot = ladder.temperatures is None and ladder.hottest is None
    first = PTSDSettings(
        ladder=ladder,
        initial=Initial(scale=scale),
        **({"pilot": pilot_settings(target.dim, budget)} if needs_pilot else {}),
    )
    prepared = prepare(
        jax.random.fold_in(key, 0), target, first, start_fn, progress, Teller(on_event, progress, budget)
    )
    chosen = automatic_settings(
        method, dim=target.dim, temperatures=prepared.temperatures, budget=budget - ledger.total, scale=scale
    )
    sampler = METHODS[method].fit(
        target, key, chosen, start_fn=prepared.start_fn, ledger=ledger, store=store, on_event=on_event
    )
    sampler.warnings = (*prepared.warnings(), *sampler.warnings)
    return sampler


def _start_fn(init: Any, dim: int, scale: float) -> StartFn:
    if init is None:
        return normal_start(dim, scale)
    if callable(init):
        return _checked(init, dim)
    rows = np.asarray(init, np.float32)
    if rows.ndim != 2 or rows.shape[1] != dim or rows.shape[0] == 0 or not np.all(np.isfinite(rows)):
        raise SettingsError(f"init has shape {rows.shape}; it must be finite, of shape (n, {dim}) with n at least 1")
    return rows_start(jnp.asarray(rows))


def _checked(init: Callable, dim: int) -> StartFn:
    def start_fn(key, num: int):
        points = jnp.asarray(init(key, num), jnp.float32)
        if points.shape != (num, dim):
            raise SettingsError(f"init(key, {num}) returned shape {points.shape}; it must return ({num}, {dim})")
        return points

    return start_fn


def _as_temperatures(ladder: Sequence[float]) -> tuple[float, ...]:
    try:
        return tuple(float(temperature) for temperature in ladder)
    except (TypeError, ValueError) as error:
        raise SettingsError(f"ladder = {ladder!r} is not allowed: it must be a list of temperatures ending at 1") from error


def _replace(base: PTSDSettings | PTDMSettings, ladder: Ladder, scale: float) -> PTSDSettings | PTDMSettings:
    return dataclasses.replace(base, ladder=ladder, initial=dataclasses.replace(base.initial, scale=scale))


def _store(out, target, method, base, seed, budget, ladder, scale):
    """The folder to keep parts in, new or to be resumed; or nowhere."""
    if out is None:
        return nullcontext(Nowhere())
    own = TargetConfig(_OWN_DENSITY, {"dim": target.dim})
    config = RunConfig(
        "fit", "a density of one's own", own, method, _replace(base, ladder, scale), seed=seed, budget=budget
    )
    if not (Path(out) / "config.json").exists():
        return RunFolder.create(out, config)
    folder = RunFolder.open(out)
    if folder.config != config:
        folder.close()
        raise RunFolderError(f"{out} holds a run with other settings; choose another folder, or call with the same settings")
    return folder
