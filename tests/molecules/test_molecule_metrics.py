"""All metrics of a molecule with their floors, and its figures."""

import warnings

import jax
import numpy as np
import pytest

from support.molecules import turned_alanine
from support.tiny import quick_compilation
from tempering.errors import SettingsError
from tempering.lab.metrics import MetricError
from tempering.lab.metrics.molecules import in_one_hand, molecule_metrics
from tempering.lab.metrics.populations import rare_mode
from tempering.lab.report.molecule_figures import (
    bonds_figure,
    dihedrals_figure,
    ramachandran_figure,
    rare_mode_figure,
)
from tempering.lab.report.molecule_report import MOLECULE_FIGURES, molecule_of
from tempering.molecules import MoleculeTarget, backbone_angles
from tempering.molecules.system.record import MoleculeRecord
from tempering.plots.contents import RunContents
from tempering.plots.style import png_of
from tempering.registry import make_target

ALDP, L_ONLY = make_target("aldp"), make_target("aldp", chirality="L")
MIRROR = np.tile([1.0, 1.0, -1.0], 22)[None]
NAMES = {"ramachandran_kl", "ramachandran_kl_coarse", "phi_tvd", "psi_tvd", "rare_mode_error", "bond_tvd", "angle_tvd"}


@pytest.fixture(scope="module", autouse=True)
def compiled_quickly():
    with quick_compilation():
        yield


def _draws(num: int, seed: int, rare: float = 0.1, noise: float = 0.003) -> np.ndarray:
    """Conformations about two basins; the second one, of share `rare`, in 0 < phi < 120 degrees."""
    rng = np.random.default_rng(seed)
    phi = np.where(rng.random(num) < rare, 1.0, -1.3) + rng.normal(0.0, 0.2, num)
    return turned_alanine(ALDP, phi, 2.6 + rng.normal(0.0, 0.5, num), noise, seed)


DRAWS, REFERENCE, SECOND = _draws(1_500, 0), _draws(2_000, 1), _draws(2_000, 2)


def _values(*args, **options) -> dict[str, float]:
    return {name: metric.value for name, metric in molecule_metrics(*args, **options).items()}


@pytest.mark.parametrize("second", [None, SECOND])
def test_exact_draws_are_at_the_floor(second):
    found = molecule_metrics(L_ONLY, DRAWS, REFERENCE, reference_second=second)
    assert set(found) == NAMES
    for name, metric in found.items():
        # Differences of populations scatter about their expected size; histograms hardly.
        assert metric.value < (4.0 if name == "rare_mode_error" else 1.3) * metric.floor, name
        assert metric.num_samples == 1_500 and metric.failure is None
    assert found["phi_tvd"].num_floor == (1_000 if second is None else 1_500)


@pytest.mark.parametrize(
    ("wrong", "seen_by"),
    [
        (_draws(1_500, 3, rare=0.0), {"ramachandran_kl_coarse", "rare_mode_error"}),
        (_draws(1_500, 3, noise=0.006), {"bond_tvd", "angle_tvd"}),
        (10 * DRAWS, {"bond_tvd"}),  # ångström
        (DRAWS * MIRROR, NAMES - {"bond_tvd", "angle_tvd", "rare_mode_error"}),  # the wrong hand
    ],
)
def test_what_is_wrong_is_seen(wrong, seen_by):
    found = molecule_metrics(L_ONLY, wrong, REFERENCE, reference_second=SECOND)
    worse = {name for name, metric in found.items() if metric.value > (5.0 if "rare" in name else 1.5) * metric.floor}
    assert seen_by <= worse


def test_units_alone_change_no_angle():
    nm, angstrom = _values(L_ONLY, DRAWS, REFERENCE), _values(L_ONLY, 10 * DRAWS, REFERENCE)
    assert angstrom["bond_tvd"] == pytest.approx(1.0)
    assert angstrom["angle_tvd"] == pytest.approx(nm["angle_tvd"], abs=1e-3)


def test_weights_mend_a_population():
    biased = _draws(1_500, 3, rare=0.5)
    is_rare = backbone_angles(ALDP, biased)[:, 0, 0] > 0
    log_weights = np.where(is_rare, np.log(0.1 / 0.5), np.log(0.9 / 0.5))
    plain, mended = (_values(L_ONLY, biased, REFERENCE, log_weights=given) for given in (None, log_weights))
    assert plain["rare_mode_error"] > 0.3 and mended["rare_mode_error"] < 0.04
    assert mended["ramachandran_kl_coarse"] < 0.5 * plain["ramachandran_kl_coarse"]
    # The saboteur: weights in another order than their draws.
    shuffled = np.random.default_rng(0).permutation(log_weights)
    assert _values(L_ONLY, biased, REFERENCE, log_weights=shuffled)["rare_mode_error"] > 0.2


def test_mirror_images_are_one_where_the_density_is():
    mixed = np.where((np.arange(len(DRAWS)) % 2 == 0)[:, None], DRAWS, DRAWS * MIRROR)
    expected = _values(ALDP, DRAWS, REFERENCE)
    found = _values(ALDP, mixed, REFERENCE)
    assert found == pytest.approx(expected, rel=0.02, abs=1e-3)
    # A wall forbids them, and then they are error.
    assert _values(L_ONLY, mixed, REFERENCE)["phi_tvd"] > 0.4
    np.testing.assert_allclose(in_one_hand(ALDP, mixed).reshape((-1, 66)), DRAWS, atol=1e-6)


def test_lost_draws_are_error_everywhere():
    lost = DRAWS.copy()
    lost[: len(lost) // 2] = np.nan
    found = _values(L_ONLY, lost, REFERENCE)
    assert all(np.isfinite(value) for value in found.values())
    assert min(found[name] for name in NAMES - {"rare_mode_error"}) > 0.2


def test_a_molecule_without_a_backbone_has_bonds():
    record = ALDP.record
    cap = MoleculeTarget(
        MoleculeRecord(record.masses[:4], record.atoms[:4], record.bonds[:3], record.positions[:4], ())
    )
    assert set(molecule_metrics(cap, DRAWS[:, :12], REFERENCE[:, :12])) == {"bond_tvd", "angle_tvd"}


def test_metric_refusals():
    bad = REFERENCE.copy()
    bad[3, 4] = np.inf
    with pytest.raises(MetricError, match="1 of the 2,000 rows of reference are not finite"):
        molecule_metrics(L_ONLY, DRAWS, bad)
    with pytest.raises(MetricError, match="at least 4"):
        molecule_metrics(L_ONLY, DRAWS, REFERENCE[:3])
    with pytest.raises(SettingsError, match="shape"):
        molecule_metrics(L_ONLY, DRAWS[:, :60], REFERENCE)


# Figures.


def test_the_picture_has_phi_across_and_psi_up():
    phi, psi = np.radians([60.0, -150.0])
    draws = turned_alanine(ALDP, np.full(6, phi), np.full(6, psi))
    (mesh,) = ramachandran_figure(ALDP, draws).axes[0].collections
    shown = np.ma.filled(mesh.get_array(), np.nan).reshape((64, 64))
    ((row, column),) = np.argwhere(np.isfinite(shown))
    # The saboteur would be the other way round: (42, 5).
    assert (row, column) == (int((psi + np.pi) / (2 * np.pi) * 64), int((phi + np.pi) / (2 * np.pi) * 64)) == (5, 42)


def test_weighted_panels_are_weighted():
    phi = backbone_angles(ALDP, DRAWS)[:, 0, 0]
    log_weights = np.where(phi > 0, -np.inf, 0.0)
    figure = ramachandran_figure(ALDP, DRAWS, REFERENCE, log_weights=log_weights)
    plain, weighted, reference = (np.ma.filled(a.collections[0].get_array(), np.nan) for a in figure.axes[:3])
    right = np.s_[:, 34:50]
    assert np.isfinite(plain.reshape((64, 64))[right]).any() and np.isfinite(reference.reshape((64, 64))[right]).any()
    assert not np.isfinite(weighted.reshape((64, 64))[right]).any()


@pytest.mark.slow
def test_every_figure_is_drawn():
    log_weights = np.random.default_rng(4).normal(size=len(DRAWS))
    lost = DRAWS.copy()
    lost[0] = np.nan
    phi = backbone_angles(ALDP, DRAWS)[:, 0, 0]
    populations = {
        "draws": rare_mode(phi),
        "reweighted": rare_mode(phi, log_weights=log_weights),
        "none": rare_mode(phi[phi < 0]),
        "reference": rare_mode(phi.reshape((3, -1))),
    }
    figures = [
        ramachandran_figure(ALDP, lost, REFERENCE),
        dihedrals_figure(ALDP, lost),
        dihedrals_figure(ALDP, DRAWS, REFERENCE, log_weights=log_weights),
        rare_mode_figure(populations, 300.0),
        bonds_figure(ALDP, lost, REFERENCE, log_weights=log_weights),
    ]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert all(png_of(figure).startswith(b"\x89PNG") for figure in figures)


def _contents(name: str = "aldp", **arrays) -> RunContents:
    config = {"target": {"name": name, "arguments": {}}}
    return RunContents({}, config, {}, arrays, [], {}, ALDP.geometry)


def _likeliest_phi(axes) -> float:
    """Degrees, of the darkest bin of a Ramachandran plot."""
    shown = np.ma.filled(axes.collections[0].get_array(), np.inf).reshape((64, 64))
    return -180.0 + 360.0 / 64 * (float(np.argwhere(shown == 0.0)[0, 1]) + 0.5)


def test_a_report_has_the_figures_of_a_molecule():
    whole = _contents(draws=DRAWS * MIRROR, reference=REFERENCE)
    made = {name: figure(whole) for name, figure in MOLECULE_FIGURES.items()}
    assert all(picture is not None for picture in made.values())
    # The target does not tell the hands apart, and neither does the picture; the figure alone does.
    assert [_likeliest_phi(axes) < 0 for axes in made["ramachandran"].axes[:2]] == [True, True]
    assert _likeliest_phi(ramachandran_figure(ALDP, DRAWS * MIRROR).axes[0]) > 0
    alone = {name for name, figure in MOLECULE_FIGURES.items() if figure(_contents(draws=DRAWS)) is not None}
    assert alone == {"ramachandran", "dihedrals", "rare_mode"}
    for nothing in (_contents(), _contents("mine", draws=DRAWS), _contents("dw4", draws=DRAWS[:, :8])):
        assert all(figure(nothing) is None for figure in MOLECULE_FIGURES.values())
    assert molecule_of(_contents("aldp")) == ALDP


def test_figure_refusals():
    with pytest.raises(SettingsError, match=r"residue is 1; this molecule has 0 \(ALA2\)"):
        ramachandran_figure(ALDP, DRAWS, residue=1)
    with pytest.raises(MetricError, match="nothing to show"):
        ramachandran_figure(ALDP, np.full((3, 66), np.nan))
    with pytest.raises(SettingsError, match="populations is empty"):
        rare_mode_figure({}, 300.0)


def test_jax_draws_will_do():
    assert _values(L_ONLY, jax.numpy.asarray(DRAWS, "float32"), REFERENCE)["bond_tvd"] == pytest.approx(
        _values(L_ONLY, DRAWS, REFERENCE)["bond_tvd"], abs=0.01
    )
