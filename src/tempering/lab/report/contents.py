"""A run folder read. Consumes the folder's files, produces `Story`; computes nothing but coordinates.

Only `config.json` or `sampler.json` must be there. A missing file leaves its part empty, so that an unfinished run has
a report too; a damaged one is refused.
"""

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np

from tempering.errors import RunFolderError, SettingsError
from tempering.methods.registry import METHODS
from tempering.plots.contents import LevelSamples, RunContents, level_samples
from tempering.registry import chart_from, make_target
from tempering.runs.config import OWN_DENSITY, OWN_MODEL
from tempering.runs.folder import is_in_use, read_config_of
from tempering.runs.progress import PROGRESS, read_state
from tempering.runs.records import LevelRecord, Mode
from tempering.runs.storage import read_arrays, read_json
from tempering.runs.watching import read_seconds
from tempering.sampler.answer import Answer
from tempering.sampler.diagnosis import Finding
from tempering.sampler.paid import SHOWN
from tempering.targets import Target
from tempering.transforms import Chart, embed_rows
from tempering.transforms.centred import Centred

__all__ = ["Story", "configured_target", "read_contents"]


@dataclass(frozen=True)
class Story(RunContents):
    """What a page tells of a run.

    Args:
        name: of the run: of its preset, or of its folder for a density of one's own.
        folder: as it was given.
        is_own: whether it is a density of one's own.
        state: finished, running or stopped; trained for a run of a preset that was not judged.
        sampler: `sampler.json`.
        answer: weighted draws in the user's coordinates; None where there are none.
        modes: that searches found.
        seconds: by stage.
        missing: what the folder lacks, and what to do, in words.
        live: the last event of a run that goes on.
    """

    name: str = "run"
    folder: str = ""
    is_own: bool = False
    state: str = "finished"
    sampler: dict[str, Any] = field(default_factory=dict)
    answer: Answer | None = None
    modes: tuple[Mode, ...] = ()
    seconds: dict[str, float] = field(default_factory=dict)
    missing: tuple[str, ...] = ()
    live: dict[str, Any] = field(default_factory=dict)


def read_contents(folder: Path) -> Story:
    """Read a run folder.

    Raises:
        RunFolderError: if it is not a run's folder, another version's, or a file in it is damaged.
    """
    if not folder.is_dir():
        raise RunFolderError(f"{folder} is not a folder; give the folder of a run, the one after --out or out=")
    has_config = (folder / "config.json").is_file()
    if not has_config and not (folder / "sampler.json").is_file():
        raise RunFolderError(
            f"{folder} holds no config.json; give the folder of a run, such as `tempering run` makes, or one that "
            "`tp.fit(out=...)` or `sampler.save` wrote"
        )
    config = (read_config_of(folder) or {}) if has_config else {}
    sampler = _json_or_nothing(folder / "sampler.json")
    result = _json_or_nothing(folder / "result.json")
    target = (config.get("target") or {"name": OWN_DENSITY}).get("name")
    state = _state(folder, sampler, result, is_judged=target != OWN_DENSITY)
    if not result:
        result = _without_result(folder, config, sampler, state)
    evaluation = read_arrays(folder / "evaluation.npz") if (folder / "evaluation.npz").is_file() else {}
    samples = level_samples(folder / "levels")
    geometry = _geometry(sampler, config)
    chart = None if geometry is not None else _readable_chart(sampler)
    answer = _answer(folder, sampler, evaluation, geometry)
    if answer is not None and answer.log_weights is not None:
        evaluation = {**evaluation, "log_weights": answer.log_weights}  # one set of weights, one name
    return Story(
        result=result,
        config=config,
        environment=_json_or_nothing(folder / "environment.json"),
        evaluation=evaluation,
        levels=_level_records(result.get("levels") or []),
        samples=samples if chart is None else {level: _outer(part, chart) for level, part in samples.items()},
        geometry=geometry,
        name=folder.resolve().name if target == OWN_DENSITY else str(config.get("name") or result.get("name") or "run"),
        folder=str(folder),
        is_own=target in (OWN_DENSITY, OWN_MODEL),
        state=state,
        sampler=sampler,
        answer=answer,
        modes=_modes(sampler),
        seconds=read_seconds(folder),
        missing=_missing(sampler, answer, folder, state),
        live=read_state(folder).event if state == "running" else {},
    )


def _json_or_nothing(path: Path) -> dict[str, Any]:
    return read_json(path) if path.is_file() else {}


def _state(folder: Path, sampler: dict[str, Any], result: dict[str, Any], *, is_judged: bool) -> str:
    """Finished, running, stopped, or trained: `is_judged` where a run ends with a result."""
    if result or (sampler and not is_judged):
        return "finished"
    # The lock is only touched where the last event says that a process is, or was, at work.
    if (folder / PROGRESS).exists() and is_in_use(folder):
        return "running"
    return "trained" if sampler else "stopped"


def _geometry(sampler: dict[str, Any], config: dict[str, Any]) -> Centred | None:
    """Of particles, as the trained sampler states it; without one, as the named target has it."""
    if sampler:
        stated = sampler.get("geometry")
        return Centred(**stated) if stated else None
    target = configured_target(config)
    return None if target is None else target.geometry


def configured_target(config: dict[str, Any]) -> Target | None:
    """The target that a configuration names; None for a density of one's own, or a target of another version."""
    target = config.get("target") or {}
    try:
        return make_target(str(target.get("name")), **(target.get("arguments") or {}))
    except (SettingsError, TypeError):
        return None


def _readable_chart(sampler: dict[str, Any]) -> Chart | None:
    """The user's coordinates, where the folder alone can say them; those of molecules are dealt with elsewhere."""
    stored = sampler.get("chart")
    if not stored or stored.get("name") == "internal":
        return None
    try:
        return chart_from(stored, sampler["dim"])
    except (SettingsError, RunFolderError, KeyError, TypeError):
        return None


def _outer(part: LevelSamples, chart: Chart) -> LevelSamples:
    if part.position.shape[1] != chart.dim:
        return part
    return LevelSamples(np.asarray(embed_rows(chart, jnp.asarray(part.position, jnp.float32))), part.log_density)


def _answer(
    folder: Path, sampler: dict[str, Any], evaluation: dict[str, np.ndarray], geometry: Centred | None
) -> Answer | None:
    """Draws in the user's coordinates: as the sampler left them; of an older folder, those that can be read."""
    kept = read_arrays(folder / "samples.npz") if sampler and (folder / "samples.npz").is_file() else {}
    shown = {name.partition("/")[2]: array for name, array in kept.items() if name.startswith(f"{SHOWN}/")}
    if shown:
        return Answer.from_arrays(shown)
    position, is_plain = kept.get("draws-fit/position"), not sampler.get("chart") and not sampler.get("structure")
    if position is not None and is_plain and geometry is None and len(position):
        more = [kept.get(f"draws-fit/{name}") for name in ("log_weight", "log_density")]
        return Answer(_plain_names(position), position, more[0], more[1], "weighted draws of the sampler")
    draws = evaluation.get("draws")
    if draws is None or draws.ndim != 2 or not draws.size or geometry is not None:
        return None
    if (sampler.get("chart") or {}).get("name") == "internal":
        return None
    return Answer(_plain_names(draws), draws, None, evaluation.get("draws_log_density"), "draws without weights")


def _plain_names(rows: np.ndarray) -> tuple[str, ...]:
    return tuple(f"x[{axis}]" for axis in range(rows.shape[1]))


def _modes(sampler: dict[str, Any]) -> tuple[Mode, ...]:
    names = ("log_density", "weight", "hits")
    found = [mode for mode in sampler.get("modes") or () if isinstance(mode, dict)]
    modes = [Mode(tuple(mode["position"]), *(mode[name] for name in names)) for mode in found]
    return tuple(sorted(modes, key=lambda mode: -mode.weight))


def _missing(sampler: dict[str, Any], answer: Answer | None, folder: Path, state: str) -> tuple[str, ...]:
    """What a reader would look for and the folder does not have."""
    words = []
    if sampler and answer is None:
        words.append(
            "There are no draws in this folder that can be shown: it was made by an earlier version, or no draw was "
            f"weighed. `tp.load({str(folder)!r}, log_density)`, then `sample_weighted` and `save` into a new folder, "
            "and make the report of that one."
        )
    if state in ("finished", "trained") and not (folder / "levels").is_dir():
        words.append(
            "Samples by level are not in this folder, so that their figures are left out. A fit with `out=` keeps them."
        )
    return tuple(words)


def _without_result(folder: Path, config: dict[str, Any], sampler: dict[str, Any], state: str) -> dict[str, Any]:
    """A result for a folder without one: what the configuration, and a trained sampler or the last part, say."""
    known = {name: config.get(name) for name in ("name", "method", "seed", "target", "budget")}
    method = METHODS.get(str(known["method"]))
    known["method"] = known["method"] if method is None else method.title
    found = sampler.get("verdict") or {"status": state if state in ("running", "stopped") else "none yet"}
    if state == "finished":
        return {**known, **sampler, "verdict": found}
    note = Finding("state of the run", "note", *_STATES[state])
    if state == "stopped" and (config.get("target") or {}).get("name") == OWN_DENSITY:
        note = Finding("state of the run", "note", *_STATES[state][:2], "the same call of `tp.fit` goes on with it")
    verdict = {**found, "findings": [asdict(note), *found.get("findings", [])]}
    return {**known, **(sampler or _last_note(folder / "levels")), "verdict": verdict}


_STATES = {
    "running": ("this run is still going", "the page shows what is there by now", "wait, and make the report again"),
    "stopped": ("this run is not finished", "there is no sampler yet", "`tempering resume` goes on with it"),
    "trained": ("this run was trained but not judged", "there is no result.json", "`tempering resume` goes on with it"),
}


def _last_note(folder: Path) -> dict[str, Any]:
    """The account and the level records that the part finished last carries."""
    parts = sorted(folder.glob("[0-9]*/*.npz"))  # within a level, buffer comes before model, as in the run
    note = read_arrays(parts[-1]).get("note.json") if parts else None
    return {} if note is None else json.loads(str(note))


def _level_records(records: list[dict[str, Any]]) -> list[LevelRecord]:
    whole = [record for record in records if None not in (record.get("level"), record.get("temperature"))]
    return sorted((LevelRecord.from_dict(record) for record in whole), key=lambda record: record.level)
