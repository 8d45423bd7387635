"""A reference that is tried again: it keeps what it was made of, and goes on while it is nearly there."""

from types import SimpleNamespace

import jax
import numpy as np
import pytest

from tempering.adapters import as_target
from tempering.atlas.judge import Judgement
from tempering.atlas.survey import survey
from tempering.kernels import kernel_of
from tempering.methods import atlas
from tempering.methods.atlas import _NEARLY, _Room, _tried
from tempering.parallel_tempering.initial import normal_start
from tempering.runs.ledger import Ledger
from tempering.settings import Exploration

PLACE = np.array([[5.0, 12.5]])
"""Where chains are said to have been, and the reference to have too little."""


def bent(x):
    """A ridge that one normal covers badly: its ends are heavy."""
    return -0.5 * (x[0] / 2.0) ** 2 - 0.5 * ((x[1] - 0.5 * x[0] ** 2) / 0.3) ** 2


def tries(monkeypatch, shares, *, adapted_fn) -> tuple[list[int], list[int]]:
    """The components that every try was given, and those that it came to, if so much was hidden after each."""
    target, ledger, given, reached = as_target(bent, 2), Ledger(), [], []
    optima, shares = survey(0, target, ledger, 3000).optima, iter(shares)

    def adapted(key, target, components, *others):
        given.append(len(components))
        drawn = adapted_fn(key, target, components, *others)
        reached.append(len(drawn.components))
        return drawn

    heavy = (PLACE, np.array([9.0]))
    monkeypatch.setattr(atlas, "adapted", adapted)
    monkeypatch.setattr(atlas, "judge", lambda *_: Judgement(0.5, 0.2, next(shares), 1.0, *heavy))
    room = _Room(9000, kernel_of(Exploration(), 2), normal_start(2, 1.0), ledger, lambda *_, **__: None)
    _tried(jax.random.key(0), target, optima, room)
    return given, reached


def test_a_second_try_keeps_what_the_first_has_added(monkeypatch):
    given, reached = tries(monkeypatch, [_NEARLY, 0.0], adapted_fn=atlas.adapted)
    assert reached[0] > given[0], "draws at its ends are heavy"
    assert given[1] == reached[0] + 1, "the place that chains found, and all before it"


@pytest.mark.parametrize(
    ("shares", "num"),
    [([0.04] * 9, 6), ([0.3, 0.29], 2), ([0.3, 0.14, 0.06, 0.05], 3), ([0.3, 0.04, 0.001], 3), ([0.0], 1)],
    ids=["nearly there", "no better", "three at the most", "better and nearly there", "covered"],
)
def test_there_are_more_tries_where_little_is_left(monkeypatch, shares, num):
    def nothing_new(key, target, components, *_):
        return SimpleNamespace(components=components, log_weights=lambda: np.zeros(1), log_z=0.0)

    assert len(tries(monkeypatch, shares, adapted_fn=nothing_new)[0]) == num
