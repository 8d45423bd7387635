"""How every figure looks: colours, sizes, and the way from a Matplotlib figure to PNG bytes.

Figures are `matplotlib.figure.Figure` objects on an Agg canvas. Neither pyplot nor the backend of the user's session
is touched, and the user's own style does not leak in: the same folder gives the same bytes.
"""

import io
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

__all__ = [
    "DRAWS",
    "FAINT",
    "INK",
    "MUTED",
    "REFERENCE",
    "SERIES",
    "STAGE_COLOURS",
    "coloured_words",
    "darker",
    "label_ends",
    "level_colours",
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
    "figure.constrained_layout.use": True,
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


def render(width: float, height: float, draw: Callable[..., None]) -> bytes:
    """A figure of `width` by `height` inches as PNG bytes; `draw(figure)` fills it.

    The bytes carry neither a date nor a version: they depend on what is drawn alone.
    """
    import matplotlib.style
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    with matplotlib.style.context(["default", _STYLE]):
        figure = Figure(figsize=(width, height), dpi=DPI)
        FigureCanvasAgg(figure)
        draw(figure)
        stream = io.BytesIO()
        figure.savefig(stream, format="png", dpi=DPI, metadata={"Software": None})
    return stream.getvalue()


def level_colours(num_levels: int) -> list[Any]:
    """One colour a level, hottest first: orange over purple to deep blue for the coldest."""
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


def window(values: Sequence[np.ndarray], tail: float = 0.002, margin: float = 0.06) -> tuple[float, float]:
    """An axis range that holds all but `tail` of the finite values at each end, with a margin."""
    finite = np.concatenate([np.asarray(part, np.float64).ravel() for part in values])
    finite = finite[np.isfinite(finite)]
    if finite.size == 0:
        return 0.0, 1.0
    low, high = np.quantile(finite, [tail, 1 - tail])
    pad = margin * (high - low) or max(1e-6, 0.05 * abs(low))
    return float(low - pad), float(high + pad)


def temperature_text(temperature: float | None) -> str:
    """A temperature as a label."""
    return "T unknown" if temperature is None else f"T = {temperature:.3g}"


def temperature_axis(axes, temperatures: Sequence[float]) -> None:
    """A logarithmic temperature axis that runs as the method does: hot on the left, T = 1 on the right."""
    from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

    axes.set_xscale("log")
    low, high = min(temperatures), max(temperatures)
    room = (high / low) ** 0.04 if high > low else 1.5
    axes.set_xlim(high * room, low / room)
    ticks = [temperatures[0]]
    for temperature in temperatures[1:]:
        # Labels closer than 6 % of the axis would run into each other.
        if abs(np.log(ticks[-1] / temperature)) > 0.06 * np.log(max(high / low, 1.01)):
            ticks.append(temperature)
    axes.xaxis.set_major_locator(FixedLocator(ticks))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:.3g}"))
    axes.set_xlabel("temperature, hot to cold")


def label_ends(axes, ends: Sequence[tuple[float, float, str, str]], gap: float = 0.065) -> None:
    """Write the names of curves to the right of the axes, at the height of their last points, without overlap.

    Args:
        ends: for each curve its last x and y, its name and its colour.
        gap: least distance between two names, in heights of the axes.
    """
    to_axes = axes.transData + axes.transAxes.inverted()
    wanted = sorted((float(to_axes.transform((x, y))[1]), name, colour) for x, y, name, colour in ends)
    heights: list[float] = []
    for height, _, _ in wanted:
        heights.append(max(height, heights[-1] + gap) if heights else height)
    excess = max(0.0, heights[-1] - 1.0) if heights else 0.0
    for height, (_, name, colour) in zip(heights, wanted, strict=True):
        axes.annotate(
            name,
            (1.0, height - excess),
            xycoords="axes fraction",
            xytext=(7, 0),
            textcoords="offset points",
            color=darker(colour),
            va="center",
            annotation_clip=False,
        )


def coloured_words(axes, words: Sequence[tuple[str, str]], x: float, y: float, step: float, align: str = "right") -> None:
    """Lines of text, each in the colour of what it names: a legend without boxes. `x`, `y`, `step` are axes fractions."""
    for row, (text, colour) in enumerate(words):
        axes.text(x, y - row * step, text, color=colour, ha=align, va="top", transform=axes.transAxes)
