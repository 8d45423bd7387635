"""A user's own model on the command line: every way to give one, and what is said where it is none.

No fit here; `test_cli_own.py` has one.
"""

import json

import jax.numpy as jnp
import numpy as np
import pytest

from support.commands import as_users_run_it, command, refused
from tempering.errors import DensityError, RunFolderError, SettingsError
from tempering.lab.model_files import is_model, located
from tempering.lab.own_models import own_config, target_of

MODEL = """
import jax.numpy as jnp
import numpy as np
import tempering as tp
from beside import SHIFT

def log_density(x):
    return -0.5 * jnp.sum((x - SHIFT) ** 2)

def log_likelihood(p):
    return -0.5 * jnp.sum((p["a"] * p["b"] - 1.0) ** 2)

class Banana:
    dim = 2
    def log_density(self, x):
        return -0.5 * (x[0] ** 2 + (x[1] - x[0] ** 2) ** 2)

banana = Banana()

def factory(width):
    return tp.from_callable(lambda x: float(-0.5 * np.sum(x**2) / width**2), dim=4)

def plain_factory():
    return tp.from_callable(lambda x: float(-0.5 * np.sum(x**2)), dim=3)

def wrong_factory():
    return 3

number = 3.0
"""
WITH_PRIOR = (
    'import tempering as tp\nfrom model import *\nprior = {"a": tp.Normal(0.0, 1.0), "b": tp.LogNormal(0.0, 1.0)}\n'
)
TREE = """
import jax.numpy as jnp
import tempering as tp
like, support = {"m": 0.0, "s": 1.0}, {"s": tp.positive}

def log_density(p):
    return -0.5 * (p["m"] / p["s"]) ** 2 - jnp.log(p["s"]) - p["s"]
"""
NUMPYRO = """
import numpy as np
import numpyro
import numpyro.distributions as dist

def model(x, y=None):
    a = numpyro.sample("a", dist.Normal(0.0, 1.0))
    s = numpyro.sample("s", dist.HalfNormal(1.0))
    numpyro.sample("y", dist.Normal(a * x, s), obs=y)

def closed():
    a = numpyro.sample("a", dist.Normal(0.0, 1.0))
    numpyro.sample("y", dist.Normal(a, 1.0), obs=np.ones(3))

data = {"x": np.array([1.0, 2.0, 3.0]), "y": np.array([1.1, 1.9, 3.2])}
"""


@pytest.fixture
def place(tmp_path, monkeypatch):
    """A folder with models, from which commands are run."""
    files = {
        "model.py": MODEL,
        "priors.py": WITH_PRIOR,
        "tree.py": TREE,
        "pyro.py": NUMPYRO,
        "beside.py": "SHIFT = 2.0",
    }
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    monkeypatch.chdir(tmp_path)
    with pytest.MonkeyPatch.context() as patched:
        import sys

        patched.setattr(sys, "path", list(sys.path))
        before = set(sys.modules)
        yield tmp_path
        for name in set(sys.modules) - before:
            if name in ("beside", "priors", "tree", "pyro", "model") or name.startswith("model_"):
                del sys.modules[name]


def _target(given, **options):
    return own_config(given, changes=[], **options)[1]


def test_a_function_of_a_point_is_the_density(place):
    x = jnp.array([0.5, -1.0, 3.0])
    assert float(_target("model.py:log_density", dim=3).log_density(x)) == pytest.approx(-0.5 * (2.25 + 9 + 1))
    assert _target(str(place / "model.py") + ":log_density", dim=3).dim == 3
    assert _target("model.py", dim=3).dim == 3, "log_density is what is looked for where no name is given"
    assert _target("model:log_density", dim=3).dim == 3, "a module by its name"


def test_a_target_is_taken_as_it_is_and_a_function_may_return_one(place):
    assert float(_target("model.py:banana").log_density(jnp.array([2.0, 3.0]))) == pytest.approx(-2.5)
    assert _target("model.py:plain_factory").dim == 3
    (place / "width.json").write_text(json.dumps({"width": 2.0}))
    assert float(_target("model.py:factory", data="width.json").log_density(2 * jnp.ones(4))) == pytest.approx(-2.0)


def test_a_file_may_say_what_its_parameters_are(place):
    config, target = own_config("tree.py:log_density", changes=[])
    assert target.dim == 2 and set(target.structure.restore(np.zeros((1, 2)))) == {"m", "s"}
    assert config.budget == 70_000 and config.method == "ptsd"


def test_a_prior_belongs_to_a_likelihood(place, capsys):
    target = _target("priors.py:log_likelihood")
    assert target.dim == 2 and target.reference is not None
    assert _target("priors.py:log_density", dim=2).reference is None
    assert "prior of priors.py is not used with log_density" in capsys.readouterr().err


def test_a_numpyro_model_takes_its_data_from_a_file_or_beside_it(place):
    np.savez(place / "data.npz", x=np.ones(4), y=np.zeros(4))
    beside, given = _target("pyro.py:model"), _target("pyro.py:model", data="data.npz")
    assert beside.dim == given.dim == 2 and beside.structure.as_dict() == given.structure.as_dict()
    point = jnp.array([0.3, -0.2])
    assert float(beside.log_density(point)) != float(given.log_density(point))
    assert _target("pyro.py:closed").dim == 1


def test_the_configuration_finds_the_model_again(place):
    config, target = own_config("model.py:log_density", dim=3, changes=["seed=4", "training.num_steps=50"])
    assert config.seed == 4 and config.settings.training.num_steps == 50
    point = jnp.arange(3.0)
    assert float(target_of(config).log_density(point)) == float(target.log_density(point))


def test_another_model_is_refused_with_what_to_do(place):
    config, _ = own_config("model.py:log_density", dim=3, changes=[])
    text = (place / "model.py").read_text()
    (place / "model.py").write_text(text + "\n# a word more\n")
    with pytest.raises(RunFolderError, match="model.py was changed since .* `tempering run model.py:log_density"):
        target_of(config)
    (place / "model.py").unlink()
    with pytest.raises(RunFolderError, match="not there any more; put it back"):
        target_of(config)
    (place / "model.py").write_text(text)
    assert target_of(config).dim == 3
    (place / "beside.py").write_text("SHIFT = 3.0")
    import os
    import sys

    del sys.modules["beside"]
    os.utime(place / "beside.py", (1e9, 1e9))  # compiled files are told by their time
    with pytest.raises(RunFolderError, match="another density .* though the file is the same"):
        target_of(config)


def test_a_change_of_the_data_is_refused(place):
    np.savez(place / "data.npz", x=np.ones(4), y=np.zeros(4))
    config, _ = own_config("pyro.py:model", data=place / "data.npz", changes=[])
    np.savez(place / "data.npz", x=np.ones(4), y=np.ones(4))
    with pytest.raises(RunFolderError, match="data.npz was changed"):
        target_of(config)


@pytest.mark.parametrize(
    ("given", "options", "words"),
    [
        ("modle.py:log_density", {}, r"modle.py is not a file \(did you mean model.py\?\)"),
        ("model.py:log_densty", {"dim": 2}, r"has no 'log_densty' \(did you mean log_density\?\); it defines"),
        ("beside.py", {}, "does not say which model: add its name, .* defines SHIFT"),
        ("nowhere:log_density", {}, "there is no module 'nowhere'"),
        ("a b:log_density", {}, "there is no module 'a b'"),
        ("model.py:log_density", {}, "dimension is missing: give --dim"),
        ("model.py:log_density", {"dim": 0}, "dim = 0 is not allowed"),
        ("model.py:number", {}, "is a float; it must be a function of one point"),
        ("model.py:banana", {"dim": 2}, "--dim is not for model.py:banana"),
        ("model.py:log_density", {"dim": 2, "temperature": 300.0}, "--temperature is for a folder of OpenMM"),
        ("model.py:wrong_factory", {}, "takes no point and returned no target"),
        ("model.py:factory", {"data": "none.npz"}, "none.npz is not a file; give the data"),
        ("pyro.py:model", {"data": "model.py"}, "is not a file of data that is read here"),
        ("model.py:log_density", {"dim": 2, "method": "nuts"}, "--method = 'nuts' is not allowed"),
        (".", {}, "a folder without system.xml and topology.pdb"),
    ],
)
def test_what_is_no_model_is_refused_with_what_to_do(place, given, options, words):
    with pytest.raises(SettingsError, match=words):
        own_config(given, changes=[], **options)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("1 / 0", "broken.py raised ZeroDivisionError in line 2: division by zero; fix it"),
        ("def f(:", "broken.py is not Python in line 2"),
        ("import pymc_of_nowhere", "broken.py in line 2 needs pymc_of_nowhere, which is not installed"),
        (
            "import sys; sys.modules['ot'] = None; import ot",
            "needs POT, which is not installed: pip install 'tempering",
        ),
        ("raise SystemExit(3)", "ends the program in line 2; put what it does"),
        ("import tempering as tp; tp.from_callable(len, dim=0)", "broken.py in line 2: dim = 0 is not allowed"),
    ],
)
def test_a_file_that_raises_is_refused_by_its_line(place, text, words, monkeypatch):
    import sys

    monkeypatch.setitem(sys.modules, "ot", sys.modules.get("ot"))
    (place / "broken.py").write_text(f"\n{text}\n")
    with pytest.raises(SettingsError) as refusal:
        own_config("broken.py:f", dim=2, changes=[])
    assert words in str(refusal.value)


def test_data_of_other_names_are_refused(place):
    np.savez(place / "data.npz", a=np.ones(4))
    with pytest.raises(SettingsError, match="takes x, y, and .*data.npz has a; the names must be the same"):
        own_config("pyro.py:model", data=place / "data.npz", changes=[])


def test_a_model_that_raises_says_so(place):
    (place / "raising.py").write_text("def model():\n    raise KeyError('lost')\n")
    with pytest.raises(DensityError, match="raising.py:model raised KeyError"):
        own_config("raising.py:model", changes=[])


def test_a_folder_of_a_run_is_not_a_model(place):
    (place / "old").mkdir()
    (place / "old" / "config.json").write_text("{}")
    with pytest.raises(SettingsError, match="`tempering resume old` goes on"):
        located("old")


@pytest.mark.parametrize(("text", "answer"), [("mog40", False), ("a.py", True), ("a:b", True), ("m.stan", True)])
def test_presets_and_models_are_told_apart(text, answer):
    assert is_model(text) is answer


def test_the_command_plans_a_run_of_ones_own(place):
    with as_users_run_it():
        code, out, errors = command("run", "model.py:log_density", "--dim", 3, "--budget", "1e5", "--dry-run")
        assert (code, errors) == (0, "") and "your own model, 3 dimensions" in out and "at most 100,000" in out
        assert max(map(len, out.splitlines())) <= 80
        line = refused("run", "mog40", "--dim", 3, "--out", "x")
        assert "--dim is for a model of your own" in line
        assert "your own model, 1 dimension\n" in command("run", "model.py:log_density", "--dim", 1, "--dry-run")[1]
        assert "--json is for --dry-run" in refused("run", "mog40", "--json", "--out", "x")
        assert "is not a file" in refused("run", "modle.py:f", "--out", "x")
    assert not (place / "x").exists()


@pytest.mark.slow
def test_a_folder_of_openmm_is_a_molecule(place):
    openmm = pytest.importorskip("openmm")
    from openmm import app

    from support.molecules import case

    given = case("alanine, OBC1")
    folder = place / "peptide"
    folder.mkdir()
    (folder / "system.xml").write_text(openmm.XmlSerializer.serialize(given.system))
    with pytest.raises(SettingsError, match="peptide is a folder without topology.pdb; a system of OpenMM"):
        own_config("peptide", changes=[])
    with (folder / "topology.pdb").open("w") as file:
        app.PDBFile.writeFile(given.topology, 10 * given.conformations[0], file, keepIds=True)
    config, target = own_config("peptide", temperature=400.0, changes=[])
    assert config.name == "peptide" and target.dim == 63
    assert config.settings.network.num_particles == 22
    cold, x = own_config("peptide", changes=[])[1], jnp.asarray(target.init[0])
    assert float(cold.log_density(x)) == pytest.approx(float(target.log_density(x)) * 400 / 300, rel=1e-4)
    with pytest.raises(SettingsError, match="--dim is not for peptide, which is a folder of OpenMM"):
        own_config("peptide", dim=3, changes=[])
    (folder / "system.xml").write_text((folder / "system.xml").read_text() + "\n")
    with pytest.raises(RunFolderError, match="was changed since this run began"):
        target_of(config)
