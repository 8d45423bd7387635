"""Commands that fit and judge: run, resume, evaluate. They hold no algorithm; `tempering.lab.run` carries them out."""

import itertools
import re
import sys
from pathlib import Path
from typing import Any

from tempering.cli.options import whole
from tempering.cli.wrapping import print_verdict
from tempering.errors import SettingsError
from tempering.lab.catalogue import read, unknown_preset
from tempering.lab.model_files import is_model
from tempering.settings import require_count, require_positive

__all__ = ["evaluate", "resume", "run"]

_ALL = "all"
_OF_OWN_MODELS = ("method", "dim", "data", "temperature")


def run(
    model: str,
    out: Path | None,
    seed: int | None,
    budget: int | None,
    time_limit: float | None,
    devices: str | None,
    set: list[str],
    dry_run: bool,
    json: bool,
    quiet: bool,
    **own: Any,
) -> None:
    """Fit a preset or a model of one's own, judge it and write its report."""
    if time_limit is not None:
        require_positive("--time-limit", time_limit)
    wanted = _devices(devices)
    if json and not dry_run:
        raise SettingsError("--json is for --dry-run; the result of a run is in its folder, in result.json")
    given = [f"{name}={value}" for name, value in (("seed", seed), ("budget", budget)) if value is not None]
    changes = [*given, *set]
    config, target = _own(model, changes, own) if is_model(model) else _preset(model, changes, own)
    from tempering.lab.own_models import target_of
    from tempering.methods.budget import check_budget

    target = target_of(config) if target is None else target
    if dry_run:
        _show_plan(config, target, json)
        return
    check_budget(config.settings, target, config.budget)
    if out is None:
        out = _new_folder(config.name)
        if not quiet:
            print(f"folder {out}; `tempering watch {out}` follows the run", file=sys.stderr)
    from tempering.lab.run import run as carry_out
    from tempering.runs.display import choose_display

    try:
        with choose_display(quiet=quiet, name=config.name) as on_event:
            limits = {"time_limit": time_limit, "devices": _all_or(wanted)}
            result = carry_out(config, out, on_event, target=target, **limits)
    except KeyboardInterrupt:
        _say_how_to_resume(out)
        raise
    _finish(out, result)


def resume(folder: Path, budget: int | None, time_limit: float | None, devices: str | None, quiet: bool) -> None:
    """Go on with a run that was stopped. With --budget, spend that many more evaluations on a finished run."""
    from tempering.lab.run import improve_folder
    from tempering.lab.run import resume as go_on
    from tempering.runs.display import choose_display

    _enable_cache()
    if budget is not None:
        require_count("--budget", budget)
    if time_limit is not None:
        require_positive("--time-limit", time_limit)
    wanted = _all_or(_devices(devices))
    try:
        with choose_display(quiet=quiet) as on_event:
            result = go_on(folder, on_event, time_limit=time_limit, devices=wanted)
            result = result if budget is None else improve_folder(folder, budget, on_event, devices=wanted)
    except KeyboardInterrupt:
        _say_how_to_resume(folder)
        raise
    _finish(folder, result)


def evaluate(folder: Path, num_samples: int | None, num_transport: int | None, quiet: bool) -> None:
    """Judge a trained sampler again, for example with more samples in the transport distances."""
    import dataclasses

    from tempering.lab.run import evaluate_folder
    from tempering.runs.display import choose_display
    from tempering.runs.folder import RunFolder

    _enable_cache()
    config = RunFolder.read_config(folder)
    given = {"num_samples": num_samples, "num_transport": num_transport}
    metrics = dataclasses.replace(config.metrics, **{name: n for name, n in given.items() if n is not None})
    with choose_display(quiet=quiet) as on_event:
        result = evaluate_folder(folder, dataclasses.replace(config, metrics=metrics), on_event)
    _finish(folder, result)


def _devices(text: str | None) -> int | str | None:
    """A number of devices, or the word all. A typo is found before JAX is loaded."""
    if text is None or text == _ALL:
        return text
    try:
        number = whole(text)
    except ValueError:
        number = 0
    if number < 1:
        raise SettingsError(f"--devices = {text!r} is not allowed: it must be a number from 1 on, or the word {_ALL}")
    return number


def _all_or(wanted: int | str | None) -> Any:
    """What `tp.fit` takes as `devices`; a number that is too large is refused here, before a folder is made."""
    if wanted is None:
        return None
    import jax

    from tempering.devices import chosen

    return chosen(jax.device_count() if wanted == _ALL else wanted)


def _preset(name: str, changes: list[str], own: dict[str, Any]) -> tuple[Any, None]:
    """The configuration of a preset. Typos are found before JAX is loaded."""
    if name not in read():
        raise SettingsError(unknown_preset(name))
    for option in _OF_OWN_MODELS:
        if own[option] is not None:
            raise SettingsError(f"--{option} is for a model of your own; the preset {name} has its own: leave it out")
    from tempering.lab.presets import preset
    from tempering.runs.config import with_changes

    config = with_changes(preset(name), changes)
    _enable_cache()
    return config, None


def _own(given: str, changes: list[str], own: dict[str, Any]) -> tuple[Any, Any]:
    """The configuration and the target of a model of one's own. A wrong path is found before JAX is loaded."""
    from tempering.lab.model_files import located

    located(given)
    _enable_cache()
    from tempering.lab.own_models import own_config

    return own_config(given, changes=changes, **own)


def _enable_cache() -> None:
    from tempering import compilation

    compilation.keep_programs()


def _show_plan(config: Any, target: Any, as_json: bool) -> None:
    from tempering.cli.plan import plan_lines
    from tempering.methods.budget import forecast
    from tempering.methods.stage_plan import stage_plan
    from tempering.runs.config import config_to_dict

    stages = stage_plan(config.settings, target, config.budget)
    if not as_json:
        print("\n".join(plan_lines(config, target, stages)))
        return
    plan = forecast(config.settings, target.dim, config.budget)
    content = {
        "config": config_to_dict(config),
        "planned": plan,
        "planned_total": sum(plan.values()),
        "stages": [stage.as_dict() for stage in stages],
    }
    import json

    print(json.dumps(content, indent=2))


def _finish(folder: Path, result: dict) -> None:
    """The end of a run: quality against floor, cost, and where the pictures are."""
    from tempering.lab.report import make_report, quality_lines

    print_verdict("\n".join(quality_lines(result)), folder)
    if not result.get("metrics"):  # a model of one's own, whose answer nobody knows yet
        _print_answer(folder)
    try:
        page = make_report(folder)
    except SettingsError as error:  # a package is missing; the run stands
        print(f"\nno report: {error}; then `tempering report {folder}`")
        return
    print(f"\nfigures  {folder / 'figures'}\nreport   {page}")


def _print_answer(folder: Path) -> None:
    """The table of parameters, as it is on the page of the run."""
    from tempering.lab.report import read_contents
    from tempering.sampler.words import answer_lines

    print("\n".join(answer_lines(read_contents(folder).answer)))


def _new_folder(name: str) -> Path:
    """A folder that does not exist yet, for a run of this name: `runs/mog40`, then `runs/mog40-2`."""
    model, _, part = name.partition(":")
    first = Path(model).stem if Path(model).suffix in (".py", ".stan") else Path(model).name
    plain = re.sub(r"[^\w.-]+", "-", "-".join(filter(None, (first, part)))).strip("-.") or "run"
    numbered = (f"{plain}-{number}" for number in itertools.count(2))
    return next(place for own in itertools.chain([plain], numbered) if not (place := Path("runs") / own).exists())


def _say_how_to_resume(folder: Path) -> None:
    if (Path(folder) / "config.json").exists():
        print(f"\nstopped; `tempering resume {folder}` goes on from the last finished part", file=sys.stderr)
