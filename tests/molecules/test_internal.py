"""Internal coordinates: the tree, volumes by brute force, rings by quadrature, round trips, hands, refusals, files.

Every check of a volume or a normaliser is also put to a chart that has it wrong.
"""

import json
import subprocess

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tempering as tp
from support.tiny import COMMAND, quick_compilation, subprocess_environment, tiny_ptsd
from support.unchecked import unchecked
from tempering.errors import RunFolderError, SettingsError
from tempering.lab.run import target_of
from tempering.molecules import (
    MoleculeTarget,
    alanine_dipeptide,
    dihedrals,
    internal_coordinates,
    phi_psi,
    signed_volumes,
)
from tempering.molecules.alanine import ALPHA_CARBON, PHI, PSI
from tempering.molecules.coordinates.internal import InternalChart
from tempering.molecules.coordinates.zmatrix import zmatrix_of
from tempering.molecules.system.record import Atom, MoleculeRecord, Term
from tempering.registry import chart_from, make_target
from tempering.runs.config import RunConfig, TargetConfig
from tempering.settings import Initial, Ladder
from tempering.targets import Inner, Target
from tempering.transforms import Chart

CHAIN = ((0, 1), (1, 2), (2, 3))
BRANCHED = ((0, 1), (1, 2), (1, 3), (3, 4), (3, 5), (3, 6))
RING = ((0, 1), (1, 2), (2, 3), (3, 4), (4, 0), (2, 5), (5, 6), (5, 7))
SHAPES = {"bent": ((0, 1), (1, 2)), "chain": CHAIN, "branched": BRANCHED, "ring": RING}


@pytest.fixture(scope="module", autouse=True)
def compiled_quickly():
    with quick_compilation():
        yield


@pytest.fixture(scope="module")
def alanine() -> InternalChart:
    return internal_coordinates(alanine_dipeptide()).chart


def molecule(bonds, positions=None, terms=()) -> MoleculeTarget:
    """A molecule of those bonds; without positions, at random places."""
    num_atoms = 1 + max(max(bond) for bond in bonds)
    if positions is None:
        positions = np.random.default_rng(num_atoms).normal(size=(num_atoms, 3)) * 0.2
    atoms = (Atom(),) * num_atoms
    return MoleculeTarget(MoleculeRecord(np.ones(num_atoms), atoms, np.array(bonds), np.array(positions), terms))


def chart_of(bonds, **settings) -> InternalChart:
    return internal_coordinates(molecule(bonds), **{"hands": "free", **settings}).chart


def num_full(chart: InternalChart) -> int:
    return sum(row.kind == "full" for row in chart.zmatrix.placements)


def some_y(chart: InternalChart, num: int, seed: int = 0) -> np.ndarray:
    """Points about the reference, off centre; every ring at all its angles and at radii of 0.7 to 1.4 of its own."""
    random, rings = np.random.default_rng(seed), num_full(chart)
    y = 0.4 + random.normal(size=(num, chart.dim))
    angle = random.uniform(-np.pi, np.pi, (num, rings))
    radius = chart.scales.ring_radius * random.uniform(0.7, 1.4, (num, rings))
    return with_rings(chart, y[:, : chart.dim - 2 * rings], radius * np.cos(angle), radius * np.sin(angle))


def with_rings(chart: InternalChart, stiff, u, v):
    """y of u and v, along the last axis; JAX or NumPy."""
    return (jnp if isinstance(u, jax.Array) else np).concatenate([stiff, u - chart.scales.ring_radius, v], axis=-1)


def rings_of(chart: InternalChart, y: np.ndarray) -> list[np.ndarray]:
    """The rest, u and v of y, along the last axis."""
    rings = num_full(chart)
    stiff, u, v = np.split(y, [chart.dim - 2 * rings, chart.dim - rings], axis=-1)
    return [stiff, u + chart.scales.ring_radius, v]


def test_the_tree_of_alanine():
    target = alanine_dipeptide()
    rows = zmatrix_of(22, target.record.bonds).placements
    assert len({row.atom for row in rows}) == 21 and 8 not in {row.atom for row in rows}
    full = {(row.atom, row.parent, row.axis, row.other) for row in rows if row.kind == "full"}
    # One for each bond that turns, phi and psi themselves among them; everything else is relative to these.
    assert len(full) == 7 and PHI in full and PSI[::-1] in full
    assert sum(row.kind == "relative" for row in rows) == 12
    bonds = {frozenset(bond) for bond in target.record.bonds.tolist()}
    assert all(frozenset((row.atom, row.parent)) in bonds for row in rows)
    seen = {8}
    for row in rows:
        assert {row.parent, row.axis, row.other} - {-1} <= seen
        seen.add(row.atom)


def test_bonds_in_rings_do_not_turn_unless_the_ring_is_large():
    rows = {row.atom: row.kind for row in zmatrix_of(8, np.array(RING)).placements}
    assert rows[3] == "frame" or rows[4] == "stiff"
    assert sorted(rows.values()).count("full") == 1  # the substituent's
    large = [(i, (i + 1) % 9) for i in range(9)]
    assert sum(row.kind == "full" for row in zmatrix_of(9, np.array(large)).placements) == 6


def brute_volume(chart: InternalChart, y: np.ndarray) -> tuple[float, float]:
    """log of the volume of conformations by the chart, and by the determinant of 3n coordinates.

    The coordinates are (centre, rotation, y); rings are at their own radius, with an angle in place of u and v.
    """
    num_atoms, radius = chart.zmatrix.num_atoms, chart.scales.ring_radius
    stiff, u, v = rings_of(chart, y)

    def place(given):
        centre, vector, stiff, angles = jnp.split(given, [3, 6, 6 + len(y) - 2 * len(u)])
        x = chart.embed(with_rings(chart, stiff, radius * jnp.cos(angles), radius * jnp.sin(angles))).reshape((-1, 3))
        # To first order, whose derivative at 0 is that of the rotation.
        turned = x + jnp.cross(jnp.broadcast_to(vector, x.shape), x)
        return (turned + centre[None]).reshape(-1)

    both = jax.jit(lambda y, given: (chart.log_volume(y), jax.jacfwd(place)(given)))
    ours, jacobian = both(jnp.asarray(y), jnp.asarray(np.concatenate([np.zeros(6), stiff, np.arctan2(v, u)])))
    assert jacobian.shape == (3 * num_atoms, 3 * num_atoms)
    size = np.linalg.slogdet(np.asarray(jacobian))[1] + np.log(8 * np.pi**2) - 1.5 * np.log(num_atoms)
    radii = -((np.hypot(u, v) - radius) ** 2) / 2 - chart.scales.log_ring
    return float(ours), float(size + np.sum(radii))


@pytest.mark.parametrize("name", ["branched", "ring"])
def test_volumes_are_those_of_brute_force(name):
    chart = chart_of(SHAPES[name])
    assert isinstance(chart, Chart)
    y = some_y(chart, 1)[0]
    with jax.enable_x64(True):
        ours, expected = brute_volume(chart, y)
    assert abs(ours - expected) < 1e-9
    # Saboteurs: one power of the bond lengths; an angle without its sine; a missing unit.
    scales, num = chart.scales, len(chart.scales.lengths)
    one_power = np.sum(np.log(np.array(scales.lengths) + np.array(scales.length_scales) * y[:num]))
    sine = np.log(np.sin(scales.angles[-1] + scales.angle_scales[-1] * y[2 * num - 2]))
    assert all(abs(ours - part - expected) > 1e-4 for part in (one_power, sine, np.log(scales.torsion_scales[0])))


def test_log_z_is_that_of_cartesian_coordinates():
    """Three atoms on springs to their centre: (2 pi / k)^3 on centred conformations, by quadrature over y."""
    strength, chart = 40.0, chart_of(SHAPES["bent"])
    lengths, angle = np.array(chart.scales.lengths), chart.scales.angles[0]
    nodes, weights = np.polynomial.legendre.leggauss(48)
    axes, sizes = [], []
    for reference, scale, high in (
        *zip(lengths, chart.scales.length_scales, (1.5, 1.5), strict=True),
        (angle, chart.scales.angle_scales[0], np.pi),
    ):
        axes.append((high / 2 * (nodes + 1) - reference) / scale)
        sizes.append(high / 2 * weights / scale)
    y = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape((-1, 3))
    size = np.einsum("i,j,k->ijk", *sizes).reshape(-1)

    def density(y):
        return jnp.exp(-0.5 * strength * jnp.sum(chart.embed(y) ** 2) + chart.log_volume(y))

    with jax.enable_x64(True):
        total = float(jnp.sum(jax.jit(jax.vmap(density))(jnp.asarray(y)) * jnp.asarray(size)))
    expected = (2 * np.pi / strength) ** 3
    assert abs(np.log(total / expected)) < 1e-6
    assert abs(np.log(total / (8 * np.pi**2) / expected)) > 1  # the saboteur forgets the rotations


def ring_marginal(chart: InternalChart, log_volume, log_p, angles: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """A density of the torsion at `angles`, and what (u, v) has there, integrated over the radius."""
    nodes, weights = np.polynomial.legendre.leggauss(80)
    half = (chart.scales.ring_radius + 12) / 2
    radius, size = half * (nodes + 1), half * weights
    directions = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    stiff = np.zeros((len(angles), len(radius), chart.dim - 2))
    u, v = np.split(radius[None, :, None] * directions[:, None], 2, axis=2)
    y, reference = with_rings(chart, stiff, u, v), jnp.zeros(chart.dim)

    def both(y):
        torsion = dihedrals(chart.embed(y), np.array([[3, 2, 1, 0]]))[0]
        return torsion, jnp.exp(log_volume(y) - chart.log_volume(reference) - chart.scales.log_ring)

    torsions, values = (np.asarray(part) for part in jax.jit(jax.vmap(jax.vmap(both)))(jnp.asarray(y)))
    np.testing.assert_allclose(torsions, torsions[:, :1] + np.zeros((1, len(radius))), atol=1e-6)
    marginal = np.sum(np.exp(log_p(torsions)) * values * (radius * size)[None], axis=1)
    return np.exp(log_p(torsions[:, 0])), marginal


def test_a_ring_has_the_marginal_of_its_torsion():
    chart = chart_of(CHAIN, ring_radius=2.0)
    angles = np.linspace(-np.pi, np.pi, 25)[:-1] + 0.07
    log_p = lambda torsion: 2 * np.cos(torsion - 1) + np.cos(3 * torsion)  # noqa: E731
    with jax.enable_x64(True):
        expected, marginal = ring_marginal(chart, chart.log_volume, log_p, angles)
        np.testing.assert_allclose(marginal, expected, rtol=1e-9)
        assert np.ptp(expected) > 1
        # The saboteur takes the radius's density by dr for one by du dv.
        broken = lambda y: chart.log_volume(y) + jnp.log(jnp.hypot(y[-2] + 2.0, y[-1]))  # noqa: E731
        assert np.all(np.abs(ring_marginal(chart, broken, log_p, angles)[1] / expected - 1) > 0.1)


def distances(x) -> np.ndarray:
    points = np.asarray(x).reshape((-1, 3))
    return np.sqrt(np.sum((points[:, None] - points[None]) ** 2, axis=2))


def of_own_radius(chart: InternalChart, y: np.ndarray) -> np.ndarray:
    stiff, u, v = rings_of(chart, y)
    factor = chart.scales.ring_radius / np.hypot(u, v)
    return with_rings(chart, stiff, factor * u, factor * v)


@pytest.mark.parametrize(
    ("name", "dtype", "atol"),
    [
        ("alanine", "float32", 1e-4),
        pytest.param("alanine", "float64", 1e-10, marks=pytest.mark.slow),
        ("ring", "float64", 1e-10),
    ],
)
def test_round_trips(name, dtype, atol, alanine):
    chart = alanine if name == "alanine" else chart_of(RING)
    given = some_y(chart, 50)
    turn = np.linalg.qr(np.random.default_rng(1).normal(size=(3, 3)))[0]
    turn = turn * np.sign(np.linalg.det(turn))

    def there_and_back(y):
        x = chart.embed(y)
        moved = x.reshape((-1, 3)) @ jnp.asarray(turn.T, y.dtype) + jnp.asarray([[0.3, -0.2, 0.1]], y.dtype)
        back = chart.restrict(moved.reshape(-1))
        return x, back, chart.embed(back), chart.contains(x)

    with jax.enable_x64(dtype == "float64"):
        x, back, again, is_inside = jax.jit(jax.vmap(there_and_back))(jnp.asarray(given, dtype))
        assert x.dtype == dtype and np.all(is_inside)
        np.testing.assert_allclose(back, of_own_radius(chart, given), atol=atol)
        np.testing.assert_allclose(again, x, atol=1e-2 * atol)
        np.testing.assert_allclose(np.mean(np.asarray(x).reshape((50, -1, 3)), axis=1), 0.0, atol=1e-6)


def test_the_reference_is_the_origin_and_dihedrals_are_what_they_say(alanine):
    embed = jax.jit(lambda y: (alanine.embed(y), phi_psi(alanine.embed(y))))
    origin, angles = embed(jnp.zeros(alanine.dim))
    np.testing.assert_allclose(distances(origin), distances(alanine_dipeptide().init[0]), atol=1e-6)
    y = some_y(alanine, 1)[0]
    turned = embed(jnp.asarray(y, jnp.float32))[1] - angles
    # The first two rings are phi and psi.
    _, u, v = rings_of(alanine, y)
    expected = np.arctan2(v, u)[:2]
    np.testing.assert_allclose(np.exp(1j * np.asarray(turned)), np.exp(1j * expected), atol=1e-5)


def test_gradients_are_finite_everywhere(alanine):
    chart = alanine
    slopes = jax.jit(jax.value_and_grad(lambda y: jnp.sum(jnp.sin(9 * chart.embed(y))) + chart.log_volume(y)))
    middle = with_rings(chart, np.zeros((1, 53)), np.zeros((1, 7)), np.zeros((1, 7)))
    far = np.zeros((3, chart.dim))
    far[0, 0], far[1, 21], far[2, 41] = -100.0, 100.0, 50.0  # no length, no angle, the other hand
    for y in (np.zeros((1, chart.dim)), middle, some_y(chart, 2), far):
        for point in y:
            value, slope = slopes(jnp.asarray(point, jnp.float32))
            assert np.all(np.isfinite(slope)) and (value == -np.inf) == (y is far)


def test_hands_are_kept(alanine):
    target = alanine_dipeptide()
    free = internal_coordinates(target, hands="free").chart
    x = jnp.asarray(target.init[0])
    mirror = x * jnp.tile(jnp.asarray([1.0, -1.0, 1.0]), 22)
    swapped = x.reshape((22, 3))[np.array([0, 1, 3, 2, *range(4, 22)])].reshape(-1)  # two hydrogens of a methyl group
    broken = x.at[0].set(jnp.nan)
    contained = jax.jit(jax.vmap(lambda x: (alanine.contains(x), free.contains(x))))
    is_kept, is_free = contained(jnp.stack([x, mirror, swapped, broken]))
    assert is_kept.tolist() == [True, False, False, False] and is_free.tolist() == [True, True, True, False]

    def three(y):
        side = signed_volumes(alanine.embed(y), np.array([ALPHA_CARBON]))[0]
        return side, alanine.log_volume(y), free.log_volume(y)

    # The torsion that has CB on its side of the alpha carbon, over the whole circle.
    place = 21 + 20
    y = np.zeros((63, alanine.dim), np.float32)
    y[:, place] = np.linspace(-3.1, 3.1, 63) / alanine.scales.torsion_scales[0]
    sides, of_kept, of_free = jax.jit(jax.vmap(three))(jnp.asarray(y))
    np.testing.assert_array_equal(np.isfinite(of_kept), np.asarray(sides) > 0)
    assert 0 < np.sum(np.isfinite(of_kept)) < 63 and np.all(np.isfinite(of_free))


def spring(bonds, lengths) -> Term:
    arrays = {"atoms": np.array(bonds), "length": np.array(lengths), "strength": np.full(len(bonds), 3e5)}
    return Term("harmonic_bond", arrays)


def test_units_are_those_of_the_force_field():
    bonds = ((0, 1), (1, 2), (2, 3))
    target = molecule(bonds, terms=(spring(bonds[:2], (0.1, 0.1)),))
    warm = MoleculeTarget(target.record, 1200.0)
    cold, hot = (internal_coordinates(each).chart.scales for each in (target, warm))
    expected = np.sqrt(0.0083144626 * 300 / 3e5)
    assert sum(abs(scale / expected - 1) < 1e-6 for scale in cold.length_scales) == 2
    for name in ("length_scales", "angle_scales", "torsion_scales"):
        np.testing.assert_allclose(getattr(hot, name), 2 * np.array(getattr(cold, name)))


LINE = ((0.0, 0.0, 0.0), (0.1, 0.0, 0.0), (0.2, 0.001, 0.0), (0.25, 0.1, 0.0))
APART = ((0, 1), (1, 2), (3, 4))
FIELD = Term("custom_external", {"atoms": np.arange(3), "parameters": np.zeros((3, 0))}, {"energy": "x", "globals": {}})

REFUSED = {
    "two atoms": (lambda: internal_coordinates(molecule(((0, 1),))), "of 2 atoms.*use Cartesian"),
    "two molecules": (lambda: internal_coordinates(molecule(APART)), "join 2 of 5 atoms to atom 0: 3, 4"),
    "straight": (lambda: internal_coordinates(molecule(CHAIN, LINE)), "straight within 5"),
    "held": (lambda: internal_coordinates(molecule(SHAPES["bent"], terms=(FIELD,))), "external force"),
    "no molecule": (lambda: internal_coordinates(make_target("mog40")), "MoleculeTarget"),
    "hands": (lambda: internal_coordinates(molecule(CHAIN), hands="L"), "'kept', 'free'"),
    "radius": (lambda: internal_coordinates(molecule(CHAIN), ring_radius=0.0), "ring_radius = 0.0"),
    "temperature": (lambda: make_target("aldp_internal", temperature=-1.0), "temperature"),
}


@pytest.mark.parametrize(("make", "message"), REFUSED.values(), ids=REFUSED)
def test_refusals(make, message):
    with unchecked(), pytest.raises(SettingsError, match=message):
        make()


def test_alanine_by_name_and_from_files():
    target = make_target("aldp_internal", temperature=350.0)
    assert isinstance(target, Target) and isinstance(target, Inner)
    assert target.dim == 67 and target.chart.full_dim == 66 and target.target.temperature == 350.0
    config = RunConfig("test", "", TargetConfig("aldp_internal"), "ptsd", tiny_ptsd())
    assert target_of(config).dim == 67
    stored = json.loads(json.dumps(target.chart.as_dict()))
    assert chart_from(stored, 66) == target.chart and chart_from(stored, 66, target) == target.chart
    with pytest.raises(SettingsError, match="not those of the target"):
        chart_from(stored, 66, make_target("aldp_internal"))
    lengths = stored["scales"]["lengths"]
    lengths[0] *= 1 + 1e-15  # what was fitted on a GPU is loaded on a CPU
    assert chart_from(stored, 66, target).scales.lengths == tuple(lengths)
    lengths[0] *= 1 + 1e-4
    with pytest.raises(SettingsError, match="not those of the target"):
        chart_from(stored, 66, target)
    with pytest.raises(RunFolderError, match="another version"):
        chart_from({"name": "internal", "root": 0}, 66)


@pytest.mark.slow
def test_alanine_has_the_same_energies_and_volumes():
    target = make_target("aldp_internal")
    y = jnp.asarray(0.3 * np.random.default_rng(0).normal(size=(20, 67)), jnp.float32)
    x = jax.vmap(target.chart.embed)(y)
    values, slopes = jax.jit(jax.vmap(jax.value_and_grad(target.log_density)))(y)
    cartesian = jax.jit(jax.vmap(target.target.log_density))(x)
    # 1e-3 of k_B T is 2.5e-3 kJ/mol.
    np.testing.assert_allclose(values - jax.vmap(target.chart.log_volume)(y), cartesian, atol=2e-3)
    assert np.all(np.isfinite(slopes))


@pytest.mark.slow
@pytest.mark.telling
def test_a_fit_is_drawn_from_again(tmp_path):
    """Fitted, saved, loaded with the target, with the Cartesian molecule, without either, and by the command line."""
    outer = molecule(BRANCHED, terms=(spring(BRANCHED, np.linspace(0.1, 0.2, 6)),))
    target, size = internal_coordinates(outer), outer.dim
    settings = tiny_ptsd(
        ladder=Ladder(temperatures=(2.0, 1.0)), initial=Initial(num_chains=32, num_steps=8, burn_in=4, thin=2)
    )
    place = tmp_path / "run"
    sampler = tp.fit(target, init=outer.init, settings=settings, out=place, progress=False)
    draws = sampler.sample(8, seed=1)
    assert draws.shape == (8, size) and np.all(np.isfinite(draws))
    np.testing.assert_allclose(np.mean(draws.reshape((8, -1, 3)), axis=1), 0.0, atol=1e-5)
    weighted, log_weights = sampler.sample_weighted(8, seed=1)
    for again in (tp.load(place, target), tp.load(place, outer)):
        np.testing.assert_array_equal(again.sample(8, seed=1), draws)
        np.testing.assert_allclose(again.sample_weighted(8, seed=1)[1], log_weights, rtol=1e-5)
    assert np.all(np.isfinite(sampler.log_prob(weighted)))
    alone = tp.load(place)
    np.testing.assert_array_equal(alone.sample(8, seed=1), draws)
    with pytest.raises(SettingsError, match="not those of the target"):
        tp.load(place, internal_coordinates(MoleculeTarget(outer.record, 350.0)))
    command = (*COMMAND, "sample", str(place), "-n", "8", "-o", str(tmp_path / "draws.npz"), "--seed", "1")
    subprocess.run(command, env=subprocess_environment(tmp_path / "cache"), check=True, capture_output=True)
    with np.load(tmp_path / "draws.npz") as file:
        np.testing.assert_allclose(file["draws"], draws, atol=1e-5)
