"""Molecules in files: exports that run without OpenMM, and the formats that chemists have."""

import json
import os
import subprocess
import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from support.molecules import case, jax_energies, openmm_values
from support.tiny import quick_compilation
from tempering.errors import RunFolderError, SettingsError
from tempering.molecules import (
    MoleculeTarget,
    alanine_dipeptide,
    from_amber,
    from_pdb,
    from_system_xml,
    load_molecule,
    save_molecule,
)

openmm = pytest.importorskip("openmm")


@pytest.fixture(scope="module", autouse=True)
def compiled_quickly():
    with quick_compilation():
        yield


SOURCE = Path(__file__).parent.parent.parent / "src"

WITHOUT_OPENMM = """
import sys
class Block:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ("openmm", "mdtraj", "simtk"):
            raise ImportError(name + " is blocked")
sys.meta_path.insert(0, Block())
import jax
jax.config.update("jax_enable_x64", True)
import jax.numpy as jnp, numpy as np
from tempering.molecules import load_molecule
from tempering.registry import make_target
target = load_molecule(sys.argv[1])
x = jnp.asarray(np.load(sys.argv[2]))
print(repr(float(target.energy(x))), make_target("aldp").dim, "openmm" in sys.modules)
"""


@pytest.mark.slow
def test_an_export_runs_where_openmm_cannot_be_imported(tmp_path):
    given = case("ethane")
    target = MoleculeTarget(given.record, 450.0, name="ethane")
    save_molecule(target, tmp_path / "ethane", source="a test")
    loaded = load_molecule(tmp_path / "ethane")
    assert loaded == target and loaded.temperature == 450.0
    assert load_molecule(tmp_path / "ethane", temperature=300.0).temperature == 300.0
    x = given.conformations[-1].reshape(-1)
    np.save(tmp_path / "x.npy", x)
    command = [sys.executable, "-c", WITHOUT_OPENMM, str(tmp_path / "ethane"), str(tmp_path / "x.npy")]
    environment = {**os.environ, "PYTHONPATH": str(SOURCE), "JAX_PLATFORMS": "cpu"}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    assert done.returncode == 0, done.stderr
    energy, dim, has_openmm = done.stdout.split()
    ((expected,), _) = openmm_values(given.system, given.conformations[-1:])
    np.testing.assert_allclose(float(energy), expected, rtol=1e-10)
    assert (dim, has_openmm) == ("66", "False")


def test_files_that_do_not_belong_together_are_refused(tmp_path):
    save_molecule(MoleculeTarget(case("ethane").record), tmp_path / "a")
    save_molecule(alanine_dipeptide(), tmp_path / "b")
    (tmp_path / "a.npz").write_bytes((tmp_path / "b.npz").read_bytes())
    with pytest.raises(RunFolderError, match="do not belong together"):
        load_molecule(tmp_path / "a")
    with pytest.raises(RunFolderError, match="is missing"):
        load_molecule(tmp_path / "c")
    content = json.loads((tmp_path / "b.json").read_text())
    (tmp_path / "b.json").write_text(json.dumps({**content, "temperature": 1.0}))
    with pytest.raises(RunFolderError, match="was altered"):
        load_molecule(tmp_path / "b")


@pytest.fixture(scope="module")
def pdb(tmp_path_factory):
    from openmm import app

    given = case("alanine, OBC1")
    path = tmp_path_factory.mktemp("pdb") / "alanine.pdb"
    with open(path, "w") as file:
        app.PDBFile.writeFile(given.topology, 10 * given.conformations[0], file, keepIds=True)
    return path


def test_a_pdb_file_and_a_serialized_system(tmp_path, pdb):
    given = case("alanine, OBC1")
    made = from_pdb(pdb, ("amber96.xml", "implicit/obc1.xml"), 310.0)
    assert made.temperature == 310.0
    np.testing.assert_allclose(made.record.positions, given.conformations[0], atol=1e-4)  # as many digits as a PDB has
    theirs = openmm_values(given.system, given.conformations)
    np.testing.assert_allclose(jax_energies(made.record, given.conformations), theirs[0], rtol=1e-10)
    (tmp_path / "system.xml").write_text(openmm.XmlSerializer.serialize(given.system))
    assert from_system_xml(tmp_path / "system.xml", pdb).record.terms[0].kind == given.record.terms[0].kind


PEROXIDE = {
    "TITLE": ("20a4", ["peroxide"]),
    "POINTERS": ("10I8", [4, 2, 2, 1, 2, 0, 1, 0, 0, 0, 7, 1, 1, 0, 0, 2, 1, 1, 2, 0, *[0] * 8, 4, 0, 0]),
    "ATOM_NAME": ("20a4", ["H1", "O1", "O2", "H2"]),
    "CHARGE": ("5E16.8", [18.2223 * q for q in (0.4, -0.4, -0.41, 0.41)]),
    "ATOMIC_NUMBER": ("10I8", [1, 8, 8, 1]),
    "MASS": ("5E16.8", [1.008, 16.0, 16.0, 1.008]),
    "ATOM_TYPE_INDEX": ("10I8", [1, 2, 2, 1]),
    "NUMBER_EXCLUDED_ATOMS": ("10I8", [3, 2, 1, 1]),
    "NONBONDED_PARM_INDEX": ("10I8", [1, 2, 2, 3]),
    "RESIDUE_LABEL": ("20a4", ["HOO"]),
    "RESIDUE_POINTER": ("10I8", [1]),
    "BOND_FORCE_CONSTANT": ("5E16.8", [553.0, 353.0]),
    "BOND_EQUIL_VALUE": ("5E16.8", [0.96, 1.46]),
    "ANGLE_FORCE_CONSTANT": ("5E16.8", [50.0]),
    "ANGLE_EQUIL_VALUE": ("5E16.8", [1.75]),
    "DIHEDRAL_FORCE_CONSTANT": ("5E16.8", [1.4]),
    "DIHEDRAL_PERIODICITY": ("5E16.8", [2.0]),
    "DIHEDRAL_PHASE": ("5E16.8", [0.3]),
    "SCEE_SCALE_FACTOR": ("5E16.8", [1.2]),
    "SCNB_SCALE_FACTOR": ("5E16.8", [2.0]),
    "SOLTY": ("5E16.8", [0.0, 0.0]),
    "LENNARD_JONES_ACOEF": ("5E16.8", [500.0, 20000.0, 400000.0]),
    "LENNARD_JONES_BCOEF": ("5E16.8", [10.0, 100.0, 600.0]),
    "BONDS_INC_HYDROGEN": ("10I8", [0, 3, 1, 6, 9, 1]),
    "BONDS_WITHOUT_HYDROGEN": ("10I8", [3, 6, 2]),
    "ANGLES_INC_HYDROGEN": ("10I8", [0, 3, 6, 1, 3, 6, 9, 1]),
    "ANGLES_WITHOUT_HYDROGEN": ("10I8", []),
    "DIHEDRALS_INC_HYDROGEN": ("10I8", [0, 3, 6, 9, 1]),
    "DIHEDRALS_WITHOUT_HYDROGEN": ("10I8", []),
    "EXCLUDED_ATOMS_LIST": ("10I8", [2, 3, 4, 3, 4, 4, 0]),
    "HBOND_ACOEF": ("5E16.8", []),
    "HBOND_BCOEF": ("5E16.8", []),
    "AMBER_ATOM_TYPE": ("20a4", ["HO", "OH", "OH", "HO"]),
    "RADIUS_SET": ("1a80", ["modified Bondi radii (mbondi2)"]),
    "RADII": ("5E16.8", [1.2, 1.5, 1.5, 1.2]),
    "SCREEN": ("5E16.8", [0.85, 0.85, 0.85, 0.85]),
}
"""Hydrogen peroxide, in the sections of a prmtop file; its Lennard-Jones numbers do not combine, so that OpenMM makes a
CustomNonbondedForce with tables of them."""


def _section(name: str, layout: str, values: list) -> str:
    width, number = (16, 5) if layout.startswith("5E") else (8, 10) if layout.startswith("10I") else (4, 20)
    written = {"5": lambda v: f"{v:16.8E}", "1": lambda v: f"{v:8d}" if layout == "10I8" else v}
    texts = [written.get(layout[0], lambda v: f"{v:<{width}}")(value) for value in values]
    lines = ["".join(texts[start : start + number]) for start in range(0, max(len(texts), 1), number)]
    return "\n".join([f"%FLAG {name}", f"%FORMAT({layout})", *lines]) + "\n"


def test_ambers_files(tmp_path):
    from openmm import app

    top = "%VERSION  VERSION_STAMP = V0001.000  DATE = 01/01/26  00:00:00\n"
    top += "".join(_section(name, *content) for name, content in PEROXIDE.items())
    (tmp_path / "peroxide.prmtop").write_text(top)
    places = np.array([[0.0, 0.95, 0.1], [0.0, 0.0, 0.0], [1.45, 0.0, 0.0], [1.6, 0.4, 0.85]])  # ångström
    numbers = "\n".join("".join(f"{value:12.7f}" for value in row) for row in places.reshape((2, 6)))
    (tmp_path / "peroxide.inpcrd").write_text(f"peroxide\n    4\n{numbers}\n")
    files = tmp_path / "peroxide.prmtop", tmp_path / "peroxide.inpcrd"
    target = from_amber(*files, implicit_solvent="OBC1")
    system = app.AmberPrmtopFile(str(files[0])).createSystem(implicitSolvent=app.OBC1, constraints=None)
    ((energy,), _) = openmm_values(system, places[None] / 10)
    np.testing.assert_allclose(jax.jit(target.energy)(jnp.asarray(target.init[0])), energy, rtol=1e-5)
    assert [atom.element for atom in target.record.atoms] == ["H", "O", "O", "H"]
    assert "custom_nonbonded" in {term.kind for term in target.record.terms}
    (tmp_path / "peroxide.prmtop").write_text(top.replace("HBOND_ACOEF", "HBOND_LOST"))
    with pytest.raises(SettingsError, match="makes no System.*HBOND_ACOEF"):
        from_amber(*files)


def test_files_that_cannot_be_read_are_refused(tmp_path, pdb):
    with pytest.raises(SettingsError, match="is not a file"):
        from_pdb(tmp_path / "none.pdb")
    (tmp_path / "broken.xml").write_text("<System")
    with pytest.raises(SettingsError, match="cannot be read"):
        from_system_xml(tmp_path / "broken.xml", pdb)
    with pytest.raises(SettingsError, match="does not take.*add missing"):
        from_pdb(pdb, ("tip3p.xml",))
    (tmp_path / "broken.prmtop").write_text("nothing")
    with pytest.raises(SettingsError, match="cannot be read"):
        from_amber(tmp_path / "broken.prmtop", pdb)
    with pytest.raises(SettingsError, match="implicit_solvent = 'water'"):
        from_amber(pdb, pdb, implicit_solvent="water")
