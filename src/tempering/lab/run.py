"""A configuration carried out in a run folder: fit, save, judge, write the result. Resuming is the same call.

Every step leaves a file that marks it done, and a done step is read back, not repeated.
"""

from contextlib import suppress
from pathlib import Path
from typing import Any

import jax
import numpy as np

from tempering._compat import collected_seldom
from tempering.adapters.hosting import hosted
from tempering.api import load
from tempering.compilation import plain_jax
from tempering.devices import use
from tempering.errors import SettingsError
from tempering.lab.evaluation import judge
from tempering.lab.extrapolation import WAYS
from tempering.lab.own_models import evaluating, placed, target_of
from tempering.lab.reference import load_reference
from tempering.methods import ptsd
from tempering.methods.budget import check_budget, default_budget, forecast, most_points
from tempering.methods.hours import within_hours
from tempering.methods.improve import go_on
from tempering.methods.registry import METHODS
from tempering.methods.start import own_start
from tempering.parallel_tempering.initial import StartFn
from tempering.runs.clock import Clock
from tempering.runs.config import OWN_DENSITY, OWN_MODEL, MetricsConfig, RunConfig
from tempering.runs.folder import RunFolder
from tempering.runs.forecast import Kind, expected_seconds, remember, with_time_left
from tempering.runs.ledger import Ledger
from tempering.runs.progress import noted
from tempering.runs.storage import as_path, read_json, write_arrays, write_json
from tempering.runs.watching import Stopwatch, logged, watching
from tempering.sampler import Sampler, has_sampler
from tempering.sampler.diagnosis import Finding, Verdict
from tempering.sampler.folder import replace_sampler
from tempering.sampler.load import load_sampler
from tempering.settings import BaselineSettings
from tempering.targets import ExactTarget, Inner
from tempering.targets.base import Target
from tempering.types import OnEvent, ignore_event

__all__ = ["evaluate_folder", "improve_folder", "load_run", "resume", "run"]

_METRICS_KEY = 1_000_000
"""Folded into the seed's key for metrics, far from any level."""


@plain_jax()
def run(
    config: RunConfig,
    folder: str | Path,
    on_event: OnEvent = ignore_event,
    *,
    target: Target | None = None,
    time_limit: float | None = None,
    devices: Any = None,
) -> dict[str, Any]:
    """Carry out `config` in a new folder; returns the content of result.json.

    Args:
        target: that of the configuration, where it was made before.
        time_limit: seconds after which the fit should end; judging comes on top.
        devices: as `tp.fit` takes them.
    """
    target = target_of(config) if target is None else target
    forecast(config.settings, target.dim, config.budget)  # refuses a ladder that nothing can be planned for
    check_budget(config.settings, target, config.budget)
    with use(devices), RunFolder.create(folder, placed(config, as_path(folder))) as opened:
        with noted(opened.path, on_event) as observe:
            return _carry_out(opened, target, observe, time_limit)


@plain_jax()
def resume(
    folder: str | Path,
    on_event: OnEvent = ignore_event,
    *,
    time_limit: float | None = None,
    devices: Any = None,
) -> dict[str, Any]:
    """Go on with a folder from its last finished part; a finished run is returned as it is."""
    with use(devices), RunFolder.open(folder) as opened:
        if (opened.path / "result.json").exists():
            return read_json(opened.path / "result.json")
        target = target_of(opened.config, opened.path)
        opened.log({"event": "resume"})
        opened.mend()
        with noted(opened.path, on_event) as observe:
            return _carry_out(opened, target, observe, time_limit)


@plain_jax()
def improve_folder(
    folder: str | Path, budget: int, on_event: OnEvent = ignore_event, *, devices: Any = None
) -> dict[str, Any]:
    """Go on with a finished run by `budget` evaluations more (`Sampler.improve`) and judge it again.

    The improved sampler takes the place of the old one, which is kept in `before-1`, `before-2`, ...
    """
    with use(devices), RunFolder.open(folder) as opened:
        sampler = load_sampler(opened.path, target_of(opened.config, opened.path))
        opened.log({"event": "resume"})
        with noted(opened.path, on_event) as observe:
            watch = Stopwatch(opened)
            with (
                evaluating(opened.config, sampler.target, opened.path),
                hosted(sampler.target, opened.path, budget) as hosts,
            ):
                observed = watching(watch.observe, logged(), hosts.telling(observe))
                improved = go_on(sampler, budget, jax.random.key(opened.config.seed), observed)
            improved.seconds, improved.host = watch.stop(), hosts.joined(sampler.host)
            replace_sampler(improved, opened.path)
            opened.log({"event": "fitted", "evaluations": improved.evaluations, "ess_fraction": improved.ess_fraction})
            return _judge(opened, improved, opened.config.metrics, observe)


@plain_jax()
def load_run(folder: str | Path, *, evaluates: bool) -> Any:
    """The sampler of a folder, as `tp.load` reads it; a model of a user's file is read too where it is needed.

    Args:
        evaluates: whether the density is going to be evaluated.
    """
    path = as_path(folder)
    if not (path / "config.json").exists() or not has_sampler(path):
        return load(path)
    config = RunFolder.read_config(path)
    if config.target.name != OWN_MODEL:
        return load(path)
    if not evaluates:
        with suppress(SettingsError):  # of coordinates that only the model has
            return load(path)
    return load_sampler(path, target_of(config, path))


@plain_jax()
@collected_seldom()
def evaluate_folder(
    folder: str | Path, config: RunConfig | None = None, on_event: OnEvent = ignore_event
) -> dict[str, Any]:
    """Judge a finished sampler again; rewrites result.json.

    Args:
        folder: of the run. Name, target, method, seed and budget in result.json are its own.
        config: whose `metrics` to judge by, and nothing else of it counts: a preset's will do; None takes the run's.
    """
    with RunFolder.open(folder) as opened:
        sampler = load_sampler(opened.path, target_of(opened.config, opened.path))
        with noted(opened.path, on_event) as observe:
            return _judge(opened, sampler, (config or opened.config).metrics, observe)


@collected_seldom()
def _carry_out(folder: RunFolder, target: Target, on_event: OnEvent, time_limit: float | None = None) -> dict[str, Any]:
    config = folder.config
    if has_sampler(folder.path):
        sampler = load_sampler(folder.path, target)
    else:
        ways = {"ways": WAYS} if METHODS[config.method].fit is ptsd.fit else {}
        watch, budget = Stopwatch(folder), config.budget or default_budget(target.dim)
        kind = Kind.of(config.method, target.dim, budget, config.settings)
        with (
            evaluating(config, target, folder.path),
            hosted(target, folder.path, most_points(config.settings, target, config.budget), is_resumed=True) as hosts,
        ):
            on_event = hosts.telling(on_event)
            observed = with_time_left(expected_seconds(kind), watch.so_far, watching(logged(), on_event))
            ledger = Ledger(config.budget, clock=Clock(time_limit))
            within_hours(hosts, target, config.settings, ledger, _start_of(config, target), folder.path)
            sampler = METHODS[config.method].fit(
                target,
                jax.random.key(config.seed),
                config.settings,
                ledger=ledger,
                store=folder,
                on_event=watching(watch.observe, observed),
                **ways,
            )
        sampler.seconds, sampler.host = watch.stop(), hosts.use()
        if time_limit is None:
            remember(kind, sampler.seconds)
        sampler.save(folder.path)
        folder.log({"event": "fitted", "evaluations": sampler.evaluations, "ess_fraction": sampler.ess_fraction})
    return _judge(folder, sampler, config.metrics, on_event)


def _start_of(config: RunConfig, target: Target) -> StartFn | None:
    """Where chains of a configuration start; None for a method that has none."""
    if isinstance(config.settings, BaselineSettings):
        return None
    return own_start(None, target, config.settings.initial.scale, prefers_own=True)


def _judge(folder: RunFolder, sampler: Sampler, settings: MetricsConfig, on_event: OnEvent) -> dict[str, Any]:
    config = folder.config
    key = jax.random.fold_in(jax.random.key(config.seed), _METRICS_KEY)
    trusted, notes = _trusted(config, settings.num_samples, sampler.target)
    is_own = config.target.name in (OWN_DENSITY, OWN_MODEL)
    metrics, arrays = judge(sampler, key, settings, on_event, trusted=trusted, evaluates=not is_own)
    write_arrays(folder.path / "evaluation.npz", arrays)
    folder.log({"event": "judged"})
    exact = sampler.target.log_z() if isinstance(sampler.target, ExactTarget) else None
    facts = sampler.facts()
    result = {
        "name": config.name,
        "method": sampler.method,
        "seed": config.seed,
        "target": {"name": config.target.name, "arguments": config.target.arguments},
        "dim": sampler.dim,
        "evaluations": sampler.evaluations,
        "budget": config.budget,
        **{name: facts[name] for name in ("ledger", "levels", "log_z", "log_z_error")},
        **{name: facts[name] for name in ("ess_fraction", "pareto_k")},
        "verdict": Verdict((*sampler.findings, *notes)).as_dict(),
        "log_z_exact": None if exact is None else float(exact),
        "metrics": metrics,
        "device": jax.devices()[0].device_kind,
        **folder.seconds(),
    }
    write_json(folder.path / "result.json", result)
    return result


def _trusted(config: RunConfig, num: int, target: Target) -> tuple[np.ndarray | None, tuple[Finding, ...]]:
    """Kept reference samples of a system of particles, twice `num` if there are, and what a reader should know."""
    name = "reference samples"
    if not isinstance(target, Inner):
        return None, ()
    found = load_reference(config.target, 2 * num) or load_reference(config.target, num)
    if found is None:
        advice = (
            f"`tempering reference {config.name} --n {2 * num}` makes them, and `tempering evaluate` with this folder "
            "judges again"
        )
        return None, (Finding(name, "note", "none of this system are kept", "draws were compared with none", advice),)
    if not found.is_converged:
        meaning = "metrics against them mislead"
        return found.positions, (Finding(name, "note", "they are marked as not converged", meaning),)
    return found.positions, ()
