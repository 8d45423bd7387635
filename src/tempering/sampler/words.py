"""A sampler in words: five lines for a prompt, and a summary with the answer, the cost, the levels and the verdict."""

from collections.abc import Sequence

from tempering.runs.ledger import APART, stage_name
from tempering.runs.records import level_table
from tempering.runs.words import duration_text, with_error
from tempering.sampler.answer import Answer, answer_of
from tempering.weights.estimates import LEVELS, Estimate

__all__ = ["answer_lines", "estimate_rows", "heading_of", "lines_of", "named", "summary_of"]

MOST_ROWS = 12
"""Parameters in a table; `Sampler.estimates` has all."""
_MOST_NAMES = 4


def lines_of(sampler) -> str:
    """What `repr` shows: what it is, whether to trust it, log Z, the draws that are there, and the cost."""
    answer, verdict = answer_of(sampler), sampler.diagnose()
    rows = [("verdict", verdict.line().removeprefix("verdict: "))]
    rows.append(("log Z", "not estimated" if sampler.log_z is None else with_error(sampler.log_z, sampler.log_z_error)))
    rows.append(("draws", _draws_words(answer)))
    rows.append(("cost", cost_words(sampler)))
    names = "" if answer is None else f": {named(answer.names)}"
    return "\n".join(
        [f"{heading_of(sampler.method, sampler.dim)}{names}", *(f"  {name:<8} {words}" for name, words in rows)]
    )


def heading_of(method: str, dim: int) -> str:
    """What stands above a sampler's numbers."""
    return f"Sampler ({method}) of {dim} {'dimension' if dim == 1 else 'dimensions'}"


def named(names: Sequence[str], most: int = _MOST_NAMES) -> str:
    """The first names, and how many more there are."""
    rest = f" and {len(names) - most:,} more" if len(names) > most else ""
    return ", ".join(names[:most]) + rest


def _draws_words(answer: Answer | None) -> str:
    if answer is None:
        return "none are kept; `sample` makes some at no evaluation"
    return f"{answer.num:,} {answer.source}, {answer.worth}"


def cost_words(sampler) -> str:
    """Evaluations and wall time of the fit."""
    took = f", {duration_text(sum(sampler.seconds.values()))}" if sampler.seconds else ""
    return f"{sampler.evaluations:,} evaluations{took}"


def estimate_rows(estimates: Sequence[Estimate]) -> list[list[str]]:
    """The table of parameters as text cells, header first."""
    rows = [["parameter", "mean", "sd", *(f"{100 * level:.0f} %" for level in LEVELS)]]
    for own in estimates:
        quantiles = map(with_error, own.quantiles, own.quantile_errors)
        rows.append([own.name, with_error(own.mean, own.mean_error), with_error(own.sd, own.sd_error), *quantiles])
    return rows


def table_lines(rows: Sequence[Sequence[str]]) -> list[str]:
    """Cells as lines of text: the first column to the left, the others to the right."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return [
        "  ".join([row[0].ljust(widths[0]), *(c.rjust(w) for c, w in zip(row[1:], widths[1:], strict=True))])
        for row in rows
    ]


def summary_of(sampler) -> str:
    """The answer, the cost, ESS, log Z, the level table, every finding that is not good and the verdict, as text."""
    lines = [heading_of(sampler.method, sampler.dim), *answer_lines(answer_of(sampler))]
    lines += ["", *_cost_lines(sampler)]
    if sampler.ess_fraction is not None:
        lines.append(f"ESS of the final model's raw weights  {sampler.ess_fraction:.3f}")
    if sampler.pareto_k is not None:
        lines.append(f"Pareto k of the final model's raw weights  {sampler.pareto_k:.2f}")
    if sampler.log_z is not None:
        lines.append(f"log Z  {with_error(sampler.log_z, sampler.log_z_error)}")
    for record in sampler.levels:
        if record.log_z_ratio is not None:
            value, hottest = with_error(record.log_z_ratio, record.log_z_ratio_error), sampler.levels[0].temperature
            lines.append(f"log Z(T = {record.temperature:.4g}) - log Z(T = {hottest:.4g})  {value}  by stepping stones")
    table = level_table(sampler.levels)
    widths = [max(len(row[column]) for row in table) for column in range(len(table[0]))]
    lines += ["", *("  ".join(c.rjust(w) for c, w in zip(row, widths, strict=True)) for row in table)]
    verdict = sampler.diagnose()
    lines += ["", *map(str, (*verdict.troubles(), *verdict.notes()))]
    lines.append(f"{verdict.line()}; `diagnose()` shows all that was checked")
    return "\n".join(lines)


def answer_lines(answer: Answer | None) -> list[str]:
    """The table of parameters below an empty line, and what the draws are; nothing without draws."""
    estimates = [] if answer is None else answer.estimates(MOST_ROWS)
    if answer is None or not estimates:
        return []
    lines = ["", *table_lines(estimate_rows(estimates))]
    if len(answer.names) > MOST_ROWS:
        lines.append(f"... and {len(answer.names) - MOST_ROWS:,} more; `estimates()` has all")
    return [*lines, f"± is one Monte Carlo standard error; from {_draws_words(answer)}"]


def _cost_lines(sampler) -> list[str]:
    """Evaluations by stage, which add up; those after the fit apart; seconds by stage."""
    points = sampler.ledger.points
    lines = [f"evaluations  {sampler.evaluations:,}"]
    lines += [f"  {stage_name(stage):<22} {n:>12,}" for stage, n in points.items() if stage not in APART]
    apart = {stage: n for stage, n in points.items() if stage in APART}
    if apart:
        lines.append("after the fit, not part of these")
        lines += [f"  {stage_name(stage):<22} {n:>12,}" for stage, n in apart.items()]
    products = sum(sampler.ledger.hessian_vector.values())
    lines += [f"products of the Hessian with a vector, beside these  {products:,}"] if products else []
    each = getattr(sampler, "evaluations_per_draw", 0)
    lines += [f"every draw costs {each:,} evaluations more"] if each else []
    lines += [] if sampler.host is None else sampler.host.lines()
    if sampler.seconds:
        lines.append(f"wall time  {duration_text(sum(sampler.seconds.values()))}")
        lines += [f"  {stage:<22} {duration_text(took):>12}" for stage, took in sampler.seconds.items() if took >= 0.05]
    return lines
