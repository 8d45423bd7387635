"""`import tempering` loads names on first use: what is public, where it lives, and what needs no JAX."""

import subprocess
import sys
from pathlib import Path

import pytest

import tempering as tp
from support.tiny import COMMAND, subprocess_environment

SOURCE = Path(tp.__file__).parent


def _loaded(statement: str) -> set[str]:
    """Which of the heavy packages a fresh interpreter has after a statement."""
    program = f"import sys\ntry:\n    {statement}\nexcept SystemExit:\n    pass\n"
    program += "print(*{'jax', 'scipy', 'equinox', 'numpy'} & set(sys.modules), file=sys.stderr)"
    run = subprocess.run(
        [sys.executable, "-c", program], env=subprocess_environment("."), capture_output=True, text=True, timeout=60
    )
    assert run.returncode == 0, run.stderr
    return set(run.stderr.splitlines()[-1].split())


def test_every_public_name_has_a_home():
    assert sorted(tp._HOME_OF) == sorted(tp.__all__)
    for name in tp.__all__:
        assert getattr(tp, name) is not None
    assert tp.fit is tp.api.fit and tp.molecules.load_molecule


def test_completion_shows_public_names_alone():
    assert dir(tp) == sorted([*tp.__all__, "__version__"])


@pytest.mark.parametrize("name", ["nonsense", "_nonsense", "atlas_of_nowhere"])
def test_a_name_that_is_not_there_is_an_attribute_error(name):
    with pytest.raises(AttributeError, match=f"no attribute '{name}'"):
        getattr(tp, name)


def test_importing_loads_nothing_heavy_until_it_is_used():
    assert not _loaded("import tempering")
    assert "jax" in _loaded("import tempering; tempering.fit"), "the test would see it"


@pytest.mark.parametrize(
    "arguments",
    [
        ["--help"],
        ["--version"],
        ["list", "--all"],
        ["completion", "bash"],
        ["rnu"],
        ["run", "--help"],
        ["run", "mog4", "--out", "x"],
        ["run", "nowhere.py:f"],
        ["run", "mog40", "--set", "training.num_step=5"],
        ["watch", "nowhere"],
    ],
    ids=" ".join,
)
def test_what_computes_nothing_loads_no_jax(arguments):
    assert "jax" not in _loaded(f"from tempering.cli import main; main({arguments!r})")


def test_a_command_says_its_version_as_a_process():
    done = subprocess.run(
        [*COMMAND, "--version"], env=subprocess_environment("."), capture_output=True, text=True, timeout=60
    )
    assert (done.returncode, done.stdout) == (0, f"tempering {tp.__version__}\n")
