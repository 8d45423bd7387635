"""Reports of runs on molecules in internal coordinates: as of atoms with bonds, never coordinate by coordinate."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tempering.lab.report import make_report
from tempering.lab.report.contents import read_contents
from tempering.lab.report.molecule_report import in_atoms, molecule_of
from tempering.plots.contents import LevelSamples, RunContents
from tempering.plots.particle_figures import configurations_figure, distances_figure
from tempering.registry import make_target
from tempering.runs.records import LevelRecord
from tempering.runs.storage import write_arrays, write_json

INNER = make_target("aldp_internal")
ALDP = INNER.target
Y = 0.3 * jax.random.normal(jax.random.key(0), (40, INNER.dim), jnp.float32)
"""Bonds and angles a third of a standard deviation from the minimised structure, and torsions not far from it."""


def _conformations() -> np.ndarray:
    return np.asarray(jax.jit(jax.vmap(INNER.chart.embed))(Y))


def _contents(name: str = "aldp_internal", **parts) -> RunContents:
    config = {"target": {"name": name, "arguments": {}}}
    whole = {"result": {}, "config": config, "environment": {}, "evaluation": {}, "levels": [], "samples": {}}
    return RunContents(**{**whole, **parts})


def _turned(points: np.ndarray) -> np.ndarray:
    """The same conformations, seen from elsewhere."""
    turn, _ = np.linalg.qr(np.random.default_rng(1).standard_normal((3, 3)))
    turn[:, 0] *= np.linalg.det(turn)
    return (points.reshape(len(points), -1, 3) @ turn).reshape(points.shape).astype(np.float32)


def test_internal_coordinates_become_atoms():
    of_conformations = np.linspace(-40.0, -30.0, len(Y), dtype=np.float32)
    of_y = of_conformations + np.asarray(jax.jit(jax.vmap(INNER.chart.log_volume))(Y))  # as `Inner` has it
    contents = _contents(samples={1: LevelSamples(np.asarray(Y), of_y)})
    assert molecule_of(contents) == ALDP
    changed = in_atoms(contents)
    assert changed.geometry == ALDP.geometry and changed.bonds == ALDP.bonds
    found = np.asarray(jax.vmap(ALDP.geometry.embed)(jnp.asarray(changed.samples[1].position)))
    np.testing.assert_allclose(found, _conformations(), atol=1e-5)
    np.testing.assert_allclose(changed.samples[1].log_density, of_conformations, atol=1e-3)
    assert np.abs(of_y - of_conformations).min() > 1.0, "a volume that was left in would not show"


def test_other_runs_stay_as_they_are():
    cartesian = _contents("aldp", geometry=ALDP.geometry)
    assert in_atoms(cartesian).geometry == ALDP.geometry and in_atoms(cartesian).bonds == ALDP.bonds
    for name in ("mog40", "lj13", "of one's own"):
        contents = _contents(name)
        assert in_atoms(contents) is contents and molecule_of(contents) is None


@pytest.mark.parametrize("bonds", [(), ALDP.bonds], ids=["close pairs", "bonds"])
def test_lines_are_the_bonds_where_they_are_known(bonds):
    conformations = _conformations()
    contents = _contents(evaluation={"draws": conformations}, geometry=ALDP.geometry, bonds=bonds)
    num_lines = len(configurations_figure(contents).axes[0].lines)
    assert (num_lines == len(ALDP.bonds)) is bool(bonds)  # carbons are farther apart than hydrogens are from them
    assert distances_figure(contents).axes[-1].get_xlabel().endswith("atoms, nm") is bool(bonds)


@pytest.mark.slow
def test_a_run_in_internal_coordinates_has_the_figures_of_a_molecule(tmp_path):
    config = {"name": "inner", "target": {"name": "aldp_internal", "arguments": {}}, "method": "ptsd", "seed": 3}
    write_json(tmp_path / "config.json", {"format": "tempering run 2", "config": config})
    levels = [LevelRecord(0, 5.0).as_dict(), LevelRecord(1, 1.0).as_dict()]
    write_json(tmp_path / "sampler.json", {"geometry": None, "chart": INNER.chart.as_dict(), "levels": levels})
    conformations = _conformations()
    arrays = {"draws": conformations, "reference": _turned(conformations)}
    write_arrays(tmp_path / "evaluation.npz", arrays)
    buffer = {"position": np.asarray(Y), "log_density": np.zeros(len(Y), np.float32)}
    parts = {f"{part}/{name}": array for part in ("hot", "cold") for name, array in buffer.items()}
    write_arrays(tmp_path / "levels" / "01" / "buffer.npz", parts)
    assert read_contents(tmp_path).geometry is None  # in the coordinates of the method
    text = make_report(tmp_path).read_text(encoding="utf-8")
    made = {path.stem for path in (tmp_path / "figures").iterdir()}
    assert made >= {"samples", "distances", "levels", "ramachandran", "dihedrals", "rare_mode", "bonds"}
    assert "Ramachandran plot" in text and "22 in 3-D" in text
    assert "Pairs of coordinates" not in text and "Samples by level" not in text
