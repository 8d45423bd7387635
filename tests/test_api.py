"""The front door, as a user comes to it: a density, and a folder to go on with. `test_default_fit.py` has the rest."""

import dataclasses
import shutil

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tempering as tp
from support.compilation import optimised
from support.tiny import Kept, files_of, quick_compilation, tiny_pt_dm, tiny_ptsd
from support.tiny_fits import density, fit
from support.unchecked import unchecked
from tempering import api
from tempering.methods.budget import planned
from tempering.methods.registry import METHODS
from tempering.parallel_tempering.initial import rows_start
from tempering.runs import storage
from tempering.runs.folder import RunFolder
from tempering.settings import Refinement

INF, NAN = np.inf, np.nan


@pytest.fixture(scope="module", autouse=True)
def as_users_run_it():
    with quick_compilation(), unchecked():
        yield


def arrays_of(sampler) -> dict[str, bytes]:
    return {name: array.tobytes() for name, array in storage.arrays_of(sampler.model).items()}


# What comes back.


@pytest.mark.parametrize("method", ["ptsd", pytest.param("pt_dm", marks=pytest.mark.slow)])
def test_a_density_becomes_a_sampler(method, capsys):
    settings = {"ptsd": tiny_ptsd, "pt_dm": tiny_pt_dm}[method]()
    sampler = fit(method=method)
    assert isinstance(sampler, tp.Sampler) and sampler.dim == 2
    assert sampler.evaluations == sum(planned(settings, 2).values())
    draws, log_weights = sampler.sample_weighted(7, seed=3)
    assert draws.shape == (7, 2) and log_weights.shape == (7,) and np.all(np.isfinite(log_weights))
    assert capsys.readouterr().out == "", "progress=False prints nothing"


def test_the_ladder_and_the_scale_win_over_the_settings():
    sampler = fit(ladder=[5, 2.5, 1], scale=0.5)
    assert [record.temperature for record in sampler.levels] == [5.0, 2.5, 1.0]
    assert arrays_of(sampler) != arrays_of(fit(ladder=[5, 2.5, 1]))
    # Any sequence of numbers will do.
    assert arrays_of(fit(ladder=np.array([5, 2.5, 1]), scale=0.5)) == arrays_of(sampler)


def test_starting_points_may_be_rows_or_a_function():
    rows = np.array([[1.0, 0.0], [2.0, -1.0], [0.0, 0.5]])
    first = arrays_of(fit(init=rows))
    assert arrays_of(fit(init=rows.tolist())) == arrays_of(fit(init=jnp.asarray(rows))) == first
    asked = []

    def start(key, num):
        asked.append(num)
        return 0.1 * jax.random.normal(key, (num, 2))

    by_function = arrays_of(fit(init=start))
    assert by_function != first and asked == [64], "two levels of 32 chains"


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        (density(wall=-INF, beyond=NAN), r"usable at none of the 64 starting points \(64 NaN, 0 -inf"),
        (density(wall=-INF, beyond=-INF), r"usable at none .*\(0 NaN, 64 -inf.*pass `init=` points inside"),
        (density(wall=-INF, beyond=INF), r"usable at none .*64 \+inf"),
        (density(slope=0.0), "has no gradient: it varies over the starting points, yet jax.grad is 0"),
    ],
)
@pytest.mark.parametrize("method", ["ptsd", "pt_dm"])
def test_a_density_that_is_of_no_use_anywhere_is_refused(fault, message, method):
    message = message.replace("64", "128") if method == "pt_dm" else message  # four levels in place of two
    with pytest.raises(tp.DensityError, match=message):
        fit(fault, method=method)


@pytest.mark.parametrize(("beyond", "is_fault"), [(NAN, True), (INF, True), (-INF, False)])
def test_points_without_a_density_are_never_kept_and_faults_are_counted(beyond, is_fault):
    store = Kept()
    inside = np.array([[0.5, 0.0], [1.0, -1.0], [1.4, 0.3], [3.0, 0.0]])  # the last one is beyond the wall
    sampler = METHODS["ptsd"].fit(
        api.as_target(density(wall=1.5, beyond=beyond), 2),
        jax.random.key(0),
        tiny_ptsd(),
        start_fn=rows_start(jnp.asarray(inside, jnp.float32)),
        store=store,
    )
    for (level, part), (arrays, _) in store.parts.items():
        for name, array in arrays.items():
            if part == "buffer" and name.endswith("position"):
                assert np.all(array[:, 0] <= 1.5), f"level {level}: {name} holds a point beyond the wall"
            if part == "buffer" and name.endswith(("log_density", "log_density_grad")):
                assert np.all(np.isfinite(array))
    assert sampler.levels[0].num_replaced > 0, "starts beyond the wall were replaced, and this is told"
    num_faults = sum(record.num_nonfinite for record in sampler.levels)
    assert (num_faults > 0) == is_fault, "-inf is outside the support, which is no fault"
    assert np.all(np.isfinite(sampler.sample(10)))


def test_a_budget_below_the_plan_is_refused_and_leaves_no_folder(tmp_path):
    total = sum(planned(tiny_ptsd(), 2).values())
    with pytest.raises(
        tp.BudgetError, match=rf"needs {total:,} evaluations over 4 levels, more than the budget of {total - 1:,}"
    ):
        fit(budget=total - 1, out=tmp_path / "run")
    assert not (tmp_path / "run").exists()
    assert fit(budget=total, out=tmp_path / "run").evaluations == total


# A folder.


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A finished fit, for reading only."""
    place = tmp_path_factory.mktemp("fit") / "run"
    return place, fit(seed=5, out=place)


def test_the_same_call_reads_the_result_back_and_evaluates_nothing(folder, monkeypatch):
    place, sampler = folder
    before = files_of(place)
    assert set(before) >= {"config.json", "environment.json", "stats.jsonl", "sampler.json", "levels/01/buffer.npz"}
    monkeypatch.setitem(METHODS, "ptsd", dataclasses.replace(METHODS["ptsd"], fit=None))
    again = fit(seed=5, out=str(place))
    assert arrays_of(again) == arrays_of(sampler) and again.facts() == sampler.facts()
    assert files_of(place) == before
    # Its density came with the call.
    assert np.all(np.isfinite(again.sample_weighted(3)[1]))


def test_a_kill_right_after_the_configuration_leaves_nothing_out(folder, tmp_path, monkeypatch):
    place, _ = folder
    shutil.copytree(place, tmp_path / "run")
    (tmp_path / "run" / "environment.json").unlink()
    with monkeypatch.context() as full:
        full.setattr(RunFolder, "mend", lambda _: (_ for _ in ()).throw(OSError(28, "No space left on device")))
        with pytest.raises(OSError, match="No space") as kept:  # `kept` holds the frames: nothing is closed by chance
            fit(seed=5, out=tmp_path / "run")
    fit(seed=5, out=tmp_path / "run")
    assert kept.value.errno == 28
    assert files_of(tmp_path / "run") == files_of(place)


@pytest.mark.parametrize(
    "change",
    [
        {"seed": 6},
        {"budget": 10**9},
        {"scale": 2.0},
        {"ladder": [4.0, 2.0, 1.0]},
        {"method": "pt_dm"},
        {"settings": tiny_ptsd(refinement=Refinement(num_steps=2))},
        {"settings": None},
        {"init": np.zeros((3, 2))},
        {"init": lambda key, num: jnp.zeros((num, 2))},
        {"log_density": density(wall=9.0)},
        {"log_density": lambda x: -0.5 * jnp.sum(x**2)},
    ],
)
def test_another_call_is_refused_and_nothing_is_lost(change, folder):
    place, _ = folder
    before = files_of(place)
    with pytest.raises(tp.RunFolderError, match="holds a fit of another density, with other arguments"):
        fit(**{"seed": 5, **change}, out=place)
    assert files_of(place) == before


def test_an_interrupted_call_goes_on_where_it_stopped(folder, tmp_path, monkeypatch):
    place, sampler = folder

    def stop_before(path, data, write=storage.write_bytes):
        if path.parent.name == "02":
            raise KeyboardInterrupt
        write(path, data)

    with monkeypatch.context() as patched:
        patched.setattr(storage, "write_bytes", stop_before)
        with pytest.raises(KeyboardInterrupt):
            fit(seed=5, out=tmp_path / "run")
    kept = files_of(tmp_path / "run")
    assert "levels/01/model.npz" in kept and "levels/02/buffer.npz" not in kept
    again = fit(seed=5, out=tmp_path / "run")
    assert arrays_of(again) == arrays_of(sampler) and again.facts() == sampler.facts()
    after, whole = files_of(tmp_path / "run"), files_of(place)
    assert {name: after[name] for name in kept if name != "stats.jsonl"}.items() <= kept.items()
    assert all(after[name] == whole[name] for name in whole if name.endswith(".npz") or name == "sampler.json")


def test_a_loaded_sampler_draws_the_same(folder, tmp_path):
    place, sampler = folder
    loaded = tp.load(place)
    assert loaded.facts() == sampler.facts() and loaded.summary() == sampler.summary()
    np.testing.assert_array_equal(loaded.sample(9, seed=2), sampler.sample(9, seed=2))
    with pytest.raises(tp.DensityError, match="the density, which is not stored: load with tp.load"):
        loaded.sample_weighted(3)
    whole = tp.load(place, density())
    np.testing.assert_array_equal(whole.sample_weighted(9, seed=2)[1], sampler.sample_weighted(9, seed=2)[1])
    assert whole.ledger.points["sampling"] == 9 and whole.evaluations == sampler.evaluations
    # A sampler saved by hand has no configuration beside it.
    assert tp.load(sampler.save(tmp_path / "saved")).facts()["levels"] == sampler.facts()["levels"]


def test_what_cannot_be_loaded_is_refused(folder, tmp_path):
    place, _ = folder
    for missing, words in ((tmp_path, "holds no finished sampler"), (tmp_path / "nowhere", "is not a folder; give")):
        with pytest.raises(tp.RunFolderError, match=words):
            tp.load(missing)
    copy = tmp_path / "copy"
    shutil.copytree(place, copy)
    data = bytearray((copy / "sampler.npz").read_bytes())
    data[len(data) // 2] ^= 1
    (copy / "sampler.npz").write_bytes(bytes(data))
    with pytest.raises(tp.RunFolderError, match="sampler.npz is damaged"):
        tp.load(copy)
    with pytest.raises(tp.DensityError, match=r"returned shape \(2,\)"):
        tp.load(place, lambda x: x)


# Everything chosen from the density.


@pytest.mark.slow
@pytest.mark.telling
@pytest.mark.parametrize("method", ["ptsd", "pt_dm"])
def test_an_automatic_fit_keeps_its_budget_and_finds_log_z(method):
    with optimised():
        sampler = tp.fit(density(), dim=2, method=method, budget=30_000, scale=3.0, progress=False)
    assert sampler.evaluations <= 30_000
    exact = np.log(2 * np.pi * 2.0)
    assert abs(sampler.log_z - exact) < 5 * sampler.log_z_error < 0.05, sampler.summary()
