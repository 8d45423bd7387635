"""Run folders as a run leaves them, from exact samples: a plane one with everything and a deeper one of PT+DM."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tempering as tp
from support.tiny import quick_compilation, tiny_ptsd
from tempering.lab.report import make_report
from tempering.plots.style import FILE_STYLE
from tempering.registry import make_target
from tempering.runs.records import LevelRecord
from tempering.runs.storage import read_json, write_arrays, write_json
from tempering.sampler.diagnosis import Finding, Verdict


@pytest.fixture(scope="session", autouse=True)
def letters_of_users():
    """Letters of PDF files that are quick to write; what users get is handed to the test that asks for it."""
    with pytest.MonkeyPatch.context() as patched:
        users = FILE_STYLE["pdf.fonttype"]
        patched.setitem(FILE_STYLE, "pdf.fonttype", 3)
        yield users


TEMPERATURES = (60.0, 30.0, 15.0, 7.5, 3.5, 1.8, 1.0)
GOOD = Finding("final weights", "good", "effective share 0.430 of 10,000 draws", "they can be relied on")
NOTE = Finding("usable values", "note", "3 values not finite", "none was accepted", "fix the density there")
VERDICT = Verdict((GOOD, NOTE)).as_dict()


def _log_densities(target, points: np.ndarray) -> np.ndarray:
    return np.asarray(jax.jit(jax.vmap(target.log_density))(jnp.asarray(points, jnp.float32)))


def _metric(name: str, value: float | None, floor: float | None, unit: str = "", **more) -> dict:
    about = {"unit": unit, "description": f"the {name.replace('_', ' ')}, for a test", "smaller_is_better": True}
    return {"name": name, "value": value, "floor": floor, **about, "num_samples": 2000, "num_floor": 2000, **more}


def _records() -> list[LevelRecord]:
    records = []
    for level, temperature in enumerate(TEMPERATURES):
        record = LevelRecord(level, temperature, acceptance=0.74 - 0.02 * level, training_steps=2000)
        record.train_loss, record.validation_loss = 0.92 - 0.09 * level, 0.93 - 0.08 * level
        if level == 0:
            record.evaluations = {"initial_pt": 200_000}
        elif level == 1:
            record.swap_rate, record.evaluations = 0.71, {"initial_pt": 200_000}
        else:
            record.ess_fraction, record.truncated_ess_fraction = 0.55 - 0.05 * level, 0.8 - 0.04 * level
            record.proposal, record.predicted_ess_fraction = "log_T, second order", 0.517 - 0.05 * level
            record.pareto_k = 0.4 + 0.03 * level
            record.log_z, record.log_z_error, record.swap_rate = 12.0 / level, 0.02, 0.62 + 0.01 * level
            record.evaluations = {"importance_weights": 20_000, "refinement": 160_000}
        records.append(record)
    return records


def _note(level: int) -> dict:
    """What a part carries: the account and the records until then."""
    records = _records()[: level + 1]
    points: dict[str, int] = {}
    for record in records:
        for stage, count in record.evaluations.items():
            points[stage] = points.get(stage, 0) + count
    return {"ledger": {"points": points, "value_only": {}}, "levels": [record.as_dict() for record in records]}


def _write_common(folder: Path, name: str, method: str, target: dict, dim: int, **result) -> None:
    config = {"name": name, "description": "A run for tests.", "target": target, "method": method, "seed": 3}
    config |= {"budget": None, "settings": {"buffer_size": 20_000, "ladder": {"temperatures": list(TEMPERATURES)}}}
    write_json(folder / "config.json", {"format": "tempering run 2", "config": config})
    write_json(folder / "environment.json", {"python": "3.11", "devices": ["cpu"], "versions": {"jax": "0.10.1"}})
    (folder / "stats.jsonl").write_text(json.dumps({"seconds": 0.0, "event": "start"}) + "\n")
    levels = [record.as_dict() for record in _records()]
    points = {"pilot": 30_000, **_note(len(TEMPERATURES))["ledger"]["points"], "final_weights": 10_000}
    ledger = {"budget": 2_000_000, "points": {**points, "metrics": 30_000}, "value_only": {"metrics": 30_000}}
    facts = {"name": name, "method": method, "seed": 3, "target": target, "dim": dim, "budget": 2_000_000}
    facts |= {"evaluations": sum(points.values()), "ledger": ledger, "levels": levels, "wall_seconds": 312.4}
    facts |= {"log_z": 0.013, "log_z_error": 0.021, "log_z_exact": 0.0, "ess_fraction": 0.43, "device": "cpu"}
    facts |= {"pareto_k": 0.375}
    metrics = [
        _metric("num_nonfinite", 0.0, 0.0, "samples"),
        _metric("energy_tvd", 0.0712, 0.0513),
        _metric("energy_mmd_squared_unbiased", 1.2e-4, -3.0e-5),
        _metric("w1", 1.31, 0.87, "length"),
        _metric("w2", 12.4, 2.1, "length"),
        _metric("mean_log_likelihood", -5.31, -5.21, "nats", smaller_is_better=False),
        _metric("paper_w2", None, 0.9, "length", failure="the solver did not converge; give fewer samples"),
    ]
    facts |= {"metrics": {metric["name"]: metric for metric in metrics}, "verdict": VERDICT}
    write_json(folder / "result.json", {**facts, **result})


def write_plane_run(folder: Path, num: int = 2000) -> Path:
    """PTSD on MoG-40 with draws that miss the exact samples a little: too wide, and short of a mode."""
    target = make_target("mog40")
    exact = np.asarray(target.sample(jax.random.key(0), 2 * num))
    rng = np.random.default_rng(0)
    draws = exact[:num] + 0.4 * rng.standard_normal((num, 2))
    lost = np.asarray(target.means)[13]
    draws = np.where((np.abs(draws - lost).max(axis=1) < 5)[:, None], exact[num : 2 * num], draws)
    axis = np.linspace(-50, 50, 120)
    grid = np.stack(np.meshgrid(axis, axis), axis=-1)
    write_arrays(
        folder / "evaluation.npz",
        {
            "draws": draws.astype(np.float32),
            "draws_log_density": _log_densities(target, draws),
            "reference": exact[num:],
            "reference_log_density": _log_densities(target, exact[num:]),
            "grid_x": axis,
            "grid_y": axis,
            "grid_log_density": _log_densities(target, grid.reshape(-1, 2)).reshape(120, 120),
            "log_weights": (0.9 * rng.standard_normal(num) + rng.exponential(0.5, num)).astype(np.float32),
        },
    )
    for level in range(1, len(TEMPERATURES)):
        arrays = {"step_size": np.ones(2), "note.json": np.array(json.dumps(_note(level)))}
        for part, at in (("hot", level - 1), ("cold", level)):
            spread = np.sqrt(TEMPERATURES[at] - 1)
            position = exact[:num] + 1.3 * spread * rng.standard_normal((num, 2))
            arrays |= {f"{part}/position": position, f"{part}/log_density": _log_densities(target, position)}
        write_arrays(folder / "levels" / f"{level:02d}" / "buffer.npz", arrays)
    _write_common(folder, "mog40", "ptsd", {"name": "mog40", "arguments": {}}, 2)
    return folder


def write_deep_run(folder: Path, num: int = 2000, dim: int = 8) -> Path:
    """PT+DM on a many-well: one buffer, draws that are a little too wide, no weights."""
    target = make_target("many_well", dim=dim)
    exact = np.asarray(target.sample(jax.random.key(1), 2 * num))
    draws = exact[:num] + 0.15 * np.random.default_rng(1).standard_normal((num, dim))
    write_arrays(
        folder / "evaluation.npz",
        {
            "draws": draws.astype(np.float32),
            "draws_log_density": _log_densities(target, draws),
            "reference": exact[num:],
            "reference_log_density": _log_densities(target, exact[num:]),
        },
    )
    buffer = {"buffer/position": exact[:num], "buffer/log_density": _log_densities(target, exact[:num])}
    write_arrays(folder / "levels" / "06" / "buffer.npz", buffer)
    where = {"name": "many_well", "arguments": {"dim": dim}}
    _write_common(folder, "many-well", "pt_dm", where, dim, log_z=41.2, log_z_exact=41.174, verdict={})
    return folder


def _own_log_density(p):
    two = jnp.logaddexp(-0.5 * (p["gain"] - 3.0) ** 2, -0.5 * (p["gain"] + 3.0) ** 2)
    return two - 0.5 * (jnp.log(p["noise"]) ** 2 + jnp.sum((p["shift"] - p["gain"]) ** 2))


@pytest.fixture(scope="session")
def own_run(tmp_path_factory) -> Path:
    """The folder of a tiny fit of one's own density, of four named parameters."""
    folder = tmp_path_factory.mktemp("own") / "my-fit"
    like, support = {"gain": 0.0, "noise": 1.0, "shift": jnp.zeros(2)}, {"noise": tp.positive}
    how = {"settings": tiny_ptsd(num_final_draws=96), "seed": 0, "out": folder, "progress": False}
    with quick_compilation():
        tp.fit(_own_log_density, like=like, support=support, **how)
    return folder


@pytest.fixture(scope="session")
def plane_run(tmp_path_factory) -> Path:
    return write_plane_run(tmp_path_factory.mktemp("plane"))


@pytest.fixture(scope="session")
def deep_run(tmp_path_factory) -> Path:
    return write_deep_run(tmp_path_factory.mktemp("deep"))


@pytest.fixture(scope="session")
def plane_report(plane_run) -> Path:
    """The plane run with its report."""
    make_report(plane_run)
    return plane_run


@pytest.fixture
def a_copy(tmp_path) -> Callable[..., Path]:
    """Makes a copy of a run folder, without some of its files and with other entries in its JSON files."""

    def copy(run: Path, *, without: tuple[str, ...] = (), **changes: dict) -> Path:
        folder = tmp_path / "copy"
        shutil.copytree(run, folder, ignore=shutil.ignore_patterns(*without))
        for name, entries in changes.items():
            path = folder / f"{name}.json"
            write_json(path, {**read_json(path), **entries})
        return folder

    return copy
