"""A user's own model found on disk: `file.py:name`, `module:name`, a .stan file, a folder of OpenMM.

Consumes what was typed; produces the place with checksums, and the thing that the file defines. A file of Python is run
as a program of its own would be: its folder comes first among those that it imports from.
"""

import hashlib
import importlib
import importlib.util
import sys
import traceback
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from tempering.errors import EXTRAS, SettingsError, TemperingError, first_line, install_command, nearest

__all__ = ["OPENMM_FILES", "Source", "checksum", "is_model", "located", "read_model"]

OPENMM_FILES = ("system.xml", "topology.pdb")
"""What a folder of OpenMM must hold: the serialized System, and its topology with positions."""
_USUAL = ("target", "log_density", "log_likelihood", "model")
"""Names that are looked for where none is given, in this order."""


@dataclass(frozen=True)
class Source:
    """Where a model is.

    Args:
        given: as it was typed.
        path: the file, or the folder of OpenMM.
        name: of what the file defines, as `a` or `a.b`; empty where there is no choice.
        module: the name to import by, where a module was given in place of a file.
    """

    given: str
    path: Path
    name: str = ""
    module: str = ""

    @property
    def files(self) -> tuple[Path, ...]:
        """What a change of which makes another model."""
        return tuple(self.path / name for name in OPENMM_FILES) if self.path.suffix not in _SUFFIXES else (self.path,)


_SUFFIXES = (".py", ".stan")


def is_model(text: str) -> bool:
    """Whether this is meant as a model of one's own rather than as the name of a preset."""
    return ":" in text or "/" in text or "\\" in text or text.endswith(_SUFFIXES) or Path(text).is_dir()


def located(given: str) -> Source:
    """Where the model is; nothing is run.

    Raises:
        SettingsError: if there is no such file, module or folder.
    """
    left, colon, name = given.rpartition(":")
    if not colon or "/" in name or "\\" in name:  # a colon may be that of a drive
        left, name = given, ""
    path = Path(left)
    try:
        if path.is_dir():
            return _folder(given, path)
        if left.endswith(_SUFFIXES) or "/" in left or "\\" in left:
            if not path.is_file():
                beside = [each.name for each in path.parent.glob("*.py")] if path.parent.is_dir() else []
                raise SettingsError(f"{left} is not a file{nearest(path.name, beside)}; give the path of your model")
            if not left.endswith(_SUFFIXES):
                raise SettingsError(f"{left} is neither Python (.py) nor Stan (.stan); give such a file, as in {_HOW}")
            return Source(given, path.resolve(), name)
    except SettingsError:
        raise
    except (OSError, ValueError) as error:  # a name that no disk can have
        raise SettingsError(f"{given!r} is not a path: {first_line(error)}; give your model as in {_HOW}") from error
    return Source(given, _module_file(left), name, left)


_HOW = "my_model.py:log_density"


def _folder(given: str, path: Path) -> Source:
    if (path / "config.json").exists():
        raise SettingsError(f"{path} is the folder of a run; `tempering resume {path}` goes on with it")
    missing = [name for name in OPENMM_FILES if not (path / name).is_file()]
    if missing:
        raise SettingsError(
            f"{path} is a folder without {' and '.join(missing)}; a system of OpenMM is a folder with system.xml "
            f"(openmm.XmlSerializer) and topology.pdb; a model in Python is given as {_HOW}"
        )
    return Source(given, path.resolve())


def _module_file(name: str) -> Path:
    _come_first(Path.cwd())
    try:
        found = importlib.util.find_spec(name) if all(part.isidentifier() for part in name.split(".")) else None
    except Exception as error:  # of a package on the way, which is imported
        raise SettingsError(
            f"the package of {name} cannot be imported: {type(error).__name__}: {first_line(error)}; fix it, or "
            f"give the file, as in {_HOW}"
        ) from error
    if found is None or found.origin is None or not Path(found.origin).is_file():
        raise SettingsError(f"there is no module {name!r}; give a file, as in {_HOW}, or install the module")
    return Path(found.origin).resolve()


def checksum(files: tuple[Path, ...]) -> str:
    """Of the bytes of files.

    Raises:
        SettingsError: if one is missing.
    """
    digest = hashlib.sha256()
    for file in files:
        try:
            digest.update(file.read_bytes())
        except OSError as error:
            raise SettingsError(f"{file} cannot be read: {error.strerror}; put it back where it was") from error
    return digest.hexdigest()


def read_model(source: Source) -> tuple[Any, dict[str, Any], str]:
    """What the file defines under the name, everything that it defines, and the name.

    Raises:
        SettingsError: if the file raises, needs a package that is missing, or has no such name.
    """
    module = _run(source)
    names = vars(module)
    own = [name for name, value in names.items() if not name.startswith("_") and not isinstance(value, ModuleType)]
    name = source.name or next((name for name in _USUAL if name in names), "")
    if not name:
        raise SettingsError(
            f"{source.given} does not say which model: add its name, as in {source.given}:log_density; the file "
            f"defines {', '.join(own) or 'nothing'}"
        )
    value: Any = module
    for part in name.split("."):
        if not hasattr(value, part):
            raise SettingsError(
                f"{source.path.name} has no {name!r}{nearest(part, own)}; it defines {', '.join(own) or 'nothing'}"
            )
        value = getattr(value, part)
    return value, names, name


def _come_first(folder: Path) -> None:
    """Let imports look in the folder first."""
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))


def _run(source: Source) -> ModuleType:
    if not source.module:
        _come_first(source.path.parent)
    try:
        if source.module:
            _come_first(Path.cwd())
            return importlib.import_module(source.module)
        stem = source.path.stem
        # Under its own name, so that worker processes find its functions; unless something else has that name.
        is_taken = importlib.util.find_spec(stem) is not None and not _is_same(stem, source.path)
        spec = importlib.util.spec_from_file_location(f"model_{stem}" if is_taken else stem, source.path)
        assert spec is not None and spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[spec.name] = module
        spec.loader.exec_module(module)
        return module
    except TemperingError as error:
        raise SettingsError(f"{source.path.name}{_line(error, source)}: {error}") from error
    except ModuleNotFoundError as error:
        raise SettingsError(_without(error, source)) from error
    except SyntaxError as error:
        raise SettingsError(
            f"{source.path.name} is not Python in line {error.lineno}: {error.msg}; fix it, and try `python "
            f"{source.path.name}`"
        ) from error
    except SystemExit as error:
        raise SettingsError(
            f"{source.path.name} ends the program{_line(error, source)}; put what it does as a script below "
            '`if __name__ == "__main__":`'
        ) from error
    except Exception as error:
        raise SettingsError(
            f"{source.path.name} raised {type(error).__name__}{_line(error, source)}: {first_line(error)}; fix it, "
            f"and try `python {source.path.name}`"
        ) from error


def _is_same(stem: str, path: Path) -> bool:
    found = importlib.util.find_spec(stem)
    return found is not None and found.origin is not None and Path(found.origin).resolve() == path


def _line(error: BaseException, source: Source) -> str:
    """` in line N` of the model's own file, the last one that the error passed."""
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == str(source.path)]
    return f" in line {lines[-1]}" if lines else ""


def _without(error: ModuleNotFoundError, source: Source) -> str:
    package = (error.name or "").split(".")[0]
    known = EXTRAS.get(package)
    remedy = install_command(known[1]) if known else f"pip install {package}, if that is its name"
    title = known[0] if known else package
    return f"{source.path.name}{_line(error, source)} needs {title}, which is not installed: {remedy}"
