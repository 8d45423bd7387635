"""How the suite itself is run: which files share a process, and that its memory is given back."""

import ctypes
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from jax._src.interpreters import mlir

from support.compilation import share_contexts
from support.groups import FOLDERS, SHARED, TESTS, group_of
from support.memory import give_back_freed, resident

FILES = [f"tests/{path.relative_to(TESTS)}" for path in sorted(TESTS.rglob("test_*.py"))]


def test_files_that_fit_the_same_go_together_and_others_alone():
    groups = {file: group_of(file) for file in FILES}
    for name in (*SHARED, *FOLDERS):
        assert sum(group == name for group in groups.values()) > 1, f"{name} groups nothing"
    assert groups["tests/test_improve.py"] == groups["tests/test_api.py"] == "tiny_fits"
    assert groups["tests/test_architecture.py"] == "tests/test_architecture.py"
    assert groups["tests/test_00_canary.py"] == "tests/test_00_canary.py", "the canary is first, and alone"


@pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "malloc_trim"), reason="the C library is not that of GNU")
def test_freed_memory_is_given_back():
    """Freed between blocks that stay, it is kept by the C library: the saboteur is to free it and no more."""
    library, size = ctypes.CDLL(None), 100_000
    library.malloc.restype, library.malloc.argtypes = ctypes.c_void_p, [ctypes.c_size_t]
    library.free.restype, library.free.argtypes = None, [ctypes.c_void_p]
    blocks = [library.malloc(size) for _ in range(4000)]
    for block in blocks:
        ctypes.memset(block, 1, size)
    full = resident()
    for block in blocks[::2]:
        library.free(block)
    assert resident() > full - 50 * size
    give_back_freed()
    assert resident() < full - 1500 * size
    for block in blocks[1::2]:
        library.free(block)
    give_back_freed()


def test_programs_share_contexts_with_those_of_their_thread(monkeypatch):
    monkeypatch.setattr(mlir, "make_ir_context", object)
    share_contexts()
    made = [mlir.make_ir_context() for _ in range(130)]
    assert [len(set(made[:num])) for num in (1, 64, 65, 130)] == [1, 1, 2, 3]
    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(mlir.make_ir_context).result() not in made


def test_the_files_are_those_of_the_suite():
    assert len(FILES) > 150 and Path(__file__).relative_to(TESTS.parent).as_posix() in FILES
