"""A store of points for people and for other programs: a few lines, or a file with a row for every point."""

from pathlib import Path

import numpy as np

from tempering.errors import SettingsError
from tempering.runs.exports import check_place, write_columns
from tempering.runs.points import OUTCOMES, Stored
from tempering.runs.storage import as_path
from tempering.runs.words import duration_text

__all__ = ["point_lines", "write_points"]


def point_lines(stored: Stored) -> list[str]:
    """What a store holds, in words."""
    held, num = stored.records, len(stored.records)
    lines = [f"store    {stored.path}", f"points   {num:,} of {stored.dim} dimensions"]
    if num:
        seconds = held["seconds"]
        took = [
            duration_text(float(seconds.sum())),
            *(f"{float(q):.3g} s" for q in np.quantile(seconds, (0.5, 0.9, 1.0))),
        ]
        lines.append(
            f"time     {took[0]} of workers; a point takes {took[1]} (half), {took[2]} (nine of ten), {took[3]} at most"
        )
        workers, counts = np.unique(held["worker"], return_counts=True)
        most = ", ".join(f"{name.decode()} ({n:,})" for n, name in sorted(zip(counts, workers, strict=True))[::-1][:4])
        lines.append(f"workers  {len(workers):,}: {most}{' and others' if len(workers) > 4 else ''}")
        values = held["value"][np.isfinite(held["value"])]
        if len(values):
            lines.append(f"values   from {values.min() + 0.0:.6g} to {values.max() + 0.0:.6g}")
    failed = [(name, int(np.sum(held["outcome"] == i))) for i, name in enumerate(OUTCOMES) if i]
    told = ", ".join(f"{n:,} {name}" for name, n in failed if n)
    lines.append(f"failed   {told or 'none'}; {int(np.sum(held['tries'] > 1)):,} were tried twice")
    if stored.num_damaged or stored.num_torn:
        lines.append(
            f"damaged  {stored.num_damaged:,} records, {stored.num_torn} bytes of an unfinished one; they are left out"
        )
    return lines


def write_points(stored: Stored, path: str | Path) -> Path:
    """Every point as a row of a new file: .parquet, .csv or .npz.

    Raises:
        SettingsError: for another suffix, or where pyarrow is needed and missing.
        RunFolderError: if the file exists or cannot be written.
    """
    place = as_path(path, "path")
    if place.suffix not in (".parquet", ".csv", ".npz"):
        raise SettingsError(f"{place.name!r} is not allowed: its suffix must be .parquet, .csv or .npz")
    return write_columns(check_place(place), stored.columns())
