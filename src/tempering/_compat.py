"""What Python and XLA must be asked for: right numbers on CPUs, quick compilation, seldom garbage collection.

jaxlib 0.9.2 to 0.10.2 miscompile `jit(vmap(row -> reduce(matrix @ row)))` for small matrices and more than 32,768 rows
(jax-ml/jax#39103 and its relatives, tests/test_00_canary.py). A flag switches off the pass at fault, and XLA reads it
once, when the first array is made. A user's density may be just such a function.
"""

import gc
import os
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import metadata

__all__ = ["FLAG", "collected_seldom", "guard"]

FLAG = "--xla_cpu_experimental_ynn_fusion_type="
_EMITTERS = "--xla_cpu_use_fusion_emitters="
"""Without them JAX 0.10 compiles a fit in three quarters of the time, and training steps are no slower."""

_THRESHOLDS = (100_000, 50, 100)
"""New objects before the youngest are looked at, and collections of one generation before one of the next."""


def guard() -> bool:
    """Switch the pass off where the installed JAX has it; true if the flag is in force or not needed.

    Warns where JAX already runs without the flag: then only the user can set it.
    """
    version = tuple(int(part) for part in metadata.version("jax").split(".")[:2])
    if version >= (0, 11):
        return True
    flags = os.environ.get("XLA_FLAGS", "")
    if FLAG.rstrip("=") in flags:
        return True
    if _has_started():
        warnings.warn(
            f"JAX {metadata.version('jax')} computes some matrix-vector reductions wrongly on CPU, and was started "
            f"before tempering could prevent it: import tempering first, or set XLA_FLAGS={FLAG}",
            RuntimeWarning,
            stacklevel=3,
        )
        return False
    # Only for the JAX that this is known of: a flag that XLA does not know ends the process.
    quick = f" {_EMITTERS}false" if version == (0, 10) and _EMITTERS not in flags else ""
    os.environ["XLA_FLAGS"] = f"{flags} {FLAG}{quick}".strip()
    return True


def _has_started() -> bool:
    if "jax" not in sys.modules:
        return False
    from jax._src import xla_bridge  # the only place that knows, and stable since 0.4

    started = getattr(xla_bridge, "backends_are_initialized", None)
    return bool(started()) if started is not None else False


@contextmanager
def collected_seldom() -> Iterator[None]:
    """Collect garbage less often inside; a caller's own choice of thresholds is put back, and a longer one kept.

    Tracing makes hundreds of thousands of small objects that live until a program is compiled, and by default the
    collector goes through all that live after every few thousand new ones. It took a quarter of tracing and lowering,
    with nothing found. Memory of arrays does not wait for it: references are counted as ever.
    """
    before = gc.get_threshold()
    if 0 < before[0] < _THRESHOLDS[0]:
        gc.set_threshold(*_THRESHOLDS)
    try:
        yield
    finally:
        gc.set_threshold(*before)
