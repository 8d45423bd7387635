"""Forces of users' own expressions, maps and tables against OpenMM, one at a time, with a saboteur each."""

import json
from dataclasses import replace

import numpy as np
import pytest

from support.molecules import energy_is_off, jax_energies, jax_values, openmm_values, worst
from support.tiny import quick_compilation
from tempering.molecules.system.reading import read_system
from tempering.molecules.system.record import MoleculeRecord

openmm = pytest.importorskip("openmm")

NUM_ATOMS = 8
RANDOM = np.random.default_rng(5)
CONFORMATIONS = np.arange(NUM_ATOMS)[None, :, None] * np.array([0.1, 0.03, -0.05]) + RANDOM.normal(
    0.0, 0.08, (4, NUM_ATOMS, 3)
)
QUADS = [(0, 1, 2, 3), (2, 5, 4, 7), (6, 3, 1, 0)]


def _with_globals(force, **values):
    for name, value in values.items():
        force.addGlobalParameter(name, value)
    return force


def bond():
    force = _with_globals(openmm.CustomBondForce("depth*(1-exp(-a*(r-r0)))^2"), depth=300.0)
    force.addPerBondParameter("a")
    force.addPerBondParameter("r0")
    for i in range(NUM_ATOMS - 1):
        force.addBond(i, i + 1, [3.0 + i, 0.1 + 0.01 * i])
    return force


def angle():
    force = openmm.CustomAngleForce("k*(cos(theta)-cos(theta0))^2+0.1*theta")
    force.addPerAngleParameter("k")
    force.addPerAngleParameter("theta0")
    for i in range(NUM_ATOMS - 2):
        force.addAngle(i, i + 1, i + 2, [10.0 + i, 1.7])
    return force


def torsion():
    force = openmm.CustomTorsionForce("k*min(dtheta, 2*pi-dtheta)^2; dtheta=abs(theta-theta0); pi=3.1415926535")
    force.addPerTorsionParameter("k")
    force.addPerTorsionParameter("theta0")
    for place, quad in enumerate(QUADS):
        force.addTorsion(*quad, [5.0 + place, 0.4])
    return force


def external():
    force = openmm.CustomExternalForce("k*((x-0.1)^2+2*(y+0.2)^2+z^4)")
    force.addPerParticleParameter("k")
    for i in range(NUM_ATOMS):
        force.addParticle(i, [1.0 + i])
    return force


def nonbonded():
    force = _with_globals(
        openmm.CustomNonbondedForce("scale*(A/r^6-B(kind1, kind2)*g(r)); A=sqrt(a1*a2)*w1*w2"), scale=0.7
    )
    for name in ("a", "kind"):
        force.addPerParticleParameter(name)
    force.addComputedValue("w", "1+0.1*a")
    force.addTabulatedFunction("B", openmm.Discrete2DFunction(2, 2, [0.1, 0.2, 0.3, 0.4]))
    force.addTabulatedFunction("g", openmm.Continuous1DFunction(list(np.cos(np.linspace(0, 4, 30))), 0.0, 2.0))
    for i in range(NUM_ATOMS):
        force.addParticle([1e-4 * (i + 1), i % 2])
    # Equal numbers on both sides of the unsymmetric table: OpenMM takes the pair in an order of its own.
    for i in range(NUM_ATOMS):
        for j in range(i):
            if i % 2 != j % 2 or i == j + 4:
                force.addExclusion(i, j)
    return force


def born():
    force = openmm.CustomGBForce()
    force.addPerParticleParameter("q")
    force.addPerParticleParameter("radius")
    force.addGlobalParameter("factor", 40.0)
    force.addComputedValue("I", "exp(-r/radius2)*radius1", openmm.CustomGBForce.ParticlePair)
    force.addComputedValue("B", "1/(1/radius-tanh(I))+0.01*x", openmm.CustomGBForce.SingleParticle)
    force.addEnergyTerm("-factor*q^2/B+y*q", openmm.CustomGBForce.SingleParticle)
    force.addEnergyTerm("factor*q1*q2/sqrt(r^2+B1*B2)", openmm.CustomGBForce.ParticlePairNoExclusions)
    force.addEnergyTerm("0.1*q1*q2*r*B1*B2", openmm.CustomGBForce.ParticlePair)
    for i in range(NUM_ATOMS):
        force.addParticle([(-1) ** i * (0.2 + 0.1 * i), 0.15 + 0.01 * i])
    force.addExclusion(0, 1)
    force.addExclusion(5, 2)
    return force


def rb():
    force = openmm.RBTorsionForce()
    for place, quad in enumerate(QUADS):
        force.addTorsion(*quad, 1.0, 2.0 + place, -1.0, 0.5, 0.3, -0.7)
    return force


def cmap():
    force = openmm.CMAPTorsionForce()
    random = np.random.default_rng(1)
    for size in (6, 9):
        force.addMap(size, list(random.normal(0.0, 5.0, size * size)))
    force.addTorsion(0, *QUADS[0], *QUADS[1])
    force.addTorsion(1, *QUADS[1], *QUADS[2])
    force.addTorsion(1, *QUADS[2], *QUADS[0])
    return force


def offsets():
    """A NonbondedForce with exceptions, whose charges depend on a global parameter."""
    force = _with_globals(openmm.NonbondedForce(), strength=0.3)
    for i in range(NUM_ATOMS):
        force.addParticle((-1) ** i * 0.2, 0.1 + 0.01 * i, 0.5)
    which = force.addException(6, 2, 0.1, 0.12, 0.2)
    force.addException(0, 1, 0.0, 1.0, 0.0)
    force.addParticleParameterOffset("strength", 3, 0.5, 0.02, 0.1)
    force.addExceptionParameterOffset("strength", which, -0.5, 0.01, 0.1)
    return force


FORCES = {
    "bond": (bond, "parameters"),
    "angle": (angle, "parameters"),
    "torsion": (torsion, "parameters"),
    "external": (external, "parameters"),
    "nonbonded": (nonbonded, "parameters"),
    "born": (born, "parameters"),
    "rb": (rb, "coefficients"),
    "cmap": (cmap, "map_1"),
    "offsets": (offsets, "exception_charge"),
}


def read(name):
    system = openmm.System()
    for _ in range(NUM_ATOMS):
        system.addParticle(12.0)
    system.addForce(FORCES[name][0]())
    return system, read_system(system, None, CONFORMATIONS[0])


FAST = ("torsion", "nonbonded", "born")


@pytest.fixture(scope="module", autouse=True)
def compiled_quickly():
    with quick_compilation():
        yield


@pytest.mark.parametrize(
    "name", [name if name in FAST else pytest.param(name, marks=pytest.mark.slow) for name in FORCES]
)
def test_a_force_agrees_and_its_saboteur_does_not(name):
    array = FORCES[name][1]
    system, record = read(name)
    theirs = openmm_values(system, CONFORMATIONS)
    assert worst(jax_values(record, CONFORMATIONS), theirs) <= 1
    (term,) = record.terms
    broken = replace(term, arrays={**term.arrays, array: term.arrays[array] * (1 + 1e-6)})
    assert energy_is_off(jax_energies(replace(record, terms=(broken,)), CONFORMATIONS), theirs)
    assert record.is_translation_invariant == (name not in ("external", "born"))


@pytest.mark.parametrize("name", FORCES)
def test_records_survive_being_written_down(name):
    _, record = read(name)
    arrays, content = record.as_plain()
    again = MoleculeRecord.from_plain(arrays, json.loads(json.dumps(content)))
    assert again == record and hash(again) == hash(record)
    assert replace(record, masses=record.masses + 1) != record
