"""How every figure looks: colours, sizes, the making of a Matplotlib figure and the way from it to PNG bytes.

Figures are `matplotlib.figure.Figure` objects on an Agg canvas. Neither pyplot nor the backend of the user's session
is touched, and the user's own style does not leak in: the same folder gives the same bytes.
"""

import io
import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from tempering.errors import require_extra

__all__ = [
    "DRAWS",
    "FAINT",
    "INK",
    "MUTED",
    "REFERENCE",
    "SERIES",
    "STAGE_COLOURS",
    "Picture",
    "bytes_of",
    "coloured_words",
    "darker",
    "label_ends",
    "level_colours",
    "place",
    "png_of",
    "render",
    "show_some",
    "temperature_axis",
    "temperature_text",
    "window",
]

# Okabe and Ito's palette, which readers of every kind of colour vision can tell apart.
DRAWS, REFERENCE = "#0072B2", "#D55E00"
SERIES = ("#0072B2", "#56B4E9", "#009E73", "#CC79A7")
STAGE_COLOURS = {
    "atlas": "#CC79A7",
    "reference": "#E3A8C8",
    "shape": "#8C6BB1",
    "pilot": "#999999",
    "initial_pt": "#0072B2",
    "importance_weights": "#56B4E9",
    "refinement": "#009E73",
    "final_weights": "#E69F00",
}
INK, MUTED, FAINT = "#1f2328", "#656d76", "#d8dee4"

DPI = 110
_STYLE = {
    "figure.facecolor": "white",
    "figure.constrained_layout.h_pad": 0.1,
    "figure.constrained_layout.w_pad": 0.1,
    "font.size": 9.5,
    "text.color": INK,
    "axes.edgecolor": MUTED,
    "axes.labelcolor": INK,
    "axes.linewidth": 0.8,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.titlesize": 10.5,
    "axes.titlelocation": "left",
    "axes.titlepad": 8.0,
    "axes.axisbelow": True,
    "xtick.color": MUTED,
    "ytick.color": MUTED,
    "xtick.labelcolor": INK,
    "ytick.labelcolor": INK,
    "grid.color": FAINT,
    "grid.linewidth": 0.6,
    "lines.linewidth": 1.6,
    "lines.solid_capstyle": "round",
}


Picture = Any
"""A `matplotlib.figure.Figure`; Matplotlib is imported where it is used."""


def render(width: float, height: float, draw: Callable[..., None], *, is_constrained: bool = True) -> Picture:
    """A figure of `width` by `height` inches that `draw(figure)` fills; `is_constrained` places its axes by itself."""
    require_extra("matplotlib", "figures")
    import matplotlib.style
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    with matplotlib.style.context(["default", _STYLE]):
        figure = Figure(figsize=(width, height), dpi=DPI, layout="constrained" if is_constrained else None)
        FigureCanvasAgg(figure)
        draw(figure)
    return figure


def place(figure: Picture) -> None:
    """Place the axes of a figure of `render` once and for all of its files."""
    import matplotlib.style

    with matplotlib.style.context(["default", _STYLE]):
        figure.draw_without_rendering()
        figure.set_layout_engine(None)  # "none" would leave an engine that places nothing, but draws all twice


def png_of(figure: Picture) -> bytes:
    """A figure of `render` as PNG bytes, which carry neither a date nor a version: what is drawn decides alone."""
    return bytes_of(figure, "png")


def bytes_of(figure: Picture, form: str) -> bytes:
    """A figure of `render` as a file: png, svg or pdf. Letters stay letters; neither a date nor a version is in it."""
    import matplotlib.style

    stream = io.BytesIO()
    with matplotlib.style.context(["default", _STYLE, FILE_STYLE]), _without_notes_on_fonts():
        figure.savefig(stream, format=form, dpi=DPI if form == "png" else 2 * DPI, metadata=_METADATA[form])
    return stream.getvalue()


@contextmanager
def _without_notes_on_fonts() -> Iterator[None]:
    """A PDF makes fontTools log hundreds of lines of level INFO, which a user who asked for progress would see."""
    notes = logging.getLogger("fontTools")
    level = notes.level
    notes.setLevel(max(level, logging.WARNING))
    try:
        yield
    finally:
        notes.setLevel(level)


FILE_STYLE: dict[str, Any] = {"svg.fonttype": "none", "svg.hashsalt": "tempering", "pdf.fonttype": 42}
"""Letters in files. TrueType (42) takes half of the time of a report, and journals refuse the quicker Type 3."""

_METADATA: dict[str, dict[str, Any]] = {
    "png": {"Software": None},
    "svg": {"Date": None, "Creator": None},
    "pdf": {"CreationDate": None, "Creator": None, "Producer": None},
}


def level_colours(num_levels: int) -> list[Any]:
    """One colour per level, the hottest first: orange over purple to deep blue for the coldest."""
    require_extra("matplotlib", "figures")
    import matplotlib

    cold_to_hot = np.linspace(0.05, 0.72, max(num_levels, 2))[:num_levels]
    return [matplotlib.colormaps["plasma"](value) for value in cold_to_hot[::-1]]


def darker(colour: str) -> str:
    """`colour` (#rrggbb) for text, which needs more contrast on white than an area does."""
    return "#" + "".join(f"{int(0.78 * int(colour[start : start + 2], 16)):02x}" for start in (1, 3, 5))


def show_some(points: np.ndarray, num: int) -> np.ndarray:
    """At most `num` rows, evenly spaced over the set: more dots would only hide each other."""
    stride = max(1, -(-len(points) // num))
    return points[::stride]


def window(
    values: Sequence[np.ndarray], tail: float = 0.002, margin: float = 0.06, fence: float | None = None
) -> tuple[float, float]:
    """An axis range that holds all but `tail` of the finite values at each end, with a margin.

    `fence` bounds it to so many interquartile ranges beyond the quartiles: for energies, which can be astronomical.
    """
    finite = np.concatenate([np.asarray(part, np.float64).ravel() for part in values])
    finite = finite[np.isfinite(finite)]
    if finite.size == 0:
        return 0.0, 1.0
    low, first, third, high = np.quantile(finite, [tail, 0.25, 0.75, 1 - tail])
    if fence is not None:
        low, high = max(low, first - fence * (third - first)), min(high, third + fence * (third - first))
    pad = margin * (high - low) or max(1e-6, 0.05 * abs(low))
    return float(low - pad), float(high + pad)


def temperature_text(temperature: int | float) -> str:
    """A temperature as a label, never in powers of ten."""
    return f"{temperature:,.0f}" if temperature >= 999.5 else f"{temperature:.3g}"


def temperature_axis(axes, temperatures: Sequence[int | float]) -> None:
    """A logarithmic temperature axis that runs as the method does: hot on the left, T = 1 on the right."""
    from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

    axes.set_xscale("log")
    low, high = min(temperatures), max(temperatures)
    room = (high / low) ** 0.04 if high > low else 1.5
    axes.set_xlim(high * room, low / room)
    ticks = [temperatures[-1]]
    for temperature in reversed(temperatures):
        # Labels closer than 12 % of the axis would run into each other.
        if abs(np.log(temperature / ticks[-1])) > 0.12 * np.log(max(high / low, 1.01)):
            ticks.append(temperature)
    axes.xaxis.set_major_locator(FixedLocator(ticks))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: temperature_text(value)))
    axes.set_xlabel("temperature, hot to cold")


def label_ends(axes, ends: Sequence[tuple[float, float, str, str]], gap: float = 0.065) -> None:
    """Name curves where they end: in the right margin, or beside the last point of a shorter one. No names overlap.

    Args:
        ends: for each curve its last x and y, its name and its colour.
        gap: least distance between two names that stand at the same x, in heights of the axes.
    """
    from matplotlib.patheffects import withStroke

    to_axes = axes.transData + axes.transAxes.inverted()
    places: list[tuple[float, float, str, str]] = []
    for x, y, name, colour in ends:
        across, height = map(float, to_axes.transform((x, y)))
        places.append((across, height, name, colour))
    last = max((across for across, *_ in places), default=0.0)
    columns: dict[float, list[tuple[float, str, str]]] = {}
    for across, height, name, colour in places:
        columns.setdefault(1.0 if across >= last - 0.01 else round(across, 2), []).append((height, name, colour))
    for across, names in columns.items():
        names.sort()
        for height, (_, name, colour) in zip(_apart([h for h, _, _ in names], gap), names, strict=True):
            axes.annotate(
                name,
                (across, height),
                xycoords="axes fraction",
                color=darker(colour),
                textcoords="offset points",
                xytext=(7, 0),
                va="center",
                annotation_clip=False,
                path_effects=[withStroke(linewidth=3, foreground="white")],  # other curves may run below a name
            )


def _apart(heights: Sequence[float], gap: float) -> np.ndarray:
    """Sorted heights pushed apart upwards and downwards, and the mean of the two: least far from where they belong."""
    wanted, steps = np.array(heights), gap * np.arange(len(heights))
    up = np.maximum.accumulate(wanted - steps) + steps
    down = np.minimum.accumulate((wanted - steps)[::-1])[::-1] + steps
    return (up + down) / 2


def coloured_words(
    axes, words: Sequence[tuple[str, str]], x: float, y: float, step: float, *, takes_room: bool = True
) -> None:
    """Lines of text that end at `x`, each in the colour of what it names: a legend without boxes.

    `x`, `y` and the distance `step` of two lines are fractions of the axes. Words that take room push other axes away.
    """
    for row, (text, colour) in enumerate(words):
        shown = axes.text(x, y - row * step, text, color=colour, ha="right", va="top", transform=axes.transAxes)
        shown.set_bbox({"facecolor": "white", "edgecolor": "none", "pad": 1.0})  # no grid through letters
        shown.set_in_layout(takes_room)
