"""How far a reader walks: the functions that one sample passes from `tp.fit(log_density, dim=2)` to `sampler.sample`.

    python benchmarks/walk.py --out results/walk.json
    PYTHONPATH=/path/to/another/checkout/src python benchmarks/walk.py --commit c7caf6b --out results/walk.json

A room is a folder or a file directly in `src/tempering`. Every function of the package is noted when it is called for
the first time, and the walk changes room wherever two neighbours in that order are of different rooms. Left out:
comprehensions, lambdas, methods with two underscores on either side, and what runs while a module is imported. Counted
are all other functions, and once more the public ones alone: functions of a module whose names begin without an
underscore. A second count with `--out` is added to the file, which holds one for each commit.

Beside it stands the number of doors: pairs of rooms of which one calls the other, however often. A reader who takes the
house room by room learns what each door promises once; a change of room is counted at every first visit of a function.
"""

import argparse
import inspect
import json
import sys
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

from measure import commit

STEPS, FINETUNE_STEPS, BUDGET = 300, 100, 10_000
"""Little training on few evaluations: the walk is the same, only shorter."""


class Walk:
    """The functions of a package in the order of their first calls.

    Args:
        root: the package's folder.
    """

    def __init__(self, root: Path):
        self._root = f"{root}/"
        self._num_importing = 0
        self.functions: dict[tuple[str, str], None] = {}
        self.doors: set[tuple[str, str]] = set()
        self._calls: set[tuple[CodeType, CodeType]] = set()

    def __call__(self, frame: FrameType, event: str, argument: Any) -> None:
        """What `sys.setprofile` calls."""
        code = frame.f_code
        if event not in ("call", "return"):
            return
        if code.co_name == "<module>":
            self._num_importing += 1 if event == "call" else -1
        elif event == "call" and self._num_importing == 0 and self._counts(code):
            self.functions.setdefault((code.co_filename.removeprefix(self._root), code.co_qualname))
            self._note_door(frame)

    def _note_door(self, frame: FrameType) -> None:
        """Note the rooms of a function and of the one of the package that called it, if by way of JAX."""
        caller = frame.f_back
        while caller is not None and not caller.f_code.co_filename.startswith(self._root):
            caller = caller.f_back
        if caller is None or (caller.f_code, frame.f_code) in self._calls:
            return
        self._calls.add((caller.f_code, frame.f_code))
        there, here = (room_of(code.co_filename.removeprefix(self._root)) for code in (caller.f_code, frame.f_code))
        if there != here:
            self.doors.add((there, here))

    def _counts(self, code: CodeType) -> bool:
        name = code.co_name
        is_function = bool(code.co_flags & inspect.CO_OPTIMIZED)  # the body of a class is none
        is_named = not name.startswith("<") and not (name.startswith("__") and name.endswith("__"))
        return is_function and is_named and code.co_filename.startswith(self._root)

    def counts(self) -> dict[str, Any]:
        """The counts of all functions, and of the public ones alone; and the doors."""
        every = list(self.functions)
        public = [(file, name) for file, name in every if "." not in name and not name.startswith("_")]
        return {"all": _counts(every), "public": _counts(public), "doors": len(self.doors)}


def room_of(file: str) -> str:
    """The folder or file directly in the package that a file belongs to."""
    return file.split("/")[0].removesuffix(".py")


def _counts(functions: list[tuple[str, str]]) -> dict[str, int]:
    """Distinct functions, their files, their rooms, and how often the room changes."""
    rooms = [room_of(file) for file, _ in functions]
    return {
        "functions": len(functions),
        "files": len({file for file, _ in functions}),
        "rooms": len(set(rooms)),
        "changes_of_room": sum(here != there for here, there in zip(rooms, rooms[1:], strict=False)),
    }


def walk() -> Walk:
    """A small fit of a density of two modes, and one sample of it."""
    import jax.numpy as jnp

    import tempering as tp
    from tempering.settings import Training

    check = Training.__post_init__

    def shorten(self: Training) -> None:
        check(self)
        object.__setattr__(self, "num_steps", min(self.num_steps, STEPS))
        object.__setattr__(self, "num_finetune_steps", FINETUNE_STEPS)

    def log_density(x):
        return jnp.logaddexp(-0.5 * jnp.sum((x - 4) ** 2), -0.5 * jnp.sum((x + 4) ** 2) + 1.0)

    Training.__post_init__ = shorten  # where settings are checked, so that the walk itself is that of the defaults
    found = Walk(Path(str(tp.__file__)).parent)
    sys.setprofile(found)
    try:
        sampler = tp.fit(log_density, dim=2, budget=BUDGET, seed=0, progress=False)
        sampler.sample(1)
    finally:
        sys.setprofile(None)
        Training.__post_init__ = check
    return found


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--out", type=Path, default=None, help="where to add the counts, e.g. results/walk.json")
    options.add_argument("--commit", default=None, help="of the code that is counted, where it is not this checkout's")
    options.add_argument("--list", action="store_true", help="print the walk itself")
    given = options.parse_args()
    found = walk()
    if given.list:
        print("\n".join(f"{room_of(file):20} {file}:{name}" for file, name in found.functions))
    print(json.dumps(found.counts(), indent=1))
    if given.out is not None:
        at = given.commit or commit()
        before = json.loads(given.out.read_text())["counts"] if given.out.exists() else {}
        counts = {**before, at: found.counts()}
        content = {"command": "python benchmarks/walk.py --out results/walk.json", "commits": [*counts]}
        given.out.write_text(json.dumps({**content, "counts": counts}, indent=1) + "\n")


if __name__ == "__main__":
    main()
