"""Densities that no budget can sample are refused after the pilot, with the likely cause; all others are left alone."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tempering as tp
from support.tiny import quick_compilation
from tempering.adapters import as_target
from tempering.errors import DensityError
from tempering.kernels import MALA
from tempering.parallel_tempering import heat
from tempering.parallel_tempering.pilot.hopeless import NUM_FAR, is_suspicious, refuse_hopeless
from tempering.runs.ledger import Ledger
from tempering.settings import Pilot
from tempering.targets.base import evaluate_many

DIM, NUM = 3, 200


@pytest.fixture(scope="module", autouse=True)
def compiled_quickly():
    with quick_compilation():
        yield


def _normal(x):
    return -0.5 * jnp.sum(x**2)


def _in_box(x, value):
    return jnp.where(jnp.all(jnp.abs(x) < 4.0), value, -jnp.inf)


_FIVE = np.array([5])
"""Only a plain number as an index is refused before the pilot."""
HOPELESS = {
    "energy": (lambda x: 0.5 * jnp.sum(x**2), "-energy"),
    "energy of wells": (lambda x: jnp.sum((x**2 - 4.0) ** 2), "-energy"),
    "energy of double exponential growth": (lambda x: jnp.sum(jnp.exp(x**2)), "-energy"),
    "probability": (lambda x: jnp.exp(_normal(x)), "probability"),
    "narrow probability density": (lambda x: 40.0 * jnp.exp(10.0 * _normal(x)), "probability"),
    "linear": (lambda x: jnp.sum(x) + 0.0 * x[0], "integral of such a density is infinite"),
    "linear in one": (lambda x: x[1] - 0.5 * (x[0] ** 2 + x[2] ** 2), "grows"),
    "flat": (lambda x: 0.0 * x[0], "flat"),
    "saturating likelihood": (lambda x: jnp.sum(jax.nn.log_sigmoid(x)), "does not fall off"),
    "ridge": (lambda x: -0.5 * (x[0] + x[1] - 1.0) ** 2 - 0.5 * x[2] ** 2, "does not fall off"),
    "angles": (lambda x: 3.0 * jnp.sum(jnp.cos(x)), "does not fall off"),
    "too many dimensions": (lambda x: -0.5 * jnp.sum(x[:2] ** 2), r"coordinate 2 \(numbered from 0\).*`dim` = 3"),
    "index out of range": (lambda x: -0.5 * (x[0] ** 2 + jnp.sum((x[_FIVE] - 1.0) ** 2)), r"coordinate 1 \(numbered"),
    "two idle coordinates": (lambda x: -0.5 * x[1] ** 2, "coordinates 0 and 2"),
}
FINE = {
    "normal": _normal,
    "skew normal": lambda x: -0.5 * jnp.sum((x - 3.0) ** 2 / jnp.arange(1.0, 4.0)),
    "Cauchy": lambda x: -jnp.sum(jnp.log1p(x**2)),
    "spherical Cauchy": lambda x: -2.0 * jnp.log1p(jnp.sum(x**2)),
    "barely proper": lambda x: -1.6 * jnp.log1p(jnp.sum(x**2)),
    "Laplace": lambda x: -jnp.sum(jnp.abs(x - 50.0)),
    "far from the start": lambda x: -0.5 * jnp.sum((x - 1e4) ** 2),
    "huge values": lambda x: 2000.0 + _normal(x),
    "positive values": lambda x: 9.0 + _normal(x),
    "walls": lambda x: _in_box(x, _normal(x)),
    "flat within walls": lambda x: _in_box(x, 0.0),
    "flat in one coordinate within walls": lambda x: _in_box(x, -0.5 * (x[0] ** 2 + x[2] ** 2)),
    "modes": lambda x: jnp.logaddexp(-0.5 * jnp.sum((x - 6.0) ** 2), -2.0 * jnp.sum((x + 6.0) ** 2)),
    "funnel": lambda x: -((x[0] / 3.0) ** 2) / 2.0 - 0.5 * jnp.sum(x[1:] ** 2) * jnp.exp(-x[0]) - x[0],
    "Rosenbrock": lambda x: -jnp.sum(100.0 * (x[1:] - x[:-1] ** 2) ** 2 + (1.0 - x[:-1]) ** 2),
    "floor under the logarithm": lambda x: jnp.log(jnp.exp(_normal(x)) + 1e-12),
    "clipped": lambda x: jnp.maximum(_normal(x), -1e3),
    "correlated": lambda x: -0.5 * (1e4 * (x[0] - x[1]) ** 2 + x[0] ** 2 + x[2] ** 2),
    "log gamma": lambda x: jnp.sum(x - jnp.exp(x)),
    "ring": lambda x: -50.0 * (jnp.sqrt(jnp.sum(x**2) + 1e-9) - 3.0) ** 2,
    "not a number far away": lambda x: jnp.where(jnp.sum(x**2) < 1e6, _normal(x), jnp.nan),
}


SECOND = {
    *("energy of wells", "energy of double exponential growth", "narrow probability density", "linear in one"),
    *("saturating likelihood", "angles", "two idle coordinates", "skew normal", "spherical Cauchy", "Laplace"),
    *("far from the start", "positive values", "flat in one coordinate within walls", "Rosenbrock", "clipped"),
    *("correlated", "log gamma", "ring"),
}
"""Cases that say the same as others of their cause."""


def _cases(table: dict) -> list:
    each = ((name, case if isinstance(case, tuple) else (case,)) for name, case in table.items())
    slow = pytest.mark.slow
    return [pytest.param(*case, id=name, marks=[slow] if name in SECOND else []) for name, case in each]


def _judge(function, ledger: Ledger, *, is_held: bool = False) -> None:
    """As after a pilot whose chains stayed about the starting points: under suspicion unless they are held."""
    target = as_target(function, DIM)
    points = jax.random.normal(jax.random.key(0), (NUM, DIM))
    refuse_hopeless(target, points, *evaluate_many(target, points), ledger, "pilot", is_held=is_held)


@pytest.mark.parametrize(("function", "message"), _cases(HOPELESS))
def test_hopeless_densities_are_refused_with_their_cause(function, message):
    ledger = Ledger()
    with pytest.raises(DensityError, match=message):
        _judge(function, ledger)
    assert 0 < ledger.total <= NUM_FAR and set(ledger.points) == {"pilot"}


@pytest.mark.parametrize("function", _cases(FINE))
def test_densities_that_can_be_sampled_are_not_refused_even_under_suspicion(function):
    ledger = Ledger()
    _judge(function, ledger)
    assert ledger.total <= NUM_FAR


@pytest.mark.parametrize("name", ["normal", "Cauchy", "huge values", "walls", "modes", "funnel"])
def test_nothing_is_spent_where_chains_found_hold(name):
    ledger = Ledger()
    _judge(FINE[name], ledger, is_held=True)
    assert ledger.total == 0


def test_without_gradients_values_and_chains_decide():
    values = np.linspace(0.0, 0.3, 50)
    assert is_suspicious(values, None) and not is_suspicious(values - 5.0, None)
    assert is_suspicious(values - 5.0, None, is_held=False)


PILOT = Pilot(num_chains=8, num_steps=24, growth=4.0, max_rounds=3)


def _piloted(function, ledger: Ledger):
    starts = jax.random.normal(jax.random.key(1), (PILOT.num_chains, DIM))
    target = as_target(function, DIM)
    return heat(jax.random.key(0), target, MALA(), starts, PILOT, 0.57, ledger, can_scout=False)


@pytest.mark.parametrize(
    "name", ["energy", *(pytest.param(name, marks=pytest.mark.slow) for name in ("probability", "too many dimensions"))]
)
def test_the_pilot_refuses(name):
    function, message = HOPELESS[name]
    with pytest.raises(DensityError, match=message):
        _piloted(function, Ledger())


def test_the_pilot_keeps_a_heavy_tail():
    assert _piloted(FINE["Cauchy"], Ledger()).hottest > 1.0


def test_a_fit_stops_before_its_budget_is_gone(monkeypatch):
    ledgers = []
    monkeypatch.setattr(
        "tempering.api.Ledger", lambda budget, **how: ledgers.append(Ledger(budget, **how)) or ledgers[-1]
    )
    function, message = HOPELESS["energy"]
    with pytest.raises(DensityError, match=message):
        tp.fit(function, dim=DIM, budget=20_000, progress=False)
    assert set(ledgers[0].points) <= {"atlas", "pilot"} and ledgers[0].total < 0.5 * ledgers[0].budget
