"""Figures along the ladder: weights, moves and cost by level, training losses, and the tail of the final weights.

Consumes level records, the ledger and raw log weights; produces figures, or None where there is nothing to show.
"""

import numpy as np

from tempering.plots.contents import RunContents
from tempering.plots.style import (
    DRAWS,
    FAINT,
    MUTED,
    SERIES,
    STAGE_COLOURS,
    Picture,
    coloured_words,
    darker,
    label_ends,
    render,
    temperature_axis,
    temperature_text,
)
from tempering.runs.ledger import APART, stage_name
from tempering.weights.ess import effective_size
from tempering.weights.pareto import RELIABLE_K, pareto_k

__all__ = ["ladder_figure", "training_figure", "weights_figure"]

MAX_LABELS = 10
"""Bars that are all named; of more, every other, every third, ... is."""
_RATES = (
    ("ess_fraction", "ESS, raw weights", SERIES[0], "-"),
    ("truncated_ess_fraction", "ESS, truncated", SERIES[1], "--"),
    ("acceptance", "acceptance", SERIES[2], "-"),
    ("swap_rate", "swap rate", SERIES[3], "-"),
)
_BAR_NAMES = {"atlas": "search", "reference": "mixture", "shape": "coordi-\nnates"}
"""Short enough to stand below a bar."""
_LOSSES = (("train_loss", "training", SERIES[1], "--"), ("validation_loss", "validation", SERIES[0], "-"))


def ladder_figure(contents: RunContents) -> Picture | None:
    """ESS, acceptance and swap rate along the temperatures, and where the evaluations went."""
    if not contents.levels:
        return None
    bars = _cost_bars(contents)

    def draw(figure) -> None:
        rates, costs = figure.subplots(1, 2, width_ratios=[1.1, 1])
        rates.set_title("Weights and moves by temperature")
        rates.grid(axis="y")
        _curves(rates, contents, _RATES, highest=1.02)
        rates.set_ylabel("fraction")
        costs.set_title("Evaluations by level and stage")
        _stack(costs, bars)

    return render(10.4, 4.0, draw)


def _curves(axes, contents: RunContents, series, highest: int | float, marks=()) -> None:
    """Plot each of `series` = (field of the record, name, colour, line style) that is on record, and name it.

    `marks` are further names for the right margin, as in `label_ends`.
    """
    temperature_axis(axes, [record.temperature for record in contents.levels])
    ends = []
    for name, title, colour, line in series:
        points = [(r.temperature, getattr(r, name)) for r in contents.levels if getattr(r, name) is not None]
        if not points:
            continue
        x, y = np.asarray(points, np.float64).T
        axes.plot(x, y, line, color=colour, marker="o", ms=4.5, clip_on=False)
        ends.append((x[-1], y[-1], title, colour))
    axes.set_ylim(0, highest)
    label_ends(axes, [*ends, *marks])


def _cost_bars(contents: RunContents) -> list[tuple[str, dict[str, int]]]:
    """What each level cost, by stage, and the stages that belong to no level: the pilot before, final weights after."""
    points = (contents.result.get("ledger") or {}).get("points") or {}
    spent = {stage: sum(record.evaluations.get(stage, 0) for record in contents.levels) for stage in points}
    rest = {stage: n - spent[stage] for stage, n in points.items() if stage not in APART and n > spent[stage]}
    first = [stage for stage in ("atlas", "reference", "shape", "pilot") if stage in rest]
    before = [(_BAR_NAMES.get(stage, stage), {stage: rest.pop(stage)}) for stage in first]
    bars = [(temperature_text(record.temperature), dict(record.evaluations)) for record in contents.levels]
    after = [(stage_name(stage).replace(" ", "\n"), {stage: n}) for stage, n in rest.items()]
    return before + bars + after


def _stack(axes, bars: list[tuple[str, dict[str, int]]]) -> None:
    """Stacked bars; a stage is named once, in its colour, with its sum."""
    from matplotlib.ticker import FuncFormatter

    stages = [stage for stage in STAGE_COLOURS if any(stage in parts for _, parts in bars)]
    stages += sorted({stage for _, parts in bars for stage in parts} - set(stages))
    bottom = np.zeros(len(bars))
    words = []
    for stage in stages:
        heights = np.array([parts.get(stage, 0) for _, parts in bars], np.float64)
        colour = STAGE_COLOURS.get(stage, MUTED)
        axes.bar(range(len(bars)), heights, bottom=bottom, color=colour, width=0.72)
        bottom += heights
        words.append((f"{stage_name(stage)}  {int(heights.sum()):,}", darker(colour)))
    labels = [label for label, _ in bars]
    ticks = range(len(bars) - 1, -1, -1 - len(bars) // MAX_LABELS)
    axes.set_xticks(ticks, [labels[index] for index in ticks])
    axes.tick_params(axis="x", length=0, labelsize=8.5)
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: _short(value)))
    axes.set_ylim(0, 1.02 * max(bottom.max(initial=0.0), 1.0))
    axes.grid(axis="y")
    axes.set(xlabel="temperature, hot to cold", ylabel="evaluations")
    # Above the bars, where the axes are extended to make room.
    room = 0.075 * len(words) + 0.03
    axes.set_ylim(0, axes.get_ylim()[1] / max(0.3, 1 - room))
    coloured_words(axes, list(reversed(words)), 0.99, 0.99, 0.075)


def _short(value: float) -> str:
    for size, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= size:
            return f"{value / size:.4g}{letter}"
    return f"{value:.4g}"


def training_figure(contents: RunContents) -> Picture | None:
    """Training and validation loss of the denoiser of each level, in units of the best linear denoiser's."""
    losses = [getattr(record, name) for record in contents.levels for name, *_ in _LOSSES]
    losses = [loss for loss in losses if loss is not None]
    if not losses:
        return None

    def draw(figure) -> None:
        axes = figure.subplots()
        axes.axhline(1.0, color=MUTED, lw=1.0, ls=":")
        axes.grid(axis="y")
        mark = (contents.levels[-1].temperature, 1.0, "best linear", MUTED)
        _curves(axes, contents, _LOSSES, highest=1.12 * max(1.0, *losses), marks=[mark])
        axes.set_ylabel("loss / best linear loss")

    return render(7.6, 3.6, draw)


def weights_figure(contents: RunContents) -> Picture | None:
    """The final model's raw weights by rank, on logarithmic axes: a steep head means that few draws decide."""
    log_weights = contents.evaluation.get("log_weights")
    if log_weights is None or log_weights.ndim != 1:
        return None
    usable = np.sort(log_weights[np.isfinite(log_weights)].astype(np.float64))[::-1]
    if len(usable) < 2:
        return None
    num, num_zero = len(log_weights), len(log_weights) - len(usable)
    weights = np.exp(usable - usable[0])
    shares = weights / weights.sum()
    ess = effective_size(shares)

    title = f"ESS {ess:,.0f} of {num:,}, or {ess / num:.1%};  largest weight {shares[0]:.2%} of the sum;  "
    title += f"largest hundredth {shares[: max(1, num // 100)].sum():.1%}"
    k = pareto_k(np.where(np.isfinite(log_weights), log_weights, -np.inf))
    if np.isfinite(k):
        words = ("good: at most {}", "above {}: a heavy tail, which the verdict judges")
        title += f"\nPareto k {round(k, 2) + 0.0:.2f}, {words[k > RELIABLE_K].format(RELIABLE_K)}"
    if num_zero:
        title += f"\n{num_zero:,} weights are zero or undefined"

    def draw(figure) -> None:
        axes = figure.subplots()
        axes.set_title(title, fontsize=9.5)
        axes.axhline(1.0, color=MUTED, lw=1.0, ls=":")
        rank = np.arange(1, len(shares) + 1)
        axes.plot(rank, num * shares, color=DRAWS)
        axes.plot(rank[:1], num * shares[:1], "o", color=DRAWS, ms=5)
        axes.set(xscale="log", yscale="log", xlabel="rank of the draw", ylabel="weight / mean weight", xlim=(0.9, num))
        # The head is what matters; the smallest weights may be smaller than any axis.
        axes.set_ylim(bottom=min(max(1e-3, 0.5 * num * shares[-1]), 0.05), top=max(2 * num * shares[0], 20.0))
        axes.grid(color=FAINT)
        axes.text(0.01, 0.85, "equal weights", color=MUTED, va="top", transform=axes.get_yaxis_transform())

    return render(7.6, 3.8, draw)
