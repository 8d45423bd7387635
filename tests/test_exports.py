"""Draws as files of other programs: what is written is read back, bit for bit; nothing is overwritten or half there."""

import os

import jax.numpy as jnp
import numpy as np
import pytest

from support.exact_sampler import linear_denoiser, sampler_of
from support.unchecked import unchecked
from tempering.errors import RunFolderError, SettingsError, TemperingError
from tempering.runs.exports import SUFFIXES, columns_of, named_arrays, write_draws
from tempering.runs.storage import read_arrays

pyarrow = pytest.importorskip("pyarrow.parquet")

RNG = np.random.default_rng(0)
PLAIN = RNG.normal(size=(7, 3)).astype(np.float32)
NAMED = {
    "tau": RNG.normal(size=7),
    "school": {"theta": PLAIN, "rank": np.arange(7)},
    "pair": [PLAIN[:, 0], PLAIN[:, 1:]],
}
WEIGHTS = RNG.normal(size=7).astype(np.float32)


def from_netcdf(path):
    import arviz  # which takes most of a second, in every process that collects this file

    return arviz.from_netcdf(path)


def columns_in(path) -> dict[str, np.ndarray]:
    table = pyarrow.read_table(path)
    return {name: table[name].to_numpy() for name in table.column_names}


def assert_same(found: dict, expected: dict) -> None:
    assert list(found) == list(expected)
    for name, array in expected.items():
        assert found[name].dtype == array.dtype and found[name].tobytes() == np.ascontiguousarray(array).tobytes(), name


def test_plain_draws_come_back(tmp_path):
    for weights in (None, WEIGHTS):
        more = {} if weights is None else {"log_weights": weights}
        name = "raw" if weights is None else "weighted"
        assert_same(read_arrays(write_draws(tmp_path / f"{name}.npz", PLAIN, weights)), {"draws": PLAIN} | more)
        columns = {f"x[{axis}]": PLAIN[:, axis] for axis in range(3)} | more
        assert_same(columns_in(write_draws(tmp_path / f"{name}.parquet", PLAIN, weights)), columns)
        data = from_netcdf(write_draws(tmp_path / f"{name}.nc", PLAIN, weights))
        assert data.posterior["x"].values.tobytes() == PLAIN.tobytes() and data.posterior["x"].shape == (1, 7, 3)
        if weights is not None:
            assert data.sample_stats["log_weights"].values.tobytes() == weights.tobytes()
        path = write_draws(tmp_path / f"{name}.csv", PLAIN, weights)
        assert path.read_text().splitlines()[0].split(",") == list(columns)
        table = np.loadtxt(path, delimiter=",", skiprows=1, dtype=np.float32)
        assert_same(dict(zip(columns, table.T, strict=True)), columns)
    assert sorted(path.suffix for path in tmp_path.iterdir()) == sorted(2 * (".npz", ".parquet", ".nc", ".csv"))


def test_getdist_files_have_weights_densities_and_names(tmp_path):
    log_weights, log_density = WEIGHTS.copy(), RNG.normal(size=7)
    log_weights[2] = -np.inf
    draws = {"tau": PLAIN[:, 0], "a group": {"theta": PLAIN[:, 1:]}}
    path = write_draws(tmp_path / "chain.txt", draws, log_weights, log_density)
    names = [line.split("\t") for line in (tmp_path / "chain.paramnames").read_text().splitlines()]
    assert names == [
        ["a_group.theta[0]", "a group.theta_{0}"],
        ["a_group.theta[1]", "a group.theta_{1}"],
        ["tau", "tau"],
    ]
    is_used = np.arange(7) != 2
    table = np.loadtxt(path)
    np.testing.assert_allclose(table[:, 0], np.exp(log_weights - log_weights.max())[is_used], rtol=1e-6)
    np.testing.assert_allclose(table[:, 1], -log_density[is_used], rtol=1e-6)
    np.testing.assert_allclose(table[:, 2:], PLAIN[is_used][:, [1, 2, 0]], rtol=1e-6)
    with pytest.raises(RunFolderError, match="chain.paramnames exists"):
        path.unlink()
        write_draws(path, draws)
    plain = np.loadtxt(write_draws(tmp_path / "plain.txt", PLAIN))
    assert np.all(plain[:, 0] == 1.0) and np.all(plain[:, 1] == 0.0)
    with pytest.raises(SettingsError, match="no draw has a positive weight"):
        write_draws(tmp_path / "none.txt", PLAIN, np.full(7, -np.inf))


def test_named_draws_keep_their_names(tmp_path):
    names = ["pair.0", "pair.1", "school.rank", "school.theta", "tau"]
    assert list(named_arrays(NAMED)) == names
    assert_same(read_arrays(write_draws(tmp_path / "a.npz", NAMED)), named_arrays(NAMED))
    found = columns_in(write_draws(tmp_path / "a.parquet", NAMED, WEIGHTS))
    assert_same(found, columns_of(named_arrays(NAMED)) | {"log_weights": WEIGHTS})
    assert list(found)[:4] == ["pair.0", "pair.1[0]", "pair.1[1]", "school.rank"]
    np.testing.assert_array_equal(found["school.theta[2]"], PLAIN[:, 2])
    data = from_netcdf(write_draws(tmp_path / "a.nc", NAMED))
    assert sorted(data.posterior.data_vars) == names
    np.testing.assert_array_equal(data.posterior["school.theta"].values[0], PLAIN)


def test_matrices_have_columns_by_two_indices():
    columns = columns_of({"covariance": np.arange(8.0).reshape(2, 2, 2), "mean": np.zeros(2)})
    assert list(columns) == ["covariance[0,0]", "covariance[0,1]", "covariance[1,0]", "covariance[1,1]", "mean"]
    np.testing.assert_array_equal(columns["covariance[1,0]"], [2.0, 6.0])


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_nothing_is_overwritten_and_nothing_is_half_there(tmp_path, suffix, monkeypatch):
    taken = tmp_path / f"draws{suffix}"
    taken.write_text("the only copy")
    with pytest.raises(RunFolderError, match="exists; choose another file"):
        write_draws(taken, PLAIN)
    with pytest.raises(RunFolderError, match="is a file"):
        write_draws(taken / f"new{suffix}", PLAIN)
    assert taken.read_text() == "the only copy"

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(RunFolderError, match="No space left"):
        write_draws(tmp_path / f"new{suffix}", PLAIN)
    assert [path.name for path in tmp_path.iterdir()] == [taken.name]
    monkeypatch.undo()
    assert write_draws(tmp_path / "made" / "on the way" / f"new{suffix}", PLAIN).exists()


def test_what_cannot_be_written_is_refused(tmp_path):
    with pytest.raises(SettingsError, match=r"'draws.xls' is not allowed.*\.npz, \.csv, \.parquet, \.nc, \.txt"):
        write_draws(tmp_path / "draws.xls", PLAIN)
    with unchecked(), pytest.raises(TemperingError, match="path is an int"):
        write_draws(3, PLAIN)
    for draws in ({}, {"a": {"b": PLAIN}, "a.b": PLAIN}, {"a": np.array([None, "x"])}):
        with pytest.raises(SettingsError, match="names of their own"):
            write_draws(tmp_path / "draws.npz", draws)
    with pytest.raises(SettingsError, match="the first axis must be the same"):
        write_draws(tmp_path / "draws.npz", {"a": PLAIN, "b": PLAIN[:3]})
    for draws, weights in ((PLAIN, WEIGHTS[:3]), ({"log_weights": PLAIN}, WEIGHTS)):
        with pytest.raises(SettingsError, match="no array may have its name"):
            write_draws(tmp_path / "draws.npz", draws, weights)
    write_draws(tmp_path / "draws.npz", jnp.asarray(PLAIN))
    assert [path.name for path in tmp_path.iterdir()] == ["draws.npz"]


def test_a_sampler_writes_the_draws_of_its_seed(tmp_path):
    sampler = sampler_of(linear_denoiser())
    path = sampler.save_draws(tmp_path / "a.parquet", 20, seed=4)
    assert_same(columns_in(path), columns_of({"draws": sampler.sample(20, seed=4)}))
    spent = sampler.ledger.points.get("sampling", 0)
    draws, log_weights = sampler.sample_weighted(20, seed=4)
    stored = read_arrays(sampler.save_draws(str(tmp_path / "a.npz"), 20, seed=4, weighted=True))
    assert_same(stored, {"draws": draws, "log_weights": log_weights})
    assert sampler.ledger.points["sampling"] == spent + 40
    with pytest.raises(RunFolderError, match="exists"):
        sampler.save_draws(tmp_path / "a.npz", 20, weighted=True)
    with pytest.raises(SettingsError, match="is_quasi_random = True .*False without weights"):
        sampler.save_draws(tmp_path / "b.npz", 20, is_quasi_random=True)
    assert sampler.ledger.points["sampling"] == spent + 40, "refused before anything is drawn"
    with pytest.raises(SettingsError, match="is_even = True .*False with weights"):
        sampler.save_draws(tmp_path / "b.npz", 20, weighted=True, is_even=True)
    assert sampler.ledger.points["sampling"] == spent + 40, "refused before anything is drawn"
    stored = read_arrays(sampler.save_draws(tmp_path / "c.npz", 20, seed=4, is_even=True))
    assert sampler.ledger.points["sampling"] == spent + 80
    assert_same(stored, {"draws": sampler.sample_even(20, seed=4)})
    stored = read_arrays(sampler.save_draws(tmp_path / "b.npz", 20, seed=4, weighted=True, is_quasi_random=True))
    draws, log_weights = sampler.sample_weighted(20, seed=4, is_quasi_random=True)
    assert_same(stored, {"draws": draws, "log_weights": log_weights})
