"""The front door, as a user comes to it: any density, any argument, a folder to go on with, and the README's lines."""

import dataclasses
import re
import shutil
from pathlib import Path

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tempering as tp
from support.tiny import Kept, files_of, quick_compilation, shrunk, tiny_pt_dm, tiny_ptsd
from support.unchecked import unchecked
from tempering import api, storage
from tempering.automatic import default_settings
from tempering.experiments.methods import METHODS
from tempering.parallel_tempering.initial import rows_start
from tempering.settings import Refinement

README = Path(__file__).parent.parent / "README.md"
INF, NAN = np.inf, np.nan


@pytest.fixture(scope="module", autouse=True)
def as_users_run_it():
    with quick_compilation(), unchecked():
        yield


class Density(eqx.Module):
    """A Gaussian about (1, -0.5) whose faults are arrays, so that all of them share one compilation.

    Args:
        wall: beyond this first coordinate the density is `beyond`.
        slope: 0 hides the gradient.
    """

    wall: jax.Array
    beyond: jax.Array
    slope: jax.Array

    def __call__(self, x):
        """Log density of one point."""
        value = -0.5 * ((x[0] - 1.0) ** 2 / 4.0 + (x[1] + 0.5) ** 2)
        value = self.slope * value + (1.0 - self.slope) * jax.lax.stop_gradient(value)
        return jnp.where(x[0] > self.wall, self.beyond, value)


def density(wall: float = INF, beyond: float = -INF, slope: float = 1.0) -> Density:
    return Density(*(jnp.asarray(number, jnp.float32) for number in (wall, beyond, slope)))


def fit(log_density=None, **options):
    """A tiny fit, silent; whatever is named in `options` is as given."""
    tiny = tiny_pt_dm() if options.get("method") == "pt_dm" else tiny_ptsd()
    options = {"dim": 2, "settings": tiny, "progress": False, **options}
    return tp.fit(density() if log_density is None else log_density, **options)


def arrays_of(sampler) -> dict[str, bytes]:
    return {name: array.tobytes() for name, array in storage.arrays_of(sampler.model).items()}


# What comes back.


@pytest.mark.parametrize("method", ["ptsd", pytest.param("pt_dm", marks=pytest.mark.slow)])
def test_a_density_becomes_a_sampler(method, capsys):
    settings = {"ptsd": tiny_ptsd, "pt_dm": tiny_pt_dm}[method]()
    sampler = fit(method=method)
    assert isinstance(sampler, tp.Sampler) and sampler.dim == 2
    assert sampler.evaluations == sum(METHODS[method].plan(settings, 2).values())
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


# What is refused, and that nothing was spent then.


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"dim": None}, "dim is missing"),
        ({"dim": 0}, "dim = 0 is not allowed"),
        ({"dim": 2.0}, "dim = 2.0 is not allowed"),
        ({"dim": "2"}, "dim = '2' is not allowed"),
        ({"dim": -3}, "dim = -3 is not allowed"),
        ({"method": "PTSD"}, "method = 'PTSD' is not allowed: it must be one of 'ptsd', 'pt_dm'"),
        ({"method": None}, "method = None is not allowed"),
        ({"method": ["ptsd"]}, r"method = \['ptsd'\] is not allowed"),
        ({"seed": -1}, r"seed = -1 is not allowed: it must be an integer from 0 to 2\*\*32 - 1"),
        ({"seed": 2**32}, "seed = 4294967296 is not allowed"),
        ({"seed": 10**30}, "seed = 1000000000000000000000000000000 is not allowed"),
        ({"seed": 1.0}, "seed = 1.0 is not allowed"),
        ({"seed": True}, "seed = True is not allowed"),
        ({"seed": None}, "seed = None is not allowed"),
        ({"budget": 0}, "budget = 0 is not allowed"),
        ({"budget": 1e5}, "budget = 100000.0 is not allowed: it must be an integer"),
        ({"budget": "1000"}, "budget = '1000' is not allowed"),
        ({"scale": 0}, "scale = 0 is not allowed: it must be a positive finite number"),
        ({"scale": NAN}, "scale = nan is not allowed"),
        ({"scale": "wide"}, "scale = 'wide' is not allowed"),
        ({"scale": 1.0, "init": np.zeros((3, 2))}, "scale and init both say where chains start"),
        ({"ladder": []}, "at least two temperatures"),
        ({"ladder": [1.0]}, "at least two temperatures"),
        ({"ladder": [4.0, 2.0]}, "ends at T = 1 exactly.*append 1.0"),
        ({"ladder": [1.0, 2.0, 4.0]}, "strictly decreasing, hottest first"),
        ({"ladder": [4.0, 4.0, 1.0]}, "strictly decreasing"),
        ({"ladder": [4.0, NAN, 1.0]}, "ladder temperature = nan is not allowed"),
        ({"ladder": [INF, 1.0]}, "ladder temperature = inf is not allowed"),
        ({"ladder": [4.0, -2.0, 1.0]}, "ladder temperature = -2.0 is not allowed"),
        ({"ladder": ["hot", 1.0]}, "ladder = .*a list of temperatures ending at 1"),
        ({"ladder": "hot"}, "ladder = 'hot' is not allowed"),
        ({"ladder": "21"}, "ladder = '21' is not allowed"),
        ({"ladder": 4.0}, "ladder = 4.0 is not allowed"),
        ({"ladder": [[4.0, 1.0]]}, "ladder = .*is not allowed"),
        ({"init": np.zeros((3, 3))}, r"init has shape \(3, 3\).*\(n, 2\)"),
        ({"init": np.zeros(2)}, r"init has shape \(2,\).*\(n, 2\)"),
        ({"init": np.zeros((0, 2))}, r"init has shape \(0, 2\).*n at least 1"),
        ({"init": [[0.0, NAN]]}, "init .*must be finite"),
        ({"init": [[0.0, INF]]}, "init .*must be finite"),
        ({"init": 3.0}, r"init has shape \(\)"),
        ({"init": "here"}, "init is a str that is no array of numbers"),
        ({"init": [[1.0], [1.0, 2.0]]}, "init is a list that is no array of numbers"),
        ({"init": lambda key, num: jnp.zeros((num, 3))}, r"init\(key, (\d+)\) returned shape \(\1, 3\).*\(\1, 2\)"),
        ({"init": lambda key, num: jnp.zeros(2)}, r"returned shape \(2,\)"),
        ({"settings": tiny_pt_dm()}, "method 'ptsd' takes PTSDSettings, not PTDMSettings"),
        ({"settings": {"buffer_size": 50}}, "method 'ptsd' takes PTSDSettings, not dict"),
    ],
)
def test_a_bad_argument_is_refused_by_its_name(options, message, tmp_path):
    with pytest.raises(tp.SettingsError, match=message):
        fit(**options, out=tmp_path / "run")
    assert not (tmp_path / "run").exists(), "a refused call leaves no folder"


@pytest.mark.parametrize(
    ("log_density", "message"),
    [
        (3.0, "log_density is a float"),
        (lambda x: x, r"returned shape \(2,\)"),
        (lambda x: jnp.sum(x) > 0, "dtype bool"),
        (lambda x: np.sum(np.asarray(x)), "not traceable by JAX"),
        (lambda x, y: x[0], "raised TypeError"),
        (lambda x: jnp.sum(jnp.round(x).astype(jnp.int32)), "dtype int32"),
    ],
)
def test_what_is_no_density_is_refused(log_density, message, tmp_path):
    with pytest.raises(tp.DensityError, match=message):
        fit(log_density, out=tmp_path / "run")
    assert not (tmp_path / "run").exists()


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


# Parameters with names and bounds; the fits themselves are in adapters/test_adapters_page.py.

LIKE = {"sigma": 0.0, "theta": np.zeros(2)}


def of_tree(params):
    return -params["sigma"] + 2.0 * jnp.log(params["sigma"]) - jnp.sum((params["theta"] - 1.0) ** 2)


def tree(sigma, theta) -> dict:
    return {"sigma": np.asarray(sigma), "theta": np.asarray(theta)}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"dim": 4}, "dim = 4 contradicts `like`, which has 3 numbers"),
        ({"like": {"sigma": 1}}, "like has dtype int"),
        ({"like": {}}, "has no numbers in it"),
        ({"support": {"tau": tp.positive}}, "support has 'tau', which the parameters have not"),
        ({"support": [tp.positive] * 3}, "support is a list, nested otherwise"),
        ({"init": np.ones((4, 3))}, "init is .*, which is nested otherwise than"),
        ({"init": tree(1.0, [0.0, 0.0])}, r"init has shape \(3,\); it must be finite, of shape \(n, 3\)"),
        ({"init": tree([1.0], [[0.0, 0.0, 0.0]])}, "one more leading axis"),
        ({"init": tree([np.nan], [[0.0, 0.0]])}, "must be finite"),
        ({"init": tree([1.0, -2.0], np.zeros((2, 2)))}, r"1 of 2 points outside the support .*row 1: \[-2\."),
        ({"init": tree([0.0], np.zeros((1, 2)))}, "give points inside, off the boundary"),
        ({"init": lambda key, num: tree(-np.ones(num), np.zeros((num, 2)))}, "outside the support"),
        ({"init": lambda key, num: tree(np.ones(3), np.zeros((3, 2)))}, r"returned shape \(3, 3\)"),
    ],
)
def test_a_bad_tree_of_parameters_is_refused(options, message, tmp_path):
    options = {"like": LIKE, "support": {"sigma": tp.positive}, "dim": None, **options}
    with pytest.raises(tp.SettingsError, match=message):
        fit(of_tree, **options, out=tmp_path / "run")
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("log_density", "options", "message"),
    [
        (None, {"support": [tp.positive]}, "support has 1 entries for 2 coordinates"),
        (None, {"support": {"x": tp.positive}}, "names need like="),
        (None, {"support": tp.simplex, "init": [[0.5, 0.6]]}, "outside the support"),
        (None, {"support": tp.ordered, "init": [[0.5, 0.5]]}, "outside the support"),
        (tp.PairPotential(lambda r: r**2, 3, 2), {"dim": None, "support": tp.positive}, "coordinates of its own"),
        (tp.PairPotential(lambda r: r**2, 3, 2), {"dim": None, "like": LIKE}, "coordinates of its own"),
    ],
)
def test_supports_that_do_not_fit_are_refused(log_density, options, message):
    with pytest.raises(tp.SettingsError, match=message):
        fit(log_density, **options)


def test_a_density_that_does_not_take_the_tree_is_refused():
    for wrong, message in ((lambda params: params["scale"], "raised KeyError"), (3.0, "log_density is a float")):
        with pytest.raises(tp.DensityError, match=message):
            fit(wrong, dim=None, like=LIKE)


def test_starting_points_are_the_users_and_reach_the_method_unbounded():
    target = api._as_fitted(of_tree, None, LIKE, {"sigma": tp.positive})
    rows = api.own_start(tree([2.0, 3.0], [[0.5, 1.0], [-1.0, 0.0]]), target, 1.0)(jax.random.key(0), 2)
    np.testing.assert_allclose(rows, [[np.log(2.0), 0.5, 1.0], [np.log(3.0), -1.0, 0.0]], rtol=1e-5)


def test_a_folder_tells_supports_and_structures_apart():
    def identity(log_density=of_tree, like=LIKE, support=None):
        target = api._as_fitted(log_density, None, like, support)
        return api._identity(target, None, api.own_start(None, target, 1.0))

    def first(params):
        return -jnp.sum(jax.tree.leaves(params)[0] ** 2)

    variants = [
        identity(),
        identity(support={"sigma": tp.positive}),
        identity(support={"sigma": tp.above(0.5)}),
        identity(support={"sigma": tp.positive, "theta": tp.ordered}),
        identity(first, {"a": 0.0, "b": 0.0}),
        identity(first, {"a": 0.0, "c": 0.0}),
        identity(first, [0.0, 0.0]),
        identity(first, (0.0, 0.0)),
    ]
    assert len({tuple(sorted(variant.items())) for variant in variants}) == len(variants)
    assert identity(support={"sigma": tp.positive}) == variants[1]
    plain = api._as_fitted(density(), 2, None, None)
    assert set(api._identity(plain, None, None)) == {"dim", "density"}, "as in folders made before there were supports"


# Budgets.


def test_a_budget_below_the_plan_is_refused_and_leaves_no_folder(tmp_path):
    total = sum(METHODS["ptsd"].plan(tiny_ptsd(), 2).values())
    with pytest.raises(tp.BudgetError, match=rf"needs {total:,} evaluations, more than the budget of {total - 1:,}"):
        fit(budget=total - 1, out=tmp_path / "run")
    assert not (tmp_path / "run").exists()
    assert fit(budget=total, out=tmp_path / "run").evaluations == total


@pytest.mark.parametrize("ladder", [None, [4.0, 2.0, 1.0]])
def test_an_automatic_budget_that_cannot_do_is_refused_and_leaves_no_folder(ladder, tmp_path):
    with pytest.raises(tp.BudgetError, match="a budget of 100 evaluations"):
        fit(settings=None, ladder=ladder, budget=100, out=tmp_path / "run")
    assert not (tmp_path / "run").exists()


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
    with pytest.raises(tp.RunFolderError, match="holds a fit of another density or with other arguments"):
        fit(**{"seed": 5, **change}, out=place)
    assert files_of(place) == before


def test_a_folder_that_is_not_a_fit_is_refused_and_nothing_is_lost(tmp_path):
    (tmp_path / "thesis.txt").write_text("the only copy")
    with pytest.raises(tp.RunFolderError, match="is not empty"):
        fit(out=tmp_path)
    with pytest.raises(tp.RunFolderError, match="is a file"):
        fit(out=tmp_path / "thesis.txt")
    with pytest.raises(tp.RunFolderError, match="cannot make"):
        fit(out=tmp_path / "thesis.txt" / "run")
    assert files_of(tmp_path).keys() == {"thesis.txt"} and (tmp_path / "thesis.txt").read_text() == "the only copy"


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
    for missing in (tmp_path, tmp_path / "nowhere"):
        with pytest.raises(tp.RunFolderError, match="holds no finished sampler"):
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
def test_the_readme_example_runs_as_printed(monkeypatch, capsys):
    assert README.exists(), "there is no README.md, whose first Python lines this test runs"
    blocks = re.findall(r"^```python\n(.*?)^```", README.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    assert blocks, "README.md has no ```python block, whose lines this test runs"
    monkeypatch.setattr(api, "default_settings", lambda method, dim, geometry: shrunk(default_settings(method, dim)))
    names: dict = {}
    exec(compile(blocks[0], str(README), "exec"), names)
    printed = capsys.readouterr().out
    assert "evaluations" in printed and "level" in printed, f"the example printed no summary:\n{printed}"
    sampler = next(value for value in names.values() if isinstance(value, tp.Sampler))
    # The pilot found the ladder and was counted; the rest is within the budget.
    assert 0 < sampler.ledger.points["pilot"] < sampler.evaluations <= sampler.ledger.budget
    assert sampler.levels[0].temperature > sampler.levels[-1].temperature == 1.0


@pytest.mark.slow
@pytest.mark.parametrize("method", ["ptsd", "pt_dm"])
def test_an_automatic_fit_keeps_its_budget_and_finds_log_z(method):
    jax.config.update("jax_disable_most_optimizations", False)  # here running is what takes time, not compiling
    try:
        sampler = tp.fit(density(), dim=2, method=method, budget=30_000, scale=3.0, progress=False)
    finally:
        jax.config.update("jax_disable_most_optimizations", True)
    assert sampler.evaluations <= 30_000
    exact = np.log(2 * np.pi * 2.0)
    assert abs(sampler.log_z - exact) < 5 * sampler.log_z_error < 0.05, sampler.summary()
