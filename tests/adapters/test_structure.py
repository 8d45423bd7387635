"""Trees of parameters: flat and back, supports as prefixes, JSON, and what is refused."""

import json
from collections import OrderedDict
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tempering as tp
from support.unchecked import unchecked
from tempering.adapters import as_target
from tempering.adapters.structure import StructuredTarget, chart_of_tree, read_structure, structure_of
from tempering.errors import RunFolderError, SettingsError
from tempering.transforms import Block


class Line(NamedTuple):
    slope: Any
    offset: Any


class Module(eqx.Module):
    weight: Any
    bias: Any


NESTED = {"b": [np.zeros(2), (0.0, np.zeros((2, 3)))], "a": {"z": 1.0, "y": np.zeros((1, 2))}, "none": None}
TREES = {
    "nested": NESTED,
    "an array": np.zeros((2, 3)),
    "a number": 0.5,
    "a named tuple": Line(0.0, np.zeros(2)),
    "a module": Module(np.zeros((2, 2)), np.zeros(2)),
    "shapes alone": {"x": jax.ShapeDtypeStruct((3,), jnp.float32)},
    "an ordered dict": OrderedDict(b=0.0, a=np.zeros(2)),
}
EACH = pytest.mark.parametrize("tree", TREES.values(), ids=TREES.keys())


@EACH
def test_flat_and_back(tree):
    structure = structure_of(tree)
    rows = np.random.default_rng(0).normal(size=(5, structure.size)).astype(np.float32)
    many = structure.restore(rows)
    assert jax.tree.structure(many) == jax.tree.structure(tree)
    for leaf, shape in zip(jax.tree.leaves(many), structure.shapes, strict=True):
        assert isinstance(leaf, np.ndarray) and leaf.shape == (5, *shape)
    np.testing.assert_array_equal(structure.flatten(many, "x"), rows)
    one = structure.unflatten(jnp.asarray(rows[2]))
    np.testing.assert_array_equal(structure.flatten(one, "x"), rows[2])
    assert hash(structure) == hash(structure_of(tree)) and structure == structure_of(tree)


def test_leaves_are_named_by_their_keys():
    assert structure_of(NESTED).names == ("a.y", "a.z", "b.0", "b.1.0", "b.1.1")
    assert structure_of(np.zeros(3)).names == ("x",)
    assert structure_of(Line(0.0, 0.0)).names == ("slope", "offset")


@pytest.mark.parametrize("name", TREES)
def test_plain_trees_are_read_back_from_json_and_others_must_be_given(name):
    structure = structure_of(TREES[name])
    stored = json.loads(json.dumps(structure.as_dict()))
    if name in ("a named tuple", "a module", "an ordered dict"):
        with pytest.raises(SettingsError, match=r"tp.load\(folder, log_density, like=params\)"):
            read_structure(stored)
    else:
        assert read_structure(stored) == structure
    assert read_structure(stored, structure) is structure
    with pytest.raises(SettingsError, match="nested or shaped otherwise"):
        read_structure(stored, structure_of({"else": 0.0}))
    assert read_structure(None) is None


@pytest.mark.parametrize(
    "tree", [{"set": []}, {"dict": 3}, {"shape": ["x"]}, 4, {"dict": {}, "list": []}, {"list": []}]
)
def test_a_file_in_other_words_is_refused(tree):
    with unchecked(), pytest.raises(RunFolderError, match="by another version"):
        read_structure({"name": "tree", "tree": tree})


def test_a_function_of_a_tree_is_a_target():
    def log_density(params):
        return -(params["scale"] ** 2) - jnp.sum((params["place"] - jnp.array([1.0, 2.0])) ** 2)

    target = as_target(StructuredTarget(log_density, structure_of({"scale": 0.0, "place": np.zeros(2)})))
    assert target.dim == 3  # place comes first: JAX sorts keys
    np.testing.assert_allclose(target.log_density(jnp.asarray([1.0, 2.5, 3.0])), -9.25)


# Supports as prefixes.

LIKE = {"mu": np.zeros(2), "sigma": 0.0, "mix": {"w": np.zeros((2, 3)), "cuts": [0.0, np.zeros(3)]}}
REAL = Block(tp.real, 1, 1)


@pytest.mark.parametrize(
    ("support", "expected"),
    [
        (None, None),
        ({}, None),
        ({"mix": None, "mu": tp.real}, None),
        (tp.positive, (Block(tp.positive, 1, 13),)),
        # In the order of the leaves: mix.cuts, mix.w, mu, sigma.
        ({"sigma": tp.positive}, (Block(tp.real, 1, 12), Block(tp.positive, 1, 1))),
        (
            {"mix": {"w": tp.simplex, "cuts": [None, tp.ordered]}},
            (REAL, Block(tp.ordered, 1, 3), Block(tp.simplex, 2, 3), Block(tp.real, 1, 3)),
        ),
        ({"mix": {"cuts": tp.positive}}, (Block(tp.positive, 1, 4), Block(tp.real, 1, 9))),
    ],
)
def test_a_support_is_a_prefix_of_the_tree(support, expected):
    chart = chart_of_tree(LIKE, support)
    assert (None if chart is None else chart.blocks) == expected


def test_types_of_ones_own_take_supports_by_name():
    expected = (Block(tp.positive, 1, 1), Block(tp.real, 1, 2))
    like = Line(0.0, np.zeros(2))
    assert chart_of_tree(like, {"slope": tp.positive}).blocks == expected
    assert chart_of_tree(like, Line(tp.positive, None)).blocks == expected
    module = Module(np.zeros((2, 2)), np.zeros(2))
    assert chart_of_tree(module, {"bias": tp.simplex}).blocks == (Block(tp.real, 1, 4), Block(tp.simplex, 1, 2))


@pytest.mark.parametrize(
    ("support", "message"),
    [
        ({"tau": tp.positive}, "support has 'tau', which the parameters do not have; they have 'mix', 'mu', 'sigma'"),
        ({"mix": {"v": tp.simplex}}, r"support\['mix'\] has 'v', which"),
        ({"mix": {"cuts": [None]}}, r"support\['mix'\]\['cuts'\] has 1 entries"),
        ({"mix": {"cuts": [None, None, None]}}, r"support\['mix'\]\['cuts'\] has 2, which"),
        ({"mix": {"cuts": {"first": None}}}, "is a dict, which is not nested like"),
        ({"mix": [tp.positive]}, "is a list, which is not nested like"),
        ({"sigma": {"deep": tp.positive}}, r"support\['sigma'\] is a dict, where the parameters have an array"),
        ({"sigma": "positive"}, r"support\['sigma'\] is a string"),
        ("positive", "support is a string, which is not nested like"),
        ({"sigma": tp.simplex}, r"'sigma' has shape \(\): support simplex is of vectors"),
        (tp.ordered, r"has shape \(\): support ordered is of vectors"),
    ],
)
def test_bad_supports_are_refused(support, message):
    with unchecked(), pytest.raises(SettingsError, match=message):
        chart_of_tree(LIKE, support)


@pytest.mark.parametrize(
    ("like", "message"),
    [
        ({}, "has no numbers in it"),
        ({"a": None, "b": []}, "has no numbers in it"),
        ({"a": np.zeros((0, 3))}, "has no numbers in it"),
        ({"a": 1}, "like has dtype int.* at 'a'; only real numbers"),
        ({"a": 0.0, "b": {"c": np.arange(3)}}, "at 'b.c'; only real numbers"),
        ({"a": True}, "like has dtype bool at 'a'"),
        ({"a": 1j}, "like has dtype complex128 at 'a'"),
        ({"a": "text"}, "like has a string at 'a'"),
        ({"a": 0.0, 1: 0.0}, "like is not a tree that JAX can flatten"),
        ({"a": np.array(["text"])}, "like has dtype <U4 at 'a'"),
        (lambda params: 0.0, "like has a function at 'x'"),
    ],
)
def test_bad_trees_are_refused(like, message):
    with unchecked(), pytest.raises(SettingsError, match=message):
        structure_of(like)


@pytest.mark.parametrize(
    ("tree", "message"),
    [
        ({"mu": np.zeros(2)}, r"x is \{mu: \(2,\)\}, which is not nested like \{mu: \(2,\), sigma: \(\)\}"),
        ({"mu": np.zeros(2), "sigma": 0.0, "tau": 0.0}, "not nested like"),
        (np.zeros(3), "x is a NumPy array, which is not nested like .*; give a dict with these names"),
        ({"mu": np.zeros(3), "sigma": 0.0}, "they must be .* or all have one more leading axis"),
        ({"mu": np.zeros((4, 2)), "sigma": 0.0}, "one more leading axis"),
        ({"mu": np.zeros((4, 2)), "sigma": np.zeros(3)}, "one more leading axis"),
        ({"mu": np.zeros((1, 4, 2)), "sigma": np.zeros((1, 4))}, "one more leading axis"),
        ({"mu": np.zeros(2), "sigma": "wide"}, "x has a string of dtype <U4 at 'sigma', which is not an array of"),
        ({"mu": np.zeros(2), "sigma": 1j}, "which is not an array of numbers"),
        ({"mu": np.zeros(2), "sigma": object()}, "which is not an array of numbers"),
        ({"mu": np.zeros(2), 3: 0.0}, "x is not a tree that JAX can flatten"),
        ({"mu": 0.0, "sigma": 0.0}, "they must be"),
    ],
)
def test_points_of_another_structure_are_refused(tree, message):
    with unchecked(), pytest.raises(SettingsError, match=message):
        structure_of({"mu": np.zeros(2), "sigma": 0.0}).flatten(tree, "x")
