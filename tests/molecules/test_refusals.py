"""What cannot be translated is refused by name, with what to do; or OpenMM evaluates it, and is counted."""

import copy

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from support.molecules import case, openmm_values
from tempering.errors import SettingsError
from tempering.molecules import MoleculeTarget, from_openmm, save_molecule
from tempering.molecules.callback import OpenMMTarget
from tempering.runs.ledger import Ledger
from tempering.targets import evaluate
from tempering.targets.cost import spend

openmm = pytest.importorskip("openmm")


def ethane(change=lambda system: None):
    given = case("ethane")
    system = copy.deepcopy(given.system)
    change(system)
    return system, given.topology, given.conformations[0]


def _nonbonded(system):
    return next(force for force in system.getForces() if isinstance(force, openmm.NonbondedForce))


def _method(name):
    return lambda system: _nonbonded(system).setNonbondedMethod(getattr(openmm.NonbondedForce, name))


def _adding(make):
    return lambda system: system.addForce(make())


def _periodic_bonds(system):
    force = next(force for force in system.getForces() if isinstance(force, openmm.HarmonicBondForce))
    force.setUsesPeriodicBoundaryConditions(True)


def _groups():
    force = openmm.CustomNonbondedForce("r")
    for _ in range(8):
        force.addParticle([])
    force.addInteractionGroup({0}, {1})
    return force


def _table():
    force = openmm.CustomNonbondedForce("f(r, r)")
    force.addTabulatedFunction("f", openmm.Continuous2DFunction(2, 2, [0.0, 1.0, 2.0, 3.0], 0.0, 1.0, 0.0, 1.0))
    for _ in range(8):
        force.addParticle([])
    return force


def _drude():
    force = openmm.DrudeForce()
    force.addParticle(1, 0, -1, -1, -1, 0.1, 1.0, 1.0, 1.0)
    return force


REFUSED = {
    "PME": (_method("PME"), "NonbondedForce with PME: create the system with nonbondedMethod=NoCutoff"),
    "LJPME": (_method("LJPME"), "NonbondedForce with LJPME"),
    "Ewald": (_method("Ewald"), "NonbondedForce with Ewald"),
    "cutoff": (_method("CutoffNonPeriodic"), "NonbondedForce with CutoffNonPeriodic"),
    "periodic cutoff": (_method("CutoffPeriodic"), "NonbondedForce with CutoffPeriodic"),
    "periodic bonds": (_periodic_bonds, "HarmonicBondForce in a periodic box"),
    "constraints": (lambda system: system.addConstraint(0, 1, 0.1), "1 constraints: .*constraints=None"),
    "massless": (lambda system: system.setParticleMass(2, 0.0), "1 massless atoms"),
    "virtual site": (
        lambda system: system.setVirtualSite(2, openmm.TwoParticleAverageSite(0, 1, 0.5, 0.5)),
        "1 virtual sites",
    ),
    "AMOEBA": (_adding(openmm.AmoebaMultipoleForce), "AmoebaMultipoleForce is not translated: .*fixed-charge"),
    "Drude": (_adding(_drude), "DrudeForce is not translated: .*without Drude"),
    "barostat": (_adding(lambda: openmm.MonteCarloBarostat(1, 300)), "MonteCarloBarostat is not translated: remove it"),
    "compound": (_adding(lambda: openmm.CustomCompoundBondForce(2, "x1")), "CustomCompoundBondForce is not translated"),
    "LCPO": (_adding(lambda: openmm.LCPOForce()), "LCPOForce is not translated: .*sasaMethod"),
    "groups": (_adding(_groups), "CustomNonbondedForce with interaction groups"),
    "table": (_adding(_table), "CustomNonbondedForce with Continuous2DFunction"),
    "function": (
        _adding(lambda: _external("periodicdistance(x, y, z, 0, 0, 0)")),
        "CustomExternalForce in a periodic box",
    ),
    "unknown name": (_adding(lambda: _external("k*x")), "'k[*]x' uses k, which the force does not define"),
    "unknown pair name": (_adding(lambda: _pairs("r*q1*p2")), "uses p2, q1, which the force does not define"),
    "too few particles": (_adding(openmm.GBSAOBCForce), "GBSAOBCForce has numbers for 0 particles and the System 8"),
}


def _pairs(text):
    force = openmm.CustomNonbondedForce(text)
    for _ in range(8):
        force.addParticle([])
    return force


def _external(text):
    force = openmm.CustomExternalForce(text)
    force.addParticle(0, [])
    return force


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_translated_is_refused_by_name(name):
    if name == "LCPO" and not hasattr(openmm, "LCPOForce"):
        pytest.skip("an OpenMM before LCPOForce")
    change, message = REFUSED[name]
    with pytest.raises(SettingsError, match=message):
        from_openmm(*ethane(change))


def test_all_reasons_are_told_at_once_with_the_way_out():
    def change(system):
        _method("PME")(system)
        system.addForce(openmm.MonteCarloBarostat(1, 300))

    with pytest.raises(SettingsError, match=r'PME.*MonteCarloBarostat.*unsupported="callback"'):
        from_openmm(*ethane(change))


def test_what_has_no_energy_is_no_reason():
    assert isinstance(from_openmm(*ethane(_adding(openmm.CMMotionRemover))), MoleculeTarget)


def test_a_topology_of_another_molecule_is_refused():
    system, _, positions = ethane()
    with pytest.raises(SettingsError, match="topology has 22 atoms and the System 8"):
        from_openmm(system, case("alanine, OBC1").topology, positions)


def _spring():
    """A force without a translation: a spring between two atoms."""
    force = openmm.CustomCompoundBondForce(2, "500*(distance(p1, p2)-0.2)^2")
    force.addBond([1, 6], [])
    return force


def test_openmm_evaluates_what_has_no_translation_and_every_point_is_counted(monkeypatch):
    system, topology, positions = ethane(_adding(_spring))
    target = from_openmm(system, topology, positions, unsupported="callback", name="spring")
    assert isinstance(target, OpenMMTarget) and target.geometry.dim == 21
    conformations = case("ethane").conformations[:3]
    asked = []
    evaluator = type(target.target.box.fn)
    inside = evaluator.__call__
    monkeypatch.setattr(evaluator, "__call__", lambda self, x: (asked.append(1), inside(self, x))[1])
    x = jnp.asarray(conformations.reshape((3, -1)), jnp.float32)
    values, slopes = jax.jit(jax.vmap(lambda point: evaluate(target, point)))(x)
    energies, forces = openmm_values(system, conformations)
    scale = 1 / (0.00831446261815324 * 300)
    np.testing.assert_allclose(values, -scale * energies, rtol=1e-5)
    np.testing.assert_allclose(slopes, scale * forces.reshape((3, -1)), rtol=1e-4, atol=1e-2)
    assert len(asked) == 3
    ledger = Ledger()
    spend(ledger, "pilot", target, 3)
    assert ledger.total == 3 and not ledger.value_only
    with pytest.raises(ValueError, match="cannot be exported"):
        save_molecule(target, "spring")


def test_the_callback_is_for_what_has_no_translation_only():
    assert isinstance(from_openmm(*ethane(), unsupported="callback"), MoleculeTarget)
    with pytest.raises(SettingsError, match="1 constraints"):
        from_openmm(*ethane(lambda system: system.addConstraint(0, 1, 0.1)), unsupported="callback")


def test_a_molecule_held_in_place_keeps_all_coordinates():
    def change(system):
        system.addForce(_spring())
        system.addForce(_external("100*x^2"))

    assert from_openmm(*ethane(change), unsupported="callback").geometry is None
    assert from_openmm(*ethane(_adding(lambda: _external("100*x^2")))).geometry is None
