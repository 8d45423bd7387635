"""Transforms: the coordinates a method works in, R^dim, and the user's own, which may be bounded or tied to each other.

A chart has `dim`, `full_dim`, `embed(y) -> x`, `restrict(x) -> y`, `log_volume(y)` = log |det d embed / dy| and
`contains(x)`. `centred.Centred` is one too, an isometry of log volume 0.
"""

from tempering.transforms.constrained import Block, Constrained, chart_of, flat_chart, read_chart
from tempering.transforms.protocol import Chart, embed_rows, restrict_rows
from tempering.transforms.supports import Support, above, below, interval, ordered, positive, real, simplex
from tempering.transforms.triangular import Composed, Triangular

__all__ = [
    "Block",
    "Chart",
    "Composed",
    "Constrained",
    "Support",
    "Triangular",
    "above",
    "below",
    "chart_of",
    "embed_rows",
    "flat_chart",
    "interval",
    "ordered",
    "positive",
    "read_chart",
    "real",
    "restrict_rows",
    "simplex",
]
