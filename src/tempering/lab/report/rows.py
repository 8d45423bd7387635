"""The rows of the page: cards, parameters, modes, findings, cost by stage. Consumes a `Story`, produces text."""

from typing import Any

from tempering.lab.report.asked import parameter_words
from tempering.lab.report.contents import Story
from tempering.lab.report.tables import finding_rows
from tempering.plots.contents import number_of
from tempering.plots.pair_figures import nearest_shares
from tempering.runs.ledger import APART, stage_name
from tempering.runs.watching import evaluations_of
from tempering.runs.words import DASH, duration_text, number_text, parted, with_error
from tempering.sampler.diagnosis.pages import address_of, page_of
from tempering.sampler.html import BADGES, small_histogram
from tempering.sampler.words import estimate_rows, named

__all__ = ["badge_of", "cards", "finding_cards", "mode_rows", "parameter_rows", "progress_of", "stage_rows"]

MOST_PARAMETERS, MOST_MODES = 40, 40
_STATES = {
    "running": ("…", "Still running", "running"),
    "stopped": ("…", "Not finished", "stopped"),
    "none yet": ("…", "Not judged yet", "stopped"),
}
_ADVICE = {
    "trustworthy": "Nothing that was checked speaks against these draws.",
    "unknown": "The budget was too small to say. The checks marked “unknown” say which budget to give.",
    "doubtful": "Do not rely on these draws before the checks marked “doubtful” or “unchecked” are settled.",
    "wrong": "Do not use these draws. The checks marked “wrong” say that they do not follow the density.",
    "running": "There is no verdict before the run has ended.",
    "stopped": "There is no verdict before the run has ended.",
}
_ORDER = ("wrong", "doubtful", "unchecked", "unknown", "note", "good")
_MARKS = {"wrong": "✕", "doubtful": "!", "unchecked": "?", "unknown": "?", "note": "i", "good": "✓"}


def badge_of(story: Story) -> dict[str, str]:
    """The verdict: a mark, a word, a kind for its colour, and a sentence."""
    status = str((story.result.get("verdict") or {}).get("status") or "none yet")
    if story.state in ("running", "stopped"):
        status = story.state
    if status in _STATES:
        mark, word, kind = _STATES[status]
    else:
        mark, word, _ = BADGES.get(status, ("…", status, ""))
        kind = status if status in BADGES else "stopped"
    return {"mark": mark, "word": word, "kind": kind, "advice": _ADVICE.get(status, "")}


def cards(story: Story) -> list[tuple[str, str, str]]:
    """Four numbers: log Z, draws, evaluations, wall time; each with a remark."""
    result, answer = story.result, story.answer
    log_z, error = number_of(result, "log_z"), number_of(result, "log_z_error")
    exact = number_of(result, "log_z_exact")
    remark = "log of the integral, with one standard error"
    if exact is not None:
        remark = f"exact: {number_text(exact)}"
        if log_z is not None:
            remark += f"; off by {log_z - exact:+.3g}" + (f", {abs(log_z - exact) / error:.1f} errors" if error else "")
    made = [("log Z", with_error(log_z, error), remark)]
    if answer is None:
        made.append(("independent draws", DASH, "none are kept in this folder"))
    else:
        made.append(("independent draws", f"{answer.effective:,.0f}", f"the worth of {answer.num:,} {answer.source}"))
    spent_so_far = number_of(story.live, "evaluations") if story.state == "running" else None
    evaluations, budget = spent_so_far or _evaluations(result), number_of(result, "budget")
    spent = "of the density, in the fit" if budget is None else f"of a budget of {budget:,}"
    made.append(("evaluations", number_text(evaluations), spent))
    made.append(("wall time", *_time(story)))
    return made


def _evaluations(result: dict[str, Any]) -> int | None:
    points = (result.get("ledger") or {}).get("points") or {}
    known = number_of(result, "evaluations")
    if known is not None:
        return int(known)
    return sum(n for stage, n in points.items() if stage not in APART) if points else None


def _time(story: Story) -> tuple[str, str]:
    total = sum(story.seconds.values())
    if total:
        return duration_text(total), "of the fit, compilation included"
    seconds = number_of(story.result, "fit_seconds") or number_of(story.result, "wall_seconds")
    if seconds is None:
        return "not recorded", "by the version that made this folder"
    return duration_text(seconds), "compilation included"


def progress_of(story: Story) -> dict[str, Any] | None:
    """How far a run that goes on has come; None for any other."""
    if story.state != "running":
        return None
    event = story.live
    spent = int(event.get("evaluations") or _evaluations(story.result) or 0)
    planned = number_of(event, "planned") or number_of(story.result, "budget")
    took = number_of(event, "seconds") or sum(story.seconds.values())
    share = None if not planned else min(spent / planned, 1.0)
    left = number_of(event, "seconds_left")
    stage, level, num_levels = event.get("stage"), event.get("level"), event.get("num_levels")
    if stage and isinstance(level, int) and num_levels:
        stage = f"{stage} at level {level + 1} of {num_levels}"
    return {
        "spent": f"{spent:,}",
        "budget": None if not planned else f"{planned:,}",
        "share": None if share is None else round(100 * share, 1),
        "took": duration_text(took) if took else None,
        "left": None if left is None else duration_text(left),
        "stage": stage,
    }


def parameter_rows(story: Story) -> dict[str, Any] | None:
    """The table of parameters: its head, its rows with small marginals, and how many there are."""
    answer = story.answer
    if answer is None or (shares := answer.shares) is None:
        return None
    header, *rows = estimate_rows(answer.estimates(MOST_PARAMETERS))
    before = parameter_words(story)
    column = {name: answer.values[:, k] for k, name in enumerate(answer.names)}
    made = [
        {
            "name": row[0],
            "before": before.get(row[0], ""),
            "picture": small_histogram(column[row[0]], shares, 140, 30),
            "cells": list(zip(header[1:], map(parted, row[1:]), strict=True)),
        }
        for row in rows
    ]
    rest = max(0, len(answer.names) - MOST_PARAMETERS)
    words = f"± is one Monte Carlo standard error. From {answer.num:,} {answer.source}."
    if not made:
        return None
    label = _before(story) if before else None
    return {"head": header, "rows": made, "before": label, "rest": rest, "words": words}


def _before(story: Story) -> str:
    chart = story.sampler.get("chart") or {}
    return "support" if chart.get("name") == "supports" else "prior"


def mode_rows(story: Story) -> list[list[str]]:
    """Modes that searches found, the heaviest first: header and rows."""
    answer, modes = story.answer, story.modes[:MOST_MODES]
    if answer is None or not modes or story.geometry is not None:
        return []
    found = nearest_shares(answer.values, answer.log_weights, story.modes)
    rows = [["mode", "share of the draws", "by its curvature", "searches", f"at {named(answer.names)}"]]
    for number, mode in enumerate(modes):
        at = ", ".join(f"{x:.4g}" for x in mode.position[:4]) + (", …" if len(mode.position) > 4 else "")
        share = DASH if found is None else f"{found[number]:.1%}"
        rows.append([f"{number + 1}", share, f"{mode.weight:.1%}", f"{mode.hits:,}", at])
    return rows


def finding_cards(story: Story) -> list[dict[str, str]] | None:
    """What was checked, the worst first; None where there is no verdict."""
    found = finding_rows(story.result)
    if found is None:
        return None
    names = ("name", "status", "measured", "meaning", "advice")
    plain = [{name: str(entry.get(name) or "") for name in names} for entry in found]
    known = [
        entry
        | {"mark": _MARKS.get(entry["status"], "?")}
        | {"page": page_of(entry["name"]) or "", "address": address_of(entry["name"]) or ""}
        for entry in plain
    ]
    return sorted(known, key=lambda entry: _ORDER.index(entry["status"]) if entry["status"] in _ORDER else 0)


def stage_rows(story: Story) -> list[dict[str, Any]]:
    """What every stage cost: evaluations and seconds, with their shares; the sum of the fit, and what came after it."""
    ledger = story.result.get("ledger") or {}
    points, value_only = ledger.get("points") or {}, ledger.get("value_only") or {}
    took: dict[str, float] = {}
    for stage, seconds in story.seconds.items():
        name = evaluations_of(stage)
        name = stage if name is None or name not in points else name
        took[name] = took.get(name, 0.0) + seconds
    fitting = [stage for stage in points if stage not in APART]
    stages = [*took, *(stage for stage in fitting if stage not in took)]
    total, whole = sum(points[stage] for stage in fitting), sum(took.values())
    rows = [_stage_row(stage, points.get(stage), took.get(stage), total, whole, value_only) for stage in stages]
    if rows:
        without = sum(value_only.get(stage, 0) for stage in fitting)
        rows.append(
            {
                "name": "the fit",
                "kind": "total",
                "evaluations": f"{total:,}",
                "seconds": duration_text(whole) if whole else DASH,
                "without": f"{without:,}",
                "of_evaluations": None,
                "of_seconds": None,
            }
        )
    for stage in APART:
        if stage in points:
            words = {"sampling": "weighted draws after the fit", "metrics": "metrics"}[stage]
            rows.append(
                _stage_row(words, points[stage], None, 0, 0, {words: value_only.get(stage, 0)}) | {"kind": "apart"}
            )
    return rows


def _stage_row(stage, points, seconds, total, whole, value_only) -> dict[str, Any]:
    return {
        "name": stage_name(stage),
        "kind": "",
        "evaluations": DASH if points is None else f"{points:,}",
        "seconds": DASH if seconds is None else duration_text(seconds),
        "without": DASH if points is None else f"{value_only.get(stage, 0):,}",
        "of_evaluations": None if not points or not total else round(100 * points / total, 1),
        "of_seconds": None if not seconds or not whole else round(100 * seconds / whole, 1),
    }
