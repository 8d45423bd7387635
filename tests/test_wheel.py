"""The wheel, as somebody without the repository gets it: installed alone, imported and fitted with the core alone."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import tempering
from support.tiny import subprocess_environment
from tempering.errors import EXTRAS

ROOT = Path(__file__).parent.parent

PACKAGE = ROOT / "src" / "tempering"
OTHERS = sorted(path for path in PACKAGE.rglob("*.*") if path.is_file() and path.suffix not in (".py", ".pyc"))
FILES = [path.relative_to(PACKAGE).as_posix() for path in OTHERS]
"""What is in the package besides Python: data, the style of the report, the mark that it is typed."""

# Fits without a folder need no lock, and run where filelock is not installed.
NOT_CORE = (*EXTRAS, "filelock", "pandas", "xarray", "h5py", "beartype")

PROGRAM = f"""
import sys
from importlib.metadata import version
from pathlib import Path

for name in {NOT_CORE!r}:
    sys.modules[name] = None

import numpy as np
import tempering as tp
from tempering.registry import make_target

home = Path(tp.__file__).parent
assert home.parent == Path(sys.argv[1]), f"imported from {{home}}"
assert tp.__version__ == version("tempering") == {tempering.__version__!r}
assert [name for name in {FILES!r} if not (home / name).is_file()] == []
assert make_target("aldp").dim == 66

from support.tiny import tiny_ptsd

sampler = tp.fit(lambda x: -0.5 * ((x - 1.0) ** 2).sum(), 2, settings=tiny_ptsd(), progress=False)
draws, log_weights = sampler.sample_weighted(5)
assert draws.shape == (5, 2) and np.isfinite(log_weights).all()
sampler.save_draws(Path(sys.argv[2]) / "draws.npz", 5)
try:
    sampler.plot()
except tp.SettingsError as error:
    print(error)
"""


def _pip(*arguments: str | Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "pip", *map(str, arguments), "--quiet", "--disable-pip-version-check", "--no-deps"],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr


@pytest.fixture(scope="module")
def installed(tmp_path_factory) -> Path:
    """A folder with the package and nothing else, from a wheel that is built without a network."""
    place = tmp_path_factory.mktemp("wheel")
    _pip("wheel", "--no-build-isolation", "--wheel-dir", place / "dist", ROOT)
    (wheel,) = (place / "dist").glob("*.whl")
    assert wheel.name == f"tempering-{tempering.__version__}-py3-none-any.whl"
    _pip("install", "--target", place / "site", wheel)
    return place / "site"


def test_the_package_is_typed_and_has_data():
    assert {"py.typed", "molecules/data/aldp.npz"} <= set(FILES)


def test_the_core_alone_imports_and_fits(installed, tmp_path):
    environment = subprocess_environment(tmp_path / "cache")
    environment["PYTHONPATH"] = os.pathsep.join([str(installed), str(ROOT / "tests")])
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, installed, tmp_path],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    wanted = "pip install 'tempering[plots]' (in a clone: pip install '.[plots]')"
    assert done.stdout.strip() == f"figures need Matplotlib, which is not installed: {wanted}"
