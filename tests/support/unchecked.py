"""The package as users run it: without the checks of types that `conftest.py` adds to every call.

Under those checks a wrong type never reaches the refusal that is to be tested.
"""

from collections.abc import Iterator
from contextlib import contextmanager

import jaxtyping

__all__ = ["unchecked"]


@contextmanager
def unchecked() -> Iterator[None]:
    """No checks of annotations inside."""
    before = jaxtyping.config.jaxtyping_disable
    jaxtyping.config.update("jaxtyping_disable", True)
    try:
        yield
    finally:
        jaxtyping.config.update("jaxtyping_disable", before)
