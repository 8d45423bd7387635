"""A sampler as HTML for a notebook: verdict, log Z, the table of parameters with small marginals. Needs no package.

Consumes a sampler; produces text in which everything that comes from a user is escaped. Colours are such that they can
be read on a light and on a dark page.
"""

from collections.abc import Sequence
from html import escape

import numpy as np

from tempering.runs.words import parted, with_error
from tempering.sampler.answer import answer_of
from tempering.sampler.words import MOST_ROWS, cost_words, estimate_rows, heading_of

__all__ = ["BADGES", "badge", "html_of", "small_histogram"]

BADGES = {
    "trustworthy": ("✓", "Trustworthy", "#1a7f37"),
    "unknown": ("?", "Not known", "#57606a"),
    "doubtful": ("!", "Doubtful", "#9a5b00"),
    "wrong": ("✕", "Wrong", "#b3261e"),
}
"""Of a verdict: a mark, a word, and a colour that carries white letters."""
_NUM_BINS = 48


def badge(status: str) -> str:
    """The verdict as a coloured label: a mark and a word, so that nobody needs to see the colour."""
    mark, word, colour = BADGES.get(status, ("…", status, "#57606a"))
    style = f"background:{colour};color:#fff;border-radius:1em;padding:.15em .75em;font-weight:600;white-space:nowrap"
    return f'<span style="{style}">{mark} {escape(word)}</span>'


def small_histogram(
    values: np.ndarray,
    shares: np.ndarray,
    width: int = 130,
    height: int = 26,
    window: tuple[float, float] | None = None,
) -> str:
    """A weighted histogram as inline SVG, an area without axes; nothing where there is nothing to show.

    Args:
        window: ends of the axis; None takes all but a thousandth of the weight at each end.
    """
    is_used = np.isfinite(values) & (shares > 0)
    if np.sum(is_used) < 2:
        return ""
    x, w = np.asarray(values, np.float64)[is_used], shares[is_used]
    order = np.argsort(x)
    low, high = window or np.interp([0.001, 0.999], np.cumsum(w[order]) / w.sum(), x[order]).tolist()
    if not high > low:
        return ""
    counts, _ = np.histogram(x, np.linspace(low, high, _NUM_BINS + 1), weights=w)
    heights = height * (1 - 0.96 * counts / max(counts.max(), 1e-300))
    step = width / _NUM_BINS
    steps = " ".join(f"V{y:.1f} H{(k + 1) * step:.1f}" for k, y in enumerate(heights))
    return (
        f'<svg width="{width}" height="{height}" viewBox="0 0 {width} {height}" aria-hidden="true">'
        f'<path d="M0 {height} {steps} V{height} Z" fill="#2f81c7" fill-opacity=".75"/></svg>'
    )


def html_of(sampler) -> str:
    """What a notebook shows."""
    answer, verdict = answer_of(sampler), sampler.diagnose()
    facts = [f"log Z {with_error(sampler.log_z, sampler.log_z_error)}"] if sampler.log_z is not None else []
    facts += [cost_words(sampler)]
    troubles = "; ".join(finding.name for finding in verdict.troubles())
    head = f"<b>{escape(heading_of(sampler.method, sampler.dim))}</b>"
    lines = [
        '<div style="font-size:.95em;line-height:1.5">',
        f"<p>{badge(verdict.status)} &nbsp;{head} &nbsp;·&nbsp; {escape(' · '.join(facts))}</p>",
        f"<p>What speaks against it: {escape(troubles)}. <code>print(sampler.diagnose())</code> says what to do.</p>"
        if troubles
        else "",
    ]
    if answer is not None and (shares := answer.shares) is not None:
        header, *rows = estimate_rows(answer.estimates(MOST_ROWS))
        column = {name: answer.values[:, k] for k, name in enumerate(answer.names)}
        pictures = [small_histogram(column[row[0]], shares) for row in rows]
        lines.append(_table(header, rows, pictures))
        more = f" The first {MOST_ROWS} of {len(answer.names)} parameters." if len(answer.names) > MOST_ROWS else ""
        lines.append(
            f"<p>± is one Monte Carlo standard error, from {answer.num:,} {escape(answer.source)}, "
            f"{answer.worth}.{more}</p>"
        )
    return "\n".join([*lines, "</div>"])


def _table(header: Sequence[str], rows: Sequence[Sequence[str]], pictures: Sequence[str]) -> str:
    head = "".join(f"<th>{escape(cell)}</th>" for cell in (header[0], "marginal", *header[1:]))
    body = "".join(
        f"<tr><td><code>{escape(row[0])}</code></td><td>{picture}</td>"
        + "".join(f'<td style="text-align:right;white-space:nowrap">{_stacked(cell)}</td>' for cell in row[1:])
        + "</tr>"
        for row, picture in zip(rows, pictures, strict=True)
    )
    table = f'<table style="border-spacing:.8em .2em"><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>'
    return f'<div style="overflow-x:auto">{table}</div>'


def _stacked(cell: str) -> str:
    """A number over its error, so that seven columns fit."""
    value, sign, error = parted(cell)
    return escape(value) + (f'<small style="display:block">{sign} {escape(error)}</small>' if error else "")
