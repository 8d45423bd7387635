"""What `fit` refuses before anything is evaluated: bad arguments, trees, supports, budgets and folders."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tempering as tp
from support.tiny import files_of, quick_compilation, tiny_pt_dm
from support.tiny_fits import density, fit
from support.unchecked import unchecked
from tempering import api
from tempering.methods.own_folder import identity_of

INF, NAN = np.inf, np.nan


@pytest.fixture(scope="module", autouse=True)
def as_users_run_it():
    with quick_compilation(), unchecked():
        yield


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"dim": None}, "dim is missing"),
        ({"dim": 0}, "dim = 0 is not allowed"),
        ({"dim": 2.0}, "dim = 2.0 is not allowed"),
        ({"dim": "2"}, "dim = '2' is not allowed"),
        ({"dim": -3}, "dim = -3 is not allowed"),
        (
            {"method": "PTSD"},
            "method = 'PTSD' is not allowed: it must be one of 'ptsd', 'ptsd_paper', 'pt_dm', 'reweighted'",
        ),
        ({"method": None}, "method = None is not allowed"),
        ({"method": ["ptsd"]}, r"method = \['ptsd'\] is not allowed"),
        ({"seed": -1}, r"seed = -1 is not allowed: it must be an integer from 0 to 2\*\*32 - 1"),
        ({"seed": 2**32}, "seed = 4294967296 is not allowed"),
        ({"seed": 10**30}, "seed = 1000000000000000000000000000000 is not allowed"),
        ({"seed": 1.0}, "seed = 1.0 is not allowed"),
        ({"seed": True}, "seed = True is not allowed"),
        ({"seed": None}, "seed = None is not allowed"),
        ({"budget": 0}, "budget = 0 is not allowed"),
        ({"budget": 1.5}, "budget = 1.5 is not allowed: it must be an integer"),
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
        ({"init": "here"}, "init is a string that is not an array of numbers"),
        ({"init": [[1.0], [1.0, 2.0]]}, "init is a list that is not an array of numbers"),
        ({"init": lambda key, num: jnp.zeros((num, 3))}, r"init\(key, (\d+)\) returned shape \(\1, 3\).*\(\1, 2\)"),
        ({"init": lambda key, num: jnp.zeros(2)}, r"returned shape \(2,\)"),
        ({"settings": tiny_pt_dm()}, "method 'ptsd' takes PTSDSettings, not PTDMSettings"),
        ({"settings": {"buffer_size": 50}}, "the budget sets the sizes here"),
        ({"settings": [("buffer_size", 50)]}, "settings is a list; give PTSDSettings"),
        ({"settings": {"buffersize": 50}}, "did you mean 'buffer_size'"),
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


@pytest.mark.parametrize("ladder", [None, [4.0, 2.0, 1.0]])
def test_an_automatic_budget_that_cannot_do_is_refused_and_leaves_no_folder(ladder, tmp_path):
    with pytest.raises(tp.BudgetError, match="a budget of 100 evaluations"):
        fit(settings=None, ladder=ladder, budget=100, out=tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_a_folder_that_is_not_a_fit_is_refused_and_nothing_is_lost(tmp_path):
    (tmp_path / "thesis.txt").write_text("the only copy")
    with pytest.raises(tp.RunFolderError, match="is not empty"):
        fit(out=tmp_path)
    with pytest.raises(tp.RunFolderError, match="is a file"):
        fit(out=tmp_path / "thesis.txt")
    with pytest.raises(tp.RunFolderError, match="cannot make"):
        fit(out=tmp_path / "thesis.txt" / "run")
    assert files_of(tmp_path).keys() == {"thesis.txt"} and (tmp_path / "thesis.txt").read_text() == "the only copy"


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
        ({"support": {"tau": tp.positive}}, "support has 'tau', which the parameters do not have"),
        ({"support": [tp.positive] * 3}, "support is a list, which is not nested like"),
        ({"init": np.ones((4, 3))}, "init is .*, which is not nested like"),
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
    target = api.as_fitted(of_tree, None, LIKE, {"sigma": tp.positive})
    rows = api.own_start(tree([2.0, 3.0], [[0.5, 1.0], [-1.0, 0.0]]), target, 1.0)(jax.random.key(0), 2)
    np.testing.assert_allclose(rows, [[np.log(2.0), 0.5, 1.0], [np.log(3.0), -1.0, 0.0]], rtol=1e-5)


def test_a_folder_tells_supports_and_structures_apart():
    def identity(log_density=of_tree, like=LIKE, support=None):
        target = api.as_fitted(log_density, None, like, support)
        return identity_of(target, None, api.own_start(None, target, 1.0))

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
    plain = api.as_fitted(density(), 2, None, None)
    assert set(identity_of(plain, None, None)) == {"dim", "density"}, "as in folders made before there were supports"
