"""Pytest plugin: files that need the same compiled programs run in one process, whose memory keeps them.

Under `--dist loadfile` a file goes to whichever process is free. Two files with the same tiny target then compile the
same programs twice. What a file imports from `support` says what it fits.
"""

import re
from functools import cache
from pathlib import Path

import pytest

__all__ = ["group_of", "pytest_xdist_make_scheduler"]

TESTS = Path(__file__).parent.parent
SHARED = ("tiny_baselines", "tiny_fits", "witness", "exact_sampler", "tiny_runs")
"""Modules of `support` with a target that many tests fit or draw from; the first one that a file imports counts."""
FOLDERS = ("report",)
"""Folders of tests whose fixtures are made once for all of their files."""


@cache
def group_of(file: str) -> str:
    """What goes to one process together with `tests/...py`: a group's name, or the file alone."""
    path = Path(file)
    if path.parent.name in FOLDERS:
        return path.parent.name
    text = (TESTS.parent / path).read_text(encoding="utf-8")
    found = [name for name in SHARED if re.search(rf"^from support\.{name} import", text, re.MULTILINE)]
    return found[0] if found else file


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log):
    """The scheduler of `--dist loadfile`, with groups in place of files."""
    if config.getoption("dist") != "loadfile":
        return None
    from xdist.scheduler import LoadFileScheduling

    class Groups(LoadFileScheduling):
        def _split_scope(self, nodeid: str) -> str:
            return group_of(nodeid.split("::", 1)[0])

    return Groups(config, log)
