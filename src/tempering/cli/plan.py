"""`--dry-run`: what a run is going to do and to spend, as a table."""

from collections.abc import Sequence
from typing import Any

from tempering.adapters.hosting import seconds_known
from tempering.host.use import forecast_words
from tempering.methods.budget import default_budget
from tempering.methods.registry import title_of
from tempering.methods.stage_plan import StagePlan
from tempering.runs.forecast import Kind, expected_seconds
from tempering.runs.ledger import stage_name
from tempering.runs.progress import duration_text

__all__ = ["plan_lines"]

_WORDS = {
    "atlas": "search for modes",
    "reference": "make and test a mixture of the modes",
    "shape": "learn coordinates",
    "pilot": "find the hottest temperature",
    "initial_pt": "parallel tempering at hot temperatures",
    "importance_weights": "draw and weigh colder levels",
    "refinement": "refine samples of levels",
    "training": "train",
    "final_weights": "weigh draws of the finished sampler",
}


def plan_lines(config: Any, target: Any, stages: Sequence[StagePlan]) -> list[str]:
    """The plan of a run in lines of at most 80 characters."""
    outer = target.dim if target.chart is None else target.chart.full_dim
    size = f"{outer} dimension{'' if outer == 1 else 's'}" + (
        "" if outer == target.dim else f", {target.dim} unconstrained"
    )
    lines = [
        f"run      {config.name}",
        f"target   {config.target.name if config.target.name != 'own model' else 'your own model'}, {size}",
        f"method   {title_of(config.method, config.settings)}",
        f"seed     {config.seed}",
    ]
    if config.settings.is_sized_by_budget and config.budget is not None:
        lines.append(f"budget   {config.budget:,} evaluations, never exceeded")
    total = sum(stage.evaluations for stage in stages)
    rows = [(_WORDS.get(stage.stage, stage_name(stage.stage)), stage) for stage in stages]
    width = max(len(words) for words, _ in rows)
    lines += [
        f"time     {_time(config, target)}",
        *_workers(target, total),
        "",
        f"{'stage':<{width}}  {'evaluations':>20}",
    ]
    for words, stage in rows:
        sense = "" if stage.sense == "exactly" else f"{stage.sense} "
        lines.append(f"{words:<{width}}  {sense + format(stage.evaluations, ','):>20}")
    is_exact = all(stage.sense == "exactly" for stage in stages)
    whole = f"{'' if is_exact else 'at most '}{total:,}"
    lines.append(f"{'all':<{width}}  {whole:>20}")
    lines += ["", "`--json` prints the plan and the whole configuration. Nothing was written."]
    return lines


def _workers(target: Any, total: int) -> list[str]:
    """How long workers will take for the points, where a store knows how long one takes."""
    known = seconds_known(target)
    if known is None:
        return []
    seconds, num_workers = known
    return [f"workers  {forecast_words(total, num_workers, seconds)}"]


def _time(config: Any, target: Any) -> str:
    """How long the run will take, if a like one was made on this machine."""
    budget = config.budget or default_budget(target.dim)
    expected = expected_seconds(Kind.of(config.method, target.dim, budget, config.settings))
    if expected is None:
        return "not known: no similar run was made on this machine"
    return f"about {duration_text(sum(expected.values()))}, as long as a similar run on this machine took"
