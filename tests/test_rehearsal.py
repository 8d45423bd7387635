"""What is compiled ahead of a fit: begun when the modes are known, for a number of places that the fit then takes."""

import dataclasses

import jax.numpy as jnp
import pytest

from tempering.adapters import as_target
from tempering.compilation import Ahead
from tempering.methods.known_modes import with_components
from tempering.methods.rehearse import Rehearsal
from tempering.settings import PTSDSettings, resolved

SETTINGS = resolved(PTSDSettings(), 2)


class Asked(Ahead):
    """Compiles nothing, and says what it was asked for."""

    def __init__(self) -> None:
        super().__init__()
        self.names: list = []

    def compile(self, work, name=None) -> None:
        self.names.append(name)


def rehearsal_in(dim: int) -> tuple[Rehearsal, Asked]:
    asked = Asked()
    return Rehearsal(asked, as_target(lambda x: -0.5 * jnp.sum(x**2), dim), SETTINGS, None), asked


@pytest.mark.parametrize(("num", "places"), [(1, 8), (2, 8), (6, 8), (7, 16), (23, 32), (31, 64), (40, 64)])
def test_there_are_places_for_all_modes_and_a_few_more(num, places):
    rehearsal, asked = rehearsal_in(2)
    rehearsal.on_modes(num, is_all=True)
    assert [name[0] for name in asked.names] == ["training", "densities", "draws"]
    assert {name[1].num_components for name in asked.names} == {places}
    rehearsal.on_modes(200, is_all=True)  # once is enough
    assert len(asked.names) == 3


def test_few_modes_are_not_waited_for_and_many_are():
    rehearsal, asked = rehearsal_in(2)
    rehearsal.on_modes(23, is_all=False)
    assert not asked.names
    rehearsal.on_modes(2, is_all=False)
    assert len(asked.names) == 3


@pytest.mark.parametrize(("num", "expected"), [(33, 64), (31, 64), (2, 8), (70, 128)])
def test_a_fit_takes_what_was_compiled_where_it_fits(num, expected):
    rehearsal, _ = rehearsal_in(2)
    own = with_components(SETTINGS.network, 2, num)
    assert rehearsal.fitting(own) == own
    rehearsal.on_modes(32, is_all=True)
    assert rehearsal.fitting(own).num_components == expected
    other = dataclasses.replace(own, width=own.width + 1)
    assert rehearsal.fitting(other) == other
