"""References from opposite starts: the sides must agree in a mode's population, and a molecule is kept to one hand."""

import json
from dataclasses import replace

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from support.counting import Counter, CountingTarget
from support.random_checks import assert_mean
from support.tiny import quick_compilation
from tempering.kernels import ChainState
from tempering.lab.reference import (
    cached_reference,
    default_reference_settings,
    load_reference,
    make_reference,
    reference_folder,
    reference_target,
)
from tempering.lab.reference_evidence import evidence_lines, evidence_of
from tempering.lab.reference_making import ReferenceSettings
from tempering.lab.reference_starts import landmark_of, one_handed, starting_points
from tempering.molecules import alanine_dipeptide, phi_psi, signed_volumes
from tempering.molecules.alanine import ALPHA_CARBON
from tempering.parallel_tempering import Tally
from tempering.parallel_tempering.pilot.relax import NUM_STEPS
from tempering.registry import make_target
from tempering.runs.config import TargetConfig
from tempering.runs.ledger import Ledger
from tempering.targets import PairPotential, Target, in_inner_coordinates

# Three particles in the plane, of precision 2 a n + k in each of four directions: mean energy 2, as in test_reference.
HARMONIC = PairPotential(lambda r: 0.7 * r**2, 3, 2, trap=0.4)
STARTS = np.asarray([[2.0, 0.0, -1.0, 1.0, -1.0, -1.0], [-2.0, 0.0, 1.0, 1.0, 1.0, -1.0]], np.float32)
SHORT = ReferenceSettings((3.0, 1.0), num_chains=32, num_steps=240, num_leapfrog=3, swap_interval=1, mass="adapted")


class Sided(Target):
    """The harmonic system, whose first particle may be right of 0.3 or not."""

    dim: int = eqx.field(static=True, default=6)
    counter: Counter = eqx.field(static=True, default=Counter())

    geometry = HARMONIC.geometry
    opposite_starts = STARTS

    def log_density(self, x):
        return CountingTarget(HARMONIC, 6, self.counter).log_density(x)

    def landmark(self, x):
        return x[0] > 0.3


SIDED = in_inner_coordinates(Sided())
GROUP = np.arange(64) % 2


@pytest.fixture(scope="module", autouse=True)
def quickly_compiled():
    """These programs run for a second."""
    with quick_compilation():
        yield


def exact_draws() -> ChainState:
    position = jax.random.normal(jax.random.key(7), (100, 64, 4)) / np.sqrt(2 * 0.7 * 3 + 0.4)
    values = jax.jit(jax.vmap(jax.vmap(jax.value_and_grad(in_inner_coordinates(HARMONIC).log_density))))(position)
    return ChainState(position, *values)


def evidence_with(draws: ChainState) -> dict:
    evidence = evidence_of(SIDED, draws, Tally.zero(2), GROUP)
    json.dumps(evidence, allow_nan=False)
    return evidence


def test_sides_that_agree_pass_with_the_population_of_both():
    draws = exact_draws()
    evidence = evidence_with(draws)
    assert evidence["is_converged"], evidence["problems"]
    inside = np.asarray(jax.vmap(jax.vmap(SIDED.chart.embed))(draws.position))[..., 0] > 0.3
    found = evidence["population"]
    assert abs(found["share"] - inside.mean()) < 1e-6 and found["apart"] < 4
    np.testing.assert_allclose(
        [side["share"] for side in found["by_start"]], [inside[:, ::2].mean(), inside[:, 1::2].mean()]
    )
    assert any(line.startswith("population") and "by start" in line for line in evidence_lines(evidence))


def test_sides_that_stay_where_they_started_are_named():
    draws = exact_draws()
    side = np.where(GROUP == 0, 1.0, -1.0)[None, :, None]
    first = jax.vmap(jax.vmap(SIDED.chart.embed))(draws.position)[..., :1]
    kept = eqx.tree_at(lambda tree: tree.position, draws, draws.position * jnp.where(first * side > 0, 1.0, -1.0))
    problems = evidence_with(kept)["problems"]
    assert any("depends on the start" in problem for problem in problems)


def test_a_mode_that_was_not_seen_is_no_agreement():
    low = eqx.tree_at(lambda tree: tree.position, exact_draws(), jnp.zeros((100, 64, 4)))
    assert any("too few visits" in problem for problem in evidence_with(low)["problems"])


@pytest.mark.slow
def test_a_run_from_opposite_starts_counts_every_evaluation():
    counter, events = SIDED.target.counter, []
    counter.reset()
    reference = make_reference(Sided(), jax.random.key(1), 400, SHORT, on_event=events.append)
    assert reference.evaluations == counter.total == events[-1].planned == events[-1].evaluations
    assert events[-1].done == events[-1].total == SHORT.num_steps
    assert len(reference.evidence["population"]["by_start"]) == 2
    assert reference.is_converged, reference.evidence["problems"]
    assert_mean(-reference.log_density, 2.0, ess=min(400, reference.evidence["ess_energy"]), name="energy")


def test_chains_start_in_turn_from_either_side():
    ledger = Ledger()
    positions, group = starting_points(jax.random.key(2), SIDED, (2, 6), 0.1, ledger)
    assert positions.shape == (2, 6, 4) and ledger.total == 12 * NUM_STEPS
    np.testing.assert_array_equal(group, [0, 1, 0, 1, 0, 1])
    first = jax.vmap(jax.vmap(SIDED.chart.embed))(positions)[..., 0]
    assert np.all(np.sign(np.asarray(first)) == np.where(group == 0, 1, -1)[None])
    assert starting_points(jax.random.key(2), in_inner_coordinates(HARMONIC), (2, 6), 1.0, ledger)[1] is None


# Alanine dipeptide.


def test_it_is_known_by_name_and_one_set_serves_both_hands():
    assert reference_target("aldp").name == "aldp"
    either, left = (reference_folder(TargetConfig("aldp", of)) for of in ({}, {"chirality": "L"}))
    assert either == left != reference_folder(TargetConfig("aldp", {"temperature": 400}))
    settings = default_reference_settings(reference_target("aldp"))
    assert settings.temperatures is not None and abs(settings.temperatures[0] - 5.0) < 1e-6


def test_its_reference_is_of_one_hand_and_its_mode_is_that_of_phi():
    target = one_handed(in_inner_coordinates(alanine_dipeptide()))
    assert target.target.walls == (ALPHA_CARBON,) and one_handed(target) is target
    x = jnp.asarray(target.target.init[0])
    mirrored = target.chart.restrict(x * jnp.tile(jnp.asarray([1.0, 1.0, -1.0]), 22))
    name, is_rare = landmark_of(target)
    assert "phi" in name and not is_rare(target.chart.restrict(x))
    assert bool(is_rare(mirrored)) == bool(0 < float(phi_psi(target.chart.embed(mirrored))[0]) < 2 * np.pi / 3)
    assert landmark_of(in_inner_coordinates(HARMONIC)) is None


@pytest.mark.slow
def test_a_short_run_is_marked_kept_and_found_by_either_hand(tmp_path, monkeypatch):
    monkeypatch.setenv("TEMPERING_CACHE", str(tmp_path))
    tiny = replace(default_reference_settings(TargetConfig("aldp")), num_leapfrog=3, least_draws=20)
    monkeypatch.setattr("tempering.lab.reference.default_reference_settings", lambda config: tiny)
    reference, folder, is_found = cached_reference("aldp", 32, num_chains=16, num_steps=32)
    assert not is_found and not reference.is_converged and folder.parent.name == "aldp"
    first, second = reference.evidence["population"]["by_start"]
    assert first["share"] < 0.1 and second["share"] > 0.9  # each still where it started
    x = jnp.asarray(reference.positions)
    assert np.all(np.asarray(jax.vmap(lambda x: signed_volumes(x, np.array([ALPHA_CARBON])))(x)) > 0)
    for arguments in ({}, {"chirality": "L"}):
        loaded = load_reference(TargetConfig("aldp", arguments), 32)
        assert loaded is not None
        again = jax.vmap(make_target("aldp", **arguments).log_density)(x)
        np.testing.assert_allclose(loaded.log_density, again, atol=1e-2)


def test_one_molecule_in_other_coordinates_has_the_same_references():
    assert reference_target("aldp-internal") == reference_target("aldp_internal") == TargetConfig("aldp")
    warmer = {"temperature": 350}
    assert reference_folder(TargetConfig("aldp_internal", warmer)) == reference_folder(TargetConfig("aldp", warmer))
    assert reference_folder(TargetConfig("aldp_internal", warmer)) != reference_folder("aldp")
