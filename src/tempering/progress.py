"""Placeholder while the live display is being written."""
import contextlib
from tempering.types import ignore_event
@contextlib.contextmanager
def choose_display(quiet=False, stream=None):
    yield ignore_event
