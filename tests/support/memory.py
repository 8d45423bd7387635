"""Pytest plugin: a process forgets compiled programs before it runs out of memory, or of memory maps.

XLA takes several maps for every program it holds. Linux allows a process 65,530, and beyond them lies a segmentation
fault; a worker that runs half of this suite compiles more than that allows. What is forgotten is compiled again, so
that this is the last resort.
"""

import ctypes
import gc
import os
from pathlib import Path

import jax
import pytest

__all__ = ["give_back_freed", "little_memory", "resident"]

_MOST_MAPS, _MOST_BYTES = 55_000, 6 * 2**30
_MAPS, _MEMORY = Path("/proc/self/maps"), Path("/proc/self/statm")


def resident() -> int:
    """Bytes of memory that this process holds."""
    return int(_MEMORY.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def give_back_freed() -> None:
    """Hand freed memory back to the system. The C library keeps it: a process once full would seem full for ever."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)


@pytest.fixture(scope="module", autouse=True)
def little_memory():
    """After a file: give back what is freed, and forget all programs where that is not enough."""
    yield
    if not _MAPS.exists():
        return
    if resident() > _MOST_BYTES:
        give_back_freed()
    with _MAPS.open() as maps:
        num_maps = sum(1 for _ in maps)
    if resident() > _MOST_BYTES or num_maps > _MOST_MAPS:
        jax.clear_caches()
        gc.collect()
        give_back_freed()
