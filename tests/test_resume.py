"""A run that dies and is resumed ends where an undisturbed one does, bit for bit, wherever and however often it dies.

Processes are killed at several points of a run. In between, where no kill could be timed, the run dies at every file
that it writes, leaving half of it behind.
"""

import contextlib
import os
import resource
import shutil
import signal
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import jax
import numpy as np
import pytest

from support.random_checks import must_fail
from support.tiny import COMMAND, arrays_of_file, quick_compilation, result_of, subprocess_environment
from support.tiny_runs import PT_DM_CHANGES, PTSD_CHANGES
from tempering.errors import RunFolderError
from tempering.lab.presets import PRESETS
from tempering.lab.run import resume, run
from tempering.runs import storage
from tempering.runs.config import with_changes
from tempering.runs.folder import RunFolder
from tempering.runs.storage import read_json, write_arrays

PTSD = next(config for config in PRESETS.values() if config.method == "ptsd")
PT_DM = next(config for config in PRESETS.values() if config.method == "pt_dm")
CHANGES = {PTSD.name: PTSD_CHANGES, PT_DM.name: PT_DM_CHANGES}
CONFIGS = {name: with_changes(PRESETS[name], ["seed=11", *changes]) for name, changes in CHANGES.items()}
TIMEOUT = 120.0
by_method = pytest.mark.parametrize("name", CONFIGS)


@pytest.fixture(scope="module", autouse=True)
def compiled_quickly():
    with quick_compilation():
        yield


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    """One whole run of either method; for reading only. What it compiles is kept, for the processes to find."""
    place = tmp_path_factory.mktemp("undisturbed")
    least = jax.config.jax_persistent_cache_min_compile_time_secs
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
    for name, config in CONFIGS.items():
        run(config, place / name)
    jax.config.update("jax_persistent_cache_min_compile_time_secs", least)
    return place


def check_same(folder: Path, reference: Path) -> None:
    """Every array of every file is the same to the last bit, and so is the result but for its times."""
    names = {str(path.relative_to(reference)) for path in reference.rglob("*.npz")}
    assert {str(path.relative_to(folder)) for path in folder.rglob("*.npz")} == names
    for name in sorted(names):
        found, expected = arrays_of_file(folder / name), arrays_of_file(reference / name)
        differing = [
            key
            for key in found.keys() | expected.keys()
            if key not in found or key not in expected or found[key].tobytes() != expected[key].tobytes()
        ]
        assert not differing, f"{name} differs in {', '.join(sorted(differing))}"
    for name in ("config.json", "environment.json", "sampler.json"):
        assert read_json(folder / name) == read_json(reference / name)
    assert result_of(folder) == result_of(reference)
    result = read_json(folder / "result.json")
    assert result["fit_seconds"] is None or 0 < result["fit_seconds"] <= result["wall_seconds"]


# The run dies in this process, at every file.


class Killed(BaseException):
    """Nothing in the package may catch it, as nothing can catch a kill."""


class DiesAtEveryFile:
    """Dies in the middle of the first attempt at every file; the second one succeeds."""

    def __init__(self):
        self.died: list[str] = []

    def __call__(self, path: Path, data: bytes, write=storage.write_bytes) -> None:
        name = path.name if path.suffix == ".json" else f"{path.parent.name}/{path.name}"
        if name in self.died:
            return write(path, data)
        self.died.append(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.with_name(f".{path.name}.0.tmp").write_bytes(data[: len(data) // 2])
        raise Killed


@by_method
def test_a_run_that_dies_at_every_file_ends_the_same(name, undisturbed, tmp_path, monkeypatch):
    folder, dies = tmp_path / "run", DiesAtEveryFile()
    monkeypatch.setattr(storage, "write_bytes", dies)
    for _ in range(20):
        with contextlib.suppress(Killed):
            resume(folder) if (folder / "config.json").exists() else run(CONFIGS[name], folder)
            break
    parts = [f"{level:02d}/{part}.npz" for level in (1, 2, 3) for part in ("buffer", "model")]
    parts = parts if name == PTSD.name else parts[:2]
    last = ["run/sampler.npz", "run/samples.npz", "sampler.json", "run/evaluation.npz", "result.json"]
    assert dies.died == ["config.json", "environment.json", *parts, *last]
    assert not list(folder.rglob(".*.tmp")), "halves of files are swept away by whoever goes on"
    check_same(folder, undisturbed / name)


# The disk is full, or a file is damaged: refused in words, and once that is over the run ends the same.


class FullAtEveryFile:
    """A disk that is full at the first attempt at every file, and has room at the second."""

    def __init__(self):
        self.refused: list[str] = []

    def __call__(self, path: Path, data: bytes, write=storage.write_bytes) -> None:
        if path.name in self.refused:
            return write(path, data)
        self.refused.append(path.name)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(os, "fsync", lambda _: (_ for _ in ()).throw(OSError(28, "No space left on device")))
            write(path, data)


def test_a_full_disk_is_told_and_survived(undisturbed, tmp_path, monkeypatch):
    name, folder, full, messages = PT_DM.name, tmp_path / "run", FullAtEveryFile(), []
    monkeypatch.setattr(storage, "write_bytes", full)
    for _ in range(20):
        try:
            resume(folder) if (folder / "config.json").exists() else run(CONFIGS[name], folder)
            break
        except RunFolderError as error:
            messages.append(str(error))
            assert not list(folder.rglob(".*.tmp")), "what could not be written whole takes no room"
    files = ["config.json", "environment.json", "buffer.npz", "model.npz", "sampler.npz", "samples.npz", "sampler.json"]
    assert full.refused == [*files, "evaluation.npz", "result.json"] and len(messages) == len(full.refused)
    for file, message in zip(full.refused, messages, strict=True):
        assert file in message and "No space left on device; free space" in message
    check_same(folder, undisturbed / name)


def test_a_limit_on_the_size_of_files_is_told_and_survived(undisturbed, tmp_path):
    # The kernel's own refusal, in the middle of a file.
    name, folder = PT_DM.name, tmp_path / "run"
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    jax.config.update("jax_enable_compilation_cache", False)  # everything is compiled; its files would be cut too
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (4096, before[1]))
        with pytest.raises(RunFolderError, match="could not write .*File too large; free space"):
            run(CONFIGS[name], folder)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        jax.config.update("jax_enable_compilation_cache", True)
    assert not list(folder.rglob(".*.tmp"))
    resume(folder)
    check_same(folder, undisturbed / name)


def test_a_log_that_cannot_be_written_is_told_and_survived(undisturbed, tmp_path):
    name, folder = PT_DM.name, tmp_path / "run"
    shutil.copytree(undisturbed / name, folder)
    os.remove(folder / "result.json")
    os.rename(folder / "stats.jsonl", tmp_path / "stats.jsonl")
    os.symlink("/dev/full", folder / "stats.jsonl")
    with pytest.raises(RunFolderError, match="could not write .*stats.jsonl: No space left.* resume: finished parts"):
        resume(folder)
    os.replace(tmp_path / "stats.jsonl", folder / "stats.jsonl")
    resume(folder)
    check_same(folder, undisturbed / name)


@pytest.mark.parametrize("file", ["levels/01/buffer.npz", "levels/01/model.npz", "sampler.npz", "sampler.json"])
def test_a_damaged_file_is_named_and_made_again(undisturbed, tmp_path, file):
    name, folder = PT_DM.name, tmp_path / "run"
    shutil.copytree(undisturbed / name, folder)
    os.remove(folder / "result.json")
    if file.startswith("levels"):
        os.remove(folder / "sampler.json")
    data = bytearray((folder / file).read_bytes())
    data[len(data) // 2] ^= 16
    (folder / file).write_bytes(data)
    with pytest.raises(RunFolderError, match=f"{file} .*restore it from a copy or delete it and resume"):
        resume(folder)
    os.remove(folder / file)
    resume(folder)
    check_same(folder, undisturbed / name)


def test_a_difference_of_one_bit_would_be_noticed(undisturbed, tmp_path):
    name = PTSD.name
    copy = tmp_path / "run"
    with RunFolder.open(undisturbed / name):
        subprocess.run(["cp", "-r", undisturbed / name, copy], check=True)
    check_same(copy, undisturbed / name)
    arrays = arrays_of_file(copy / "levels" / "02" / "model.npz")
    arrays.pop("sha256")
    key = next(key for key in arrays if arrays[key].ndim == 2)
    arrays[key] = np.nextafter(arrays[key], np.float32(np.inf))
    write_arrays(copy / "levels" / "02" / "model.npz", arrays)
    message = must_fail(check_same, copy, undisturbed / name)
    assert "levels/02/model.npz" in message and key in message


# The run dies as a process.


class Process:
    """`tempering` as a process of its own, in a folder that it makes."""

    def __init__(self, folder: Path, cache: Path, *arguments: str):
        self.folder = folder
        self.log = folder.with_suffix(".log")
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen(
                [*COMMAND, *arguments], env=subprocess_environment(cache), stdout=log, stderr=log
            )

    def stop_when(self, file: str, how: signal.Signals) -> int:
        """Send the signal as soon as `file` is there; the exit code."""
        end = time.monotonic() + TIMEOUT
        while not (self.folder / file).exists():
            assert self.process.poll() is None, f"ended before {file}: {self.log.read_text()}"
            assert time.monotonic() < end, f"no {file} after {TIMEOUT} s: {self.log.read_text()}"
            time.sleep(0.002)
        while time.monotonic() < end:
            self.process.send_signal(how)
            with contextlib.suppress(subprocess.TimeoutExpired):
                return self.process.wait(2.0)  # Python drops an interruption that comes while it frees an object
        raise AssertionError(f"{how.name} did not stop it: {self.log.read_text()}")

    def finish(self) -> None:
        """Wait for a good end."""
        assert self.process.wait(TIMEOUT) == 0, self.log.read_text()


KILLS = {
    # In the initial PT, while training, in guided sampling, and after the sampler is saved.
    PTSD.name: ("stats.jsonl", "levels/01/buffer.npz", "levels/02/buffer.npz", "sampler.json"),
    PT_DM.name: ("stats.jsonl", "levels/01/buffer.npz", "levels/01/model.npz", "sampler.json"),
}


def killed_and_resumed(name: str, folder: Path, cache: Path, kills: tuple[str, ...]) -> None:
    """A run that is killed as soon as each of these files is there, each time resumed by another process."""
    start = ("run", name, "--out", str(folder), "--seed", "11", "--quiet", "--set", *CHANGES[name])
    go_on = ("resume", str(folder), "--quiet")
    for index, file in enumerate(kills):
        process = Process(folder, cache, *(go_on if index else start))
        try:
            if index == 1:  # an interruption from the keyboard says how to go on, and is as good
                code = process.stop_when(file, signal.SIGINT)
                assert code in (130, -signal.SIGINT), process.log.read_text()
                assert code != 130 or f"tempering resume {folder}" in process.log.read_text()
            else:
                assert process.stop_when(file, signal.SIGKILL) == -signal.SIGKILL
        finally:
            process.process.kill()
        assert not (folder / "result.json").exists(), f"too late: the run was over when it was killed at {file}"
    Process(folder, cache, *go_on).finish()


def cache_of_its_own(place: Path) -> Path:
    """The suite's compiled programs under another name: JAX writes entries in place, and a kill may leave a half."""

    def link(source: str, copy: str) -> None:
        try:
            os.link(source, copy)
        except OSError:  # another file system
            shutil.copy(source, copy)

    return Path(shutil.copytree(jax.config.jax_compilation_cache_dir, place, copy_function=link))


@pytest.mark.slow
def test_a_killed_process_ends_the_same(undisturbed, tmp_path):
    """Once, while it trains; what dies in this process, above, dies at every file."""
    name = PT_DM.name
    killed_and_resumed(name, tmp_path / name, cache_of_its_own(tmp_path / "cache"), KILLS[name][1:2])
    check_same(tmp_path / name, undisturbed / name)


@pytest.mark.slow
@pytest.mark.telling
def test_killed_processes_end_the_same(undisturbed, tmp_path):
    # Both methods at once: a process spends its time on one core.
    caches = {name: cache_of_its_own(tmp_path / f"cache-{name}") for name in CONFIGS}
    with ThreadPoolExecutor(len(CONFIGS)) as pool:
        futures = {
            name: pool.submit(killed_and_resumed, name, tmp_path / name, caches[name], KILLS[name]) for name in CONFIGS
        }
    for name, future in futures.items():
        future.result()
        check_same(tmp_path / name, undisturbed / name)
        assert (tmp_path / name / "report.html").exists()


# What a dead process leaves behind.


def test_leftovers_of_a_dead_process_disturb_nobody(tmp_path):
    config = CONFIGS[PT_DM.name]
    folder = tmp_path / "run"
    folder.mkdir()
    (folder / ".lock").touch()
    (folder / ".config.json.123.tmp").write_text('{"half": ')
    RunFolder.create(folder, config).close()
    assert RunFolder.read_config(folder) == config
    # But a temporary file of somebody else's is a reason to stay out.
    other = tmp_path / "other"
    other.mkdir()
    (other / ".thesis.tmp").touch()
    with pytest.raises(RunFolderError, match="is not empty"):
        RunFolder.create(other, config)


def test_a_line_cut_short_in_the_log_is_skipped(undisturbed, tmp_path):
    name = PT_DM.name
    subprocess.run(["cp", "-r", undisturbed / name, tmp_path / "run"], check=True)
    with open(tmp_path / "run" / "stats.jsonl", "a") as file:
        file.write('{"seconds": 3.2, "eve')
    os.remove(tmp_path / "run" / "result.json")
    resume(tmp_path / "run")
    check_same(tmp_path / "run", undisturbed / name)
