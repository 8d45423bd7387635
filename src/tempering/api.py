"""The library's front door: a density in, a sampler out."""

import dataclasses
import hashlib
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from tempering.adapters import as_target, fingerprint
from tempering.automatic import default_settings
from tempering.checkpoint import Nowhere
from tempering.errors import BudgetError, RunFolderError, SettingsError
from tempering.experiments.config import OWN_DENSITY, RunConfig, TargetConfig
from tempering.experiments.methods import METHODS, check_sizes
from tempering.experiments.run import target_of
from tempering.experiments.run_folder import RunFolder
from tempering.geometry import Centred
from tempering.ledger import Ledger
from tempering.parallel_tempering.initial import StartFn, normal_start, rows_start
from tempering.progress import choose_display
from tempering.sampler import Sampler, load_sampler
from tempering.settings import (
    Ladder,
    MethodSettings,
    PTDMSettings,
    PTSDSettings,
    require_choice,
    require_count,
    require_positive,
    require_seed,
)
from tempering.targets import in_inner_coordinates

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
    settings: MethodSettings | None = None,
    out: str | Path | None = None,
    progress: bool = True,
) -> Sampler:
    """Turn an unnormalised density into a sampler.

    Args:
        log_density: a JAX function of one point of shape (dim,), or an object with `dim` and `log_density(x)`. One with
            a `geometry`, such as `PairPotential`, is sampled on configurations centred at the origin.
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
    dim, budget = (int(n) if isinstance(n, np.integer) else n for n in (dim, budget))
    target = in_inner_coordinates(as_target(log_density, dim))
    geometry = getattr(target, "geometry", None)
    require_choice("method", method, tuple(METHODS))
    require_seed("seed", seed)
    if budget is not None:
        require_count("budget", budget)
    if scale is not None:
        require_positive("scale", scale)
        if init is not None:
            raise SettingsError("scale and init both say where chains start; give one of them")
    base = settings or default_settings(method, target.dim, geometry)
    if not isinstance(base, _SETTINGS[method]):
        raise SettingsError(f"method {method!r} takes {_SETTINGS[method].__name__}, not {type(base).__name__}")
    width = scale if scale is not None else base.initial.scale
    start_fn = _start_fn(init, target.dim, width, geometry)
    ladder_settings = base.ladder if ladder is None else Ladder(temperatures=_as_temperatures(ladder))
    changed = _replace(base, ladder_settings, width)
    _check_budget(method, target.dim, changed, budget)
    seed = int(seed)
    with _store(out, target, init, start_fn, method, changed, seed, budget, settings is None) as store:
        if isinstance(store, RunFolder) and (store.path / "sampler.json").exists():
            return load_sampler(store.path, target)
        with choose_display(quiet=not progress) as on_event:
            sampler = METHODS[method].fit(
                target,
                jax.random.key(seed),
                changed,
                start_fn=start_fn,
                ledger=Ledger(budget),
                store=store,
                on_event=on_event,
            )
        if isinstance(store, RunFolder):
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
        if config.target.name != OWN_DENSITY:
            return load_sampler(folder, target_of(config))
    sampler = load_sampler(folder)
    if log_density is not None:
        sampler.target = in_inner_coordinates(as_target(log_density, sampler.dim))
    return sampler


def _check_budget(method: str, dim: int, settings: MethodSettings, budget: int | None) -> None:
    """Refuse a budget that is known to be too small before a folder is made; what a pilot decides comes later."""
    has_ladder = settings.ladder.temperatures is not None or settings.ladder.hottest is not None
    if settings.is_sized_by_budget:
        check_sizes(settings, dim, budget)
    elif has_ladder and budget is not None:
        total = sum(METHODS[method].plan(settings, dim).values())
        if total > budget:
            raise BudgetError(
                f"the plan needs {total:,} evaluations, more than the budget of {budget:,}; raise the budget, or lower "
                "buffer_size, initial.num_steps or the levels in the settings"
            )


def _start_fn(init: Any, dim: int, scale: float, geometry: Centred | None) -> StartFn:
    """Starting points in inner coordinates; a user's own are configurations, and are centred where there is need."""
    if init is None:
        return normal_start(dim, scale)
    if geometry is None:
        return _own_start(init, dim)
    outer = _own_start(init, geometry.full_dim)
    return lambda key, num: jax.vmap(geometry.restrict)(outer(key, num))


def _own_start(init: Any, dim: int) -> StartFn:
    if callable(init):
        return _checked(init, dim)
    try:
        rows = np.asarray(init, np.float32)
    except (TypeError, ValueError) as error:
        raise SettingsError(f"init is a {type(init).__name__} that is no array of numbers; give (n, {dim})") from error
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
        if isinstance(ladder, str):  # its letters might be digits
            raise TypeError("a string is no list of temperatures")
        return tuple(float(temperature) for temperature in ladder)
    except (TypeError, ValueError) as error:
        raise SettingsError(
            f"ladder = {ladder!r} is not allowed: it must be a list of temperatures ending at 1"
        ) from error


def _replace(base: MethodSettings, ladder: Ladder, scale: float) -> MethodSettings:
    return dataclasses.replace(base, ladder=ladder, initial=dataclasses.replace(base.initial, scale=scale))


def _identity(target: Any, init: Any, start_fn: StartFn) -> dict[str, int]:
    """Numbers that tell one density and one `init` from another; a function `init` is told by the points it gives."""
    identity = {"dim": target.dim, "density": fingerprint(target)}
    if init is not None:
        rows = start_fn(jax.random.key(0), 8) if callable(init) else np.asarray(init, np.float32)
        identity["init"] = int.from_bytes(hashlib.sha256(np.asarray(rows).tobytes()).digest()[:6])
    return identity


def _store(out, target, init, start_fn, method, settings, seed, budget, is_automatic):
    """The folder to keep parts in, new or to be resumed; or nowhere."""
    if out is None:
        return nullcontext(Nowhere())
    own = TargetConfig(OWN_DENSITY, _identity(target, init, start_fn))
    how = "settings chosen from the density" if is_automatic else "settings by hand"
    config = RunConfig("fit", f"a density of one's own, {how}", own, method, settings, seed=seed, budget=budget)
    if not (Path(out) / "config.json").exists():
        return RunFolder.create(out, config)
    folder = RunFolder.open(out)
    if folder.config != config:
        folder.close()
        raise RunFolderError(
            f"{out} holds a fit of another density or with other arguments; choose another folder, or repeat the call "
            "that made it"
        )
    return folder
