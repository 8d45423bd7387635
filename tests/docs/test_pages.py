"""Every Python block of every page runs as pasted, in page order, and uses no name that is not on its page.

Names and syntax of all pages are checked here at once; so is one page, from its first block to its last. The slow tests
run all. Pages show what a user writes: small sizes are put in here.
"""

import importlib.util
import os
import re
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from support.pages import DOCS, ROOT, blocks, name_of, pages, run_blocks, scripts
from support.tiny import subprocess_environment, tiny_ptsd
from support.untrained import untrained
from tempering.methods.registry import METHODS
from tempering.settings import Exploration, Initial, Ladder

WITH_CODE = [page for page in pages() if blocks(page)]
SCRIPTS = [(page, number, code) for page in pages() for number, code in enumerate(scripts(page))]
HISTORY = ("docs/decisions/", "docs/log.md", "CHANGELOG.md")
"""Pages that are kept as they were written; what they show need not run today."""

NEEDS = {
    "docs/adapters.md": ["numpyro", "arviz"],
    "docs/pymc-stan.md": ["pymc"],
    "docs/molecules.md": ["openmm", "mdtraj"],
    "docs/looking-at-a-sampler.md": ["pyarrow"],
    "docs/tutorial-peptide.md": ["openmm"],
    "docs/examples/evidence.md": ["dynesty"],
}
MOLECULES = ("docs/molecules.md", "docs/tutorial-peptide.md", "docs/examples/peptide.md")


def undefined_names(code: str) -> list[str]:
    """Names that a piece of Python uses and nobody defined, by ruff."""
    command = [
        sys.executable,
        "-m",
        "ruff",
        "check",
        "--isolated",
        "--select",
        "F821",
        "--output-format",
        "concise",
        "-",
    ]
    found = subprocess.run(command, input=code, capture_output=True, text=True, timeout=60)
    return re.findall(r"F821 .*|invalid-syntax.*", found.stdout)


@pytest.mark.parametrize("page", WITH_CODE, ids=name_of)
def test_a_page_uses_only_names_that_are_on_it(page):
    code = "\n\n".join(blocks(page))
    compile(code, name_of(page), "exec")
    assert not undefined_names(code)


@pytest.mark.parametrize(
    ("page", "number", "code"), SCRIPTS, ids=lambda value: name_of(value) if isinstance(value, Path) else ""
)
def test_a_script_stands_alone(page, number, code):
    compile(code, f"{name_of(page)}, script {number}", "exec")
    assert not undefined_names(code)


def test_python_is_marked_as_python():
    """A block that imports this library is checked: no page hides one as plain text."""
    for page in pages():
        if name_of(page).startswith(HISTORY):
            continue
        for language, code in re.findall(r"^```([^\n]*)\n(.*?)^```", page.read_text(encoding="utf-8"), re.M | re.S):
            is_python = re.search(r"^ *(import|from) tempering\b|\btp\.fit\(", code, re.MULTILINE)
            assert not is_python or language.startswith("py"), f"{name_of(page)}: {code[:60]}"


def test_an_undefined_name_would_be_found():
    assert undefined_names("import tempering as tp\nsampler = tp.fit(f, dim=2)\n") == ["F821 Undefined name `f`"]
    assert not undefined_names("import tempering as tp\nf = len\nsampler = tp.fit(f, dim=2)\n")


def test_pages_leave_sizes_to_their_readers():
    """A page does not shrink its fits to be tested."""
    for page in WITH_CODE:
        assert "quick = {" not in page.read_text(encoding="utf-8"), name_of(page)


@pytest.fixture
def tiny(monkeypatch, tmp_path):
    """Fits take no time, and files go into an empty folder."""

    def shrink(name: str) -> None:
        if name in MOLECULES:
            start = Initial(num_chains=32, num_steps=40, burn_in=20, thin=4)
            moves = Exploration(kernel="hmc", num_leapfrog=8)
            settings = tiny_ptsd(ladder=Ladder(temperatures=(1.2, 1.0)), initial=start, exploration=moves)
        else:
            moves = Exploration(kernel="automatic")  # a black box has no gradient
            settings = tiny_ptsd(ladder=Ladder(hottest=2.0, num_levels=2), exploration=moves)
        method = replace(METHODS["ptsd"], default=lambda **_: settings)
        monkeypatch.setitem(METHODS, "ptsd", method)
        monkeypatch.chdir(tmp_path)

    return shrink


def test_the_page_that_everybody_reads_runs(monkeypatch, tmp_path, capsys):
    """With a sampler that was never trained: what is guarded is every line from there on."""
    page = DOCS / "getting-started.md"
    settings = tiny_ptsd(ladder=Ladder(hottest=2.0, num_levels=2))
    method = replace(METHODS["ptsd"], default=lambda **_: settings, fit=untrained)
    monkeypatch.setitem(METHODS, "ptsd", method)
    monkeypatch.chdir(tmp_path)
    names = run_blocks(page, [block.replace("10_000", "64") for block in blocks(page)])
    assert names["draws"].shape == (64, 2) and (tmp_path / "my-sampler" / "sampler.json").exists()
    assert list((tmp_path / "figures").glob("*.png")) and "Verdict" in capsys.readouterr().out


def test_the_page_about_pymc_runs(monkeypatch, tmp_path):
    """With an untrained sampler too: the model is compiled, and draws come back by name."""
    pytest.importorskip("pymc")
    settings = tiny_ptsd(ladder=Ladder(hottest=2.0, num_levels=2))
    method = replace(METHODS["ptsd"], default=lambda **_: settings, fit=untrained)
    monkeypatch.setitem(METHODS, "ptsd", method)
    monkeypatch.chdir(tmp_path)
    page = DOCS / "pymc-stan.md"
    draws = run_blocks(page, [block.replace("1000", "16") for block in blocks(page)])["draws"]
    assert draws["theta"].shape == (16, 8) and draws["tau"].min() > 0


def _small(name: str, block: str) -> str:
    """A block with numbers that a test can afford: counts of draws, chains, live points."""
    if name.startswith("docs/examples/") or name in MOLECULES:
        block = re.sub(r"\b(10_000|5_000|4_000|2_000)\b", "64", block)
        block = block.replace("num_warmup=1000, num_samples=2500", "num_warmup=20, num_samples=20")
        block = re.sub(r"num_warmup=1000,\s*num_samples=2500", "num_warmup=20, num_samples=20", block)
        block = block.replace("nlive=500", "nlive=30")
    return block


@pytest.mark.slow
@pytest.mark.parametrize("page", [page for page in WITH_CODE if not name_of(page).startswith(HISTORY)], ids=name_of)
def test_a_page_runs_as_pasted(page, tiny, tmp_path):
    name = name_of(page)
    for package in NEEDS.get(name, []):
        pytest.importorskip(package)
    tiny(name)
    if name in MOLECULES:
        _write_peptide(tmp_path)
    code = [_small(name, block) for block in blocks(page)]
    if importlib.util.find_spec("torch") is None:  # no part of the development environment; one block of one page
        code = [block for block in code if "import torch" not in block]
    run_blocks(page, code)


TINY = """import sys
sys.path.insert(0, {tests!r})
from dataclasses import replace
from tempering.methods.registry import METHODS
from support.tiny import tiny_ptsd
from tempering.settings import Exploration, Ladder
settings = tiny_ptsd(ladder=Ladder(hottest=2.0, num_levels=2), exploration=Exploration(kernel="automatic"))
METHODS["ptsd"] = replace(METHODS["ptsd"], default=lambda **_: settings)
import runpy
runpy.run_path(sys.argv.pop(1), run_name="__main__")
"""
"""Runs a script with tiny fits. Workers import the script itself, and never this."""


JOBQUEUE = """from dask.distributed import LocalCluster
class SLURMCluster(LocalCluster):
    def __init__(self, *, cores, processes, memory, walltime):
        super().__init__(n_workers=1, threads_per_worker=1, dashboard_address=None)
    def adapt(self, *, minimum_jobs, maximum_jobs):
        self.scale(2)
"""
"""Stands in for a queue: the same arguments, and workers on this machine. One comes later than the others."""
MPIEXEC = ("mpiexec", "--allow-run-as-root", "--oversubscribe", "-n", "2")
DEVICES = {"XLA_FLAGS": "--xla_force_host_platform_device_count=8"}
JOINED = {"JAX_CPU_COLLECTIVES_IMPLEMENTATION": "gloo"}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("page", "number", "sign", "before", "settings"),
    [
        ("black-box.md", 0, "tempering", (), {}),
        ("clusters.md", 0, "pool=8", (), {}),
        ("clusters.md", 1, "dask_jobqueue", (), {}),
        ("clusters.md", 2, "mpi4py", MPIEXEC, {}),
        ("clusters.md", 3, "jax.devices()", (), DEVICES),
        ("clusters.md", 4, "jax.distributed", MPIEXEC, JOINED),
    ],
)
def test_a_script_runs(page, number, sign, before, settings, tmp_path):
    """Without a scheduler of jobs: its workers are made on this machine."""
    if before and shutil.which(before[0]) is None:
        pytest.skip("no mpiexec (Debian: openmpi-bin)")
    code = scripts(DOCS / page)[number]
    assert sign in code
    (tmp_path / "fit.py").write_text(code)
    (tmp_path / "simulator.py").write_text("def log_density(x):\n    return -0.5 * float(x @ x)\n")
    (tmp_path / "dask_jobqueue.py").write_text(JOBQUEUE)
    (tmp_path / "tiny.py").write_text(TINY.format(tests=str(ROOT / "tests")))
    environment = {**subprocess_environment(tmp_path / "cache"), **settings}
    environment["PYTHONPATH"] = os.pathsep.join([str(tmp_path), environment["PYTHONPATH"]])
    module = ["-m", "mpi4py.futures"] if sign == "mpi4py" else []
    command = [*before, sys.executable, *module, "tiny.py", "fit.py"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=600, cwd=tmp_path)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    shown = done.stdout.lower()
    assert "verdict" in shown or ("print" not in code and (tmp_path / "run" / "sampler.json").exists()), shown[-2000:]


def _write_peptide(folder) -> None:
    """The file that the pages on molecules begin with: one as databases have them, but with its hydrogens."""
    from openmm import app

    from support.molecules import case

    given = case("alanine, OBC1")
    with open(folder / "peptide.pdb", "w") as file:
        app.PDBFile.writeFile(given.topology, 10 * given.conformations[0], file)


def test_the_pages_are_those_of_the_repository():
    assert {"README.md", "docs/getting-started.md", "docs/examples/evidence.md"} <= {
        name_of(page) for page in WITH_CODE
    }
    assert all(page.is_relative_to(ROOT) for page in WITH_CODE)
