"""What XLA compiles inside a block: for tests that a program is used again."""

from collections.abc import Iterator
from contextlib import contextmanager

import jax.monitoring

__all__ = ["compilations"]

_EVENT = "/jax/core/compile/backend_compile_duration"
_OPEN: list[list[str]] = []


def _note(event: str, duration_secs: float, **_: object) -> None:
    del duration_secs
    if event == _EVENT:
        for made in _OPEN:
            made.append(event)


jax.monitoring.register_event_duration_secs_listener(_note)  # there is no way to take a listener back


@contextmanager
def compilations() -> Iterator[list[str]]:
    """A list with an entry for every program that was compiled, or read from a cache, inside the block."""
    made: list[str] = []
    _OPEN.append(made)
    try:
        yield made
    finally:
        _OPEN[:] = [other for other in _OPEN if other is not made]
