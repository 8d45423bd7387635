"""Draws as files that other programs read: .npz, .parquet, .nc (NetCDF), by suffix.

Consumes draws as one array of axes (num, dim), or as a nest of dicts and lists of arrays with num first, and log
weights where there are any; produces one file, whole or not at all. Nothing is overwritten, and what cannot be written
is refused before the draws are made (`check_place`).
"""

import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import numpy as np

from tempering.errors import RunFolderError, SettingsError, require_extra
from tempering.runs.storage import as_path, replacing, write_arrays, write_bytes

__all__ = ["SUFFIXES", "check_place", "columns_of", "named_arrays", "write_draws"]

_WEIGHTS = "log_weights"


def check_place(path: str | Path) -> Path:
    """The path of a new file of a known suffix, whose writer is installed.

    Raises:
        SettingsError: for another suffix, or a package that is missing.
        RunFolderError: if the file exists, or its folder is a file.
    """
    place = as_path(path, "path")
    if place.suffix not in SUFFIXES:
        allowed = ", ".join(SUFFIXES)
        raise SettingsError(f"{place.name!r} is not allowed: its suffix is the format and must be one of {allowed}")
    if place.exists():
        raise RunFolderError(f"{place} exists; choose another file, nothing is overwritten")
    if any(parent.exists() and not parent.is_dir() for parent in place.parents):
        raise RunFolderError(f"could not write {place}: a folder on the way is a file; choose another place")
    packages, _ = _FORMATS[place.suffix]
    for package in packages:
        require_extra(package, f"{place.suffix} files")
    return place


def write_draws(path: str | Path, draws: Any, log_weights: np.ndarray | None = None) -> Path:
    """Write draws, and log weights beside them, to a new file of one of `SUFFIXES`.

    - `.npz`: arrays by name, `draws` for a plain array, and `log_weights`; `numpy.load` reads it.
    - `.parquet`: one column per coordinate: `x[0]`, `x[1]`, ... of a plain array, `tau` and `theta[0]` of named ones.
    - `.nc`: ArviZ inference data, one chain: group `posterior`, and `log_weights` in `sample_stats`.

    Args:
        draws: an array (num, dim), or a nest of arrays of shape (num, ...), whose names are joined by dots.

    Raises:
        SettingsError: for a suffix that is not known, a package that is missing, or arrays that do not fit together.
        RunFolderError: if the file exists or cannot be written.
    """
    place = check_place(path)
    arrays = named_arrays(draws)
    num = len(next(iter(arrays.values())))
    weights = None if log_weights is None else np.asarray(log_weights)
    if any(array.ndim == 0 or len(array) != num for array in arrays.values()):
        shapes = ", ".join(f"{name} {array.shape}" for name, array in arrays.items())
        raise SettingsError(f"draws have shapes {shapes}; the first axis must be the same for all")
    if weights is not None and (weights.shape != (num,) or _WEIGHTS in arrays):
        raise SettingsError(
            f"log_weights has shape {weights.shape} for {num} draws of {', '.join(arrays)}; it must be ({num},), and "
            "no array may have its name"
        )
    _FORMATS[place.suffix][1](place, arrays, weights)
    return place


def named_arrays(draws: Any) -> dict[str, np.ndarray]:
    """Arrays by name: `draws` alone, or those of a nest by their path, such as `school.theta`."""
    if hasattr(draws, "shape"):
        return {"draws": np.asarray(draws)}
    leaves = jax.tree_util.tree_leaves_with_path(draws)
    named = [(jax.tree_util.keystr(path, simple=True, separator="."), np.asarray(leaf)) for path, leaf in leaves]
    arrays = dict(named)
    if not arrays or len(arrays) != len(named) or any(array.dtype.hasobject for array in arrays.values()):
        names = ", ".join(name for name, _ in named) or "none"
        raise SettingsError(f"draws must be arrays of numbers under names of their own; given: {names}")
    return arrays


def columns_of(arrays: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """One column per coordinate: `tau` of shape (num,) stays, `theta` of (num, 2) becomes `theta[0]` and `theta[1]`."""
    columns = {}
    for name, array in arrays.items():
        label = "x" if name == "draws" and len(arrays) == 1 else name
        for index in np.ndindex(array.shape[1:]):
            columns[label + (f"[{','.join(map(str, index))}]" if index else "")] = array[(slice(None), *index)]
    return columns


def _write_npz(place: Path, arrays: dict[str, np.ndarray], weights: np.ndarray | None) -> None:
    write_arrays(place, arrays if weights is None else {**arrays, _WEIGHTS: weights})


def _write_parquet(place: Path, arrays: dict[str, np.ndarray], weights: np.ndarray | None) -> None:
    import pyarrow
    import pyarrow.parquet

    columns = columns_of(arrays) | ({} if weights is None else {_WEIGHTS: weights})
    table = pyarrow.table({name: pyarrow.array(np.ascontiguousarray(column)) for name, column in columns.items()})
    stream = io.BytesIO()
    pyarrow.parquet.write_table(table, stream)
    write_bytes(place, stream.getvalue())


def _write_netcdf(place: Path, arrays: dict[str, np.ndarray], weights: np.ndarray | None) -> None:
    import arviz

    posterior = {("x" if name == "draws" else name): array[None] for name, array in arrays.items()}
    groups: dict[str, Any] = {} if weights is None else {"sample_stats": {_WEIGHTS: weights[None]}}
    data = arviz.from_dict(posterior=posterior, **groups)
    with replacing(place) as temporary:
        data.to_netcdf(str(temporary))


_FORMATS: dict[str, tuple[tuple[str, ...], Callable[[Path, dict[str, np.ndarray], np.ndarray | None], None]]] = {
    ".npz": ((), _write_npz),
    ".parquet": (("pyarrow",), _write_parquet),
    ".nc": (("arviz", "h5netcdf"), _write_netcdf),
}
"""By suffix: the optional packages that are needed, and the writer."""

SUFFIXES = tuple(_FORMATS)
"""What `write_draws` can write."""
