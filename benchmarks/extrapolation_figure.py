"""The figure of `extrapolation.py`: a row a target; a column for the exact truth, for the paper's and for every way."""

import numpy as np

WAYS = {
    "exact": "exact, T = 0.1",
    "local": "MCMC from T = 1",
    "me": "ME",
    "ad": "AD in T",
    "ad-log": "AD in log T",
    "rs": "RS",
    "fd": "FD in T (paper)",
    "fd-log": "FD in log T",
    "none": "T = 1 as it is",
}
NAMES = {"mog40": "MoG-40", "mw32": "Many-Well-32"}
TRUTHS = ("exact", "local")
NUM_SHOWN = 3000


def draw(content: dict, points: dict[str, dict[str, np.ndarray]]) -> bytes:
    """The figure as PNG. `points` holds, by target and column, the first two coordinates and the energy."""
    from tempering.plots.style import png_of, render

    heights = [height for name in points for height in ((1.75,) if name == "mog40" else (0.95,) * 3)]
    return png_of(render(16.5, 1.0 + 1.25 * sum(heights), lambda figure: _fill(figure, content, points, heights)))


def _fill(figure, content: dict, points: dict, heights: list[float]) -> None:
    grid = figure.add_gridspec(len(heights), len(WAYS), height_ratios=heights)
    row = 0
    for name, columns in points.items():
        rows = 1 if name == "mog40" else 3
        for column, way in enumerate(WAYS):
            panels = [figure.add_subplot(grid[row + index, column]) for index in range(rows)]
            _plane(panels[0], columns[way]) if name == "mog40" else _marginals(panels, columns, way)
            heading = f"{WAYS[way]}\n" if row == 0 else ""
            panels[0].set_title(heading + _figures(content, name, way), fontsize=8.5, loc="left")
            if column == 0:
                panels[0].annotate(
                    NAMES[name],
                    (-0.32, 0.5),
                    xycoords="axes fraction",
                    rotation=90,
                    va="center",
                    fontsize=11,
                )
        row += rows


def _figures(content: dict, name: str, way: str) -> str:
    """The energy TVD, the error of the regions' weights and the effective share of a column."""
    kind = "floor" if way == "exact" else way
    entry = next(row for row in content["summary"] if (row["target"], row["way"]) == (name, kind))
    region = "mode TV" if name == "mog40" else "well error"
    parts = [f"energy TVD {entry['energy_tvd']['mean']:.2f}", f"{region} {entry['region_error']['mean']:.2f}"]
    if entry["ess_fraction"] is not None:
        parts.append(f"ESS {entry['ess_fraction']['mean']:.2g}")
    return "\n".join(parts if len(parts) > 2 else [*parts, ""])


def _plane(axes, points: np.ndarray) -> None:
    from tempering.plots.style import DRAWS, show_some

    some = show_some(points[:, :2], NUM_SHOWN)
    axes.scatter(some[:, 0], some[:, 1], s=1.2, color=DRAWS, linewidths=0, alpha=0.6)
    axes.set(xlim=(-46, 46), ylim=(-46, 46), aspect="equal", xticks=(-40, 0, 40), yticks=(-40, 0, 40))
    outside = np.mean(~np.all(np.abs(points[:, :2]) < 46, axis=1))
    if outside > 0.0005:
        axes.annotate(f"{outside:.1%} outside", (0.03, 0.02), xycoords="axes fraction", fontsize=7.5)


def _marginals(panels: list, columns: dict[str, np.ndarray], way: str) -> None:
    """One well coordinate, one normal coordinate and the energy, over the exact ones in grey."""
    from matplotlib.ticker import MaxNLocator

    from tempering.plots.style import DRAWS, FAINT, window

    low = columns["exact"][:, 2].min()
    # From the exact energies, the lowest, to those of T = 1; what fails altogether is said to be outside.
    high = max(window([columns[name][:, 2]], tail=0.02)[1] for name in ("local", "none"))
    windows = ((-3.0, 3.0), (-3.5, 3.5), (low - 0.05 * (high - low), high))
    for place, (axes, limits, label) in enumerate(zip(panels, windows, ("$u_0$", "$v_0$", "energy"), strict=True)):
        bins = np.linspace(*limits, 81)
        axes.hist(columns["exact"][:, place], bins, density=True, color=FAINT)
        values = columns[way][:, place]
        inside = values[(values >= limits[0]) & (values <= limits[1])]
        share = len(inside) / len(values)
        if way != "exact" and len(inside):
            counts, _ = np.histogram(inside, bins)
            axes.stairs(counts / (len(values) * (bins[1] - bins[0])), bins, color=DRAWS, linewidth=1.2)
        if share < 0.9995:
            axes.annotate(f"{1 - share:.1%} outside", (0.98, 0.86), xycoords="axes fraction", fontsize=7.5, ha="right")
        axes.set(xlim=limits, yticks=[], xlabel=label)
        axes.xaxis.set_major_locator(MaxNLocator(3))
