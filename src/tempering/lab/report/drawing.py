"""Figures for a page: as SVG whose colours follow the page's theme, and as PDF for papers; data for the page's script.

Consumes figures and draws, produces text and bytes. The same input gives the same bytes.
"""

import base64
import json
import re
from typing import Any

import numpy as np

from tempering.lab.report.contents import Story
from tempering.plots.style import Picture, bytes_of, place

__all__ = ["explorer_data", "figure_files", "themed_svg", "theme_rules"]

_COLOUR = re.compile(r"#[0-9a-fA-F]{6}\b")
_PAGE = (0x15, 0x18, 0x1C)
"""The dark page's colour."""
_CONTRAST = 4.6
"""Between a colour and the dark page: what small letters need, and a little more."""
MOST_DRAWS, MOST_NUMBERS, MOST_COLUMNS = 4_000, 120_000, 40
"""That a page carries for its script."""


def figure_files(figure: Picture) -> dict[str, bytes]:
    """A figure as png, svg and pdf. Its axes are placed once."""
    place(figure)
    return {form: bytes_of(figure, form) for form in ("png", "svg", "pdf")}


def themed_svg(svg: bytes, name: str, words: str) -> str:
    """An SVG file as part of a page: colours are variables of the page, names its own, and it says what it shows."""
    text = svg.decode()
    text = text[text.index("<svg") :]
    text = re.sub(r"<metadata>.*?</metadata>", "", text, flags=re.DOTALL)
    head, rest = text.split(">", 1)
    box = re.search(r'viewBox="([^"]*)"', head)
    width = re.search(r'width="([0-9.]+)pt"', head)
    own = f"{float(width[1]) * 4 / 3:.0f}px" if width else ""
    size = f' style="max-width:{own};--own:{own}"' if width else ""
    # Names of clip paths and markers are shared by all SVGs of a page.
    rest = re.sub(r'\bid="([^"]+)"', rf'id="{name}-\1"', rest)
    rest = re.sub(r"url\(#([^)]+)\)", rf"url(#{name}-\1)", rest)
    rest = re.sub(r'href="#([^"]+)"', rf'href="#{name}-\1"', rest)
    rest = _COLOUR.sub(lambda found: f"var(--c{found[0][1:].lower()})", rest)
    # An attribute cannot hold a variable; a style can.
    rest = re.sub(r'\b(fill|stroke)="(var\([^"]*\))"', r'style="\1: \2"', rest)
    label = words.replace("&", "&amp;").replace('"', "&quot;").replace("<", "&lt;")
    space = 'xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink"'
    return f'<svg {space} viewBox="{box[1] if box else ""}" role="img" aria-label="{label}"{size}>{rest.strip()}'


def theme_rules(texts: list[str]) -> tuple[str, str]:
    """Of all colours in SVGs: their values on a light page and on a dark one, as declarations of CSS variables."""
    used = sorted({found for text in texts for found in re.findall(r"var\(--c([0-9a-f]{6})\)", text)})
    light = ";".join(f"--c{colour}:#{colour}" for colour in used)
    return light, ";".join(f"--c{colour}:{_on_dark(colour)}" for colour in used)


def _on_dark(colour: str) -> str:
    """A colour for a dark page: greys are turned over, and what would be too dark is made lighter."""
    rgb = np.array([int(colour[k : k + 2], 16) for k in (0, 2, 4)], np.float64)
    if rgb.max() - rgb.min() < 24:  # paper, ink and what lies between
        share = float(rgb.mean()) / 255
        return _hex((1 - share) * np.array([230, 233, 237]) + share * np.array(_PAGE))
    while _ratio(rgb) < _CONTRAST:
        rgb = rgb + 0.08 * (255 - rgb)
    return _hex(rgb)


def _hex(rgb: np.ndarray) -> str:
    return "#" + "".join(f"{int(np.clip(round(value), 0, 255)):02x}" for value in rgb.tolist())


def _ratio(rgb: np.ndarray) -> float:
    """Contrast with the dark page, as WCAG 2 defines it."""
    first, second = (_luminance(np.asarray(c, np.float64)) for c in (rgb, _PAGE))
    return (first + 0.05) / (second + 0.05)


def _luminance(rgb: np.ndarray) -> float:
    share = rgb / 255
    linear = np.where(share <= 0.04045, share / 12.92, ((share + 0.055) / 1.055) ** 2.4)
    return float(linear @ np.array([0.2126, 0.7152, 0.0722]))


def explorer_data(story: Story) -> str | None:
    """Draws for the page's script, as JSON that may stand in a page; None where there are none to look at.

    Numbers are float32 in base64, column by column.
    """
    answer = story.answer
    if answer is None or answer.shares is None or answer.num < 2:
        return None
    columns = min(len(answer.names), MOST_COLUMNS)
    num = min(answer.num, MOST_DRAWS, max(200, MOST_NUMBERS // columns))
    values = answer.values[:num, :columns]
    is_finite = np.all(np.isfinite(values), axis=1)
    shares = answer.shares[:num][is_finite]
    if len(shares) < 2 or not shares.sum() > 0:
        return None
    density = None if answer.log_density is None else np.nan_to_num(answer.log_density[:num][is_finite], neginf=-1e30)
    at = [mode.position for mode in story.modes if len(mode.position) == len(answer.names)]
    content: dict[str, Any] = {
        "names": list(answer.names[:columns]),
        "num": int(is_finite.sum()),
        "all": answer.num,
        "isWeighted": answer.log_weights is not None,
        "values": [_packed(values[is_finite, k]) for k in range(columns)],
        "weights": _packed(shares / shares.sum()),
        "logDensity": None if density is None else _packed(density),
        "modes": [[float(x) for x in position[:columns]] for position in at[:60]],
    }
    return json.dumps(content, allow_nan=False).replace("<", "\\u003c")


def _packed(values: np.ndarray) -> str:
    return base64.b64encode(np.ascontiguousarray(values, "<f4").tobytes()).decode()
