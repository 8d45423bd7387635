"""A real Stan model as `bridgestan.StanModel` loads it, where BridgeStan's own sources cannot be downloaded.

The package httpstan brings Stan's headers and its compiler `stanc`; `stan_library.cpp` beside this file has the
functions that BridgeStan's Python side looks up. So a test needs
`pip install --no-deps httpstan`, the extra `stan` and g++.
"""

import importlib.util
import shutil
import subprocess
from pathlib import Path

import pytest

_MACROS = ("_REENTRANT", "BOOST_DISABLE_ASSERTS", "_GLIBCXX_USE_CXX11_ABI=0")
"""Those that httpstan compiles its own libraries with."""


def compiled_library(model: Path, folder: Path) -> Path:
    """The library of a .stan file, compiled into a folder in half a minute; skips a test where that is not possible."""
    bridgestan = pytest.importorskip("bridgestan", reason="BridgeStan is not installed: pip install 'tempering[stan]'")
    httpstan = importlib.util.find_spec("httpstan")
    if httpstan is None or httpstan.origin is None or shutil.which("g++") is None:
        pytest.skip("no Stan model can be compiled: g++ or `pip install --no-deps httpstan` is missing")
    stan = Path(httpstan.origin).parent
    stanc = shutil.copy(stan / "stanc", folder / "stanc")
    Path(stanc).chmod(0o755)
    code, library = folder / "model.cpp", folder / "model_model.so"
    subprocess.run([stanc, f"--o={code}", model], check=True, timeout=60)
    version = bridgestan.__version__.split(".")
    versions = [f"BRIDGESTAN_{part}={n}" for part, n in zip(("MAJOR", "MINOR", "PATCH"), version, strict=True)]
    command = ["g++", "-std=c++17", "-O1", "-w", "-fPIC", "-shared", *(f"-D{macro}" for macro in (*_MACROS, *versions))]
    command += [f"-I{stan / 'include'}", str(code), str(Path(__file__).with_name("stan_library.cpp"))]
    command += [f"-L{stan / 'lib'}", "-ltbb", f"-Wl,-rpath,{stan / 'lib'}", "-o", str(library)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr[-2000:]
    return library
