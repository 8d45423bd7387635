"""The presets of alanine dipeptide: within their evaluations, of the molecule that ships, and plain data."""

import json

import pytest

from support.unchecked import unchecked
from tempering.lab.molecule_presets import MOLECULE_PRESETS
from tempering.lab.run import target_of
from tempering.methods.budget import check_budget, forecast
from tempering.parallel_tempering import temperatures_of
from tempering.runs.config import config_from_dict, config_to_dict, with_changes

CARTESIAN = [name for name in MOLECULE_PRESETS if "internal" not in name]
INTERNAL = [name for name in MOLECULE_PRESETS if "internal" in name]
by_preset = pytest.mark.parametrize("name", CARTESIAN)


@pytest.fixture(autouse=True)
def as_users_run_it():
    with unchecked():
        yield


@by_preset
def test_it_is_of_the_molecule_and_survives_its_record(name):
    config = MOLECULE_PRESETS[name]
    assert config_from_dict(json.loads(json.dumps(config_to_dict(config)))) == config and config.name == name
    target, network = target_of(config), config.settings.network
    assert network.atoms == target.atom_kinds
    assert {frozenset(bond) for bond in network.bonds} == {frozenset(bond) for bond in target.bonds}
    assert (target.geometry.num_particles, target.geometry.spatial_dim) == (network.num_particles, network.spatial_dim)
    # The paper's network makes both hands, so that neither may be outside the support.
    assert bool(target.target.walls) == network.is_chiral


@by_preset
def test_it_costs_what_it_says(name):
    config = MOLECULE_PRESETS[name]
    check_budget(config.settings, target_of(config), config.budget)
    total = sum(forecast(config.settings, 63, config.budget).values())
    assert total == pytest.approx(2.416e7, rel=0.01) if "paper" not in name else abs(total - 2.61e7) < 3e5
    temperatures = temperatures_of(config.settings.ladder, dim=63)
    assert temperatures[0] == pytest.approx(5.0) and temperatures[-1] == 1.0


@pytest.mark.parametrize("name", INTERNAL)
def test_internal_coordinates_have_the_settings_of_any_density(name):
    config = MOLECULE_PRESETS[name]
    assert config_from_dict(json.loads(json.dumps(config_to_dict(config)))) == config and config.name == name
    target = target_of(config)
    assert target.dim == 67 and target.chart.full_dim == 66 and target.geometry is None
    assert not config.settings.network.is_of_particles
    check_budget(config.settings, target, config.budget)
    assert config.budget == 2_600_000


def test_the_other_network_is_one_change_away():
    changed = with_changes(MOLECULE_PRESETS["aldp"], ["network.kind=egnn", "network.is_chiral=false"])
    assert changed.settings.network.kind == "egnn" and changed.settings.network.atoms
    old = config_to_dict(changed)
    for name in ("atoms", "bonds", "is_chiral"):  # as configurations were written before molecules
        del old["settings"]["network"][name]
    assert config_from_dict(old).settings.network.atoms == ()
