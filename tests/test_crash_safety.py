"""What may befall a folder besides a kill: damage, a disk that cannot be written, two processes, somebody's code in it.

Whole runs that die, are refused room or lose a file are in `test_resume.py`; kills at random moments in
`benchmarks/crashes.py`, whose fifty are a slow test here.
"""

import contextlib
import dataclasses
import importlib.util
import json
import os
import pickle
import random
import shutil
import subprocess
import sys
from pathlib import Path

import filelock
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tempering as tp
from support.exact_sampler import linear_denoiser, sampler_of
from support.random_checks import must_fail
from support.tiny import files_of, tiny_ptsd
from support.unchecked import unchecked
from tempering.cli import main
from tempering.errors import RunFolderError, TemperingError
from tempering.lab.presets import PRESETS
from tempering.lab.report.contents import read_contents
from tempering.lab.run import evaluate_folder, resume
from tempering.runs import folder as run_folder
from tempering.runs.checkpoint import Journal
from tempering.runs.config import TargetConfig
from tempering.runs.folder import RunFolder
from tempering.runs.ledger import Ledger
from tempering.runs.storage import read_arrays, read_json, write_arrays, write_json

CONFIG = dataclasses.replace(next(iter(PRESETS.values())), target=TargetConfig("gaussian", {"dim": 3}))
JSON_FILES = ("config.json", "environment.json", "sampler.json", "result.json")
ARRAY_FILES = ("levels/00/pilot.npz", "levels/01/buffer.npz", "levels/01/model.npz", "sampler.npz", "evaluation.npz")


@pytest.fixture(scope="module", autouse=True)
def as_users_run_it():
    """`main` sets the compilation cache of the process, which comes back."""
    cache = jax.config.jax_compilation_cache_dir
    least = jax.config.jax_persistent_cache_min_compile_time_secs
    with pytest.MonkeyPatch.context() as patched, unchecked():
        patched.setenv("TEMPERING_CACHE", cache)
        yield
    jax.config.update("jax_persistent_cache_min_compile_time_secs", least)


@pytest.fixture(scope="module")
def original(tmp_path_factory) -> Path:
    """A folder with every kind of file that a run leaves; for reading only."""
    path, rng = tmp_path_factory.mktemp("original") / "run", np.random.default_rng(0)
    note = {"ledger": Ledger().as_dict(), "levels": []}
    with RunFolder.create(path, CONFIG) as folder:
        for level, part in ((0, "pilot"), (1, "buffer"), (1, "model")):
            folder.save(level, part, {"x": rng.normal(size=(9, 2)).astype(np.float32)}, note)
            folder.log({"event": "part", "level": level, "part": part})
        sampler_of(linear_denoiser()).save(path)
        folder.log({"event": "fitted"})
        write_arrays(path / "evaluation.npz", {"draws": rng.normal(size=(9, 2)).astype(np.float32)})
        write_json(path / "result.json", {"name": "mog40", "evaluations": 12, **folder.seconds()})
    return path


@pytest.fixture
def folder(original, tmp_path) -> Path:
    return Path(shutil.copytree(original, tmp_path / "run"))


# Damage.


def damaged(data: bytes, draw: random.Random) -> bytes:
    """A bit flipped, the end cut off, a stretch of zeros as of a block that never reached the disk, or noise."""
    place, length = draw.randrange(len(data)), draw.randrange(1, 64)
    return draw.choice(
        [
            data[:place] + bytes([data[place] ^ (1 << draw.randrange(8))]) + data[place + 1 :],
            data[:place],
            data[:place] + bytes(min(length, len(data) - place)) + data[place + length :],
            data[:place] + draw.randbytes(length) + data[place:],
        ]
    )


def _same(found, expected) -> bool:
    if isinstance(expected, dict) and any(isinstance(part, np.ndarray) for part in expected.values()):
        return {k: (v.shape, v.tobytes()) for k, v in found.items()} == {
            k: (v.shape, v.tobytes()) for k, v in expected.items()
        }
    return found == expected


@pytest.mark.parametrize("name", [*JSON_FILES, *ARRAY_FILES])
def test_damage_is_caught_or_harmless(name, original, tmp_path):
    draw, path, num_caught = random.Random(7), tmp_path / Path(name).name, 0
    read = read_json if name.endswith(".json") else read_arrays
    data, expected = (original / name).read_bytes(), read(original / name)
    for _ in range(60):
        path.write_bytes(damaged(data, draw))
        try:
            assert _same(read(path), expected), "read as if nothing had happened, but not the same"
        except RunFolderError as error:
            assert str(path) in str(error)
            num_caught += 1
    assert num_caught > 40


def test_a_damaged_log_costs_times_only(folder):
    draw, path = random.Random(5), folder / "stats.jsonl"
    data = path.read_bytes()
    with RunFolder.open(folder) as opened:
        assert opened.seconds()["fit_seconds"] is not None
        for _ in range(60):
            path.write_bytes(damaged(data, draw))
            opened.log({"event": "resume"})
            assert json.loads(path.read_bytes().splitlines()[-1])["event"] == "resume", (
                "a line of its own, after a torn one"
            )
            seconds = opened.seconds()
            assert seconds["wall_seconds"] is not None and np.isfinite(seconds["wall_seconds"])
        for line in (
            b"\xff\xfe",
            b"[1]",
            b"5",
            b'{"seconds": "x"}',
            b'{"seconds": NaN}',
            b'{"seconds": null}',
            b"[" * 9999,
        ):
            path.write_bytes(data + line)
            assert opened.seconds()["wall_seconds"] >= 0
        path.unlink()
        assert opened.seconds() == {"fit_seconds": None, "wall_seconds": 0.0}


def test_whole_files_of_another_version_are_refused_in_words(folder):
    content = read_json(folder / "config.json")
    for change in ({"config": None}, {"config": 3}, {"config": {}}, {"config": {**content["config"], "new": 1}}):
        write_json(folder / "config.json", {**content, **change})
        with pytest.raises(TemperingError, match="must be|missing|unknown setting"):
            RunFolder.open(folder)
    write_json(folder / "config.json", {**content, "format": "tempering run 1"})
    with pytest.raises(RunFolderError, match="another version: it has format 'tempering run 1'.*fit it again"):
        RunFolder.open(folder)
    write_json(folder / "config.json", content)
    facts = read_json(folder / "sampler.json")
    for name in ("network", "dim", "ledger", "levels"):
        write_json(folder / "sampler.json", {key: value for key, value in facts.items() if key != name})
        with pytest.raises(RunFolderError, match="another version"):
            tp.load(folder)
    write_json(folder / "sampler.json", {**facts, "network": {**facts["network"], "is_new": True}})
    with pytest.raises(RunFolderError, match="another version"):
        tp.load(folder)
    with RunFolder.open(folder) as opened:
        arrays = read_arrays(folder / "levels" / "01" / "buffer.npz")
        del arrays["note.json"]
        write_arrays(folder / "levels" / "01" / "buffer.npz", arrays)
        with pytest.raises(RunFolderError, match="is not a part of a run; delete it and resume"):
            opened.load(1, "buffer")
        opened.save(1, "model", {}, {"ledger": 3})
        with pytest.raises(RunFolderError, match="the kept model of level 1 has no account"):
            Journal(Ledger(), opened).part(1, "model", {}, dict)


# Two processes.


def test_a_folder_is_one_processes_alone_until_it_dies(folder):
    hold = "import filelock, sys; held = filelock.FileLock(sys.argv[1]); held.acquire(); print(1, flush=True); input()"
    other = subprocess.Popen(
        [sys.executable, "-c", hold, folder / ".lock"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    try:
        assert other.stdout is not None and other.stdout.readline() == b"1\n"
        before = files_of(folder)
        for use in (RunFolder.open, resume, evaluate_folder):
            with pytest.raises(RunFolderError, match="is in use by another process; wait for it"):
                use(folder)
        assert files_of(folder) == before
        assert tp.load(folder).dim == 3, "reading needs no lock"
    finally:
        other.kill()
        other.wait()
    RunFolder.open(folder).close()


def test_a_folder_that_was_filled_meanwhile_is_not_taken(tmp_path, monkeypatch):
    path, lock = tmp_path / "run", run_folder._lock

    def late(place: Path):
        (place / "config.json").write_text("of a process that came, ran and went")
        return lock(place)

    monkeypatch.setattr(run_folder, "_lock", late)
    with pytest.raises(RunFolderError, match="is not empty"):
        RunFolder.create(path, CONFIG)
    assert (path / "config.json").read_text() == "of a process that came, ran and went"
    lock(path).release()  # it was given back


def test_halves_of_files_are_swept_away_and_nothing_else(folder):
    ours = [
        folder / ".sampler.npz.77.tmp",
        folder / "levels" / "01" / ".model.npz.5.tmp",
        folder / ".result.json.1.tmp",
    ]
    others = [folder / ".report.html.9.tmp", folder / ".notes.tmp", folder / ".mine.npz.x.tmp", folder / "a.npz.1.tmp"]
    for path in (*ours, *others):
        path.write_bytes(b"half")
    RunFolder.open(folder).close()
    assert not any(path.exists() for path in ours) and all(path.exists() for path in others)


# A folder that cannot be written. The tests may run as root, whom permissions do not bind: the answer is made up.


@pytest.mark.parametrize(
    ("number", "text"), [(13, "Permission denied"), (30, "Read-only file system"), (37, "No locks")]
)
def test_a_folder_that_may_not_be_written_is_told(folder, tmp_path, monkeypatch, number, text):
    def denied(*_, **__):
        raise OSError(number, text)

    before = files_of(folder)
    with monkeypatch.context() as patch:
        patch.setattr(filelock.FileLock, "_acquire", denied)
        for use in (resume, evaluate_folder):
            with pytest.raises(RunFolderError, match=f"cannot write in .*{text}; choose a folder"):
                use(folder)
    with monkeypatch.context() as patch:
        patch.setattr(Path, "mkdir", denied)
        with pytest.raises(RunFolderError, match=f"cannot make .*{text}"):
            RunFolder.create(tmp_path / "new", CONFIG)
        sampler = tp.load(folder)
        with pytest.raises(RunFolderError, match=f"could not write .*{text}"):
            sampler.save(tmp_path / "new")
    assert files_of(folder) == before and not (tmp_path / "new").exists()


@pytest.mark.skipif(os.geteuid() == 0, reason="permissions do not bind root")
def test_a_read_only_folder_is_told(folder):
    folder.chmod(0o555)
    with pytest.raises(RunFolderError, match="cannot write in|could not write"):
        resume(folder)
    folder.chmod(0o755)


def test_a_fit_is_refused_a_place_before_it_spends(tmp_path):
    (tmp_path / "file").write_text("the only copy")

    def density(x):
        return -jnp.sum(x**2)

    for out in (tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises(RunFolderError, match="is a file|cannot make"):
            tp.fit(density, dim=2, settings=tiny_ptsd(), out=out, progress=False)
    assert (tmp_path / "file").read_text() == "the only copy"


def test_output_that_cannot_be_written_is_told(monkeypatch, capsys):
    with contextlib.suppress(OSError), open("/dev/full", "w") as full:  # closing writes what is left, and fails again
        monkeypatch.setattr(sys, "stdout", full)
        code = main(["list"])
        monkeypatch.undo()
    assert code == 2
    assert capsys.readouterr().err.strip().endswith("No space left on device")


# Nothing in a folder is executed.

SENTINEL = "executed"


class Bomb:
    """Leaves a file behind when it is unpickled."""

    def __init__(self, place: Path):
        self.place = place

    def __reduce__(self):
        return (os.mkdir, (str(self.place),))


def test_nothing_in_a_folder_is_executed(folder, tmp_path, monkeypatch):
    place = tmp_path / SENTINEL
    code = f"import os; os.mkdir({str(place)!r})\n"
    objects = {"x": np.array([Bomb(place)], dtype=object), "sha256": np.array("0" * 64)}
    for name in ("__init__.py", "sampler.py", "config.py", "sitecustomize.py", "conftest.py"):
        (folder / name).write_text(code)
    (folder / "sampler.pkl").write_bytes(pickle.dumps(Bomb(place)))
    monkeypatch.chdir(folder)
    tp.load(folder).sample(2)
    read_contents(folder)
    for name in ARRAY_FILES:
        whole = (folder / name).read_bytes()
        for plant in ("archive", "bare"):
            if plant == "archive":
                with open(folder / name, "wb") as file:
                    np.savez(file, allow_pickle=True, **objects)
            else:
                (folder / name).write_bytes(pickle.dumps(Bomb(place)))
            for use in (tp.load, resume, read_contents):
                with contextlib.suppress(TemperingError):
                    use(folder)
            with pytest.raises(RunFolderError, match="damaged"):
                read_arrays(folder / name)
        (folder / name).write_bytes(whole)
    words = {"py/object": "os.system", "__reduce__": ["os.mkdir", str(place)], "$eval": code}
    facts, content = read_json(folder / "sampler.json"), read_json(folder / "config.json")
    for network in (words, {**facts["network"], "kind": code}, {**facts["network"], **words}):
        write_json(folder / "sampler.json", {**facts, "network": network})
        with pytest.raises(TemperingError):
            tp.load(folder)
    write_json(folder / "config.json", {**content, "config": {**content["config"], "target": words}})
    with pytest.raises(TemperingError):
        resume(folder)
    assert not place.exists()
    # The bomb works, where somebody is so careless.
    pickle.loads(pickle.dumps(Bomb(place)))
    assert place.exists()


# Kills at random moments.


def _crashes():
    path = Path(__file__).parent.parent / "benchmarks" / "crashes.py"
    spec = importlib.util.spec_from_file_location("crashes", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["crashes"] = module  # for its dataclass
    spec.loader.exec_module(module)
    return module


def test_the_benchmark_sees_a_difference_of_one_bit(original, folder):
    differences = _crashes().differences
    assert differences(folder, original) == []
    arrays = read_arrays(folder / "levels" / "01" / "model.npz")
    arrays["x"][0, 0] = np.nextafter(arrays["x"][0, 0], np.float32(np.inf))
    write_arrays(folder / "levels" / "01" / "model.npz", arrays)
    result = read_json(folder / "result.json")
    write_json(folder / "result.json", {**result, "wall_seconds": 1e3})
    assert differences(folder, original) == ["levels/01/model.npz differs"]
    write_json(folder / "result.json", {**result, "evaluations": 13})
    (folder / "sampler.npz").unlink()
    assert set(differences(folder, original)) == {
        "levels/01/model.npz differs", "result.json differs", "sampler.npz is missing",
    }  # fmt: skip
    must_fail(lambda: assert_equal(differences(folder, original)))


def assert_equal(found: list[str]) -> None:
    assert not found, found


@pytest.mark.slow
def test_fifty_kills_at_random_moments_change_nothing(tmp_path):
    found = _crashes().crash(50, 0, tmp_path)
    assert found["all_equal"] and found["kills"] == 50, found
