"""Python's garbage collector, called less often while programs are traced.

Tracing makes hundreds of thousands of small objects that live until a program is compiled, and by default the collector
goes through all that live after every few thousand new ones. It took a quarter of tracing and lowering, with nothing
found. Memory of arrays does not wait for it: references are counted as ever.
"""

import gc
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["collected_seldom"]

_THRESHOLDS = (100_000, 50, 100)
"""New objects before the youngest are looked at, and collections of one generation before one of the next."""


@contextmanager
def collected_seldom() -> Iterator[None]:
    """Collect less often inside; a caller's own choice of thresholds is put back, and a longer one kept."""
    before = gc.get_threshold()
    if 0 < before[0] < _THRESHOLDS[0]:
        gc.set_threshold(*_THRESHOLDS)
    try:
        yield
    finally:
        gc.set_threshold(*before)
