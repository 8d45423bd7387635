"""Every setting of a baseline refuses what makes no sense, by its name."""

import dataclasses

import pytest

from support.unchecked import unchecked
from tempering import settings
from tempering.errors import SettingsError

KINDS = [
    getattr(settings, name)
    for name in settings.__all__
    if name != "BaselineSettings"
    and dataclasses.is_dataclass(getattr(settings, name))
    and issubclass(getattr(settings, name), settings.BaselineSettings)
]
CASES = [(kind, field.name) for kind in KINDS for field in dataclasses.fields(kind)]


@pytest.fixture(autouse=True)
def as_users_run_it():
    with unchecked():
        yield


def test_there_are_six():
    assert sorted(kind().method for kind in KINDS) == ["bnem", "cmcd", "dds", "dikl", "fab", "idem"]


@pytest.mark.parametrize(("kind", "name"), CASES)
def test_a_word_in_place_of_a_number_is_refused_by_name(kind, name):
    if name == "num_bootstrap":  # counts only where estimates are bootstrapped
        with pytest.raises(SettingsError, match="num_bootstrap = 'no'"):
            kind(num_bootstrap="no", num_bootstrap_after=1)
        return
    with pytest.raises(SettingsError, match=f"{name} = 'no' is not allowed"):
        kind(**{name: "no"})


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"buffer_size": 12_801}, "a multiple of batch_size"),
        ({"first_buffer_size": 128}, "updates draw without replacement"),
        ({"buffer_size": 1_280}, "at least first_buffer_size"),
        ({"alpha": 0.0}, "alpha"),
        ({"kernel": "mala"}, "'random_walk', 'hmc'"),
    ],
)
def test_contradictions_of_fab_are_refused(changes, message):
    with pytest.raises(SettingsError, match=message):
        settings.FABSettings(**changes)
