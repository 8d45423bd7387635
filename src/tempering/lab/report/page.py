"""One self-contained HTML page: tables, figures that follow its theme, and one script of its own. Nothing is fetched.

Consumes `Story` and figures as files, produces text by the template `page.html`, which escapes all that it is given.
"""

import base64
import hashlib
import json
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from tempering.lab.report.asked import asked_rows, cite_text, reproduce_text
from tempering.lab.report.contents import Story
from tempering.lab.report.drawing import explorer_data, theme_rules, themed_svg
from tempering.lab.report.rows import (
    badge_of,
    cards,
    finding_cards,
    mode_rows,
    parameter_rows,
    progress_of,
    stage_rows,
)
from tempering.lab.report.tables import quality_rows
from tempering.runs.records import level_table

__all__ = ["page", "rendered"]

RELOAD_SECONDS = 15
"""Between two looks at a run that goes on."""


def rendered(template: str, **parts: Any) -> str:
    """A page of this folder's templates, with style and script in it, and a policy that allows nothing else."""
    from jinja2 import Environment, FileSystemLoader

    here = Path(__file__).parent
    environment = Environment(loader=FileSystemLoader(here), autoescape=True, trim_blocks=True, lstrip_blocks=True)
    environment.filters["words"] = _with_code
    script = (here / "page.js").read_text(encoding="utf-8")
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    return environment.get_template(template).render(
        style=(here / "page.css").read_text(encoding="utf-8"), script=script, digest=digest, **parts
    )


def _with_code(words: str) -> Any:
    """Text with what stands between backticks as code; everything is escaped."""
    from markupsafe import Markup, escape

    return Markup(re.sub(r"`([^`]+)`", r"<code>\1</code>", str(escape(words))))


def page(story: Story, figures: dict[str, dict[str, bytes]]) -> str:
    """The page as text.

    Args:
        figures: by name the files of each: svg and pdf; those that are missing are left out.
    """
    result, quality = story.result, quality_rows(story.result)
    drawn = {name: themed_svg(files["svg"], name, name.replace("_", " ")) for name, files in figures.items()}
    light, dark = theme_rules(list(drawn.values()))
    return rendered(
        "page.html",
        story=story,
        result=result,
        title=story.name,
        badge=badge_of(story),
        progress=progress_of(story),
        reload=RELOAD_SECONDS,
        asked=asked_rows(story),
        cards=cards(story),
        parameters=parameter_rows(story),
        explorer=explorer_data(story),
        modes=mode_rows(story),
        findings=finding_cards(story),
        warnings=result.get("warnings") or [],
        stages=stage_rows(story),
        quality=quality,
        failures=[f"{row.name} failed: {row.failure}" for row in quality if row.failure],
        levels=level_table(story.levels) if story.levels else [],
        reproduce=reproduce_text(story),
        paper=cite_text(story),
        records={"Configuration": [*_flat(story.config)], "Environment": [*_flat(story.environment)]},
        drawn=drawn,
        papers={name: base64.b64encode(files["pdf"]).decode() for name, files in figures.items()},
        light=light,
        dark=dark,
    )


def _flat(record: dict[str, Any], prefix: str = "") -> Iterable[tuple[str, str]]:
    for name, value in record.items():
        if isinstance(value, dict) and value:
            yield from _flat(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value if isinstance(value, str) else json.dumps(value)
