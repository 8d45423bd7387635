"""The search for modes and what is made of it never take more of the budget than they were given."""

import dataclasses
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from tests.support.random_checks import must_fail

from tempering.adapters import as_target, from_callable
from tempering.atlas.judge import judge
from tempering.methods import atlas
from tempering.methods.atlas import _search
from tempering.parallel_tempering.initial import normal_start
from tempering.runs.ledger import Ledger
from tempering.settings import Network, PTSDSettings
from tempering.shape import learn
from tempering.transforms.triangular import Triangular


def bent(x):
    """A valley in two dimensions, whose ends chains find piece by piece: tries follow tries."""
    return -100.0 * (x[1] - x[0] ** 2) ** 2 - (1.0 - x[0]) ** 2


def egg_box(x):
    """Eighteen summits of which seven are at the edge of what is likely."""
    return (2.0 + jnp.cos(1.7 * x[0]) * jnp.cos(1.7 * x[1])) ** 5 / 20.0 - 0.1 * jnp.sum(x**2)


def funnel(x):
    return -0.5 * (x[0] / 3.0) ** 2 - jnp.sum(0.5 * x[1:] ** 2 * jnp.exp(-x[0]) + 0.5 * x[0])


def boxes(x):
    """Flat tops, whose widths are measured."""
    return jnp.logaddexp(-jnp.sum((x / 2.0) ** 8), -jnp.sum(((x - 7.0) / 0.5) ** 8))


def searched(log_density, dim: int, budget: int) -> tuple[dict[str, int], Ledger]:
    """What stages spent before the first level, and the ledger."""
    target = log_density if hasattr(log_density, "dim") else as_target(log_density, dim)
    ledger = Ledger(budget)
    _search(
        jax.random.key(0),
        target,
        PTSDSettings(network=Network()),
        normal_start(dim, 1.0),
        ledger,
        lambda *_, **__: None,
        lambda *_, **__: None,
    )
    return dict(ledger.points), ledger


def within_shares(log_density, dim: int, budget: int) -> dict[str, int]:
    points, ledger = searched(log_density, dim, budget)
    share = PTSDSettings().atlas.share
    assert set(points) <= {"atlas", "reference", "shape"}
    for stage in ("atlas", "reference"):
        assert points.get(stage, 0) <= share * budget, points
    assert all(ledger.left(stage) >= 0 for stage in points), points
    return points


CASES = {"bent": (bent, 2), "eggs": (egg_box, 2), "funnel": (funnel, 4), "boxes": (boxes, 3)}


FAST = (("bent", 6000), ("boxes", 6000), ("funnel", 70_000))
ALL = [(name, budget) for name in CASES for budget in (6000, 70_000)]


@pytest.mark.parametrize(
    ("name", "budget"), [case if case in FAST else pytest.param(*case, marks=pytest.mark.slow) for case in ALL]
)
def test_no_stage_passes_its_share(name, budget, monkeypatch):
    if name == "funnel":  # charts that never serve take all that learning may; a right one is slow to fit
        monkeypatch.setattr(learn, "fit_triangular", lambda points, *_, is_bent: Triangular.identity(points.shape[1]))
    points = within_shares(*CASES[name], budget)
    assert ("shape" in points) == (name == "funnel" and budget == 70_000)


@pytest.mark.slow
def test_no_stage_passes_its_share_with_a_chart_that_serves():
    assert within_shares(funnel, 4, 70_000)["shape"] > 0


def test_finite_differences_are_within_the_shares_too():
    box = from_callable(lambda x: float(-0.5 * np.sum(x**2) - 0.2 * np.sum(np.sin(3.0 * x))), 2, gradient="finite")
    within_shares(box, 2, 24_000)


def test_tries_without_end_end_with_the_share(monkeypatch):
    """A referee that is never quite content has a reference made again and again. The saboteur knows of no share."""

    places = itertools.count(3.0)

    def restless(*given):
        where = np.array([[next(places), 9.0]])
        return dataclasses.replace(
            judge(*given), hidden_share=0.04, share=0.5, hidden=where, log_heaviness=np.array([9.0])
        )

    monkeypatch.setattr(atlas, "judge", restless)
    within_shares(bent, 2, 24_000)
    monkeypatch.setattr(Ledger, "left", lambda ledger, _: ledger.budget - ledger.total)
    must_fail(within_shares, bent, 2, 24_000)
