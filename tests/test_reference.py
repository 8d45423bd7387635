"""Reference samples: right where the truth is known, marked where chains have not converged, kept and found again."""

import contextlib
import io
import json

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from support.counting import counting_target
from support.random_checks import assert_mean, must_fail
from support.tiny import files_of, quick_compilation
from support.unchecked import unchecked
from tempering.cli import main
from tempering.errors import RunFolderError, SettingsError
from tempering.kernels import ChainState
from tempering.lab.presets import PRESETS
from tempering.lab.reference import (
    ReferenceSettings,
    cached_reference,
    default_reference_settings,
    load_reference,
    make_reference,
    reference_folder,
)
from tempering.lab.reference_evidence import evidence_of
from tempering.parallel_tempering import Tally
from tempering.runs.config import TargetConfig
from tempering.runs.storage import read_json, write_json
from tempering.targets import Inner, PairPotential, anisotropic_gaussian, dw4, in_inner_coordinates

# U = sum_{i<j} (a r^2 + b) + (k/2) sum_i |x_i|^2 of three particles in the plane is b n(n-1)/2 plus a square form in
# (n-1)d = 4 directions of precision 2 a n + k each: the mean energy is 4/2 + 3 b, the variance 4/2.
STRENGTH, OFFSET, TRAP = 0.7, 1.5, 0.4
HARMONIC = PairPotential(lambda r: STRENGTH * r**2 + OFFSET, 3, 2, trap=TRAP)
MEAN_ENERGY = 0.5 * 4 + 3 * OFFSET
SHORT = ReferenceSettings((3.0, 1.0), num_chains=32, num_steps=400, num_leapfrog=3, swap_interval=1)
FAR_AND_FEW = ReferenceSettings((16.0, 4.0, 1.0), num_chains=16, num_steps=28, num_leapfrog=3, scale=40.0)


@pytest.fixture(scope="module", autouse=True)
def quickly_compiled():
    """These programs run for a second."""
    with quick_compilation():
        yield


@pytest.fixture(scope="module")
def made():
    """A reference of the harmonic system, and how many points the density really received."""
    counting, counter = counting_target(HARMONIC)
    target = Inner(HARMONIC.geometry.dim, counting, HARMONIC.geometry)
    events = []
    reference = make_reference(target, jax.random.key(1), 600, SHORT, on_event=events.append)
    return reference, counter.total, events


# The samples.


def test_a_system_with_a_known_mean_energy_has_it(made):
    reference, _, _ = made
    assert reference.is_converged, reference.evidence["problems"]
    ess = min(reference.evidence["ess_energy"], 600)
    energies = -reference.log_density
    assert_mean(energies, MEAN_ENERGY, ess=ess, name="energy")
    must_fail(assert_mean, energies, MEAN_ENERGY + 1.0, ess=ess, name="energy of n d instead of (n-1) d directions")
    energy = reference.evidence["energy"]
    assert energy["standard_error"] < 0.2 and abs(energy["mean"] - MEAN_ENERGY) < 5 * energy["standard_error"]


def test_samples_are_as_many_as_asked_centred_and_with_their_own_densities(made):
    reference, _, _ = made
    assert reference.positions.shape == (600, 6) and reference.positions.dtype == np.float32
    assert len(np.unique(reference.positions, axis=0)) > 300
    np.testing.assert_allclose(reference.positions.reshape(600, 3, 2).mean(axis=1), 0.0, atol=1e-6)
    again = jax.jit(jax.vmap(HARMONIC.log_density))(jnp.asarray(reference.positions))
    np.testing.assert_allclose(reference.log_density, again, rtol=1e-5, atol=1e-5)


def test_every_evaluation_is_counted_and_told(made):
    reference, received, events = made
    assert reference.evaluations == received == sum(reference.evidence["evaluations_by_stage"].values())
    assert events[0].done == 0 and events[-1].done == events[-1].total == 400
    assert reference.evaluations == events[-1].evaluations == events[-1].planned


@pytest.mark.slow
def test_few_steps_from_a_far_start_are_marked():
    reference = make_reference(dw4(), jax.random.key(2), 100, FAR_AND_FEW)
    assert not reference.is_converged and reference.positions.shape == (100, 8)
    assert any("R-hat of the energy" in problem for problem in reference.evidence["problems"])
    json.dumps(reference.evidence, allow_nan=False)


@pytest.mark.slow
def test_a_ladder_that_is_not_given_is_found():
    settings = ReferenceSettings(num_chains=16, num_steps=28, num_leapfrog=3)
    reference = make_reference(HARMONIC, jax.random.key(3), 20, settings)
    temperatures = reference.evidence["temperatures"]
    assert len(temperatures) >= 3 and temperatures[0] > 1 and temperatures[-1] == 1.0
    assert reference.evaluations == sum(reference.evidence["evaluations_by_stage"].values())


def test_what_cannot_be_made_is_refused():
    with pytest.raises(SettingsError, match="is not a system of particles"):
        make_reference(anisotropic_gaussian(), jax.random.key(0), 10, SHORT)
    with unchecked(), pytest.raises(SettingsError, match="steps = 400 is not allowed: it must be at least"):
        make_reference(HARMONIC, jax.random.key(0), 100_000, SHORT)
    for wrong in ({"num_chains": 15}, {"num_steps": 0}, {"scale": -1.0}, {"temperatures": (1.0,)}):
        with pytest.raises(SettingsError):
            ReferenceSettings(**wrong)


@pytest.mark.parametrize("name", ["dw4", "lj13", "lj55"])
def test_defaults_have_a_ladder_down_to_one(name):
    temperatures = default_reference_settings(PRESETS[name].target).temperatures
    assert temperatures is not None and temperatures[-1] == 1.0 and 3 <= len(temperatures) <= 6


# The evidence: exact independent draws pass, and each way of going wrong is named.


def exact_draws(key) -> ChainState:
    position = jax.random.normal(key, (100, 64, 4)) / np.sqrt(2 * STRENGTH * 3 + TRAP)
    target = in_inner_coordinates(HARMONIC)
    log_density, gradient = jax.jit(jax.vmap(jax.vmap(jax.value_and_grad(target.log_density))))(position)
    return ChainState(position, log_density, gradient)


def changed(draws: ChainState, **fields) -> ChainState:
    for name, value in fields.items():
        draws = eqx.tree_at(lambda tree, name=name: getattr(tree, name), draws, value)
    return draws


def wide_chain(draws):
    return changed(draws, position=draws.position.at[:, ::4].multiply(3.0))


def stuck_energy(draws):
    return changed(draws, log_density=draws.log_density.at[:, ::4].add(-5.0))


def wrong_gradient(draws):
    return changed(draws, log_density_grad=1.2 * draws.log_density_grad)


def falling_energy(draws):
    return changed(draws, log_density=draws.log_density + jnp.linspace(0.0, 1.0, 100)[:, None])


def odd_block(draws):
    return changed(draws, log_density=draws.log_density.at[40:50].add(1.0))


def frozen(draws):
    return jax.tree.map(lambda leaf: jnp.broadcast_to(leaf[:1], leaf.shape), draws)


def test_exact_draws_pass():
    evidence = evidence_of(in_inner_coordinates(HARMONIC), exact_draws(jax.random.key(6)), Tally.zero(2))
    assert evidence["is_converged"], evidence["problems"]
    assert evidence["virial"]["expected"] == 4 and evidence["swap_rates"] == [None]


@pytest.mark.parametrize(
    ("sabotage", "words"),
    [
        (wide_chain, "R-hat of pair distances"),
        (stuck_energy, "R-hat of the energy"),
        (wrong_gradient, "where 4 is exact"),
        (falling_energy, "the energy drifts"),
        (odd_block, "block energies spread"),
        (frozen, "R-hat"),
    ],
)
def test_each_way_of_going_wrong_is_named(sabotage, words):
    draws = sabotage(exact_draws(jax.random.key(6)))
    evidence = evidence_of(in_inner_coordinates(HARMONIC), draws, Tally.zero(2))
    assert not evidence["is_converged"] and any(words in problem for problem in evidence["problems"])
    json.dumps(evidence, allow_nan=False)


# The cache and the command.


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """A tiny set of DW-4, for reading only: the cache's folder, and what the command said."""
    place = tmp_path_factory.mktemp("cache")
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("TEMPERING_CACHE", str(place))
        return place, command("reference", "dw4", "-n", 40, "--chains", 16, "--steps", 28, "--seed", 3)


@pytest.fixture
def cache(written, tmp_path, monkeypatch):
    """A copy of that cache, in use."""
    for path in written[0].rglob("reference.*"):
        copy = tmp_path / path.relative_to(written[0])
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_bytes(path.read_bytes())
    monkeypatch.setenv("TEMPERING_CACHE", str(tmp_path))
    return tmp_path


def command(*arguments) -> tuple[int, str, str]:
    """The exit code, the output and the errors of a command, with types unchecked, as users run it."""
    out, errors = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(errors), unchecked():
        try:
            code = main([str(argument) for argument in arguments])
        except SystemExit as stop:  # the parser's own
            code = stop.code
    return code, out.getvalue(), errors.getvalue()


def refused(*arguments) -> str:
    """The one line that a refusal writes."""
    code, out, errors = command(*arguments, "--quiet")
    assert code == 2, f"exit code {code}, output {out!r}"
    assert out == "" and errors.startswith("tempering: ") and errors.count("\n") == 1, errors
    return errors


def test_what_has_not_converged_is_written_marked_and_said(written):
    place, (code, out, errors) = written
    assert code == 1 and "NOT CONVERGED: R-hat" in out and "not converged" in errors and "reference 0/28" in errors
    record = read_json(place / "reference" / "dw4" / "40" / "reference.json")
    assert record["is_converged"] is False and record["evidence"]["problems"]
    assert record["seed"] == 3 and record["settings"]["num_chains"] == 16 and record["evaluations"] > 0


def test_a_second_call_finds_it_and_changes_nothing(cache):
    before = files_of(cache)
    code, out, _ = command("reference", "dw4", "-n", 40, "--quiet")
    assert code == 1 and "found in" in out and str(reference_folder("dw4") / "40") in out
    assert files_of(cache) == before
    # Samples whose evidence is good exit with 0.
    path = cache / "reference" / "dw4" / "40" / "reference.json"
    record = read_json(path)
    record["evidence"] |= {"is_converged": True, "problems": []}
    write_json(path, record)
    assert command("reference", "dw4", "--n", 40, "--quiet")[0] == 0


def test_the_cache_gives_back_what_was_made(cache):
    reference, folder, is_found = cached_reference("dw4", 40)
    assert is_found and folder == cache / "reference" / "dw4" / "40" and reference.positions.shape == (40, 8)
    loaded = load_reference("dw4", 40)
    assert loaded is not None and loaded.evidence == reference.evidence
    np.testing.assert_array_equal(loaded.positions, reference.positions)
    fewer = load_reference(TargetConfig("dw4"), 10)
    assert fewer is not None and fewer.positions.shape == (10, 8) and fewer.log_density.shape == (10,)
    assert load_reference("dw4", 41) is None and load_reference("lj13", 5) is None


def test_other_options_are_not_taken_for_the_same(cache):
    before = files_of(cache)
    line = refused("reference", "dw4", "-n", 40, "--seed", 4)
    assert "seed = 3 (asked for 4)" in line and "--force" in line and "--out" in line
    assert "num_steps = 28 (asked for 32)" in refused("reference", "dw4", "-n", 40, "--steps", 32)
    assert files_of(cache) == before
    options = ("-n", 40, "--chains", 16, "--steps", 28, "--seed", 3, "--quiet")
    assert "written to" in command("reference", "dw4", *options, "--force")[1]
    assert "written to" in command("reference", "dw4", *options, "--out", cache / "mine")[1]
    arrays = "reference/dw4/40/reference.npz"
    after = files_of(cache)
    assert after[arrays] == before[arrays] == after["mine/reference.npz"]  # the same seed, the same samples


def flip(path):
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(bytes(data))


@pytest.mark.parametrize("name", ["reference.npz", "reference.json"])
@pytest.mark.parametrize("damage", [flip, lambda path: path.unlink()])
def test_a_damaged_cache_is_refused_by_its_name(cache, name, damage):
    path = cache / "reference" / "dw4" / "40" / name
    damage(path)
    line = refused("reference", "dw4", "-n", 40)
    assert str(path) in line and "--force makes it again" in line
    if (path.parent / "reference.json").exists():
        with pytest.raises(RunFolderError, match=name):
            load_reference("dw4", 40)


def test_the_samples_of_another_density_are_refused(cache):
    place = cache / "reference"
    (place / "dw4").rename(place / "lj-num_particles-13")
    with pytest.raises(RunFolderError, match="another density"):
        load_reference("lj13", 40)


def test_bad_names_and_options_are_refused(cache, tmp_path):
    line = refused("reference", "lj12")
    assert "'lj12' is unknown" in line and all(name in line for name in ("dw4", "lj13", "lj55")) and "mog40" not in line
    assert "'mog40' is not about particles" in refused("reference", "mog40")
    assert "n = 0 is not allowed" in refused("reference", "lj13", "-n", 0)
    assert "chains = 3 is not allowed" in refused("reference", "lj13", "--chains", 3)
    assert "steps = 5 is not allowed" in refused("reference", "lj13", "--steps", 5)
    assert "seed = -1 is not allowed" in refused("reference", "lj13", "--seed", "-1")
    (tmp_path / "thesis.txt").write_text("the only copy")
    assert "cannot make" in refused("reference", "lj13", "--out", tmp_path / "thesis.txt")
    assert (tmp_path / "thesis.txt").read_text() == "the only copy"
    assert not (cache / "reference" / "lj-num_particles-13").exists()


def test_the_help_names_every_option():
    code, out, _ = command("reference", "--help")
    assert code == 0 and all(option in out for option in ("--n", "--out", "--seed", "--chains", "--steps", "--force"))
    code, out, errors = command("reference")
    assert code == 2 and out == "" and "Traceback" not in errors
