"""The house rules that no reader should have to enforce: who may import whom, what is lazy, what is never used.

Each rule is a function over syntax trees (`support.source_rules`) and comes with a source text that it must flag.
"""

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

from support.source_rules import eager_imports, module_name, numerics_inside, pickle_use, unix_only, upward_imports
from tempering.errors import EXTRAS

SOURCE = Path(__file__).parent.parent / "src"

# The rooms from the ground up; docs/decisions/0012-house.md draws the plan. A room imports only itself and rooms before
# it. Files on the ground floor are words that everybody uses; `__init__` is the front door, `tempering/__init__.py`:
# it may import anything, and whoever writes `import tempering` comes after it.
ROOMS = (
    *("_compat", "errors", "types", "numerics", "compilation", "devices"),
    "settings",
    "runs",
    "transforms",
    "priors",
    "targets",
    "host",
    "adapters",
    "molecules",
    "registry",
    "kernels",
    "parallel_tempering",
    "buffer",
    "diffusion",
    "weights",
    "atlas",
    "shape",
    "guidance",
    "refinement",
    "plots",
    "sampler",
    "baselines",
    "methods",
    *("api", "__init__"),
    "lab",
    *("cli", "__main__"),
)

# Slow to import, or not installed everywhere. JAX itself takes filelock where there is one.
LAZY = (*EXTRAS, "filelock")

IMPORT_LIMIT_SECONDS = 2.0

MODULES = sorted(SOURCE.rglob("*.py"))


def _parsed(path: Path) -> tuple[ast.Module, str]:
    return ast.parse(path.read_text(), str(path)), module_name(path, SOURCE)


def _complaints(rule, *args) -> list[str]:
    return [complaint for path in MODULES for complaint in rule(*_parsed(path), *args)]


def test_there_is_something_to_check():
    assert {module_name(path, SOURCE) for path in MODULES} >= {"tempering.types", "tempering.runs.ledger"}
    assert len(set(ROOMS)) == len(ROOMS)


def test_no_file_passes_four_hundred_lines():
    """Past that a room is missing (CONTRIBUTING.md)."""
    long = {path.name: num for path in MODULES if (num := len(path.read_text(encoding="utf-8").splitlines())) > 400}
    assert not long


def test_imports_go_down_the_rooms_only():
    assert not _complaints(upward_imports, ROOMS)


@pytest.mark.parametrize(
    ("module", "text", "message"),
    [
        ("tempering.runs.ledger", "from tempering.sampler import Sampler", "'sampler' comes after 'runs'"),
        ("tempering.runs.ledger", "def late():\n    import tempering.cli", "'cli' comes after 'runs'"),
        ("tempering.targets.base", "from ..lab import metrics", "'lab' comes after 'targets'"),
        ("tempering.targets.__init__", "from ..kernels import mala", "'kernels' comes after 'targets'"),
        ("tempering.runs.ledger", "from tempering.methods import ptsd", "'methods' comes after 'runs'"),
        ("tempering.sampler.load", "from tempering import fit", "'__init__' comes after 'sampler'"),
        ("tempering.sampler.load", "import tempering", "'__init__' comes after 'sampler'"),
        ("tempering.attic", "import math", "add 'attic' to ROOMS in tests/test_architecture.py"),
    ],
)
def test_an_upward_import_is_flagged(module, text, message):
    (complaint,) = upward_imports(ast.parse(text), module, ROOMS)
    assert message in complaint


@pytest.mark.parametrize(
    ("module", "text"),
    [
        ("tempering.sampler", "from tempering.runs.ledger import Ledger\nimport jax.numpy as jnp"),
        ("tempering.targets.base", "from .gaussian import Gaussian\nfrom tempering import numerics"),
        ("tempering.__init__", "from tempering.cli import main"),
        ("tempering.cli", "import tempering\nfrom tempering import fit"),
    ],
)
def test_a_downward_import_is_not_flagged(module, text):
    assert not upward_imports(ast.parse(text), module, ROOMS)


def test_the_progressive_loop_holds_no_numerics():
    for name in ("ptsd", "pt_dm"):
        assert not numerics_inside(*_parsed(SOURCE / "tempering" / "methods" / f"{name}.py"))


@pytest.mark.parametrize(
    "text",
    [
        "import numpy as np",
        "import jax.numpy as jnp",
        "from jax import lax",
        "from jax.numpy import sum",
        "def f(x):\n    from scipy.special import logsumexp",
        "import jax\n\ndef f(x):\n    return jax.lax.scan(x)",
    ],
)
def test_numerics_in_the_loop_are_flagged(text):
    assert numerics_inside(ast.parse(text), "tempering.methods.ptsd")


def test_keys_are_no_numerics():
    assert not numerics_inside(ast.parse("import jax\nkey = jax.random.fold_in(key, 1)"), "tempering.methods.ptsd")


def test_nothing_is_pickled():
    assert not _complaints(pickle_use)


@pytest.mark.parametrize(
    "text", ["import pickle", "def f():\n    from cloudpickle import dumps", "np.load(file, allow_pickle=True)"]
)
def test_pickle_is_flagged(text):
    assert pickle_use(ast.parse(text), "tempering.runs.storage")
    assert not pickle_use(ast.parse("np.load(file, allow_pickle=False)"), "tempering.runs.storage")


def test_nothing_needs_unix():
    assert not _complaints(unix_only)


@pytest.mark.parametrize(
    "text", ["import fcntl", "def lock(file):\n    from fcntl import flock", "import resource as r"]
)
def test_a_module_that_windows_lacks_is_flagged(text):
    assert unix_only(ast.parse(text), "tempering.runs.folder")
    assert not unix_only(ast.parse("import filelock"), "tempering.runs.folder")


def _imported_without_fcntl(statement: str) -> subprocess.CompletedProcess:
    program = f"import sys; sys.modules['fcntl'] = None; {statement}"
    environment = {**os.environ, "PYTHONPATH": str(SOURCE)}
    return subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, timeout=120)


def test_the_package_imports_where_there_is_no_fcntl():
    done = _imported_without_fcntl("import tempering, tempering.cli, tempering.runs.folder, tempering.lab.run")
    assert done.returncode == 0, done.stderr
    assert "ModuleNotFoundError" in _imported_without_fcntl("import fcntl").stderr, "the test hides nothing"


def test_heavy_packages_are_imported_where_they_are_used():
    assert not _complaints(eager_imports, LAZY)


@pytest.mark.parametrize(
    "text",
    [
        "import ot",
        "import matplotlib.pyplot as plt",
        "try:\n    from openmm import app\nexcept ImportError:\n    app = None",
        "class Figure:\n    import matplotlib",
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    pass\nelse:\n    import arviz",
    ],
)
def test_an_eager_import_is_flagged(text):
    assert len(eager_imports(ast.parse(text), "tempering.lab.metrics.distances", LAZY)) == 1


@pytest.mark.parametrize(
    "text",
    [
        "def f():\n    import ot",
        "class Figure:\n    def draw(self):\n        import matplotlib.pyplot",
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import arviz",
        "import other",
    ],
)
def test_a_lazy_import_is_not_flagged(text):
    assert not eager_imports(ast.parse(text), "tempering.lab.metrics.distances", LAZY)


def _time_import(statement: str) -> tuple[float, set[str]]:
    """Processor seconds that `statement` takes in a fresh interpreter, and which optional packages it brought in.

    Processor time, because the clock on the wall also counts the tests that run beside this one.
    """
    program = (
        f"import sys, time; start = time.process_time(); {statement}; seconds = time.process_time() - start; "
        f"print(seconds, *sorted(set({tuple(EXTRAS)!r}) & set(sys.modules)))"
    )
    environment = {**os.environ, "PYTHONPATH": str(SOURCE)}
    run = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, timeout=120)
    assert run.returncode == 0, run.stderr
    seconds, *loaded = run.stdout.split()
    return float(seconds), set(loaded)


def test_the_package_imports_quickly_and_lightly():
    # The one bound on time in the suite: a slow import is a defect of structure. Best of three, for a busy machine.
    timings = []
    for _ in range(3):
        seconds, loaded = _time_import("import tempering")
        assert not loaded, f"`import tempering` brings in {', '.join(sorted(loaded))}"
        timings.append(seconds)
        if seconds < IMPORT_LIMIT_SECONDS:
            break
    assert min(timings) < IMPORT_LIMIT_SECONDS, f"`import tempering` took {min(timings):.2f} s at best, of {timings}"


def test_a_heavy_import_would_be_seen():
    _, loaded = _time_import("import matplotlib")
    assert loaded == {"matplotlib"}
