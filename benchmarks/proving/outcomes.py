"""The four outcomes of random mixtures, counted."""

from collections import Counter
from typing import Any

from .judge import OUTCOMES
from .mixtures import known_findable

__all__ = ["count_outcomes", "outcome_table"]

_HEADER = (
    "mixtures",
    "number",
    "right, trustworthy",
    "right, called doubtful",
    "wrong, called doubtful",
    "silent wrong",
    "failed",
)


def count_outcomes(rows: list[dict[str, Any]]) -> dict[str, Counter]:
    """Outcomes of the findable mixtures, of the others, and of all. A row is of a density `mixture-<seed>`."""
    counts = {"findable": Counter(), "not findable": Counter(), "all": Counter()}
    for row in rows:
        is_findable = row.get("findable")
        if is_findable is None:
            is_findable = known_findable(int(row["density"].removeprefix("mixture-")))
        for group in ("findable" if is_findable else "not findable", "all"):
            counts[group][row["outcome"]] += 1
    return counts


def outcome_table(rows: list[dict[str, Any]]) -> str:
    """The counts as a Markdown table, with shares."""
    lines = [
        "| " + " | ".join(_HEADER) + " |",
        "|" + " --- |" * len(_HEADER),
    ]
    for group, counts in count_outcomes(rows).items():
        total = sum(counts.values())
        cells = [_share(counts[name], total) for name in (*OUTCOMES, "failed")]
        lines.append(f"| {group} | {total} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def _share(count: int, total: int) -> str:
    return f"{count} ({100 * count / total:.0f} %)" if total else "–"
