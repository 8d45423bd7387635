"""One self-contained HTML page: tables and embedded figures, nothing fetched, nothing executed.

Consumes `RunContents` and PNG bytes, produces text by the template `page.html`, which escapes all that it is given.
"""

import base64
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from tempering.lab.report.tables import cost_rows, finding_rows, ledger_rows, quality_rows, warning_lines
from tempering.plots.contents import RunContents
from tempering.runs.records import level_table

__all__ = ["page"]


def page(contents: RunContents, figures: dict[str, bytes]) -> str:
    """The page as text.

    Args:
        figures: PNG bytes by name; those that are missing are left out.
    """
    from jinja2 import Environment, FileSystemLoader

    loader = FileSystemLoader(Path(__file__).parent)
    environment = Environment(loader=loader, autoescape=True, trim_blocks=True, lstrip_blocks=True)
    result, quality = contents.result, quality_rows(contents.result)
    failures = [f"{row.name} failed: {row.failure}" for row in quality if row.failure]
    return environment.get_template("page.html").render(
        result=result,
        title=str(result.get("name") or "run"),
        config=contents.config,
        geometry=contents.geometry,
        warnings=[*warning_lines(result), *failures],
        costs=cost_rows(result),
        findings=finding_rows(result),
        quality=quality,
        levels=level_table(contents.levels) if contents.levels else [],
        ledger=ledger_rows(result),
        records={"Configuration": [*_flat(contents.config)], "Environment": [*_flat(contents.environment)]},
        figures={name: base64.b64encode(picture).decode() for name, picture in figures.items()},
    )


def _flat(record: dict[str, Any], prefix: str = "") -> Iterable[tuple[str, str]]:
    for name, value in record.items():
        if isinstance(value, dict) and value:
            yield from _flat(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value if isinstance(value, str) else json.dumps(value)
