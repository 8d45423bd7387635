"""How every test runs: JAX on the CPU, strict promotion, checked shapes and types, the canary first.

Nothing may import `tempering` before this file: the hook below only sees modules that are imported after it.
"""

import gc
import hashlib
import os
import runpy
from pathlib import Path

# Before JAX is imported. `JAX_PLATFORMS=cuda make test` still runs the suite on an accelerator.
os.environ.setdefault("JAX_PLATFORMS", "cpu")
os.environ.setdefault("MPLBACKEND", "Agg")
os.environ.setdefault("TEMPERING_CACHE", "off")  # tests leave no trace in the user's folders
# A test process has one core: threads of NumPy's products would wait for each other.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
# XLA logs kilobytes of false alarm for each executable that comes from the cache below: it takes its own tuning hints
# (prefer-no-gather) for features of the processor.
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
# What `import tempering` sets where this JAX needs it; the canary runs before the package is imported.
_GUARD = runpy.run_path(str(Path(__file__).parent.parent / "src" / "tempering" / "_compat.py"))
_GUARD["guard"]()

import hypothesis
import jax
import pytest
from jaxtyping import install_import_hook

from support import canary_first
from support.canary_first import pytest_collection_modifyitems
from support.compilation import compile_all_quickly
from support.groups import pytest_xdist_make_scheduler
from support.memory import little_memory

__all__ = ["little_memory", "pytest_collection_modifyitems", "pytest_configure", "pytest_xdist_make_scheduler"]


def pytest_configure(config: pytest.Config) -> None:
    """Compile quickly, but not where the canary is asked for alone, which judges programs as users compile them.

    Nor where slow tests are asked for, which spend their time running.
    """
    canary_first.pytest_configure(config)
    if config.option.markexpr == "not slow" and not canary_first.is_alone(config.args):
        compile_all_quickly()


# As `tempering._compat` does for a fit: tracing makes many objects, and looking through them costs time.
gc.set_threshold(100_000, 50, 100)

# A silent broadcast or a silent cast is a bug that still returns numbers.
jax.config.update("jax_numpy_rank_promotion", "raise")
jax.config.update("jax_numpy_dtype_promotion", "strict")


def _cache_folder() -> Path:
    """Where compiled functions stay between runs; a second run spends about a third less time.

    One folder for each kind of processor, because machine code that has moved to another may crash there; one for each
    xdist worker, because JAX writes entries in place, without a lock or a rename.
    """
    cpuinfo = Path("/proc/cpuinfo")
    flags = next((line for line in cpuinfo.open() if line.startswith("flags")), "") if cpuinfo.exists() else ""
    processor = hashlib.sha256(flags.encode()).hexdigest()[:8]
    return Path(__file__).parent.parent / ".cache" / "jax" / processor / os.environ.get("PYTEST_XDIST_WORKER", "main")


jax.config.update("jax_compilation_cache_dir", str(_cache_folder()))
jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.2)

# Every jaxtyping annotation of the package becomes a check of shape, dtype and type at each call.
install_import_hook("tempering", "beartype.beartype")


# Compilation makes the first example slow, which is no failure; the same examples every time, so that none is lucky.
hypothesis.settings.register_profile("tempering", deadline=None, derandomize=True, max_examples=25)
hypothesis.settings.load_profile("tempering")
