"""What is compiled ahead of a fit: begun when the modes are known, for a number of places that the fit then takes."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from support.defaults import default_settings
from support.random_checks import must_fail
from support.tiny import Kept, quick_compilation, shrunk
from support.unchecked import unchecked
from tempering.adapters import as_target
from tempering.compilation import Ahead
from tempering.methods import begin as begin_module
from tempering.methods.known_modes import with_components
from tempering.methods.rehearse import Rehearsal
from tempering.runs.ledger import Ledger
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


def seven(x):
    """As many modes as need eight places, where one more that is allowed for needs sixteen."""
    places = jnp.asarray(8.0 * np.stack([np.cos(np.arange(7.0)), np.sin(np.arange(7.0))], axis=1), jnp.float32)
    return jax.scipy.special.logsumexp(-2.0 * jnp.sum((x[None] - places) ** 2, axis=1))


def test_a_run_that_is_resumed_has_the_network_that_it_began_with(monkeypatch):
    def networks_agree() -> None:
        store, found = Kept(), []
        for _ in range(2):
            with quick_compilation(), unchecked():
                run = begin_module.begin(
                    as_target(seven, 2),
                    jax.random.key(0),
                    shrunk(default_settings("ptsd", 2)),
                    1,
                    None,
                    Ledger(20_000),
                    store,
                    lambda event: None,
                )
            found.append(run.settings.network.num_components)
        assert found == [16, 16] and run.start.found.has_reference

    networks_agree()
    # What was compiled ahead is forgotten where only what was found is kept.
    heard = Rehearsal.on_modes
    monkeypatch.setattr(Rehearsal, "on_modes", lambda *given, **options: heard(*given, **options) and False)
    must_fail(networks_agree)
