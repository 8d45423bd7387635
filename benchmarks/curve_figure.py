"""The figure of `curves.py`: evaluations against error, a panel a target and metric, floors in grey.

Methods have different numbers of seeds, and a seed's reference set alone may move a metric by a tenth. So a point is
the floor and what the method has above that of its own reference sets (`excess`), not the mean of the metric itself.
"""

COLOURS = {
    "ours": "#c8102e",
    "ptsd-paper": "#e08a1e",
    "pt-dm": "#7b4fa3",
    "pt": "#1f77b4",
    "smc": "#2a9d5c",
}
NAMES = {
    "ours": "PTSD, ours",
    "ptsd-paper": "PTSD, paper",
    "pt-dm": "PT+DM",
    "pt": "PT alone",
    "smc": "SMC",
}
PANELS = (
    ("mog40", "energy_tvd", "MoG-40: energy TVD"),
    ("mog40", "region_tv", "MoG-40: mode weights, TV"),
    ("mog40", "w1", "MoG-40: W1"),
    ("mw32", "energy_tvd", "Many-Well-32: energy TVD"),
    ("mw32", "region_max_error", "Many-Well-32: largest well error"),
)


def draw(content: dict) -> bytes:
    """The figure as PNG, from what `curves.py` writes: means over seeds, bars of one standard error."""
    from tempering.plots.style import png_of, render

    return png_of(render(10.0, 6.4, lambda figure: _fill(figure, content)))


def _fill(figure, content: dict) -> None:
    notes = (
        "Grey: as many independent exact samples. Points are this and what a method has above it against the "
        "same reference sets; below it they are more even than independent samples.",
        "SMC: BlackJAX's kernels, with densities and gradients carried along; the stock loop costs more evaluations.",
    )
    for note, height in zip(notes, (0.36, 0.26), strict=True):
        figure.text(0.66, height, note, fontsize=8, color="#6a6a6a", wrap=True)
    figure.set_layout_engine("none")  # names in the right margins need room of their own
    grid = figure.add_gridspec(2, 3, wspace=0.75, hspace=0.38, left=0.05, right=0.88, top=0.95, bottom=0.08)
    for index, (name, metric, title) in enumerate(PANELS):
        rows = [row for row in content["summary"] if row["target"] == name and row.get(metric)]
        if rows:
            _panel(figure.add_subplot(grid[divmod(index, 3)]), rows, metric, title, content["floors"][name][metric])


def _panel(axes, rows: list[dict], metric: str, title: str, floor: float) -> None:
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    from tempering.plots.style import label_ends

    axes.set_xscale("log")
    axes.set_yscale("log")
    ends, rightmost = [], max(row["evaluations"] for row in rows)  # names stand in the margin, wherever a curve ends
    for method, colour in COLOURS.items():
        mine = sorted((row for row in rows if row["method"] == method), key=lambda row: row["evaluations"])
        if not mine:
            continue
        x, y = [row["evaluations"] for row in mine], [floor + row["excess"][metric]["mean"] for row in mine]
        # A bar down to zero has no place on a logarithmic axis.
        error = [min(row["excess"][metric]["error"] or 0.0, 0.9 * height) for row, height in zip(mine, y, strict=True)]
        width = 2.4 if method == "ours" else 1.5
        axes.errorbar(x, y, error, color=colour, linewidth=width, elinewidth=0.9, marker="o", markersize=3.5)
        ends.append((rightmost, y[-1], NAMES[method], colour))
    axes.axhline(floor, color="#8a8a8a", linewidth=1.2)
    low, high = axes.get_ylim()
    axes.set_ylim(min(low, 0.72 * floor), high)
    axes.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.yaxis.set_minor_formatter(NullFormatter())
    axes.set_title(title, loc="left", fontsize=10)
    axes.set_xlabel("evaluations", fontsize=9)
    axes.figure.canvas.draw()
    label_ends(axes, ends, gap=0.075)
