"""Tests of `tempering._compat`: less often inside, as before outside."""

import gc

import pytest

from tempering._compat import collected_seldom


@pytest.fixture(autouse=True)
def own_thresholds():
    """Nothing is collected meanwhile: to look through all that a whole suite has made takes a second."""
    before = gc.get_threshold()
    gc.disable()
    yield
    gc.set_threshold(*before)
    gc.enable()


@pytest.mark.parametrize("before", [(700, 10, 10), (2000, 10, 0)])
def test_fewer_collections_inside_and_as_before_outside(before):
    gc.set_threshold(*before)
    with pytest.raises(KeyError), collected_seldom():
        assert gc.get_threshold()[0] > 10 * before[0]
        raise KeyError
    assert gc.get_threshold() == before


@pytest.mark.parametrize("own", [(0, 10, 10), (1_000_000, 5, 5)], ids=["switched off", "more seldom still"])
def test_a_caller_who_chose_fewer_keeps_them(own):
    gc.set_threshold(*own)
    with collected_seldom():
        assert gc.get_threshold() == own
