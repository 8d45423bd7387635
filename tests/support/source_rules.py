"""The rules of the architecture as functions from a syntax tree to a list of complaints. Nothing is imported or run."""

import ast
from collections.abc import Iterable, Iterator
from pathlib import Path

__all__ = [
    "eager_imports",
    "imported_modules",
    "message_texts",
    "module_name",
    "numerics_inside",
    "pickle_use",
    "unix_only",
    "upward_imports",
]

_PICKLERS = {"pickle", "_pickle", "cPickle", "dill", "cloudpickle", "joblib", "shelve", "marshal"}
_UNIX = {"fcntl", "grp", "posix", "pty", "pwd", "resource", "syslog", "termios", "tty"}
_NUMERICS = ("jax.numpy", "jax.lax", "jax.nn", "jax.scipy", "numpy", "scipy")


def upward_imports(tree: ast.Module, module: str, rooms: tuple[str, ...], package: str = "tempering") -> list[str]:
    """Imports of a later room from `module` (dotted, e.g. `tempering.runs.ledger`); public names live in `__init__`."""
    room = _room_of(module, package)
    if room == "__init__":
        return []  # the front door may import anything
    if room not in rooms:
        return [f"{module} is in no room: add {room!r} to ROOMS in tests/test_architecture.py, after all it imports"]
    complaints = []
    for imported, line in imported_modules(ast.walk(tree), module):
        if imported.split(".")[0] != package:
            continue
        other = _room_of(imported, package)
        other = other if other in rooms else "__init__"
        if rooms.index(other) > rooms.index(room):
            complaints.append(f"{module}:{line} imports {imported}, but {other!r} comes after {room!r} in ROOMS")
    return complaints


def numerics_inside(tree: ast.Module, module: str) -> list[str]:
    """Arithmetic on arrays: imports of a numerical module, or `jax.numpy`, `jax.lax`, ... reached through `jax`."""
    found = [(name, line) for name, line in imported_modules(ast.walk(tree), module) if _is_within(name, _NUMERICS)]
    found += [
        (f"jax.{node.attr}", node.lineno)
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "jax"
        if _is_within(f"jax.{node.attr}", _NUMERICS)
    ]
    return [f"{module}:{line} uses {name}: numerics belong in the room of their stage" for name, line in found]


def pickle_use(tree: ast.Module, module: str) -> list[str]:
    """Imports of pickle and its kin, and `allow_pickle` that is not plainly False: a file must never run code."""
    complaints = [
        f"{module}:{line} imports {name}: write arrays and JSON instead"
        for name, line in imported_modules(ast.walk(tree), module)
        if name.split(".")[0] in _PICKLERS
    ]
    for node in ast.walk(tree):
        if isinstance(node, ast.keyword) and node.arg == "allow_pickle":
            if not (isinstance(node.value, ast.Constant) and node.value.value is False):
                complaints.append(f"{module}:{node.value.lineno} passes allow_pickle: a file could run code")
    return complaints


def unix_only(tree: ast.Module, module: str) -> list[str]:
    """Imports of modules of the standard library that Windows does not have."""
    return [
        f"{module}:{line} imports {name}, which Windows does not have"
        for name, line in imported_modules(ast.walk(tree), module)
        if name.split(".")[0] in _UNIX
    ]


def eager_imports(tree: ast.Module, module: str, lazy: tuple[str, ...]) -> list[str]:
    """Imports of the packages `lazy` that run when the module is imported, rather than inside a function."""
    return [
        f"{module}:{line} imports {name} when it is imported itself: do it inside the function that needs it"
        for name, line in imported_modules(_nodes_at_import(tree), module)
        if _is_within(name, lazy)
    ]


def imported_modules(nodes: Iterable[ast.AST], module: str) -> Iterator[tuple[str, int]]:
    """Every imported name, dotted and absolute, with its line; `from a import b` counts as `a.b`.

    Args:
        nodes: where to look, e.g. `ast.walk(tree)`.
        module: the dotted name of the module it is; a package's own file ends in `.__init__`.
    """
    for node in nodes:
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield alias.name, node.lineno
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                base = ".".join([*module.split(".")[: -node.level], *([base] if base else [])])
            for alias in node.names:
                yield f"{base}.{alias.name}", node.lineno


def message_texts(tree: ast.Module, gap: str) -> Iterator[tuple[int, str]]:
    """Texts of three words or more with their lines: no docstrings or annotations; `gap` for what an f-string adds."""
    skipped = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            skipped.add(id(node.value))
        hidden = [getattr(node, name, None) for name in ("annotation", "returns")]
        hidden += [*node.values] if isinstance(node, ast.JoinedStr) else []
        hidden += [node.slice] if isinstance(node, ast.Subscript) else []
        skipped |= {id(inner) for each in hidden if each is not None for inner in ast.walk(each)}
    for node in ast.walk(tree):
        if id(node) in skipped:
            continue
        if isinstance(node, ast.JoinedStr):
            parts = [str(part.value) if isinstance(part, ast.Constant) else gap for part in node.values]
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            parts = [node.value]
        else:
            continue
        if len("".join(parts).split()) >= 3:
            yield node.lineno, "".join(parts)


def module_name(path: Path, source: Path) -> str:
    """`src/tempering/targets/base.py` is `tempering.targets.base`; a package's own file keeps its `__init__`."""
    return ".".join(path.relative_to(source).with_suffix("").parts)


def _room_of(name: str, package: str) -> str:
    """The part after the package's name; `__init__` for the package itself."""
    return name.removeprefix(package).removeprefix(".").split(".")[0] or "__init__"


def _is_within(name: str, packages: tuple[str, ...]) -> bool:
    return any(name == package or name.startswith(f"{package}.") for package in packages)


def _nodes_at_import(node: ast.AST) -> Iterator[ast.AST]:
    """What runs when the module is imported: all but the bodies of functions and of `if TYPE_CHECKING:`."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            continue
        if isinstance(child, ast.If) and ast.unparse(child.test) in ("TYPE_CHECKING", "typing.TYPE_CHECKING"):
            child = ast.Module(child.orelse, [])
        yield child
        yield from _nodes_at_import(child)
