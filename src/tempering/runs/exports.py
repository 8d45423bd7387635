"""Draws as files that other programs read: .npz, .csv, .parquet, .nc (NetCDF), .txt (GetDist), by suffix.

Consumes draws as one array of axes (num, dim), or as a nest of dicts and lists of arrays with num first, and log
weights where there are any; produces one file, whole or not at all. Nothing is overwritten, and what cannot be written
is refused before the draws are made (`check_place`).
"""

import csv
import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import numpy as np

from tempering.errors import RunFolderError, SettingsError, require_extra
from tempering.runs.storage import as_path, replacing, write_arrays, write_bytes

__all__ = ["SUFFIXES", "check_place", "columns_of", "inference_data", "named_arrays", "write_columns", "write_draws"]

_WEIGHTS, _DENSITY = "log_weights", "log_density"
_NAMES = ".paramnames"
"""Of the file that GetDist reads names from."""
_INDEPENDENT = "draws are independent; chains are only equal parts of them, and no draw has a history"


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
    for taken in (place, *([place.with_suffix(_NAMES)] if place.suffix == ".txt" else [])):
        if taken.exists():
            raise RunFolderError(f"{taken} exists; choose another file, nothing is overwritten")
    if any(parent.exists() and not parent.is_dir() for parent in place.parents):
        raise RunFolderError(f"could not write {place}: a folder on the way is a file; choose another place")
    packages, _ = _FORMATS[place.suffix]
    for package in packages:
        require_extra(package, f"{place.suffix} files")
    return place


def write_draws(
    path: str | Path, draws: Any, log_weights: np.ndarray | None = None, log_density: np.ndarray | None = None
) -> Path:
    """Write draws, log weights and log densities beside them, to a new file of one of `SUFFIXES`.

    - `.npz`: arrays by name, `draws` for a plain array, `log_weights` and `log_density`; `numpy.load` reads it.
    - `.csv`: one column per coordinate: `x[0]`, `x[1]`, ... of a plain array, `tau` and `theta[0]` of named ones.
    - `.parquet`: the same columns.
    - `.nc`: ArviZ inference data: group `posterior`, and weights and densities in `sample_stats`.
    - `.txt`: what GetDist and anesthetic read: weight, minus log density and a column per coordinate; no header.
      Names are in a second file that ends in `.paramnames`. Weights are divided by the largest; they are 1 without any.

    Args:
        draws: an array (num, dim), or a nest of arrays of shape (num, ...), whose names are joined by dots.

    Raises:
        SettingsError: for a suffix that is not known, a package that is missing, or arrays that do not fit together.
        RunFolderError: if the file exists or cannot be written.
    """
    place = check_place(path)
    arrays = named_arrays(draws)
    num = len(next(iter(arrays.values())))
    if any(array.ndim == 0 or len(array) != num for array in arrays.values()):
        shapes = ", ".join(f"{name} {array.shape}" for name, array in arrays.items())
        raise SettingsError(f"draws have shapes {shapes}; the first axis must be the same for all")
    beside = {name: np.asarray(x) for name, x in ((_WEIGHTS, log_weights), (_DENSITY, log_density)) if x is not None}
    for name, array in beside.items():
        if array.shape != (num,) or name in arrays:
            raise SettingsError(
                f"{name} has shape {array.shape} for {num} draws of {', '.join(arrays)}; it must be ({num},), and "
                "no array may have its name"
            )
    _FORMATS[place.suffix][1](place, arrays, beside)
    return place


def write_columns(place: Path, columns: dict[str, np.ndarray]) -> Path:
    """Write named columns of one length to a new .npz, .csv or .parquet file that `check_place` allowed."""
    _, write = _FORMATS[place.suffix]
    write(place, {}, columns)
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


def _write_npz(place: Path, arrays: dict[str, np.ndarray], beside: dict[str, np.ndarray]) -> None:
    write_arrays(place, arrays | beside)


def _write_csv(place: Path, arrays: dict[str, np.ndarray], beside: dict[str, np.ndarray]) -> None:
    columns = columns_of(arrays) | beside
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows(zip(*(map(_shortest, column) for column in columns.values()), strict=True))
    write_bytes(place, stream.getvalue().encode())


def _shortest(value: Any) -> str:
    """The shortest text that is read back as the same number of its own precision."""
    if isinstance(value, str | np.str_):
        return str(value)
    return np.format_float_positional(value, trim="-") if 1e-4 <= abs(value) < 1e16 else str(value)


def _write_parquet(place: Path, arrays: dict[str, np.ndarray], beside: dict[str, np.ndarray]) -> None:
    import pyarrow
    import pyarrow.parquet

    columns = columns_of(arrays) | beside
    table = pyarrow.table({name: pyarrow.array(np.ascontiguousarray(column)) for name, column in columns.items()})
    stream = io.BytesIO()
    pyarrow.parquet.write_table(table, stream)
    write_bytes(place, stream.getvalue())


def _write_netcdf(place: Path, arrays: dict[str, np.ndarray], beside: dict[str, np.ndarray]) -> None:
    num = len(next(iter(arrays.values())))
    num_chains = 4 if num % 4 == 0 and num >= 40 else 1
    data = inference_data(arrays, beside, num_chains)
    with replacing(place) as temporary:
        data.to_netcdf(str(temporary))


def inference_data(arrays: dict[str, np.ndarray], stats: dict[str, np.ndarray], num_chains: int, **labels: Any) -> Any:
    """ArviZ inference data: draws divided into chains of equal length, for ArviZ to compare; a rest is left out.

    Args:
        arrays: by name, with draws first; `draws` alone is called x.
        stats: numbers of every draw, for the group `sample_stats`.
        labels: `coords` and `dims`, as ArviZ takes them.
    """
    import arviz

    def cut(array: np.ndarray) -> np.ndarray:
        length = len(array) // num_chains
        return array[: length * num_chains].reshape((num_chains, length, *array.shape[1:]))

    posterior = {("x" if name == "draws" else name): cut(array) for name, array in arrays.items()}
    groups = {"sample_stats": {name: cut(array) for name, array in stats.items()}} if stats else {}
    data: Any = arviz.from_dict(posterior=posterior, **groups, **labels)
    data.posterior.attrs |= {"inference_library": "tempering", "sampling": _INDEPENDENT}
    return data


def _write_getdist(place: Path, arrays: dict[str, np.ndarray], beside: dict[str, np.ndarray]) -> None:
    columns, num = columns_of(arrays), len(next(iter(arrays.values())))
    log_weights = np.asarray(beside.get(_WEIGHTS, np.zeros(num)), np.float64)
    log_weights = np.where(np.isnan(log_weights) | (log_weights == np.inf), -np.inf, log_weights)
    largest = log_weights.max(initial=-np.inf)
    is_used = log_weights > -np.inf
    if not np.any(is_used):
        raise SettingsError("no draw has a positive weight; a .txt file would hold nothing: write .npz, or draw more")
    minus_log = -np.asarray(beside.get(_DENSITY, np.zeros(num)), np.float64)
    table = np.stack([np.exp(log_weights - largest), minus_log, *columns.values()], axis=1)[is_used]
    names = io.StringIO()
    for name in columns:
        names.write(f"{'_'.join(name.split())}\t{name.replace('[', '_{').replace(']', '}')}\n")
    stream = io.BytesIO()
    np.savetxt(stream, table, fmt="%.9g")
    write_bytes(place.with_suffix(_NAMES), names.getvalue().encode())
    try:
        write_bytes(place, stream.getvalue())
    except BaseException:
        place.with_suffix(_NAMES).unlink(missing_ok=True)
        raise


_Writer = Callable[[Path, dict[str, np.ndarray], dict[str, np.ndarray]], None]
_FORMATS: dict[str, tuple[tuple[str, ...], _Writer]] = {
    ".npz": ((), _write_npz),
    ".csv": ((), _write_csv),
    ".parquet": (("pyarrow",), _write_parquet),
    ".nc": (("arviz", "h5netcdf"), _write_netcdf),
    ".txt": ((), _write_getdist),
}
"""By suffix: the optional packages that are needed, and the writer."""

SUFFIXES = tuple(_FORMATS)
"""What `write_draws` can write."""
