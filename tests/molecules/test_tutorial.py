"""The tutorial on one's own peptide runs as printed, with tiny settings and a small number of draws."""

import re
from dataclasses import replace
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from support.molecules import case
from support.tiny import quick_compilation, tiny_ptsd
from support.unchecked import unchecked
from tempering.methods.registry import METHODS
from tempering.settings import Exploration, Initial, Ladder

pytest.importorskip("openmm")

PAGE = Path(__file__).parent.parent.parent / "docs" / "tutorial-peptide.md"
EXAMPLES = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL)


def heavy_atoms_pdb(folder: Path) -> None:
    """A file as databases have them: without hydrogens."""
    from openmm import app

    given = case("alanine, OBC1")
    modeller = app.Modeller(given.topology, 10 * given.conformations[0])
    modeller.delete([atom for atom in given.topology.atoms() if atom.element.symbol == "H"])
    with open(folder / "peptide.pdb", "w") as file:
        app.PDBFile.writeFile(modeller.topology, modeller.positions, file)


def run(examples: list[str]) -> dict:
    names: dict = {}
    promotion = jax.numpy_rank_promotion("allow"), jax.numpy_dtype_promotion("standard")
    with unchecked(), quick_compilation(), promotion[0], promotion[1]:
        for example in examples:
            exec(compile(example.replace("2_000", "64"), str(PAGE), "exec"), names)
    return names


@pytest.mark.slow
def test_a_bare_file_becomes_a_target(tmp_path, monkeypatch, capsys):
    heavy_atoms_pdb(tmp_path)
    monkeypatch.chdir(tmp_path)
    names = run(EXAMPLES[:2])
    assert capsys.readouterr().out.startswith("22 atoms, log density")
    start = jnp.asarray(names["target"].init[0])
    minimum = float(names["target"].log_density(start))
    rough = start + 0.01 * jax.random.normal(jax.random.key(0), (66,))
    assert minimum > float(names["target"].log_density(rough)) + 10


@pytest.mark.slow
def test_the_tutorial_runs_to_its_picture(tmp_path, monkeypatch, capsys):
    heavy_atoms_pdb(tmp_path)
    monkeypatch.chdir(tmp_path)
    start = Initial(num_chains=32, num_steps=40, burn_in=20, thin=4)
    moves = Exploration(kernel="hmc", num_leapfrog=8)
    tiny = tiny_ptsd(ladder=Ladder(temperatures=(1.2, 1.0)), initial=start, exploration=moves)
    monkeypatch.setitem(METHODS, "ptsd", replace(METHODS["ptsd"], default=lambda **_: tiny))
    names = run(EXAMPLES)
    printed = capsys.readouterr().out
    assert "population" in printed and "free energy" in printed
    assert names["conformations"].shape == (64, 66) and np.all(np.isfinite(names["conformations"]))
    for name in ("ramachandran.png", "dihedrals.png", "peptide-draws.pdb"):
        assert (tmp_path / name).stat().st_size > 1000
