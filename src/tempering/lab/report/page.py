"""One self-contained HTML page: tables and embedded figures, nothing fetched, nothing executed.

Consumes `RunContents` and PNG bytes, produces text. Everything that comes from the folder is escaped.
"""

import base64
import json
from collections.abc import Iterable, Sequence
from html import escape
from importlib import resources
from typing import Any

from tempering.lab.report.molecule_report import MOLECULE_CAPTIONS
from tempering.lab.report.tables import cost_rows, ledger_rows, quality_rows, warning_lines
from tempering.plots.contents import RunContents
from tempering.runs.records import level_table

__all__ = ["page"]

_CAPTIONS = {
    "samples": (
        "Samples against the target",
        "The sampler's draws beside reference samples; grey is the target's density, on a log scale.",
    ),
    "energy": ("Energies", "Bins as in energy_tvd. Energies are blind to where a sample lies, but see how deep."),
    "weights": (
        "Tail of the weights",
        "Raw weights of the final model by rank. Flat is good; a steep head means that few draws decide.",
    ),
    "ladder": ("The ladder", "Quality of the weights, moves of the chains, and cost, from the hottest level to T = 1."),
    "levels": ("Samples by level", "The samples kept at each level, on which its denoiser was trained."),
    "level_energies": ("Energies by level", "Neighbouring levels must overlap for weights and swaps to work."),
    "training": (
        "Training",
        "In units of the best linear denoiser's loss: at 1, nothing beyond mean and covariance was learned.",
    ),
}
_PARTICLE_CAPTIONS = {
    "samples": (
        "Configurations",
        "The same scale everywhere, the longest axis across; what is farther away is paler. Lines join close pairs, "
        "in a molecule bonded ones.",
    ),
    "distances": (
        "Interatomic distances",
        "All pairs of all configurations; bins as in distance_tvd. Blind to which pair, and to who is next to whom.",
    ),
    "levels": (
        "Distances and energies by level",
        "The samples kept at each level, on which its denoiser was trained. Neighbours must overlap in energy.",
    ),
}
_PAIRS_CAPTION = "Pairs of coordinates. Colour: the sampler's draws. Contours and filled marginals: reference samples."
_CONTENT_POLICY = "default-src 'none'; img-src data:; style-src 'unsafe-inline'"


def page(contents: RunContents, figures: dict[str, bytes]) -> str:
    """The page as text.

    Args:
        figures: PNG bytes by name; those that are missing are left out.
    """
    result = contents.result
    title = str(result.get("name") or "run")
    sections = [
        _header(contents, title),
        _warnings(result),
        _summary(result),
        _verdict(result),
        _quality(result),
        *_figures(contents, figures, "samples", *MOLECULE_CAPTIONS, "energy", "distances", "weights", "ladder"),
        _levels(contents),
        _ledger(result),
        *_figures(contents, figures, "levels", "level_energies", "training"),
        _details("Configuration", contents.config),
        _details("Environment", contents.environment),
    ]
    style = resources.files("tempering.lab.report").joinpath("page.css").read_text(encoding="utf-8")
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{escape(_CONTENT_POLICY)}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(title)} – tempering</title>\n<style>\n{style}</style>\n</head>\n<body>\n<main>\n"
        + "\n".join(section for section in sections if section)
        + "\n</main>\n</body>\n</html>\n"
    )


def _header(contents: RunContents, title: str) -> str:
    result = contents.result
    target = result.get("target") or {}
    arguments = ", ".join(f"{name} = {value}" for name, value in (target.get("arguments") or {}).items())
    facts = [
        ("method", result.get("method")),
        ("target", f"{target.get('name')} ({arguments})" if arguments else target.get("name")),
        ("particles", _particles(contents)),
        ("dimensions", result.get("dim")),
        ("seed", result.get("seed")),
        ("device", result.get("device")),
    ]
    known = "".join(f"<li><span>{name}</span> {escape(str(value))}</li>" for name, value in facts if value is not None)
    description = contents.config.get("description")
    about = f"<p>{escape(str(description))}</p>" if description else ""
    return f"<header>\n<h1>{escape(title)}</h1>\n{about}\n<ul class=facts>{known}</ul>\n</header>"


def _particles(contents: RunContents) -> str | None:
    geometry = contents.geometry
    return None if geometry is None else f"{geometry.num_particles} in {geometry.spatial_dim}-D"


def _warnings(result: dict[str, Any]) -> str:
    warnings = warning_lines(result)
    warnings += [f"{row.name} failed: {row.failure}" for row in quality_rows(result) if row.failure]
    if not warnings:
        return ""
    items = "".join(f"<li>{escape(warning)}</li>" for warning in warnings)
    return f'<section class=warnings role="alert">\n<h2>Before you trust these draws</h2>\n<ul>{items}</ul>\n</section>'


def _summary(result: dict[str, Any]) -> str:
    cards = "".join(
        f"<div><dt>{escape(name)}</dt><dd>{escape(value)}<small>{escape(remark)}</small></dd></div>"
        for name, value, remark in cost_rows(result)
    )
    return f"<dl class=cards>{cards}</dl>"


def _verdict(result: dict[str, Any]) -> str:
    """What was checked, and what it came to; what speaks against the draws is marked."""
    verdict = result.get("verdict")
    verdict = verdict if isinstance(verdict, dict) else {}
    findings = verdict.get("findings")
    if not isinstance(findings, list):
        return ""
    entries = [{"status": "", **finding} for finding in findings if isinstance(finding, dict)]
    words = lambda entry: "; ".join(str(entry[k]) for k in ("meaning", "advice") if entry.get(k))  # noqa: E731
    body = "".join(
        f"<tr{'' if entry['status'] in ('good', 'note') else ' class=failed'}>"
        f"<th scope=row>{escape(str(entry.get('name')))}</th>"
        f"<td>{escape(str(entry['status']))}</td><td class=words>{escape(str(entry.get('measured')))}</td>"
        f"<td class=words>{escape(words(entry))}</td></tr>\n"
        for entry in entries
    )
    head = "".join(f"<th scope=col class=words>{title}</th>" for title in ("what was measured", "what it means"))
    return (
        f"<section>\n<h2>Verdict: {escape(str(verdict.get('status')))}</h2>\n<p>It rests on what chains and model have "
        "seen: a mode that nothing ever came near leaves no trace.</p>\n<div class=wide><table>\n"
        f"<thead><tr><th scope=col>check</th><th scope=col></th>{head}</tr></thead>\n"
        f"<tbody>\n{body}</tbody>\n</table></div>\n</section>"
    )


def _quality(result: dict[str, Any]) -> str:
    rows = quality_rows(result)
    if not rows:
        return ""
    head = "".join(f"<th scope=col>{title}</th>" for title in ("metric", "value", "floor", "vs floor", "", "N"))
    body = "".join(
        f"<tr{' class=failed' if row.failure else ''}>"
        f"<th scope=row>{escape(row.name)}</th><td>{escape(row.value)}</td><td>{escape(row.floor)}</td>"
        f"<td>{escape(row.versus)}</td><td>{_bar(row.ratio)}</td><td>{escape(row.num_samples)}</td>"
        f"<td class=words>{escape(row.description)}</td></tr>\n"
        for row in rows
    )
    return (
        "<section>\n<h2>Quality against the floor</h2>\n<p>The floor is what exact or reference samples score in the "
        "sampler's place at the same N: 1× cannot be beaten, other than by chance.</p>\n<div class=wide><table>\n"
        f"<thead><tr>{head}<th scope=col class=words>what it is</th></tr></thead>\n"
        f"<tbody>\n{body}</tbody>\n</table></div>\n</section>"
    )


def _bar(ratio: float | None) -> str:
    """The excess over the floor as a bar that is full at ten times the floor."""
    if ratio is None:
        return ""
    width = min(max(ratio - 1.0, 0.0) / 9.0, 1.0)
    return f'<span class=bar aria-hidden="true"><span style="width:{100 * width:.0f}%"></span></span>'


def _figures(contents: RunContents, figures: dict[str, bytes], *names: str) -> list[str]:
    return [_figure(name, figures[name], contents) for name in names if name in figures]


def _figure(name: str, picture: bytes, contents: RunContents) -> str:
    captions = MOLECULE_CAPTIONS | _CAPTIONS | ({} if contents.geometry is None else _PARTICLE_CAPTIONS)
    title, caption = captions[name]
    if contents.geometry is None and name == "samples" and contents.result.get("dim") != 2:
        caption = _PAIRS_CAPTION
    data = base64.b64encode(picture).decode()
    return (
        f'<section>\n<h2>{escape(title)}</h2>\n<figure><img alt="{escape(f"{title}. {caption}")}" '
        f'src="data:image/png;base64,{data}">\n<figcaption>{escape(caption)}</figcaption></figure>\n</section>'
    )


def _table(rows: Sequence[Sequence[str]], total: str | None = None) -> str:
    """A table of numbers; the first row is its head, the first column names the rows, `total` the one to stress."""
    head = "".join(f"<th scope=col>{escape(cell)}</th>" for cell in rows[0])
    body = ""
    for name, *cells in rows[1:]:
        numbers = "".join(f"<td>{escape(cell)}</td>" for cell in cells)
        body += f"<tr{' class=total' if name == total else ''}><th scope=row>{escape(name)}</th>{numbers}</tr>\n"
    return f"<div class=wide><table>\n<thead><tr>{head}</tr></thead>\n<tbody>\n{body}</tbody>\n</table></div>"


def _levels(contents: RunContents) -> str:
    if not contents.levels:
        return ""
    return f"<section>\n<h2>Levels</h2>\n{_table(level_table(contents.levels))}\n</section>"


def _ledger(result: dict[str, Any]) -> str:
    rows = ledger_rows(result)
    if not rows:
        return ""
    table = _table([("stage", "evaluations", "share", "without gradient"), *rows], total="fitting")
    about = "Target evaluations, counted in points; a value with its gradient counts once."
    return f"<section>\n<h2>Ledger</h2>\n<p>{about}</p>\n{table}\n</section>"


def _details(title: str, record: dict[str, Any]) -> str:
    """A record by path, as `--set` takes it, folded away."""
    if not record:
        return ""
    rows = "".join(
        f"<tr><th scope=row>{escape(path)}</th><td>{escape(value)}</td></tr>\n" for path, value in _flat(record)
    )
    table = f"<table class=settings><tbody>\n{rows}</tbody></table>"
    return f"<details>\n<summary>{escape(title)}</summary>\n<div class=wide>{table}</div>\n</details>"


def _flat(record: dict[str, Any], prefix: str = "") -> Iterable[tuple[str, str]]:
    for name, value in record.items():
        if isinstance(value, dict) and value:
            yield from _flat(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value if isinstance(value, str) else json.dumps(value)
