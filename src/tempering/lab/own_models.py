"""A user's own model as a run: what the file defines made into a target, and a configuration that finds it again.

What is recorded is the place, checksums of the files, and the fingerprint of the density, so that a run is never gone
on with for another one.
"""

import inspect
import json
import os
import sys
import traceback
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from tempering.adapters import fingerprint, reporting
from tempering.adapters.numpyro import from_numpyro
from tempering.adapters.own import as_fitted, refuse_beside_prior
from tempering.adapters.prior import posterior_of
from tempering.adapters.pymc import from_pymc
from tempering.adapters.stan import from_stan
from tempering.compilation import plain_jax
from tempering.errors import DensityError, RunFolderError, SettingsError, TemperingError, first_line, what_is
from tempering.lab.model_files import OPENMM_FILES, Source, checksum, located, read_model
from tempering.methods.budget import default_budget
from tempering.methods.registry import METHODS
from tempering.molecules import from_system_xml
from tempering.registry import target_of as registered
from tempering.runs.config import OWN_MODEL, MetricsConfig, RunConfig, TargetConfig, with_changes
from tempering.settings import require_choice, require_positive, resolved
from tempering.targets import Target
from tempering.targets.cost import points_per_gradient
from tempering.types import TargetLike

__all__ = ["evaluating", "own_config", "placed", "target_of"]

_OPTIONS = ("dim", "like", "support")
_PRIORS = ("prior", "prior_transform")
_ROOM_TEMPERATURE = 300.0
_METRICS = MetricsConfig(num_weighted=0, num_likelihood=0)
"""Judging costs an own density no evaluation: the weights that the fit paid for say how good it is."""


@plain_jax()
def own_config(
    given: str,
    *,
    dim: int | None = None,
    data: str | Path | None = None,
    temperature: float | None = None,
    method: str | None = None,
    changes: list[str],
) -> tuple[RunConfig, Target]:
    """The configuration of a run of one's own model, and the model as a target.

    Args:
        given: `file.py:name`, `module:name`, a .stan file, or a folder of OpenMM.
        dim: of a function of one point.
        data: a file of it: .npz or .json.
        temperature: of an OpenMM system, in kelvin.
        method: of `tp.fit`.
        changes: as `--set` takes them.

    Raises:
        SettingsError, DensityError: if the file does not define a model, or the options do not fit it.
    """
    method = "ptsd" if method is None else method
    require_choice("--method", method, tuple(METHODS))
    source = located(given)
    arguments: dict[str, int | float | str] = {"model": source.given, "path": str(source.path)}
    arguments |= {key: value for key, value in (("name", source.name), ("module", source.module)) if value}
    arguments["checksum"] = checksum(source.files)
    if data is not None:
        place = Path(data).resolve()
        if not place.is_file():
            raise SettingsError(f"{data} is not a file; give the data of the model, .npz or .json, by --data")
        arguments |= {"data": str(data), "data_path": str(place), "data_checksum": checksum((place,))}
    if dim is not None:
        arguments["dim"] = dim
    if temperature is not None:
        require_positive("--temperature", temperature)
        arguments["temperature"] = repr(float(temperature))
    target = _target(source, arguments)
    arguments["density"] = fingerprint(target)
    particles = {} if target.geometry is None else target.geometry.as_dict()
    settings = resolved(
        METHODS[method].default(**particles), target.dim, **particles, atoms=target.atom_kinds, bonds=target.bonds
    )
    budget = default_budget(target.dim) * points_per_gradient(target) if settings.is_sized_by_budget else None
    title = f"{source.module or source.path.name}:{source.name}" if source.name else source.path.name
    config = RunConfig(
        title, "a model of one's own", TargetConfig(OWN_MODEL, arguments), method, settings, 0, budget, _METRICS
    )
    return with_changes(config, changes), target


def placed(config: RunConfig, folder: Path) -> RunConfig:
    """The configuration as a run folder keeps it: where an own model is, seen from that folder.

    So a project that is moved or copied as a whole finds its model, and no path of a machine is stored beside what the
    user typed.
    """
    if config.target.name != OWN_MODEL:
        return config
    seen = {}
    for name in ("path", "data_path"):
        if name in config.target.arguments:
            with suppress(ValueError):  # another drive
                seen[name] = Path(os.path.relpath(str(config.target.arguments[name]), folder.resolve())).as_posix()
    return replace(config, target=TargetConfig(OWN_MODEL, {**config.target.arguments, **seen}))


@plain_jax()
def target_of(config: RunConfig, folder: Path | None = None) -> Target:
    """The target of any run's configuration; an own model is read again and compared with what was fitted.

    Args:
        folder: of the run, which the places of an own model are seen from.

    Raises:
        RunFolderError: if the model is missing, changed, or not stored at all.
    """
    if config.target.name != OWN_MODEL:
        return registered(config)
    arguments = config.target.arguments
    source = _source_of(config, folder)
    if checksum(source.files) != arguments.get("checksum"):
        raise _changed(" and ".join(map(str, source.files)), source)
    if "data" in arguments:
        typed = str(arguments["data"])
        data = _first_there(str(arguments.get("data_path", typed)), typed, folder)
        if not data.is_file():
            raise _gone(str(data))
        if checksum((data,)) != arguments.get("data_checksum"):
            raise _changed(str(data), source)
        arguments = {**arguments, "data_path": str(data)}
    target = _target(source, arguments)
    if fingerprint(target) != arguments.get("density"):
        raise RunFolderError(
            f"{source.given} computes another density than when this run began, though the file is the same: data or "
            "a module that it reads has changed; restore them, or start a new run"
        )
    return target


def _source_of(config: RunConfig, folder: Path | None) -> Source:
    """Where the model of a run is now."""
    arguments = config.target.arguments
    given, name, module = (str(arguments.get(key, "")) for key in ("model", "name", "module"))
    typed = given.removesuffix(f":{name}") if name else given
    path = _first_there(str(arguments.get("path")), typed, folder)
    source = Source(given, path, name, module)
    if not all(file.is_file() for file in source.files):
        raise _gone(" and ".join(map(str, source.files)))
    return source


def _first_there(stored: str, typed: str, folder: Path | None) -> Path:
    """The stored place, seen from the run's folder; where nothing is there, what was typed, seen from here."""
    first = Path(os.path.normpath((folder or Path()).resolve() / stored))
    second = Path(typed).resolve()
    return second if second.exists() and not first.exists() else first


def _gone(names: str) -> RunFolderError:
    return RunFolderError(
        f"this run is of the model in {names}, which is not there any more; put it back, or start a new run with "
        "`tempering run`"
    )


def _changed(names: str, source: Source) -> RunFolderError:
    return RunFolderError(
        f"{names} was changed since this run began; restore what it was, or run the new model in a new folder with "
        f"`tempering run {source.given} --out ...`"
    )


@contextmanager
def evaluating(config: RunConfig, target: Target, folder: Path | None = None) -> Iterator[None]:
    """Round everything that evaluates: what a black box raises comes out as it is, and in a line for an own model.

    Args:
        folder: of the run, as for `target_of`.

    Raises:
        DensityError: for an exception that passed the user's own file, with the line.
    """
    path = str(_source_of(config, folder).path) if config.target.name == OWN_MODEL else None
    try:
        with reporting(target):
            yield
    except TemperingError:
        raise
    except Exception as error:
        lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == path]
        if not lines:
            raise
        raise DensityError(
            f"{config.name} raised {type(error).__name__} in line {lines[-1]}: {first_line(error)}; fix it and run it "
            "in a new folder, or put right what it needs and use `tempering resume`"
        ) from error


def _target(source: Source, arguments: Mapping[str, int | float | str]) -> Target:
    """The model as a target. Warnings on the way are one line each."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", UserWarning)
        target = _read(source, arguments)
    for each in caught:
        if issubclass(each.category, UserWarning):
            print(f"tempering: note: {each.message}", file=sys.stderr)
    return target


def _read(source: Source, arguments: Mapping[str, int | float | str]) -> Target:
    dim, data = arguments.get("dim"), arguments.get("data_path", arguments.get("data"))
    assert dim is None or isinstance(dim, int)
    if source.path.suffix not in (".py", ".stan"):
        _refuse(source, "a folder of OpenMM", dim=dim, data=data)
        kelvin = float(arguments.get("temperature", _ROOM_TEMPERATURE))
        system, topology = (source.path / name for name in OPENMM_FILES)
        return as_fitted(from_system_xml(system, topology, kelvin), None, None, None)
    if "temperature" in arguments:
        raise SettingsError(f"--temperature is for a folder of OpenMM, not for {source.given}; leave it out")
    if source.path.suffix == ".stan":
        _refuse(source, "a Stan model", dim=dim)
        return as_fitted(from_stan(source.path, data), None, None, None)
    value, names, name = read_model(source)
    model = _given_whole(value)
    if model is not None:
        _refuse(source, what_is(value), dim=dim, data=data)
        return as_fitted(model, None, None, None)
    if not callable(value):
        raise SettingsError(
            f"{source.given} is {what_is(value)}; it must be a function of one point, a target, a "
            "function that returns one, or a model of NumPyro, PyMC or Stan"
        )
    inputs = _inputs(value, names, None if data is None else Path(str(data)), source)
    if inputs is not None:
        _refuse(source, "a model without a point as its argument", dim=dim)
        return as_fitted(_made(value, inputs, source), None, None, None)
    return _of_function(value, names, name, dim, source)


def _refuse(source: Source, what: str, **given: Any) -> None:
    for option, value in given.items():
        if value is not None:
            raise SettingsError(f"--{option} is not for {source.given}, which is {what}; leave it out")


def _given_whole(value: Any) -> Any:
    """What tp.fit takes as it is; None for anything else."""
    package = type(value).__module__.partition(".")[0]
    if package == "pymc":
        return from_pymc(value)
    if package == "bridgestan":
        return from_stan(value)
    return value if isinstance(value, TargetLike) and not inspect.isclass(value) else None


def _of_function(value: Any, names: Mapping[str, Any], name: str, dim: int | None, source: Source) -> Target:
    """The target of a function of one point, with what its file says of the parameters."""
    options = {option: names[option] for option in _OPTIONS if names.get(option) is not None}
    if dim is not None:
        options["dim"] = dim
    priors = {option: names[option] for option in _PRIORS if names.get(option) is not None}
    if "likelihood" not in name.lower():
        if priors:
            first = next(iter(priors))
            print(
                f"tempering: note: {first} of {source.path.name} is not used with {name}, which is taken as the whole "
                "density; a function with `likelihood` in its name is taken as the likelihood alone",
                file=sys.stderr,
            )
        priors = {}
    if not (options or priors):
        raise SettingsError(
            f"{source.given} is a function of one point, whose dimension is missing: give --dim, as in --dim 3, or "
            f"set dim, like or prior in {source.path.name}"
        )
    size, like, support = (options.get(option) for option in _OPTIONS)
    try:
        if priors:
            refuse_beside_prior(support=support)
            return posterior_of(value, size, like, priors.get("prior"), priors.get("prior_transform"))
        return as_fitted(value, size, like, support)
    except TemperingError as error:
        raise type(error)(f"{source.given}: {error}") from error


def _inputs(value: Any, names: Mapping[str, Any], data: Path | None, source: Source) -> dict[str, Any] | None:
    """What a model or a function that returns a target is called with; None for a function of one point."""
    try:
        parameters = inspect.signature(value).parameters
    except (TypeError, ValueError):
        return None
    needed = [
        name
        for name, one in parameters.items()
        if one.default is one.empty and one.kind not in (one.VAR_POSITIONAL, one.VAR_KEYWORD)
    ]
    if data is not None:
        found = _read_data(data)
        if not _binds(value, found):
            raise SettingsError(
                f"{source.given} takes {', '.join(parameters) or 'nothing'}, and {data} has "
                f"{', '.join(found) or 'nothing'}; the names must be the same"
            )
        return found
    own = names.get("data")
    if isinstance(own, Mapping) and own and _binds(value, own):
        return dict(own)
    return None if needed else {}


def _binds(value: Any, inputs: Mapping[str, Any]) -> bool:
    try:
        inspect.signature(value).bind(**inputs)
    except TypeError:
        return False
    return True


def _read_data(path: Path) -> dict[str, Any]:
    try:
        if path.suffix == ".npz":
            with np.load(path, allow_pickle=False) as file:
                return {name: file[name] for name in file.files}
        if path.suffix == ".json":
            content = json.loads(path.read_text(encoding="utf-8"))
            if isinstance(content, dict):
                return {name: np.asarray(v) if isinstance(v, list) else v for name, v in content.items()}
    except (OSError, ValueError) as error:
        raise SettingsError(f"{path} cannot be read as data: {first_line(error)}; check the file") from error
    raise SettingsError(
        f"{path} is not a file of data that is read here: give .npz with named arrays (numpy.savez), or .json with an "
        "object"
    )


def _made(value: Any, inputs: dict[str, Any], source: Source) -> Any:
    """The target of a NumPyro model, or the one that a function returns."""
    try:
        if "numpyro" in sys.modules:
            from numpyro import handlers

            with handlers.seed(rng_seed=0), handlers.trace() as sites:
                made = value(**inputs)
            has_sites = any(site["type"] == "sample" for site in sites.values())
            if has_sites and _given_whole(made) is None:
                return from_numpyro(value, **inputs)
        made = _given_whole(value(**inputs))
    except TemperingError as error:
        raise type(error)(f"{source.given}: {error}") from error
    except Exception as error:
        raise DensityError(
            f"{source.given} raised {type(error).__name__}: {first_line(error)}; it is called with "
            f"{', '.join(inputs) or 'nothing'}"
        ) from error
    if made is None:
        raise SettingsError(
            f"{source.given} takes no point and returned no target; it must be a function of one point x, a NumPyro "
            "model, or return what tp.fit takes, such as tp.from_callable(...)"
        )
    return made
