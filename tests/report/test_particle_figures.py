"""Figures of particle systems: what is made for such a run and what is not, what may be missing, and the numbers."""

from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tempering.errors import SettingsError
from tempering.lab.metrics.particles import distance_tvd
from tempering.lab.report import FIGURES, make_report
from tempering.lab.report.contents import read_contents
from tempering.lab.report.make import PARTICLE_FIGURES
from tempering.plots.contents import LevelSamples, RunContents
from tempering.plots.particle_figures import _level_distances, _shares, _turned
from tempering.plots.style import png_of
from tempering.runs.records import LevelRecord
from tempering.runs.storage import write_arrays, write_json
from tempering.transforms.centred import Centred

PNG = b"\x89PNG"
PLANE, SPACE = Centred(4, 2), Centred(7, 3)


def _configurations(geometry: Centred, num: int, seed: int = 0, scale: float = 1.0) -> np.ndarray:
    """Centred, flat; wider along the first axis, so that nothing is round."""
    rng = np.random.default_rng(seed)
    points = scale * rng.standard_normal((num, geometry.num_particles, geometry.spatial_dim))
    points[..., 0] *= 2.5
    return (points - points.mean(axis=1, keepdims=True)).reshape(num, -1).astype(np.float32)


def _arrays(geometry: Centred, num: int = 80) -> dict[str, np.ndarray]:
    arrays = {"draws": _configurations(geometry, num, 0, 1.1), "reference": _configurations(geometry, num, 1)}
    return arrays | {f"{name}_log_density": -(points**2).sum(axis=1) for name, points in arrays.items()}


def _samples(geometry: Centred, num: int = 60) -> LevelSamples:
    inner = np.asarray(jax.vmap(geometry.restrict)(jnp.asarray(_configurations(geometry, num, 2))))
    return LevelSamples(inner, -(inner**2).sum(axis=1))


def _contents(geometry: Centred, **parts) -> RunContents:
    levels = [LevelRecord(0, 4.0), LevelRecord(1, 1.0)]
    whole = {"result": {}, "config": {}, "environment": {}, "evaluation": _arrays(geometry), "levels": levels}
    whole |= {"samples": {0: _samples(geometry), 1: _samples(geometry)}, "geometry": geometry}
    return RunContents(**{**whole, **parts})


def _write_run(folder: Path, evaluation: dict[str, np.ndarray], *, geometry: dict | None, target: str) -> Path:
    config = {"name": "particles", "target": {"name": target, "arguments": {}}, "method": "ptsd", "seed": 3}
    write_json(folder / "config.json", {"format": "tempering run 2", "config": config})
    if geometry is not None:
        levels = [LevelRecord(0, 4.0).as_dict(), LevelRecord(1, 1.0).as_dict()]
        write_json(folder / "sampler.json", {"geometry": geometry, "levels": levels})
    if evaluation:
        write_arrays(folder / "evaluation.npz", evaluation)
    samples = _samples(PLANE)
    parts = {
        f"{part}/{name}": getattr(samples, name) for part in ("hot", "cold") for name in ("position", "log_density")
    }
    write_arrays(folder / "levels" / "01" / "buffer.npz", parts)
    return folder


def test_a_run_on_particles_has_its_own_figures(tmp_path):
    folder = _write_run(tmp_path, _arrays(PLANE), geometry={"num_particles": 4, "spatial_dim": 2}, target="own density")
    stale = folder / "figures" / "level_energies.png"  # of a report that did not know about particles
    stale.parent.mkdir()
    stale.write_bytes(b"")
    text = make_report(folder).read_text(encoding="utf-8")
    assert {path.stem for path in (folder / "figures").iterdir()} >= {"samples", "energy", "distances", "levels"}
    assert not stale.exists()
    for words in ("Configurations", "Interatomic distances", "Distances and energies by level", "4 in 2-D"):
        assert words in text
    assert "Pairs of coordinates" not in text and "Samples by level" not in text


@pytest.mark.slow
def test_an_unfinished_run_is_known_by_the_name_of_its_target(tmp_path):
    folder = _write_run(tmp_path, {}, geometry=None, target="dw4")
    assert read_contents(folder).geometry == PLANE
    make_report(folder)
    assert {path.stem for path in (folder / "figures").iterdir()} == {"levels"}


@pytest.mark.parametrize("target", ["mog40", "own density", "of another version"])
def test_other_runs_are_not_of_particles(tmp_path, target):
    contents = read_contents(_write_run(tmp_path, _arrays(PLANE, 5), geometry=None, target=target))
    assert contents.geometry is None
    for name in ("samples", "distances", "levels"):
        assert PARTICLE_FIGURES[name](contents) is None
    assert "distances" not in FIGURES


@pytest.mark.parametrize(
    ("geometry", "has_reference"),
    [
        (SPACE, True),
        *(pytest.param(*case, marks=pytest.mark.slow) for case in ((Centred(2, 1), True), (Centred(5, 4), False))),
        (PLANE, False),
    ],
)
def test_every_size_has_figures_with_and_without_a_reference(geometry, has_reference):
    evaluation = {name: part for name, part in _arrays(geometry).items() if has_reference or "reference" not in name}
    contents = _contents(geometry, evaluation=evaluation)
    for name in ("samples", "energy", "distances", "levels"):
        picture = PARTICLE_FIGURES[name](contents)
        assert picture is not None and png_of(picture).startswith(PNG)


@pytest.mark.slow
def test_a_reference_is_seen_in_every_figure():
    draws_only = {name: part for name, part in _arrays(PLANE).items() if "reference" not in name}
    for name in ("samples", "distances", "levels"):
        draw = PARTICLE_FIGURES[name]
        assert png_of(draw(_contents(PLANE))) != png_of(draw(_contents(PLANE, evaluation=draws_only)))


def test_the_reference_stands_over_the_level_at_temperature_one_only():
    hot = [LevelRecord(0, 4.0), LevelRecord(1, 2.0)]
    draws_only = {name: part for name, part in _arrays(PLANE).items() if "reference" not in name}
    with_reference, without = (
        png_of(PARTICLE_FIGURES["levels"](_contents(PLANE, levels=hot, evaluation=part)))
        for part in (_arrays(PLANE), draws_only)
    )
    assert with_reference == without


@pytest.mark.slow
def test_lost_draws_are_shown_as_such():
    arrays = _arrays(PLANE)
    arrays["draws"][:5], arrays["draws"][5, 0], arrays["draws"][6] = np.nan, np.inf, 1e20
    arrays["draws_log_density"][:7] = -np.inf
    for name in ("samples", "energy", "distances"):
        assert PARTICLE_FIGURES[name](_contents(PLANE, evaluation=arrays)) is not None
    lost = {name: np.full_like(part, np.nan) for name, part in arrays.items()}
    assert PARTICLE_FIGURES["samples"](_contents(PLANE, evaluation=lost)) is None
    assert PARTICLE_FIGURES["distances"](_contents(PLANE, evaluation=lost)) is not None
    assert PARTICLE_FIGURES["samples"](_contents(PLANE, evaluation={}, samples={})) is None


def test_draws_of_another_size_are_refused():
    with pytest.raises(SettingsError, match="give full coordinates"):
        PARTICLE_FIGURES["samples"](_contents(SPACE, evaluation=_arrays(PLANE)))


def test_the_bars_are_those_of_the_metric():
    arrays = _arrays(SPACE, 300)
    draws, reference = arrays["draws"], arrays["reference"]
    draws[:3] = np.nan
    sizes = {"num_particles": 7, "spatial_dim": 3}
    pairs = np.triu_indices(7, 1)
    shapes = reference.reshape(-1, 7, 3).astype(np.float64)
    distances = np.linalg.norm(shapes[:, pairs[0]] - shapes[:, pairs[1]], axis=-1)
    edges = np.linspace(distances.min(), distances.max(), 201)
    (p, _), (q, _) = (_shares(points, SPACE, edges) for points in (draws, reference))
    assert q.sum() == pytest.approx(1.0)
    tvd = 0.5 * (np.abs(p - q).sum() + 1.0 - p.sum())
    assert tvd == pytest.approx(distance_tvd(draws, reference, **sizes), abs=1e-3)


def test_the_band_knows_that_distances_of_a_configuration_depend_on_each_other():
    # Regular tetrahedra of several sizes: the six distances of each are equal and share a bin.
    geometry, num = Centred(4, 3), 90
    corners = np.array([[1.0, 1, 1], [1, -1, -1], [-1, 1, -1], [-1, -1, 1]]).reshape(1, -1) / np.sqrt(8.0)
    sides = np.repeat([0.5, 1.5, 2.5], [10, 30, 50])
    share, error = _shares(sides[:, None] * corners, geometry, np.arange(4.0))
    p = np.array([1.0, 3.0, 5.0]) / 9
    np.testing.assert_allclose(share, p)
    np.testing.assert_allclose(error, np.sqrt(p * (1 - p) / num))  # not / (6 num), as of independent pairs


def test_level_buffers_are_inner_coordinates():
    full = _configurations(PLANE, 60, 2).reshape(-1, 4, 2)
    first, second = np.triu_indices(4, 1)
    expected = np.linalg.norm(full[:, first] - full[:, second], axis=-1)
    np.testing.assert_allclose(_level_distances(_samples(PLANE), PLANE), expected.ravel(), rtol=1e-4)


def test_turning_keeps_distances_and_handedness():
    points = _configurations(SPACE, 20, 3) + 5.0
    turned = _turned(points, SPACE)
    before = points.reshape(-1, 7, 3).astype(np.float64)
    before -= before.mean(axis=1, keepdims=True)
    np.testing.assert_allclose(turned @ turned.swapaxes(1, 2), before @ before.swapaxes(1, 2), atol=1e-4)
    np.testing.assert_allclose(np.linalg.det(turned[:, :3]), np.linalg.det(before[:, :3]), rtol=1e-3, atol=1e-3)
    spread = turned.std(axis=1)
    assert (np.diff(spread, axis=1) <= 1e-6).all()
    # A mirror image is another configuration, and stays one.
    assert np.linalg.det(_turned(points * np.tile([-1.0, 1.0, 1.0], 7)[None], SPACE)[0, :3]) == pytest.approx(
        -np.linalg.det(turned[0, :3]), rel=1e-3
    )
