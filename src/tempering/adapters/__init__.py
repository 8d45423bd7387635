"""A user's density made into a target, checked before anything is spent."""

from tempering.adapters.fingerprint import fingerprint
from tempering.adapters.function import FunctionTarget, as_target

__all__ = ["FunctionTarget", "as_target", "fingerprint"]
