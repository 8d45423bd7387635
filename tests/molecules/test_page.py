"""The page on molecules: its examples run as pasted, each after those before it."""

import re
from pathlib import Path

import jax
import numpy as np
import pytest

from support.molecules import case
from support.tiny import quick_compilation
from support.unchecked import unchecked

pytest.importorskip("openmm")

PAGE = Path(__file__).parent.parent.parent / "docs" / "molecules.md"
EXAMPLES = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)


def run(examples: list[str], folder: Path, monkeypatch) -> dict:
    from openmm import app

    given = case("alanine, OBC1")
    with open(folder / "peptide.pdb", "w") as file:
        app.PDBFile.writeFile(given.topology, 10 * given.conformations[0], file)
    monkeypatch.chdir(folder)
    names: dict = {}
    promotion = jax.numpy_rank_promotion("allow"), jax.numpy_dtype_promotion("standard")
    with unchecked(), quick_compilation(), promotion[0], promotion[1]:
        for example in examples:
            exec(compile(example, str(PAGE), "exec"), names)
    return names


def test_the_examples_that_fit_nothing_run(tmp_path, monkeypatch, capsys):
    names = run([example for example in EXAMPLES if "tp.fit" not in example], tmp_path, monkeypatch)
    assert capsys.readouterr().out.startswith("22 66 300.0")
    assert names["again"].record == names["target"].record and names["again"].temperature == 350.0
    assert names["l_forms"].shape == (4, 66) and not np.any(names["was_reflected"])


@pytest.mark.slow
def test_the_examples_run(tmp_path, monkeypatch):
    names = run(EXAMPLES, tmp_path, monkeypatch)
    assert names["draws"].shape == (16, 22, 3) and np.all(np.isfinite(names["draws"]))
    np.testing.assert_allclose(np.mean(names["draws"], axis=1), 0.0, atol=1e-4)
