"""What the library refuses, by kind. Every message says what was given, what is allowed and what to do."""

import difflib
import importlib.util
from collections.abc import Iterable

__all__ = [
    "BudgetError",
    "DensityError",
    "RunFolderError",
    "SettingsError",
    "TemperingError",
    "first_line",
    "install_command",
    "interval_fault",
    "nearest",
    "require_extra",
    "what_is",
    "with_article",
]


class TemperingError(ValueError):
    """The base class of the library's errors. It is a `ValueError`, so that `except ValueError` catches it too."""


class SettingsError(TemperingError):
    """A setting, ladder, preset or argument is not allowed, or it needs a package that is not installed."""


class DensityError(TemperingError):
    """The density returns something wrong, raises, has no gradient, or is finite nowhere."""


class BudgetError(TemperingError):
    """A plan or a stage would spend more evaluations than the budget allows."""


class RunFolderError(TemperingError):
    """A run folder is in use or damaged, or it belongs to something else or to another configuration."""


def first_line(error: Exception) -> str:
    """The start of what an exception says, short enough to be part of another message."""
    return (str(error).strip().splitlines() or ["no message"])[0][:200]


def nearest(word: str, known: Iterable[str]) -> str:
    """` (did you mean …?)`, or nothing where no known word is like it."""
    near = difflib.get_close_matches(word, list(known), n=1)
    return f" (did you mean {near[0]}?)" if near else ""


_COMMON = {
    "NoneType": "None",
    "str": "a string",
    "function": "a function",
    "builtin_function_or_method": "a function",
    "PjitFunction": "a compiled function",
    "type": "a class",
    "module": "a module",
    "ndarray": "a NumPy array",
    "ArrayImpl": "a JAX array",
}
"""Types whose own names are not what a user calls them."""


def with_article(name: str) -> str:
    """A name after its article: `a dict`, `an int`, `a Uniform` (which begins with the sound of *you*)."""
    sounds_like_you = name.lower().startswith(("uni", "use", "eu", "uin"))
    return f"{'an' if name[:1].lower() in 'aeiou' and not sounds_like_you else 'a'} {name}"


def what_is(value: object) -> str:
    """What somebody gave, by its type, as a sentence names it: `an int`, `a string`, `None`.

    >>> f"fn is {what_is(3)}"
    'fn is an int'
    """
    name = type(value).__name__
    return _COMMON.get(name) or with_article(name)


def interval_fault(is_ordered: bool) -> str:
    """Why the two ends of an interval are refused."""
    if not is_ordered:
        return "low must be less than high"
    return "single precision cannot tell the ends apart, or cannot hold their difference; take another unit"


EXTRAS = {
    "matplotlib": ("Matplotlib", "plots", ""),
    "jinja2": ("Jinja", "plots", ""),
    "ot": ("POT", "metrics", ""),
    "openmm": ("OpenMM", "molecules", "take a molecule exported before: tempering.molecules.load_molecule"),
    "mdtraj": ("MDTraj", "molecules", "write a .pdb file"),
    "numpyro": ("NumPyro", "numpyro", ""),
    "pymc": ("PyMC", "pymc", ""),
    "bridgestan": ("BridgeStan", "stan", "hand over a compiled bridgestan.StanModel"),
    "torch": ("PyTorch", "torch", ""),
    "pyarrow": ("pyarrow", "io", "write an .npz file"),
    "arviz": ("ArviZ", "arviz", "write an .npz file"),
    "h5netcdf": ("h5netcdf", "arviz", "write an .npz file"),
}
"""Optional packages, by the name they are imported under: their own name, the extra that installs them, and what works
without them."""


def install_command(extra: str) -> str:
    """What installs an extra, from an index and from a clone."""
    return f"pip install 'tempering[{extra}]' (in a clone: pip install '.[{extra}]')"


def require_extra(package: str, purpose: str) -> None:
    """Refuse to go on without an optional package; to be called where it is about to be imported.

    Args:
        package: a name in `EXTRAS`.
        purpose: what needs it, in the plural, such as "figures".

    Raises:
        SettingsError: with the command that installs the package.
    """
    if importlib.util.find_spec(package) is None:
        name, extra, instead = EXTRAS[package]
        remedies = " or ".join(filter(None, [install_command(extra), instead]))
        raise SettingsError(f"{purpose} need {name}, which is not installed: {remedies}")
