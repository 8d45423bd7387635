"""Optional packages: a door that needs a missing one is closed with the command that installs it.

`tempering.errors.EXTRAS` and pyproject.toml are two views of one list; here they are compared.
"""

import re
import sys
import tomllib
from pathlib import Path

import numpy as np
import pytest
from building import peptide_topology
from make_alanine import alanine_system

import tempering as tp
from support.exact_sampler import linear_denoiser, sampler_of
from tempering.errors import EXTRAS, SettingsError, TemperingError, require_extra
from tempering.lab.metrics.distances import wasserstein_1
from tempering.lab.presets import PRESETS
from tempering.lab.report import make_report
from tempering.molecules import from_amber, from_pdb, from_system_xml, save_trajectory, to_mdtraj
from tempering.plots.style import level_colours, render
from tempering.registry import make_target
from tempering.runs.exports import write_draws
from tempering.runs.folder import RunFolder

PROJECT = tomllib.loads((Path(__file__).parent.parent / "pyproject.toml").read_text())["project"]
DISTRIBUTIONS = {"ot": "POT"}
"""Names to install by, where they are not those to import by."""

POINTS = np.random.default_rng(0).normal(size=(5, 2)).astype(np.float32)

DOORS = {
    "sampler.plot": ("matplotlib", lambda _: sampler_of(linear_denoiser()).plot()),
    "make_report": ("matplotlib", lambda folder: make_report(folder)),
    "the page of make_report": ("jinja2", lambda folder: make_report(folder)),
    "render": ("matplotlib", lambda _: render(3.0, 3.0, lambda figure: None)),
    "level_colours": ("matplotlib", lambda _: level_colours(3)),
    "wasserstein_1": ("ot", lambda _: wasserstein_1(POINTS, POINTS[:3])),
    "from_openmm": ("openmm", lambda _: tp.from_openmm(None, None, None)),
    "from_pdb": ("openmm", lambda _: from_pdb("a.pdb")),
    "from_amber": ("openmm", lambda _: from_amber("a.prmtop", "a.inpcrd")),
    "from_system_xml": ("openmm", lambda _: from_system_xml("a.xml", "a.pdb")),
    "alanine_system": ("openmm", lambda _: alanine_system()),
    "peptide_topology": ("openmm", lambda _: peptide_topology(("ACE",), None)),
    "to_mdtraj": ("mdtraj", lambda _: to_mdtraj(make_target("aldp"), np.zeros((1, 66)))),
    "save_trajectory": ("mdtraj", lambda to: save_trajectory(make_target("aldp"), np.zeros((1, 66)), to / "a.dcd")),
    "from_numpyro": ("numpyro", lambda _: tp.from_numpyro(lambda: None)),
    "from_pymc": ("pymc", lambda _: tp.from_pymc(None)),
    "from_stan": ("bridgestan", lambda _: tp.from_stan("model.stan")),
    "from_torch": ("torch", lambda _: tp.from_torch(lambda x: x.sum(1), 2)),
    "parquet": ("pyarrow", lambda folder: write_draws(folder / "a.parquet", POINTS)),
    "netcdf without ArviZ": ("arviz", lambda folder: write_draws(folder / "a.nc", POINTS)),
    "netcdf": ("h5netcdf", lambda folder: write_draws(folder / "a.nc", POINTS)),
    "to_arviz": ("arviz", lambda _: sampler_of(linear_denoiser()).to_arviz(3)),
}


@pytest.mark.parametrize("door", DOORS)
def test_a_missing_package_is_refused_with_its_remedy(door, tmp_path, monkeypatch):
    package, call = DOORS[door]
    name, extra, _ = EXTRAS[package]
    monkeypatch.setitem(sys.modules, package, None)  # as of a package that is not installed
    words = rf"need {re.escape(name)}, which is not installed: pip install 'tempering\[{extra}\]'"
    with pytest.raises(TemperingError, match=words):
        call(tmp_path)
    assert not any(tmp_path.iterdir())


def test_a_folder_without_the_package_that_locks_it_is_refused(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "filelock", None)
    with pytest.raises(tp.RunFolderError, match="need filelock, .*: pip install filelock, or fit without a folder"):
        RunFolder.create(tmp_path / "run", PRESETS["mog40"])


def test_every_optional_package_has_a_door():
    assert {package for package, _ in DOORS.values()} == set(EXTRAS)


def test_a_package_that_is_there_is_not_refused():
    require_extra("matplotlib", "figures")


def test_what_works_without_it_is_said(monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(SettingsError, match="or write an .npz file"):
        require_extra("pyarrow", ".parquet files")


def _names(requirements: list[str]) -> set[str]:
    """Distributions that a list of requirements names, in lower case."""
    return {re.match(r"[\w-]+", requirement)[0].lower() for requirement in requirements}


def test_extras_install_what_refusals_ask_for():
    extras = PROJECT["optional-dependencies"]
    by_use = {extra: packages for extra, packages in extras.items() if extra not in ("all", "dev", "docs")}
    asked = {extra: set() for extra in by_use}
    for package, (_, extra, _) in EXTRAS.items():
        asked[extra].add(DISTRIBUTIONS.get(package, package).lower())
    assert {extra: _names(packages) for extra, packages in by_use.items()} == asked
    assert not _names(PROJECT["dependencies"]) & set.union(*asked.values())
    (everything,) = extras["all"]
    assert set(re.match(r"tempering\[(.*)\]$", everything)[1].split(",")) == set(by_use)
