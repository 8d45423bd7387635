"""Networks that know atoms and bonds: they turn with the molecule, tell atoms apart, and tell hands where asked to."""

import dataclasses
import itertools
import json

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from support.random_checks import must_fail
from support.tiny import quick_compilation
from support.unchecked import unchecked
from tempering.diffusion.networks import make_network
from tempering.diffusion.networks.handedness import volumes
from tempering.diffusion.networks.topology import Topology
from tempering.errors import SettingsError
from tempering.sampler.load import _tupled
from tempering.settings import Network
from tempering.transforms.centred import Centred

# A carbon with four unlike neighbours, one of which has two more: 7 atoms, one chiral centre, one inner bond.
ATOMS, BONDS = (0, 1, 2, 3, 4, 5, 6), ((0, 1), (0, 2), (0, 3), (0, 4), (4, 5), (4, 6))
GEOMETRY = Centred(7, 3)
C_NOISE, C_TEMPERATURE, C_IN = jnp.asarray(-0.2), jnp.asarray(0.6), jnp.asarray(0.8)
MOLECULE = {"num_particles": 7, "atoms": ATOMS, "bonds": BONDS, "width": 16, "depth": 2}
NETWORKS = {
    "egnn": Network("egnn", **MOLECULE),
    "transformer": Network("particle_transformer", **MOLECULE),
    "chiral transformer": Network("particle_transformer", is_chiral=True, **MOLECULE),
}
by_network = pytest.mark.parametrize("name", NETWORKS)


@pytest.fixture(scope="module", autouse=True)
def compiled_quickly():
    with quick_compilation():
        yield


def awake(network):
    """All weights drawn at random, those that start at zero included."""
    rng = np.random.default_rng(4)
    shapes = eqx.filter_eval_shape(make_network, jax.random.key(0), GEOMETRY.dim, network)
    fill = lambda leaf: jnp.asarray(0.3 * rng.normal(size=leaf.shape), leaf.dtype)  # noqa: E731
    return jax.tree.map(lambda leaf: fill(leaf) if isinstance(leaf, jax.ShapeDtypeStruct) else leaf, shapes)


@eqx.filter_jit
def call(network, y):
    return network(y, C_NOISE, C_TEMPERATURE, C_IN)


def point():
    return jnp.asarray(np.random.default_rng(1).normal(size=GEOMETRY.dim), jnp.float32)


def moved_by(move):
    """A map of (atom, xyz) in inner coordinates."""

    def moved(y):
        full = np.asarray(GEOMETRY.embed(y), np.float64).reshape(7, 3)
        return GEOMETRY.restrict(jnp.asarray(move(full).reshape(-1), jnp.float32))

    return moved


TURN = np.linalg.qr(np.random.default_rng(2).normal(size=(3, 3)))[0]
TURN = TURN * np.sign(np.linalg.det(TURN))
MOVES = {
    "rotation": lambda x: x @ TURN.T,
    "translation": lambda x: x + np.array([0.5, -2.0, 1.0]),
    "reflection": lambda x: -x @ TURN.T,
    "exchange": lambda x: x[[0, 2, 1, 3, 4, 5, 6]],
}


def check(network, name):
    y, moved = point(), moved_by(MOVES[name])
    plain = call(network, y)
    wanted = plain if name == "translation" else moved(plain)
    scale = max(1.0, float(np.max(np.abs(plain))))
    np.testing.assert_allclose(call(network, moved(y)), wanted, atol=2e-5 * scale, err_msg=name)


@by_network
def test_the_output_turns_with_the_molecule_and_tells_its_atoms_apart(name):
    network = awake(NETWORKS[name])
    check(network, "rotation")
    check(network, "translation")
    must_fail(check, network, "exchange")
    if name == "chiral transformer":
        must_fail(check, network, "reflection")
    else:
        check(network, "reflection")


def test_atoms_of_one_kind_with_the_same_bonds_are_exchangeable():
    alike = Network("particle_transformer", **{**MOLECULE, "atoms": (0, 1, 1, 3, 4, 5, 6)})
    check(awake(alike), "exchange")
    elsewhere = {**MOLECULE, "atoms": alike.atoms, "bonds": ((0, 1), (3, 2), *BONDS[2:])}
    must_fail(check, awake(Network("particle_transformer", **elsewhere)), "exchange")


SLOW = [pytest.param("egnn", marks=pytest.mark.slow), pytest.param("transformer", marks=pytest.mark.slow)]


@pytest.mark.parametrize("name", ["chiral transformer", *SLOW])
def test_nothing_before_training(name):
    fresh = eqx.filter_jit(make_network)(jax.random.key(0), GEOMETRY.dim, NETWORKS[name])
    np.testing.assert_array_equal(call(fresh, point()), np.zeros(GEOMETRY.dim))


@pytest.mark.slow
def test_atoms_in_one_place_or_far_apart_are_no_exception():
    """Of the chiral transformer, which has all that the others have: values, gradients in weights, derivatives."""
    network = awake(NETWORKS["chiral transformer"])

    @eqx.filter_jit
    def slopes(network, y):
        function = lambda network, y: network(y, C_NOISE, C_TEMPERATURE, C_IN)  # noqa: E731
        by_weights = eqx.filter_grad(lambda network: jnp.sum(function(network, y) ** 2))(network)
        return by_weights, jax.jvp(lambda y: function(network, y), (y,), (point(),))

    for y in (jnp.zeros((GEOMETRY.dim,)), 1e4 * point()):
        assert all(np.all(np.isfinite(leaf)) for leaf in jax.tree.leaves(slopes(network, y)))


@pytest.mark.parametrize("kind", ["egnn", "particle_transformer"])
def test_without_atoms_weights_are_those_from_before(kind):
    """The numbers of initial weights, by path: what a saved model has, and a molecule's network adds to."""
    sizes = {"num_particles": 7, "width": 16, "depth": 2}
    plain, molecule = (
        {
            jax.tree_util.keystr(path): leaf.shape
            for path, leaf in jax.tree_util.tree_leaves_with_path(
                eqx.filter_eval_shape(make_network, jax.random.key(0), GEOMETRY.dim, Network(kind, **sizes, **more))
            )
            if isinstance(leaf, jax.ShapeDtypeStruct)
        }
        for more in ({}, {"atoms": ATOMS, "bonds": BONDS})
    )
    assert plain.items() < molecule.items()
    added = {path.rpartition(".")[2] for path in set(molecule) - set(plain)}
    assert added == ({"identity", "relations"} if kind == "egnn" else {"identity", "near_weight", "weight", "bias"})


def test_the_topology():
    topology = Topology(ATOMS, BONDS)
    relations = topology.relations
    np.testing.assert_array_equal(relations, relations.T)
    np.testing.assert_array_equal(relations[0], [0, 1, 1, 1, 1, 2, 2])
    np.testing.assert_array_equal(relations[1], [1, 0, 2, 2, 2, 3, 3])
    assert Topology((0,) * 5, ((0, 1), (1, 2), (2, 3), (3, 4))).relations[0].tolist() == [0, 1, 2, 3, 0]
    # Every near pair of unlike atoms has a number of its own; of like atoms those as far apart share one.
    near = topology.pair_kinds[np.triu_indices(7, 1)]
    assert sorted(near[near > 0]) == list(range(1, topology.num_pair_kinds + 1))
    chain = Topology((0,) * 5, ((0, 1), (1, 2), (2, 3), (3, 4)))
    assert chain.num_pair_kinds == 3 and chain.pair_kinds[0, 1] == chain.pair_kinds[3, 4] > 0 == chain.pair_kinds[0, 4]
    assert topology.tetrahedra.tolist() == [[1, 2, 3, 4], [0, 5, 6, 4], [1, 0, 4, 5]]
    assert Topology((0, 1), ()).tetrahedra.shape == (0, 4)
    ring = Topology((0, 1, 2), ((0, 1), (1, 2), (2, 0)))
    assert ring.tetrahedra.shape == (0, 4) and ring.relations.max() == 1


def test_volumes_have_a_hand_and_slopes_that_raise_them():
    corners = np.random.default_rng(3).normal(size=(3, 4)).astype(np.float32)
    orders = np.array(list(itertools.permutations(range(4))))
    signs = np.array([round(np.linalg.det(np.eye(4)[order])) for order in orders])
    found = jax.jit(lambda x: (volumes(x, orders), jax.jacfwd(lambda x: volumes(x, orders))(x)))
    (volume, slopes), _ = found(corners)
    edges = corners[:, 1:] - corners[:, :1]
    by_hand = np.linalg.det(edges) / np.prod(np.linalg.norm(edges, axis=0))
    np.testing.assert_allclose(volume[0], by_hand, rtol=1e-3)  # lengths are softened
    np.testing.assert_array_equal(np.sign(volume), signs * np.sign(volume[0]))
    np.testing.assert_allclose(found(-corners)[0][0], -volume, rtol=1e-5)
    np.testing.assert_allclose(np.sum(slopes, axis=2), 0.0, atol=1e-6)
    ratio = np.asarray(slopes[:, 0, 1:]) / (np.linalg.inv(edges).T * np.linalg.det(edges))
    np.testing.assert_allclose(ratio, ratio[0, 0], rtol=1e-3)
    assert ratio[0, 0] > 0
    for size in (0.0, 1e-20, 1e15):
        assert all(np.all(np.isfinite(leaf)) for leaf in jax.tree.leaves(found(size * corners)))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"atoms": (0, 1)}, r"network\.atoms.*one integer for each of num_particles = 7"),
        ({"atoms": (0, 1, 2, 3, 4, 5, -1)}, r"network\.atoms = -1.*at least 0"),
        ({"atoms": [0, 1, 2, 3, 4, 5, 6]}, r"network\.atoms.*a tuple"),
        ({"bonds": ((0, 7),)}, r"network\.bonds = 7.*at most 6"),
        ({"bonds": ((2, 2),)}, r"network\.bonds = \(2, 2\).*two different atoms"),
        ({"atoms": (), "bonds": BONDS}, r"network\.bonds"),
        ({"bonds": (), "is_chiral": True}, r"network\.is_chiral.*give atoms and bonds"),
        ({"kind": "egnn", "is_chiral": True}, r"network\.is_chiral.*egnn"),
    ],
)
def test_bad_molecules_are_refused(changes, message):
    with unchecked(), pytest.raises(SettingsError, match=message):
        Network(**{"kind": "particle_transformer", **MOLECULE, **changes})


def test_settings_are_plain_data():
    """As sampler.json holds them."""
    network = NETWORKS["chiral transformer"]
    record = json.loads(json.dumps(dataclasses.asdict(network)))
    assert Network(**{name: _tupled(value) for name, value in record.items()}) == network
    assert hash(NETWORKS["egnn"]) != hash(NETWORKS["transformer"])
