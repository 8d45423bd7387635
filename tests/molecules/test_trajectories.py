"""Draws as files and as an MDTraj object: units, order, topology, and what is refused."""

import importlib.util

import numpy as np
import pytest

from support.molecules import turned_alanine
from tempering.errors import RunFolderError, SettingsError
from tempering.molecules import MoleculeTarget, backbone_angles, save_trajectory, to_mdtraj
from tempering.molecules.system.record import Atom, MoleculeRecord
from tempering.registry import make_target

ALDP = make_target("aldp")
DRAWS = turned_alanine(ALDP, [-1.4, 1.0, 3.1], [2.4, -0.5, -3.1], noise=0.003).astype(np.float32)


def _without_mdtraj(monkeypatch):
    real = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name, *rest: None if name == "mdtraj" else real(name, *rest)
    )


def _pdb_places(path) -> np.ndarray:
    """Coordinates as they stand in the columns of the file."""
    lines = [line for line in path.read_text().splitlines() if line.startswith("ATOM")]
    return np.array([[float(line[start : start + 8]) for start in (30, 38, 46)] for line in lines]).reshape((-1, 22, 3))


def test_an_mdtraj_object_has_the_molecule():
    mdtraj = pytest.importorskip("mdtraj")
    made = to_mdtraj(ALDP, DRAWS)
    assert (made.n_frames, made.n_atoms, made.n_residues, made.topology.n_bonds) == (3, 22, 3, 21)
    np.testing.assert_array_equal(made.xyz.reshape((3, 66)), DRAWS)
    assert [atom.name for atom in made.topology.atoms] == [atom.name for atom in ALDP.record.atoms]
    phi, psi = mdtraj.compute_phi(made)[1], mdtraj.compute_psi(made)[1]  # found by its own topology
    np.testing.assert_allclose(np.concatenate([phi, psi], axis=1), backbone_angles(ALDP, DRAWS)[:, 0], atol=1e-4)


@pytest.mark.parametrize("shape", [(3, 66), (3, 22, 3)])
def test_pdb_is_in_angstrom_and_needs_no_mdtraj(shape, tmp_path, monkeypatch):
    _without_mdtraj(monkeypatch)
    path = tmp_path / "draws.PDB"
    save_trajectory(ALDP, DRAWS.reshape(shape), path)
    places = _pdb_places(path)
    np.testing.assert_allclose(places, 10 * DRAWS.reshape((3, 22, 3)), atol=0.00051)
    # The saboteur: nm in a file of ångström.
    assert np.max(np.abs(places - DRAWS.reshape((3, 22, 3)))) > 1.0
    lines = path.read_text().splitlines()
    assert sum(line.startswith("CONECT") for line in lines) == 42
    assert all(len(line) == 80 for line in lines if line.startswith("ATOM"))


def test_pdb_is_read_by_openmm_and_mdtraj(tmp_path):
    mdtraj, app = pytest.importorskip("mdtraj"), pytest.importorskip("openmm.app")
    path = tmp_path / "draws.pdb"
    save_trajectory(ALDP, DRAWS, path)
    theirs = app.PDBFile(str(path))
    assert theirs.getNumFrames() == 3 and theirs.topology.getNumBonds() == 21
    np.testing.assert_allclose(theirs.getPositions(asNumpy=True, frame=2)._value, DRAWS[2].reshape((22, 3)), atol=6e-5)
    assert [atom.element.symbol for atom in theirs.topology.atoms()] == [atom.element for atom in ALDP.record.atoms]
    read = mdtraj.load(str(path))
    np.testing.assert_allclose(read.xyz.reshape((3, 66)), DRAWS, atol=6e-5)


def test_dcd_keeps_every_draw_in_its_place(tmp_path):
    mdtraj = pytest.importorskip("mdtraj")
    path = tmp_path / "draws.dcd"
    for draws in (DRAWS[:1], DRAWS):  # the second replaces the first
        save_trajectory(ALDP, draws, path)
    read = mdtraj.load(str(path), top=to_mdtraj(ALDP, DRAWS[:1]).topology)
    np.testing.assert_allclose(read.xyz.reshape((3, 66)), DRAWS, atol=1e-6)
    assert np.max(np.abs(read.xyz.reshape((3, 66))[::-1] - DRAWS)) > 0.01  # another order is seen
    assert [file.name for file in tmp_path.iterdir()] == ["draws.dcd"]


def test_atoms_without_names_have_a_file_too(tmp_path):
    bare = MoleculeTarget(MoleculeRecord(np.ones(2), (Atom(),) * 2, np.zeros((0, 2), int), np.eye(3)[:2], ()))
    save_trajectory(bare, np.zeros((1, 6)), tmp_path / "bare.pdb")
    assert "UNK" in (tmp_path / "bare.pdb").read_text()
    pytest.importorskip("mdtraj")
    assert to_mdtraj(bare, np.zeros((1, 6))).n_atoms == 2


@pytest.mark.parametrize(
    ("draws", "name", "words"),
    [
        (DRAWS, "draws.xtc", r"ends in '.xtc'; give a name that ends in .pdb or .dcd"),
        (DRAWS, "draws", "give a name that ends in"),
        (DRAWS[:, :60], "draws.pdb", r"shape \(3, 60\)"),
        (DRAWS[0], "draws.dcd", r"shape \(66,\)"),
        (np.where(np.arange(66)[None] == 5, np.nan, DRAWS), "draws.dcd", "3 of 3 draws are not finite"),
        (1e4 * DRAWS, "draws.pdb", "beyond 999 nm"),
    ],
)
def test_refusals(draws, name, words, tmp_path):
    with pytest.raises(SettingsError, match=words):
        save_trajectory(ALDP, draws, tmp_path / name)
    assert not any(tmp_path.iterdir())


def test_a_file_that_cannot_be_written_is_refused(tmp_path):
    with pytest.raises(RunFolderError):
        save_trajectory(ALDP, DRAWS, tmp_path / "gone" / "\0.pdb")
