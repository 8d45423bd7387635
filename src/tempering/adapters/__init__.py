"""A user's density made into a target, checked before anything is spent."""

from tempering.adapters.callback import CallbackTarget, from_callable, reporting
from tempering.adapters.fingerprint import fingerprint
from tempering.adapters.function import FunctionTarget, as_target
from tempering.adapters.pytorch import from_torch

__all__ = ["CallbackTarget", "FunctionTarget", "as_target", "fingerprint", "from_callable", "from_torch", "reporting"]
