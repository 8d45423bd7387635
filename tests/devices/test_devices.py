"""Tests of `tempering.devices`: the number of devices and of processes changes nothing, to the bit."""

import json
import socket
import subprocess
import sys
import time
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from support.tiny import subprocess_environment
from support.tiny_fits import fit
from support.unchecked import unchecked
from tempering.adapters import from_callable
from tempering.cli.running import _devices
from tempering.devices import LANES, active_mesh, by_row, check_devices, chosen, mean_and_grad, on_devices, use
from tempering.devices.hosts import _packed, _unpacked, refuse_on_several
from tempering.devices.mesh import num_lanes
from tempering.errors import SettingsError
from tempering.targets.base import evaluate_many

TESTS = Path(__file__).parent.parent


def _started(cache: Path, script: str, *args: object, is_quick: bool = True) -> subprocess.Popen:
    environment = subprocess_environment(cache)
    if not is_quick:
        del environment["JAX_DISABLE_MOST_OPTIMIZATIONS"]
    environment["PYTHONPATH"] += f":{TESTS}"
    command = [sys.executable, "-m", f"support.{script}", *map(str, args)]
    return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def _output(process: subprocess.Popen, seconds: float) -> str:
    try:
        output, errors = process.communicate(timeout=seconds)
    finally:
        process.kill()
    assert process.returncode == 0, errors[-3000:]
    return output


@pytest.mark.parametrize("numbers", [(1, 3), pytest.param((1, 3, 8), marks=pytest.mark.slow)])
def test_programs_have_the_same_bits_on_any_number_of_devices(numbers, tmp_path):
    """The slow one as users compile them. Bits differ without optimisation but with XLA's fusion emitters."""
    process = _started(tmp_path, "device_programs", *numbers, is_quick=len(numbers) == 2)
    results = json.loads(_output(process, 300))
    sabotaged, rounding = results.pop("sabotaged of 101"), results.pop("rounding")
    assert len(results) == 8
    for name, hashes in results.items():
        assert len(hashes) == len(numbers) and len(set(hashes)) == 1, name
    assert len(set(sabotaged)) > 1, "sums whose order follows the number of devices should differ"
    assert rounding < 1e-4


@pytest.mark.parametrize("is_in_turn", [True, False], ids=["in turn, as CPUs", "side by side, as GPUs"])
def test_on_one_device_the_result_is_that_of_plain_programs_but_for_rounding(monkeypatch, is_in_turn):
    monkeypatch.setattr("tempering.devices.rows.is_in_turn", lambda mesh: is_in_turn)
    rows = jnp.asarray(np.random.default_rng(0).normal(size=(21, 3)), jnp.float32)
    both = on_devices(lambda rows, scale: (by_row(lambda row: scale * jnp.sum(row**3))(rows), "a word"))
    plain, word = both(rows, jnp.asarray(2.0))
    with use(1):
        shared, other_word = both(rows, jnp.asarray(2.0))
    assert word == other_word == "a word"
    np.testing.assert_allclose(shared, plain, rtol=1e-5)
    mean = on_devices(lambda rows: mean_and_grad(lambda weight, row: jnp.sum(weight * row) ** 2, jnp.ones(3), rows))
    plain = mean(rows)
    with use(1):
        shared = mean(rows)
    for one, other in zip(shared, plain, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5)


def test_keys_travel_and_what_comes_back_can_be_used_anywhere():
    flipped = on_devices(lambda keys: by_row(lambda key: (jax.random.fold_in(key, 1), jax.random.normal(key)))(keys))
    keys = jax.random.split(jax.random.key(3), 18)
    plain = flipped(keys)
    with use(1):
        shared = flipped(keys)
    np.testing.assert_array_equal(jax.random.key_data(shared[0]), jax.random.key_data(plain[0]))
    np.testing.assert_array_equal(shared[1], plain[1])
    assert not shared[1].committed


def test_a_function_of_the_host_is_called_once_for_every_point():
    calls = []
    target = from_callable(lambda x: calls.append(1) or -0.5 * float(np.sum(x**2)), dim=2)
    with use(1):
        values, _ = evaluate_many(target, jnp.ones((19, 2)))
    np.testing.assert_allclose(values, -1.0)
    assert len(calls) == 19


@pytest.mark.parametrize(
    ("devices", "message"),
    [
        (0, "devices = 0 is not allowed; give a number from 1 on"),
        (-2, "devices = -2 is not allowed"),
        (True, "devices = True is not allowed"),
        (2.0, "devices = 2.0 is not allowed"),
        ("2", "devices = '2' is not allowed"),
        ("all", "devices = 'all' is not allowed"),
        ([], "devices is empty"),
        ([0, 1], "devices holds 0, which is not a device of JAX"),
        (10_000, "devices = 10000 are more than the"),
    ],
)
def test_other_devices_than_there_are_get_refused(devices, message):
    with unchecked(), pytest.raises(SettingsError, match=message):
        fit(devices=devices)
    assert active_mesh() is None


def test_a_device_twice_is_refused():
    with pytest.raises(SettingsError, match="names a device twice"):
        check_devices([jax.devices()[0]] * 2)


def test_devices_are_chosen_as_asked():
    assert chosen(None) is None
    assert chosen(1) == chosen(np.int64(1)) == chosen(jax.devices()[:1]) == (jax.devices()[0],)
    with use(1) as mesh:
        assert mesh is active_mesh() is not None and num_lanes(mesh) == LANES
        with use(None):
            assert active_mesh() is mesh


def test_one_device_that_takes_parts_side_by_side_runs_plain_programs(monkeypatch):
    rows = jnp.asarray(np.random.default_rng(0).normal(size=(24, 3)), jnp.float32)
    summed = on_devices(lambda rows: by_row(lambda row: jnp.sum(row**3))(rows))
    with use(1):
        in_turn = summed.lower(rows).as_text()
    monkeypatch.setattr("tempering.devices.mesh.is_in_turn", lambda mesh: False)
    with use(1) as mesh:
        assert mesh is None and active_mesh() is None
        assert summed.lower(rows).as_text() == summed._on_one.lower(rows).as_text() != in_turn
    with use(jax.devices()[:1]), use(None):
        assert active_mesh() is None


@pytest.mark.parametrize("text", ["0", "-1", "two", "1.5", "", "nan"])
def test_the_command_refuses_other_words(text):
    with pytest.raises(
        SettingsError, match="--devices = .* is not allowed: it must be a number from 1 on, or the word"
    ):
        _devices(text)


def test_the_command_takes_numbers_and_all():
    assert _devices("2") == 2 and _devices("all") == "all" and _devices(None) is None


def test_several_processes_refuse_what_they_cannot_agree_on(monkeypatch):
    refuse_on_several(time_limit="their clocks differ")
    monkeypatch.setattr(jax, "process_count", lambda: 2)
    with pytest.raises(SettingsError, match="time_limit does not go together with 2 joined processes: their clocks"):
        refuse_on_several(time_limit="their clocks differ", other=None)
    with pytest.raises(SettingsError, match="all of them take part"):
        monkeypatch.setattr(jax, "devices", lambda: [*jax.local_devices(), object()])
        chosen(1)


def test_parts_of_a_run_travel_whole():
    arrays = {"a/b": np.arange(6.0).reshape(2, 3), "flag": np.asarray(True)}
    head, _, body = _packed((arrays, {"level": 1})).partition(b"\n")
    found = _unpacked({**json.loads(head), "body": body})
    assert found is not None and found[1] == {"level": 1} and list(found[0]) == list(arrays)
    for name, array in arrays.items():
        np.testing.assert_array_equal(found[0][name], array)
    assert _unpacked(json.loads(_packed(None))) is None


@pytest.mark.slow
def test_a_fit_is_the_same_on_any_number_of_devices(tmp_path):
    file = tmp_path / "draws.npy"
    _output(_started(tmp_path, "device_fits", file, "devices", 1, 3, 8), 600)
    first, *others = np.load(file)
    assert np.all(np.isfinite(first))
    for other in others:
        np.testing.assert_array_equal(other, first)


def _joined(tmp_path, run, name):
    """Two processes that join on loopback and fit into the same folder."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    return [
        _started(
            tmp_path / f"cache-{index}", "device_fits", tmp_path / f"{name}-{index}.npy", "join", port, 2, index, run
        )
        for index in range(2)
    ]


@pytest.mark.slow
@pytest.mark.parametrize("victim", [0, 1])
def test_a_joined_process_that_is_killed_ends_the_other_and_a_new_start_goes_on(victim, tmp_path):
    run = tmp_path / "run"
    processes = _joined(tmp_path, run, "killed")
    try:
        for _ in range(6000):
            if (run / "levels" / "01" / "buffer.npz").exists() or processes[0].poll() is not None:
                break
            time.sleep(0.05)
        processes[victim].kill()
        _, error = processes[1 - victim].communicate(timeout=300)
        assert processes[1 - victim].returncode != 0, "it cannot go on alone, and does not wait for ever"
    finally:
        for process in processes:
            process.kill()
            process.communicate()
    assert not (run / "sampler.json").exists(), error[-2000:]
    again = _joined(tmp_path, run, "again")
    try:
        shown = [process.communicate(timeout=600)[1] for process in again]
    finally:
        for process in again:
            process.kill()
    assert [process.returncode for process in again] == [0, 0], [text[-3000:] for text in shown]
    drawn = np.load(tmp_path / "again-0.npy")
    alone = tmp_path / "alone.npy"
    _output(_started(tmp_path, "device_fits", alone, "devices", 2), 600)
    np.testing.assert_array_equal(drawn[0], np.load(alone)[0])


@pytest.mark.slow
def test_two_joined_processes_make_the_fit_of_two_devices(tmp_path):
    files = [tmp_path / f"drawn-{index}.npy" for index in range(2)]
    processes = _joined(tmp_path, tmp_path / "run", "drawn")
    try:
        shown = [process.communicate(timeout=600)[1] for process in processes]
    finally:
        for process in processes:
            process.kill()
    assert [process.returncode for process in processes] == [0, 0], [text[-3000:] for text in shown]
    assert "initial PT" in shown[0] and "initial PT" not in shown[1]
    first, second = map(np.load, files)
    np.testing.assert_array_equal(second, first)
    np.testing.assert_array_equal(first[1], first[0])
    np.testing.assert_array_equal(first[2], first[0])
    alone = tmp_path / "alone.npy"
    _output(_started(tmp_path, "device_fits", alone, "devices", 2), 600)
    np.testing.assert_array_equal(first[0], np.load(alone)[0])
