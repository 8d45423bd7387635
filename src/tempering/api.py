"""The library's front door: a density in, a sampler out."""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, overload

import numpy as np

from tempering._compat import collected_seldom
from tempering.adapters import as_target, reporting
from tempering.adapters.hosting import hosted
from tempering.adapters.own import as_fitted, function_of, refuse_beside_prior
from tempering.adapters.prior import posterior_of, read_prior
from tempering.adapters.structure import StructuredTarget, structure_of
from tempering.compilation import keep_programs, plain_jax, single
from tempering.devices import check_devices, use
from tempering.devices.hosts import agreed, followed_store, is_first, refuse_on_several
from tempering.devices.keys import from_seed
from tempering.errors import RunFolderError, SettingsError, what_is
from tempering.methods import improve as _improve  # noqa: F401 -- gives `Sampler.improve` what it calls
from tempering.methods.budget import check_budget, default_budget, most_points
from tempering.methods.hours import within_hours
from tempering.methods.own_folder import own_folder
from tempering.methods.pilot import suited
from tempering.methods.registry import METHODS
from tempering.methods.start import own_start
from tempering.registry import target_of
from tempering.runs.clock import Clock
from tempering.runs.config import OWN_DENSITY, OWN_MODEL, SETTINGS_OF
from tempering.runs.folder import RunFolder
from tempering.runs.forecast import Kind, expected_seconds, remember
from tempering.runs.ledger import Ledger
from tempering.runs.storage import as_path
from tempering.runs.watching import check_callback, followed
from tempering.sampler import Sampler, has_sampler
from tempering.sampler.load import load_sampler, stored_dim
from tempering.sampler.several import Samplers, folder_of, seeds_in, seeds_of
from tempering.settings import (
    BaselineSettings,
    Ladder,
    MethodSettings,
    as_whole,
    require_choice,
    require_count,
    require_flag,
    require_positive,
    require_seed,
    resolved,
)
from tempering.targets import Target
from tempering.targets.cost import is_black_box
from tempering.targets.posterior import in_coordinates
from tempering.types import OnEvent

__all__ = ["fit", "load"]


@overload
def fit(
    log_density: Any,
    dim: int | None = None,
    *,
    like: Any = None,
    support: Any = None,
    prior: Any = None,
    prior_transform: Any = None,
    reference: Any = None,
    method: str = "ptsd",
    budget: int | None = None,
    seed: int = 0,
    scale: float | None = None,
    init: Any = None,
    ladder: Sequence[float] | None = None,
    settings: MethodSettings | BaselineSettings | Mapping[str, Any] | None = None,
    time_limit: float | None = None,
    devices: Any = None,
    out: str | Path | None = None,
    progress: bool = True,
    callback: OnEvent | None = None,
) -> Sampler: ...
@overload
def fit(log_density: Any, dim: int | None = None, *, seed: Sequence[int], **options: Any) -> Samplers: ...
@plain_jax()
def fit(  # pyright: ignore[reportInconsistentOverload]
    log_density: Any,
    dim: int | None = None,
    *,
    like: Any = None,
    support: Any = None,
    prior: Any = None,
    prior_transform: Any = None,
    reference: Any = None,
    method: str = "ptsd",
    budget: int | None = None,
    seed: Any = 0,
    scale: float | None = None,
    init: Any = None,
    ladder: Sequence[float] | None = None,
    settings: MethodSettings | BaselineSettings | Mapping[str, Any] | None = None,
    time_limit: float | None = None,
    devices: Any = None,
    out: str | Path | None = None,
    progress: bool = True,
    callback: OnEvent | None = None,
) -> Any:
    """Turn an unnormalised density, or a likelihood and a prior, into a sampler.

    Args:
        log_density: a JAX function of one point of shape (dim,) that returns one number; or an object with `dim` and
            `log_density(x)`, such as `tp.from_numpyro` makes. With `prior` or `prior_transform` it is the log
            likelihood alone. A target with a `geometry`, such as `PairPotential`, is sampled with its centre of mass at
            the origin.
        dim: the dimension. A function of a plain vector needs it.
        like: an example of the parameters: any nesting of dicts, lists, tuples and arrays. `log_density` then takes
            such a tree, and draws, `init` and `log_prob` are such trees.
        support: where the coordinates lie: `tp.positive`, `tp.interval(low, high)`, `tp.above(low)`, `tp.below(high)`,
            `tp.simplex`, `tp.ordered` or `tp.real`. One for all, or a list with one for each; with `like` a dict of
            those that are not real. The method works in unbounded coordinates and adds the Jacobian itself; `scale` is
            in these coordinates. If all coordinates lie in intervals, the path begins at the uniform distribution.
        prior: one distribution for all coordinates, such as `tp.Normal(0.0, 1.0)`; a list with one for each; or a dict
            by name, if `log_density` takes such a dict. Distributions are `tp.Uniform`, `tp.Normal`, `tp.LogNormal`,
            `tp.HalfNormal`, `tp.Exponential`, `tp.Beta`, `tp.Gamma`, `tp.StudentT`, and NumPyro's. Only the likelihood
            is tempered, and `sampler.log_z` is the evidence (docs/evidence.md).
        prior_transform: give it in place of `prior`. It is a JAX function from the unit cube, (dim,), to the
            parameters, as nested samplers take it. `dim` is the dimension of the cube.
        reference: a normalised distribution with `log_density(x)` and `sample(key, num)`, such as
            `tp.Normal(mean, std)` or `tp.StudentT(mean, scale, nu)`. The path from hot to cold begins at it. Levels
            are r^(1 - 1/T) p^(1/T), and chains start from its draws. None takes the target's own, such as a NumPyro
            model's prior. "none" uses no reference.
        method: "ptsd"; "ptsd_paper" for the paper's Algorithm 1 to the letter; "pt_dm" for parallel tempering with one
            diffusion model; "reweighted" for levels made by reweighting, without guidance. Methods of other authors,
            for comparison (docs/baselines.md), are "fab", "dds", "cmcd", "idem", "bnem" and "dikl". They need a
            `budget`, or `num_steps` in their settings, and `scale` is their unit of length.
        budget: the largest number of evaluations of the density. It is never exceeded. None takes 50,000 + 10,000 dim,
            or what the settings need if they give the sizes.
        seed: everything random follows from it. A list such as `[0, 1, 2]` makes one fit for each seed, in turn; each
            may spend the whole budget.
        scale: the standard deviation of the starting points around the origin. None means 1, unless starting points
            come from elsewhere: from `init`, a reference or the target itself.
        init: starting points: an array (n, dim), a tree with a leading axis n, or a function of (key, num).
        ladder: temperatures, hottest first, ending at 1. None finds the hottest by a counted pilot.
        settings: None takes the method's own, such as `tp.PTSDSettings()`. A dict changes some of them by name, such as
            `{"training.num_steps": 2000}`. A settings object replaces all. `ladder` and `scale` win over it.
            `sampler.settings` has what the fit used.
        time_limit: seconds after which the fit should end with the best sampler so far and a verdict. Searches, levels
            and training are shortened to keep it. Some things cannot be shortened, such as the first chains or the
            compilation of a complicated density; they may exceed it. The result then depends on the speed of the
            machine.
        devices: None runs on one device, JAX's default. A number uses that many of `jax.devices()`; a list names the
            devices. They share chains, draws, densities and training batches. The result is the same for any number, 1
            included. It may differ from the result of None by rounding. Several devices pay if the density or the
            network is costly. If processes have joined by `jax.distributed`, all of them take part (docs/clusters.md).
        out: a folder for checkpoints and the result, with a subfolder for each of several seeds. The same call with the
            same folder resumes the fit.
        progress: show a live display, or plain lines if there is no terminal.
        callback: a function that is called with every `tp.Event`: stage, level, what is done and what is spent. An
            exception in it ends the fit. The logger "tempering" has a record of every new stage, whatever `progress`
            is.

    Returns:
        A trained `Sampler`. For a list of seeds it is `Samplers`, which draw together and which `diagnose()` compares.

    Raises:
        DensityError, SettingsError, BudgetError, RunFolderError: for bad input, if possible before anything is spent.

    Examples:
        >>> import jax.numpy as jnp, tempering as tp
        >>> tp.fit(lambda x: -0.5 * x**2, dim=2)  # a vector: refused before anything is spent
        Traceback (most recent call last):
        ...
        tempering.errors.DensityError: ...
        >>> sampler = tp.fit(lambda x: -0.5 * jnp.sum(x**2), dim=2, seed=0)  # doctest: +SKIP
    """
    seeds = seeds_of(seed)
    if seeds is not None:
        options = {"like": like, "support": support, "prior": prior, "prior_transform": prior_transform}
        options |= {"reference": reference, "method": method, "budget": budget, "scale": scale, "init": init}
        options |= {"ladder": ladder, "settings": settings, "time_limit": time_limit, "progress": progress}
        options |= {"callback": callback, "devices": devices}
        return _fit_each(seeds, out, lambda **own: fit(log_density, dim, **options, **own))
    keep_programs()
    check_devices(devices)
    dim, budget = (int(n) if isinstance(n, np.integer) else n for n in (dim, as_whole(budget)))
    log_density = single(log_density)
    if prior is None and prior_transform is None:
        target = as_fitted(log_density, dim, like, support, reference)
    else:
        refuse_beside_prior(support=support, reference=reference, scale=scale)
        target = posterior_of(log_density, dim, like, prior, prior_transform)
    target = single(target)
    require_choice("method", method, tuple(METHODS))
    check_callback(callback)
    _check_options(seed, progress, budget, time_limit, scale, init)
    base, start_fn = _settings(method, settings, target), None
    if isinstance(base, BaselineSettings):
        _refuse_for_baseline(method, ladder=ladder, init=init, reference=reference)
        changed = base if scale is None else dataclasses.replace(base, scale=float(scale))
    else:
        width = scale if scale is not None else base.initial.scale
        start_fn = own_start(init, target, width, prefers_own=scale is None)
        ladder_settings = base.ladder if ladder is None else Ladder(temperatures=_as_temperatures(ladder))
        if reference is not None and base.atlas.path == "automatic":  # the path was chosen by hand
            base = dataclasses.replace(base, atlas=dataclasses.replace(base.atlas, path="temperature"))
        changed = suited(_replace(base, ladder_settings, width), target)
    check_budget(changed, target, budget)
    seed = int(seed)
    _refuse_on_several(target, time_limit)
    opened = lambda: own_folder(out, target, init, start_fn, method, changed, seed, budget, settings is None)  # noqa: E731
    with use(devices), followed_store(opened) as store:
        path = getattr(store, "path", None)
        if out is not None and agreed(path is not None and has_sampler(path)):
            return _with_devices(load_sampler(as_path(out), target), devices)
        kind = Kind.of(method, target.dim, budget or default_budget(target.dim), changed)
        points = store.path if isinstance(store, RunFolder) else None
        shown = progress and is_first()
        with (
            hosted(target, points, most_points(changed, target, budget), is_resumed=points is not None) as hosts,
            followed(shown, callback, store, expected_seconds(kind), hosts) as (on_event, watch),
            collected_seldom(),
            reporting(target),
        ):
            ledger = Ledger(budget, clock=Clock(time_limit))
            within_hours(hosts, target, changed, ledger, start_fn, points)
            sampler = METHODS[method].fit(
                target,
                from_seed(seed),
                changed,
                start_fn=start_fn,
                ledger=ledger,
                store=store,
                on_event=on_event,
            )
        sampler.seconds, sampler.host = watch.stop(), hosts.use()
        if time_limit is None and is_first():
            remember(kind, sampler.seconds)
        if path is not None:
            sampler.save(path)
    return _with_devices(sampler, devices)


def _check_options(seed: Any, progress: Any, budget: Any, time_limit: Any, scale: Any, init: Any) -> None:
    """Refuse what is no seed, flag or positive number, and two answers to one question."""
    require_seed("seed", seed)
    require_flag("progress", progress)
    if budget is not None:
        require_count("budget", budget)
    if time_limit is not None:
        require_positive("time_limit", time_limit)
    if scale is not None:
        require_positive("scale", scale)
        if init is not None:
            raise SettingsError("scale and init both say where chains start; give one of them")


def _with_devices(sampler: Sampler, devices: Any) -> Sampler:
    sampler.devices = devices
    return sampler


def _refuse_on_several(target: Target, time_limit: float | None) -> None:
    """Refuse what processes that joined cannot agree on: their clocks differ, and each would call a host's function."""
    by_clock, by_host = "their clocks differ; give a budget", "each would call it for every point; use one process"
    refuse_on_several(
        time_limit=None if time_limit is None else by_clock,
        log_density=by_host if is_black_box(target) else None,
    )


def _fit_each(seeds: tuple[int, ...], out: str | Path | None, fit_one: Callable[..., Any]) -> Samplers:
    """A fit of every seed in turn, each in a subfolder of its own."""
    folders = [None if out is None else folder_of(out, seed) for seed in seeds]
    members = [fit_one(seed=seed, out=folder) for seed, folder in zip(seeds, folders, strict=True)]
    samplers = Samplers(tuple(members), seeds)
    if out is not None:
        samplers.note_seeds(out)
    return samplers


@plain_jax()
def load(
    folder: str | Path,
    log_density: Any = None,
    *,
    like: Any = None,
    prior: Any = None,
    prior_transform: Any = None,
) -> Any:
    """Load a sampler that `sampler.save`, `tp.fit(out=…)` or `tempering run` wrote.

    Args:
        folder: where it was saved.
        log_density: the density. Weighted draws need it. Plain draws do not need it, and the run of a preset finds it
            by itself. Supports and priors are in the folder. A NumPyro model is not: give
            `tp.from_numpyro(model, ...)`.
        like: a tree of the parameters, if they are nested in types of your own. Dicts, lists and tuples are known.
        prior, prior_transform: give them for a transform, and for NumPyro distributions that have no counterpart here.

    Returns:
        A `Sampler`, or `Samplers` if several were saved together.

    Examples:
        >>> import tempering as tp
        >>> tp.load("no-such-folder")
        Traceback (most recent call last):
        ...
        tempering.errors.RunFolderError: no-such-folder is not a folder; ...
    """
    keep_programs()
    folder = as_path(folder)
    seeds = seeds_in(folder)
    if seeds is not None:
        options = {"like": like, "prior": prior, "prior_transform": prior_transform}
        return Samplers(tuple(load(folder_of(folder, seed), log_density, **options) for seed in seeds), seeds)
    if not folder.is_dir():
        raise RunFolderError(f"{folder} is not a folder; give the folder of a fit (`out=`) or of a saved sampler")
    if not (folder / "sampler.json").exists():
        raise RunFolderError(
            f"{folder} holds no finished sampler (sampler.json is missing); wait for a fit that is still going, "
            "go on with one that was stopped (`tempering resume`, or the same call of tp.fit), or give another folder"
        )
    if log_density is None and (folder / "config.json").exists():
        config = RunFolder.read_config(folder)
        if config.target.name not in (OWN_DENSITY, OWN_MODEL):
            return load_sampler(folder, target_of(config))
    if getattr(log_density, "chart", None) is not None:
        return load_sampler(folder, as_target(log_density))
    structure, chart = None if like is None else structure_of(like), None
    if prior is not None or prior_transform is not None:
        chart, structure = read_prior(prior, prior_transform, stored_dim(folder), like)
    sampler = load_sampler(folder, structure=structure, chart=chart)
    if log_density is not None:
        if sampler.structure is None:
            target = as_target(log_density, sampler.dim)
        else:
            target = as_target(StructuredTarget(function_of(log_density), sampler.structure))
        sampler.target = in_coordinates(target, sampler.chart)
    return sampler


def _settings(method: str, given: Any, target: Target) -> Any:
    """The method's settings with everything chosen from the density that is left open, and changed as asked for."""
    is_whole, wanted = isinstance(given, MethodSettings | BaselineSettings), SETTINGS_OF[method]
    if given is not None and not is_whole and not isinstance(given, Mapping):
        raise SettingsError(
            f"settings is {what_is(given)}; give {wanted.__name__}(…), or a dict of changes such as "
            '{"training.num_steps": 2000}'
        )
    particles = {} if target.geometry is None else target.geometry.as_dict()
    base: Any = given if is_whole else METHODS[method].default(**particles)
    if not isinstance(base, wanted):
        raise SettingsError(f"method {method!r} takes {wanted.__name__}, not {type(base).__name__}")
    base = resolved(base, target.dim, **particles, atoms=target.atom_kinds, bonds=target.bonds)
    return base.with_changes(given) if isinstance(given, Mapping) else base


def _refuse_for_baseline(method: str, **given: Any) -> None:
    """Refuse what says where tempering starts: a baseline starts from its own model."""
    for name, value in given.items():
        if value is not None:
            raise SettingsError(
                f"{name} is not for method {method!r}, which starts from its own model; leave it out, and give "
                "`scale=`, the unit of its lengths"
            )


def _as_temperatures(ladder: Sequence[float]) -> tuple[float, ...]:
    try:
        if isinstance(ladder, str):  # its letters might be digits
            raise TypeError("a string is not a list of temperatures")
        return tuple(float(temperature) for temperature in ladder)
    except (TypeError, ValueError) as error:
        raise SettingsError(
            f"ladder = {ladder!r} is not allowed: it must be a list of temperatures ending at 1"
        ) from error


def _replace(base: MethodSettings, ladder: Ladder, scale: float) -> MethodSettings:
    return dataclasses.replace(base, ladder=ladder, initial=dataclasses.replace(base.initial, scale=scale))
