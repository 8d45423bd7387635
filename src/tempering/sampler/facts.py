"""A sampler in words, in JSON and for ArviZ: its summary, everything of it but the arrays, and its draws."""

import dataclasses
from typing import Any

from tempering.errors import require_extra
from tempering.runs.exports import named_arrays
from tempering.runs.records import finite_or_none, level_table
from tempering.settings import require_flag
from tempering.settings.changes import plain

__all__ = ["FORMAT", "facts_of", "summary_of", "to_arviz"]

FORMAT = "tempering sampler 3"
"""Of sampler.json: what `load` reads."""


def facts_of(sampler) -> dict[str, Any]:
    """Everything but the arrays, JSON-ready."""
    chart, geometry, settings = sampler.chart, sampler.geometry, sampler.settings
    weighed = sampler.weighed
    return {
        "format": FORMAT,
        "method": sampler.method,
        "dim": sampler.dim,
        "geometry": None if geometry is None else geometry.as_dict(),
        "chart": None if chart is None or geometry is not None else chart.as_dict(),
        "structure": None if sampler.structure is None else sampler.structure.as_dict(),
        "network": dataclasses.asdict(sampler.network),
        "sampling": dataclasses.asdict(sampler.sampling),
        "settings": settings and {"kind": type(settings).__name__, **plain(settings)},
        "levels": [record.as_dict() for record in sampler.levels],
        "ledger": sampler.ledger.as_dict(),
        "log_z": None if sampler.log_z is None else finite_or_none(sampler.log_z),
        "log_z_error": None if sampler.log_z_error is None else finite_or_none(sampler.log_z_error),
        "ess_fraction": sampler.ess_fraction,
        "pareto_k": None if sampler.pareto_k is None else finite_or_none(sampler.pareto_k),
        "weighed": None if weighed is None else weighed.as_dict(),
        "checks": sampler.checks.as_dict(),
        "modes": [mode.as_dict() for mode in sampler.modes],
        "verdict": sampler.diagnose().as_dict(),
    }


def summary_of(sampler) -> str:
    """Evaluations, ESS, log Z, the per-level table, every finding that is not good and the verdict, as text."""
    lines = [f"{sampler.method} sampler in {sampler.dim} dimensions", f"evaluations  {sampler.evaluations:,}"]
    lines += [f"  {stage:<18} {count:>12,}" for stage, count in sampler.ledger.points.items()]
    if sampler.ess_fraction is not None:
        lines.append(f"ESS of the final model's raw weights  {sampler.ess_fraction:.3f}")
    if sampler.pareto_k is not None:
        lines.append(f"Pareto k of the final model's raw weights  {sampler.pareto_k:.2f}")
    if sampler.log_z is not None:
        error = "" if sampler.log_z_error is None else f" ± {sampler.log_z_error:.3f}"
        lines.append(f"log Z  {sampler.log_z:.3f}{error}")
    for record in sampler.levels:
        if record.log_z_ratio is not None:
            error = "" if record.log_z_ratio_error is None else f" ± {record.log_z_ratio_error:.3f}"
            hottest = sampler.levels[0].temperature
            lines.append(
                f"log Z(T = {record.temperature:.4g}) - log Z(T = {hottest:.4g})  {record.log_z_ratio:.3f}{error}"
                "  by stepping stones"
            )
    table = level_table(sampler.levels)
    widths = [max(len(row[column]) for row in table) for column in range(len(table[0]))]
    lines += ["", *("  ".join(c.rjust(w) for c, w in zip(row, widths, strict=True)) for row in table)]
    verdict = sampler.diagnose()
    lines += ["", *map(str, (*verdict.troubles(), *verdict.notes()))]
    lines.append(f"{verdict.line()}; `diagnose()` shows all that was checked")
    return "\n".join(lines)


def to_arviz(sampler, num: int, seed: int, coords: dict | None, dims: dict | None, with_log_prob: bool) -> Any:
    """Draws as ArviZ inference data; arguments as in `Sampler.to_arviz`."""
    require_extra("arviz", "inference data")
    import arviz

    require_flag("with_log_prob", with_log_prob)
    draws = sampler.sample(num, seed=seed)
    named = {("x" if name == "draws" else name): array[None] for name, array in named_arrays(draws).items()}
    known = {} if sampler.structure is None else sampler.structure.dims
    stats: dict[str, Any] = {"sample_stats": {"log_prob": sampler.log_prob(draws)[None]}} if with_log_prob else {}
    return arviz.from_dict(posterior=named, coords=coords, dims={**known, **(dims or {})}, **stats)
