"""Files are whole or absent, carry their own checksum, and nothing damaged, foreign or pickled is let in."""

import json
import os
import pickle

import equinox as eqx
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tempering.errors import RunFolderError
from tempering.runs.storage import arrays_of, read_arrays, read_json, tree_from, write_arrays, write_bytes, write_json

ARRAYS = {
    "cold/weight": np.arange(12, dtype=np.float32).reshape(3, 4),
    "origin": np.array([3, 1, 2], np.int32),
    "empty": np.zeros((0, 2), np.float32),
    "scalar": np.array(2.5, np.float32),
    "flag": np.array([True, False]),
}
CONTENT = {"name": "run", "levels": [1, 2.5, None], "nested": {"ok": True, "text": "ß ±"}}


def assert_same_arrays(observed, expected):
    assert observed.keys() == expected.keys()
    for name, array in expected.items():
        assert observed[name].dtype == array.dtype and observed[name].shape == array.shape
        np.testing.assert_array_equal(observed[name], array)


def test_arrays_come_back_bit_for_bit(tmp_path):
    path = tmp_path / "made" / "on the way" / "arrays.npz"
    write_arrays(path, ARRAYS)
    assert_same_arrays(read_arrays(path), ARRAYS)
    special = {"x": np.array([np.nan, np.inf, -np.inf, -0.0, 1e-45], np.float32)}
    write_arrays(path, special)
    assert read_arrays(path)["x"].tobytes() == special["x"].tobytes()


def test_json_comes_back_and_can_be_read_by_people(tmp_path):
    path = tmp_path / "facts.json"
    write_json(path, CONTENT)
    assert read_json(path) == CONTENT
    assert path.read_text().startswith('{\n  "name": "run",\n')


def test_json_refuses_what_json_cannot_say(tmp_path):
    for number in (np.nan, np.inf):
        with pytest.raises(ValueError, match="not JSON compliant"):
            write_json(tmp_path / "bad.json", {"x": float(number)})
    assert list(tmp_path.iterdir()) == []


def test_a_write_leaves_the_old_file_or_the_new_one(tmp_path, monkeypatch):
    path = tmp_path / "part.bin"
    write_bytes(path, b"old")

    def dies(*args):
        raise OSError(28, "No space left on device")

    for step in ("fsync", "replace"):
        with monkeypatch.context() as patch:
            patch.setattr(os, step, dies)
            with pytest.raises(RunFolderError, match="No space left.*free space"):
                write_bytes(path, b"new")
        assert path.read_bytes() == b"old" and [entry.name for entry in tmp_path.iterdir()] == ["part.bin"]
    write_bytes(path, b"new")
    assert path.read_bytes() == b"new" and [entry.name for entry in tmp_path.iterdir()] == ["part.bin"]


def test_the_new_file_is_on_disk_before_it_takes_the_name(tmp_path, monkeypatch):
    calls = []
    for step in ("fsync", "replace"):
        real = getattr(os, step)
        monkeypatch.setattr(os, step, lambda *args, step=step, real=real: (calls.append(step), real(*args))[1])
    write_bytes(tmp_path / "part.bin", b"data")
    assert calls[:2] == ["fsync", "replace"]


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    folder = tmp_path_factory.mktemp("written")
    small = {"x": np.arange(6, dtype=np.float32), "k": np.array([1], np.int32)}
    write_arrays(folder / "a.npz", small)
    write_json(folder / "a.json", CONTENT)
    return folder, small, (folder / "a.npz").read_bytes(), (folder / "a.json").read_bytes()


def test_every_flipped_byte_is_caught_or_harmless(written):
    """Every byte in turn. A flip may fall on a time stamp of the archive; then the arrays are as they were."""
    folder, small, data, _ = written
    path, num_caught = folder / "flipped.npz", 0
    begin = data.index(small["x"].tobytes())
    for position in range(len(data)):
        flipped = bytearray(data)
        flipped[position] ^= 0x41
        path.write_bytes(flipped)
        try:
            assert_same_arrays(read_arrays(path), small)
            assert not begin <= position < begin + small["x"].nbytes
        except RunFolderError:
            num_caught += 1
    assert num_caught > len(data) / 2


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(share=st.floats(0.0, 0.999))
def test_truncated_files_are_caught(written, share):
    folder, _, data, text = written
    (folder / "short.npz").write_bytes(data[: int(share * len(data))])
    (folder / "short.json").write_bytes(text[: int(share * (len(text) - 2))])  # less than the closing brace
    with pytest.raises(RunFolderError, match="damaged"):
        read_arrays(folder / "short.npz")
    with pytest.raises(RunFolderError, match="damaged"):
        read_json(folder / "short.json")


def test_edited_json_is_caught(written):
    folder, _, _, text = written
    path = folder / "edited.json"
    for old, new in ((b"2.5", b"2.6"), (b"true", b"false"), (b'"run"', b'"ruN"'), (b'"name"', b'"named"')):
        assert old in text
        path.write_bytes(text.replace(old, new))
        with pytest.raises(RunFolderError, match="altered"):
            read_json(path)
    path.write_bytes(text.replace(b"\n  ", b"\n\t"))  # spaces are nobody's business
    assert read_json(path) == CONTENT


@pytest.mark.parametrize("reader", [read_arrays, read_json])
def test_missing_files_and_folders_are_named(tmp_path, reader):
    for path in (tmp_path / "nothing.here", tmp_path):
        with pytest.raises(RunFolderError, match=f"{path.name}.* is missing"):
            reader(path)


def test_foreign_files_are_refused(tmp_path):
    np.savez(tmp_path / "foreign.npz", x=np.zeros(3))
    np.save(tmp_path / "one.npy", np.zeros(3))
    (tmp_path / "pickle.npz").write_bytes(pickle.dumps({"x": 1}))
    (tmp_path / "text.npz").write_text("hello")
    (tmp_path / "empty.npz").write_bytes(b"")
    with pytest.raises(RunFolderError, match="carries no checksum"):
        read_arrays(tmp_path / "foreign.npz")
    for name in ("one.npy", "pickle.npz", "text.npz", "empty.npz"):
        with pytest.raises(RunFolderError, match="damaged"):
            read_arrays(tmp_path / name)
    texts = {'{"a": 1}': "carries no checksum", "[1]": "carries no checksum", "[" * 100_000: "damaged"}
    for text, problem in texts.items():
        (tmp_path / "foreign.json").write_text(text)
        with pytest.raises(RunFolderError, match=problem):
            read_json(tmp_path / "foreign.json")
    (tmp_path / "foreign.json").write_bytes(b"\xff\xfe{}")
    with pytest.raises(RunFolderError, match="damaged"):
        read_json(tmp_path / "foreign.json")


class Bomb:
    """Says when it is unpickled."""

    def __reduce__(self):
        return (pytest.fail, ("a pickle was executed",))


def test_pickled_objects_are_neither_read_nor_written(tmp_path):
    objects = np.array([Bomb(), None], dtype=object)
    np.savez(tmp_path / "bomb.npz", x=objects, sha256=np.array("0" * 64))
    with pytest.raises(RunFolderError, match="damaged"):
        read_arrays(tmp_path / "bomb.npz")
    with pytest.raises(TypeError, match="Python objects cannot be stored: x"):
        write_arrays(tmp_path / "mine.npz", {"x": objects})
    assert not (tmp_path / "mine.npz").exists()


class Inner(eqx.Module):
    weight: object
    name: str = eqx.field(static=True, default="inner")


class Outer(eqx.Module):
    layers: tuple
    table: dict
    number: float


def tree_of(factor: float) -> Outer:
    layers = (Inner(factor * jnp.ones((2, 3))), Inner(factor * jnp.arange(4.0)))
    return Outer(layers, {"b": jnp.array([1, 2], jnp.int32), "a": jnp.asarray(factor)}, number=3.0)


def test_trees_come_back_by_name(tmp_path):
    tree = tree_of(2.5)
    arrays = arrays_of(tree)
    assert set(arrays) == {"layers/0/weight", "layers/1/weight", "table/a", "table/b"}
    write_arrays(tmp_path / "tree.npz", arrays)
    restored = tree_from(tree_of(0.0), read_arrays(tmp_path / "tree.npz"))
    assert eqx.tree_equal(restored, tree)


def test_arrays_that_do_not_fit_are_refused():
    arrays = arrays_of(tree_of(1.0))
    with pytest.raises(RunFolderError, match="lack 'table/a'"):
        tree_from(tree_of(1.0), {name: array for name, array in arrays.items() if name != "table/a"})
    with pytest.raises(RunFolderError, match=r"'layers/0/weight' has shape \(3, 2\).*\(2, 3\)"):
        tree_from(tree_of(1.0), arrays | {"layers/0/weight": np.ones((3, 2), np.float32)})
    with pytest.raises(RunFolderError, match="float64"):
        tree_from(tree_of(1.0), arrays | {"layers/0/weight": np.ones((2, 3))})
    longer = tree_from(tree_of(1.0), arrays | {"layers/1/weight": np.ones(9, np.float32)}, check_shapes=False)
    assert longer.layers[1].weight.shape == (9,)
    with pytest.raises(RunFolderError, match="int32"):
        tree_from(tree_of(1.0), arrays | {"table/a": np.ones(9, np.int32)}, check_shapes=False)


def test_a_file_holds_its_checksum_inside(written):
    folder, _, _, text = written
    assert len(json.loads(text)["sha256"]) == 64
    with np.load(folder / "a.npz", allow_pickle=False) as archive:
        assert len(str(archive["sha256"])) == 64
