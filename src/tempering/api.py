"""The library's front door: a density in, a sampler out."""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, overload

import jax
import numpy as np

from tempering._compat import collected_seldom
from tempering.adapters import as_target, reporting
from tempering.adapters.prior import posterior_of, read_prior
from tempering.adapters.structure import StructuredTarget, chart_of_tree, structure_of
from tempering.errors import DensityError, RunFolderError, SettingsError
from tempering.methods import improve as _improve  # noqa: F401 -- gives `Sampler.improve` what it calls
from tempering.methods.budget import check_budget
from tempering.methods.own import own_store
from tempering.methods.pilot import suited
from tempering.methods.registry import METHODS
from tempering.methods.start import own_start
from tempering.priors import Normal
from tempering.registry import target_of
from tempering.runs.config import OWN_DENSITY, SETTINGS_OF
from tempering.runs.folder import RunFolder
from tempering.runs.ledger import Ledger
from tempering.runs.storage import as_path
from tempering.runs.watching import check_callback, followed
from tempering.sampler import Sampler, has_sampler
from tempering.sampler.load import load_sampler, stored_dim
from tempering.sampler.several import Samplers, folder_of, seeds_in, seeds_of
from tempering.settings import (
    Ladder,
    MethodSettings,
    require_choice,
    require_count,
    require_flag,
    require_positive,
    require_seed,
    resolved,
)
from tempering.targets import Referenced, Target, in_inner_coordinates
from tempering.targets.posterior import in_coordinates, within_bounds
from tempering.targets.references import check_reference
from tempering.transforms import flat_chart
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
    settings: MethodSettings | Mapping[str, Any] | None = None,
    out: str | Path | None = None,
    progress: bool = True,
    callback: OnEvent | None = None,
) -> Sampler: ...
@overload
def fit(log_density: Any, dim: int | None = None, *, seed: Sequence[int], **options: Any) -> Samplers: ...
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
    settings: MethodSettings | Mapping[str, Any] | None = None,
    out: str | Path | None = None,
    progress: bool = True,
    callback: OnEvent | None = None,
) -> Any:
    """Turn an unnormalised density, or a likelihood and a prior, into a sampler.

    Args:
        log_density: a JAX function of one point of shape (dim,), or an object with `dim` and `log_density(x)`. One with
            a `geometry`, such as `PairPotential`, is sampled on configurations centred at the origin. With `prior` or
            `prior_transform` it is the log likelihood alone.
        dim: the dimension; needed for a function of a plain vector.
        like: a tree of arrays (dicts, lists, tuples, any pytree) of the structure and shapes of the parameters, where
            `log_density` is a function of such a tree. Draws, `init` and the sampler's `log_prob` are trees then.
        support: where the coordinates lie: `tp.positive`, `tp.interval(low, high)`, `tp.above(low)`, `tp.below(high)`,
            `tp.simplex`, `tp.ordered` or `tp.real`; a list with one for each coordinate; with `like` a prefix of the
            tree, in which what is missing is real. `log_density` is then only asked for points within. The method works
            in unbounded coordinates y, with the Jacobian; `scale` and the levels are theirs. Where all lie in intervals
            these are normal ones, and the path begins at the uniform distribution.
        prior: a distribution for all coordinates, such as `tp.Normal(0.0, 1.0)`; a list with one for each; a dict of
            them by name, where `log_density` takes such a dict; with `like` a prefix of that tree. `tp.Uniform`,
            `tp.Normal`, `tp.LogNormal`, `tp.HalfNormal`, `tp.Exponential`, `tp.Beta`, `tp.Gamma`, `tp.StudentT`, or
            distributions of NumPyro. `log_density` is then the log likelihood, only it is tempered, and
            `sampler.log_z` is the evidence (docs/evidence.md).
        prior_transform: in place of `prior`, a JAX function from the unit cube, (dim,), to the parameters, as nested
            samplers take it; `dim` is that of the cube.
        reference: a normalised distribution of the user's coordinates as one vector, with `log_density(x)` and
            `sample(key, num)`, such as `tp.Normal(mean, std)` or `tp.StudentT(mean, scale, nu)`. Levels then follow the
            geometric path r^(1 - 1/T) p^(1/T) from it, which has a normaliser where p^(1/T) may have none, and chains
            start from its draws. None takes the target's own, such as a NumPyro model's prior, if it has one; "none"
            takes none.
        method: ptsd; ptsd_paper for the paper's Algorithm 1 to the letter; pt_dm for parallel tempering with one
            diffusion model; reweighted for levels made by reweighting, without guidance.
        budget: the most evaluations of the density to spend; None takes 50,000 + 10,000 dim, or what the settings need
            where they give the sizes. Never exceeded.
        seed: everything random follows from it. A list such as `[0, 1, 2]` fits each in turn, with the budget each.
        scale: standard deviation of the starting points around the origin; 1 where neither it nor `init` nor a
            reference is given, and the target has no starting points of its own, as a molecule has.
        init: starting points: an array (n, dim) or a tree with a leading axis n, or a function (key, num) of them.
        ladder: temperatures, hottest first, ending at 1; None finds the hottest by a counted pilot.
        settings: None takes the method's own, such as `tp.PTSDSettings()`. A dict changes some of them by name, such as
            `{"training.num_steps": 2000}`. A whole settings object takes the place of all. `ladder` and `scale` still
            win over it. `sampler.settings` has what became of them.
        out: a folder for checkpoints and the result, with a subfolder for each of several seeds; the same call with the
            same folder resumes.
        progress: show a live display, or plain lines where there is no terminal.
        callback: a function that is called with every `tp.Event`: stage, level, what is done and what is spent. What it
            raises ends the fit. The logger "tempering" has a record of every new stage, whatever `progress` is.

    Returns:
        A trained `Sampler`; for a list of seeds `Samplers`, which draw together and are compared by `diagnose()`.

    Raises:
        DensityError, SettingsError, BudgetError, RunFolderError: for bad input, before compute is spent where possible.

    Example:
        >>> import jax.numpy as jnp, tempering as tp
        >>> sampler = tp.fit(lambda x: -0.5 * jnp.sum(x**2), dim=2, seed=0)  # doctest: +SKIP
    """
    seeds = seeds_of(seed)
    if seeds is not None:
        options = {"like": like, "support": support, "prior": prior, "prior_transform": prior_transform}
        options |= {"reference": reference, "method": method, "budget": budget, "scale": scale, "init": init}
        options |= {"ladder": ladder, "settings": settings, "progress": progress, "callback": callback}
        return _fit_each(seeds, out, lambda **own: fit(log_density, dim, **options, **own))
    dim, budget = (int(n) if isinstance(n, np.integer) else n for n in (dim, budget))
    if prior is None and prior_transform is None:
        target = _as_fitted(log_density, dim, like, support, reference)
    else:
        _refuse_beside_prior(support=support, reference=reference, scale=scale)
        target = posterior_of(log_density, dim, like, prior, prior_transform)
    require_choice("method", method, tuple(METHODS))
    require_seed("seed", seed)
    require_flag("progress", progress)
    check_callback(callback)
    if budget is not None:
        require_count("budget", budget)
    if scale is not None:
        require_positive("scale", scale)
        if init is not None:
            raise SettingsError("scale and init both say where chains start; give one of them")
    base = _settings(method, settings, target)
    width = scale if scale is not None else base.initial.scale
    start_fn = own_start(init, target, width, prefers_own=scale is None)
    ladder_settings = base.ladder if ladder is None else Ladder(temperatures=_as_temperatures(ladder))
    if reference is not None and base.atlas.path == "automatic":  # the path was chosen by hand
        base = dataclasses.replace(base, atlas=dataclasses.replace(base.atlas, path="temperature"))
    changed = suited(_replace(base, ladder_settings, width), target)
    check_budget(changed, target, budget)
    seed = int(seed)
    with own_store(out, target, init, start_fn, method, changed, seed, budget, settings is None) as store:
        if isinstance(store, RunFolder) and has_sampler(store.path):
            return load_sampler(store.path, target)
        with collected_seldom(), reporting(target), followed(progress, callback, store) as (on_event, watch):
            sampler = METHODS[method].fit(
                target,
                jax.random.key(seed),
                changed,
                start_fn=start_fn,
                ledger=Ledger(budget),
                store=store,
                on_event=on_event,
            )
        sampler.seconds = watch.stop()
        if isinstance(store, RunFolder):
            sampler.save(store.path)
    return sampler


def _fit_each(seeds: tuple[int, ...], out: str | Path | None, fit_one: Callable[..., Any]) -> Samplers:
    """A fit of every seed in turn, each in a subfolder of its own."""
    folders = [None if out is None else folder_of(out, seed) for seed in seeds]
    members = [fit_one(seed=seed, out=folder) for seed, folder in zip(seeds, folders, strict=True)]
    samplers = Samplers(tuple(members), seeds)
    if out is not None:
        samplers.note_seeds(out)
    return samplers


def load(
    folder: str | Path,
    log_density: Any = None,
    *,
    like: Any = None,
    prior: Any = None,
    prior_transform: Any = None,
) -> Any:
    """A `Sampler` that `sampler.save`, `tp.fit(out=…)` or `tempering run` wrote; `Samplers`, where these were saved.

    Args:
        log_density: the density, for `sample_weighted`; not needed for a preset's run, whose target is known. Supports
            and priors are in the folder. A NumPyro model is not, and is needed: `tp.from_numpyro(model, ...)`.
        like: a tree of the parameters, where they are nested in types of the user's own; dicts, lists and tuples are in
            the folder.
        prior, prior_transform: needed where they are a transform, or distributions of NumPyro that are not ours by
            another name.
    """
    folder = as_path(folder)
    seeds = seeds_in(folder)
    if seeds is not None:
        options = {"like": like, "prior": prior, "prior_transform": prior_transform}
        return Samplers(tuple(load(folder_of(folder, seed), log_density, **options) for seed in seeds), seeds)
    if not (folder / "sampler.json").exists():
        raise RunFolderError(f"{folder} holds no finished sampler (sampler.json is missing); fit or resume it first")
    if log_density is None and (folder / "config.json").exists():
        config = RunFolder.read_config(folder)
        if config.target.name != OWN_DENSITY:
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
            target = as_target(StructuredTarget(_function_of(log_density), sampler.structure))
        sampler.target = in_coordinates(target, sampler.chart)
    return sampler


def _as_fitted(log_density: Any, dim: int | None, like: Any, support: Any, reference: Any = None) -> Any:
    """The target that a method fits, in unbounded coordinates; its `chart` and `structure` lead back to the user's."""
    if like is None:
        target = _on_path(as_target(log_density, dim), reference)
        if support is None:
            return in_inner_coordinates(target)
        _refuse_own_coordinates(target, "support")
        return _bounded(target, flat_chart(support, target.dim), reference)
    _refuse_own_coordinates(log_density, "like")
    structure = structure_of(like)
    if dim is not None and dim != structure.size:
        raise SettingsError(f"dim = {dim} contradicts `like`, which has {structure.size} numbers; leave `dim` out")
    chart = chart_of_tree(like, support)
    target = as_target(StructuredTarget(_function_of(log_density), structure))
    return _bounded(_on_path(target, reference), chart, reference)


def _bounded(target: Any, chart: Any, reference: Any) -> Any:
    """The target in unbounded coordinates; a box has a reference of its own, unless something is said of one."""
    return within_bounds(target, chart) if reference is None else in_inner_coordinates(target, chart)


def _refuse_beside_prior(**given: Any) -> None:
    """A prior says where parameters lie, where the path begins and where chains start."""
    for name, value in given.items():
        if value is not None:
            remedy = "; say where chains start by `init=`" if name == "scale" else ""
            raise SettingsError(f"{name} and a prior both say {_SAID[name]}; leave {name} out{remedy}")


_SAID = {
    "support": "where the parameters lie",
    "reference": "what the path begins at",
    "scale": "where chains start",
}


def _on_path(target: Any, reference: Any) -> Any:
    """The target with the reference that was given, in the coordinates that the target has."""
    if reference is None:
        return target
    if isinstance(reference, str):
        require_choice("reference", reference, ("none",))
        return Referenced(target.dim, target, None)
    if isinstance(reference, Normal) and reference.shape == ():
        reference = Normal(np.full(target.dim, reference.mean), reference.std)  # one for all, as of a prior
    if target.geometry is not None:
        raise SettingsError(f"reference is not for a {type(target).__name__}, which is centred; leave it out")
    check_reference(reference, target.dim)
    return Referenced(target.dim, target, reference)


def _function_of(log_density: Any) -> Any:
    log_density = getattr(log_density, "log_density", log_density)
    if not callable(log_density):
        raise DensityError(
            f"log_density is a {type(log_density).__name__}; it must be a function of a tree like `like`"
        )
    return log_density


def _refuse_own_coordinates(target: Any, what: str) -> None:
    if any(getattr(target, name, None) is not None for name in ("chart", "geometry")):
        raise SettingsError(
            f"{what} is not for a {type(target).__name__}, which has coordinates of its own; leave it out"
        )


def _settings(method: str, given: MethodSettings | Mapping[str, Any] | None, target: Target) -> MethodSettings:
    """The method's settings with everything chosen from the density that is left open, and changed as asked for."""
    is_whole, wanted = isinstance(given, MethodSettings), SETTINGS_OF[method]
    if given is not None and not is_whole and not isinstance(given, Mapping):
        raise SettingsError(
            f"settings is a {type(given).__name__}; give {wanted.__name__}(…), or a dict of changes such as "
            '{"training.num_steps": 2000}'
        )
    particles = {} if target.geometry is None else target.geometry.as_dict()
    base = given if is_whole else METHODS[method].default(**particles)
    if not isinstance(base, wanted):
        raise SettingsError(f"method {method!r} takes {wanted.__name__}, not {type(base).__name__}")
    base = resolved(base, target.dim, **particles, atoms=target.atom_kinds, bonds=target.bonds)
    return base.with_changes(given) if isinstance(given, Mapping) else base


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
