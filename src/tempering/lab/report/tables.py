"""The numbers of a run as rows of text: quality against floor, cost by stage. Shared by the terminal and the page.

Consumes the dictionary of `result.json`; every entry may be missing, and is then shown as a dash.
"""

from dataclasses import dataclass
from typing import Any

from tempering.plots.contents import number_of
from tempering.runs.ledger import APART, stage_name
from tempering.runs.words import DASH, duration_text, number_text, with_error
from tempering.sampler.diagnosis import Finding
from tempering.weights.pareto import RELIABLE_K

__all__ = ["cost_rows", "finding_rows", "ledger_rows", "number_text", "quality_lines", "quality_rows", "warning_lines"]


@dataclass(frozen=True)
class QualityRow:
    """One metric as text.

    `ratio` is value / floor, None where that means nothing; `versus` says the ratio, or the difference where larger is
    better; `failure` is why there is no value.
    """

    name: str
    value: str
    floor: str
    versus: str
    ratio: float | None
    num_samples: str
    description: str
    failure: str | None = None


def quality_rows(result: dict[str, Any]) -> list[QualityRow]:
    """One row per metric, in the order of the result; a failed metric is a row too."""
    return [_quality_row(str(name), metric or {}) for name, metric in (result.get("metrics") or {}).items()]


def _quality_row(name: str, metric: dict[str, Any]) -> QualityRow:
    value, floor = number_of(metric, "value"), number_of(metric, "floor")
    ratio, versus = None, DASH
    if value is not None and floor is not None:
        if not metric.get("smaller_is_better", True):
            versus = f"{value - floor:+.3g}"
        elif floor > 0:  # one that is zero or negative (a count, an unbiased estimate of zero) is no unit to measure in
            ratio = value / floor
            versus = f"{ratio:.2f}×" if ratio < 100 else f"{ratio:,.0f}×"
    description, unit, note = (metric.get(name) or "" for name in ("description", "unit", "floor_failure"))
    if unit and unit != "samples":
        description += f" [{unit}]"
    if note and value is not None:
        description += f" ({note})"
    return QualityRow(
        name=name,
        value="failed" if value is None else number_text(value),
        floor=number_text(floor),
        versus=versus,
        ratio=ratio,
        num_samples=number_text(number_of(metric, "num_samples")),
        description=description.strip(),
        failure=str(metric.get("failure") or "no finite value") if value is None else None,
    )


def cost_rows(result: dict[str, Any]) -> list[tuple[str, str, str]]:
    """The summary of a run: what, how much, and a remark."""
    budget, seconds = number_of(result, "budget"), number_of(result, "wall_seconds")
    evaluations = number_of(result, "evaluations")
    if evaluations is None and result.get("ledger"):
        evaluations = sum(_fitting(result["ledger"]).values())
    rows = [("evaluations", number_text(evaluations), "" if budget is None else f"of a budget of {budget:,}")]
    ess = number_of(result, "ess_fraction")
    rows.append(("ESS", DASH, "") if ess is None else ("ESS", f"{ess:.1%}", "of the final model's raw weights"))
    k = number_of(result, "pareto_k")
    if k is not None:
        remark = f"of the same weights; above {RELIABLE_K} they have a heavy tail, which the verdict judges"
        rows.append(("Pareto k", f"{k:.2f}", remark))
    rows.append(("log Z", *_log_z_text(result)))
    rows.append(("wall time", DASH if seconds is None else duration_text(seconds), str(result.get("device") or "")))
    return rows


def _log_z_text(result: dict[str, Any]) -> tuple[str, str]:
    log_z, error, exact = (number_of(result, name) for name in ("log_z", "log_z_error", "log_z_exact"))
    if log_z is None:
        return DASH, "" if exact is None else f"exact {exact:.3f}"
    text = with_error(log_z, error)
    if exact is None:
        return text, "estimate and standard error"
    gap = log_z - exact
    sigmas = f", {abs(gap) / error:.1f} standard errors" if error else ""
    return text, f"exact {exact:.3f}; off by {gap:+.3f}{sigmas}"


def _fitting(ledger: dict[str, Any]) -> dict[str, int]:
    """The stages that fitting pays for."""
    return {stage: count for stage, count in (ledger.get("points") or {}).items() if stage not in APART}


def ledger_rows(result: dict[str, Any]) -> list[tuple[str, str, str, str]]:
    """Stage, evaluations, their share of fitting, and how many asked for no gradient; the sum of fitting last."""
    ledger = result.get("ledger") or {}
    points, value_only, fitting = ledger.get("points") or {}, ledger.get("value_only") or {}, _fitting(ledger)
    total = sum(fitting.values())
    rows = [
        (stage_name(stage), f"{count:,}", f"{count / max(total, 1):.1%}", number_text(value_only.get(stage, 0)))
        for stage, count in fitting.items()
    ]
    if rows:
        without_gradient = sum(value_only.get(stage, 0) for stage in fitting)
        rows.append(("fitting", f"{total:,}", "100.0%", number_text(without_gradient)))
    for stage in APART:
        if stage in points:
            without_gradient = number_text(value_only.get(stage, 0))
            rows.append((f"{stage_name(stage)} (apart)", f"{points[stage]:,}", DASH, without_gradient))
    return rows


def quality_lines(result: dict[str, Any]) -> list[str]:
    """Quality against floor, one line per metric; then cost, failures, findings that are not good, and the verdict."""
    header = ("metric", "value", "floor", "vs floor", "N")
    rows = [(r.name, r.value, r.floor, r.versus, r.num_samples) for r in quality_rows(result)]
    seed = None if result.get("seed") is None else f"seed {result['seed']}"
    lines = [", ".join(map(str, filter(None, [result.get("name") or "run", result.get("method"), seed])))]
    if rows:
        widths = [max(len(row[column]) for row in [header, *rows]) for column in range(len(header))]
        for name, *cells in [header, *rows]:
            numbers = (cell.rjust(width) for cell, width in zip(cells, widths[1:], strict=True))
            lines.append("  ".join([name.ljust(widths[0]), *numbers]))
    lines += [f"{name} {value}" + (f" ({remark})" if remark else "") for name, value, remark in cost_rows(result)]
    lines += [f"failed: {row.name}: {row.failure}" for row in quality_rows(result) if row.failure]
    status = _verdict(result).get("status")
    return [*lines, *warning_lines(result), *([f"verdict: {status}"] if status else [])]


def _verdict(result: dict[str, Any]) -> dict[str, Any]:
    verdict = result.get("verdict")
    return verdict if isinstance(verdict, dict) else {}


def finding_rows(result: dict[str, Any]) -> list[dict[str, Any]] | None:
    """What was checked; None where there is no verdict."""
    found = _verdict(result).get("findings")
    return [entry for entry in found if isinstance(entry, dict)] if isinstance(found, list) else None


def warning_lines(result: dict[str, Any]) -> list[str]:
    """What to know before trusting the draws: every finding that is not good, in words; of old files their warnings."""
    found = [Finding.from_dict(entry) for entry in finding_rows(result) or []]
    lines = [f"{finding.status}: {finding.line()}" for finding in found if finding.status != "good"]
    return lines + [f"warning: {warning}" for warning in result.get("warnings") or []]
