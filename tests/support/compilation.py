"""How long XLA may think about a program: less in the fast suite than for users.

A test of the fast suite spends its time on compiling programs that then run for milliseconds. Where a test runs longer
than it compiles, `optimised` gives it the programs that users get.
"""

import os
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import jax
from jax._src.interpreters import mlir

__all__ = ["QUICK", "compile_all_quickly", "optimised", "quick_compilation", "share_contexts"]

QUICK = {
    "jax_disable_most_optimizations": True,  # results differ by rounding only
    "jax_persistent_cache_enable_xla_caches": "none",  # else the cache's path is part of its keys
}

# XLA's fusion emitters take a third of the time to compile. Parting a module into several, which LLVM then compiles
# in threads, costs unoptimised programs more than all else.
_FLAGS = {"--xla_cpu_use_fusion_emitters": "false", "--xla_cpu_parallel_codegen_split_count": "1"}


@contextmanager
def _configured(values: dict[str, Any]) -> Iterator[None]:
    before = {name: jax.config.values[name] for name in values}
    for name, value in values.items():
        jax.config.update(name, value)
    try:
        yield
    finally:
        for name, value in before.items():
            jax.config.update(name, value)


def quick_compilation() -> AbstractContextManager[None]:
    """Compile quickly, to the same programs as the processes of `support.tiny.subprocess_environment`."""
    return _configured(QUICK)


def optimised() -> AbstractContextManager[None]:
    """Compile with care, where running is what takes time."""
    return _configured({"jax_disable_most_optimizations": False})


def compile_all_quickly() -> None:
    """Compile quickly from here on. XLA reads the flags when the first array is made.

    The flags are set only for the JAX that knows them, because one that XLA does not know ends the process.
    """
    for name, value in QUICK.items():
        jax.config.update(name, value)
    flags = os.environ.get("XLA_FLAGS", "")
    new = [f"{name}={value}" for name, value in _FLAGS.items() if name not in flags]
    if jax.__version_info__[:2] == (0, 10):
        os.environ["XLA_FLAGS"] = " ".join([flags, *new]).strip()
        share_contexts()


_MOST_SHARING = 64
"""Programs that are written in one context. It keeps their constants."""


def share_contexts() -> None:
    """Have programs share the context in which JAX writes them down, instead of one each, which takes 4 ms to make.

    Most programs of the fast suite are small: this is a tenth of what one costs, and a third of its memory. Each thread
    has contexts of its own. A JAX that makes them elsewhere is left as it is.
    """
    make = getattr(mlir, "make_ir_context", None)
    if make is None:
        return
    here = threading.local()

    def shared():
        num = getattr(here, "num", 0)
        if num % _MOST_SHARING == 0:
            here.context = make()
        here.num = num + 1
        return here.context

    mlir.make_ir_context = shared
