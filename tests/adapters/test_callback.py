"""A black box: right numbers, each point once, one call of the host a batch, errors as they are."""

import functools
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from support.black_boxes import Counted, gaussian, gaussian_gradient
from support.unchecked import unchecked
from tempering.adapters import as_target, fingerprint, from_callable, reporting
from tempering.errors import DensityError, SettingsError
from tempering.runs.ledger import Ledger
from tempering.targets import Scaled, Units
from tempering.targets.base import evaluate_many
from tempering.targets.cost import has_gradient, points_per_gradient, spend

POINTS = jax.random.normal(jax.random.key(0), (5, 2)) + jnp.asarray([[0.5, -1.0]])
MODES = {
    "none": ("value", "none", 1),
    "finite": ("value", "finite", 3),
    "finite, batched": ("batch", "finite", 3),
    "returned": ("pair", "returned", 1),
    "a function": ("value", gaussian_gradient, 1),
}


@pytest.fixture(autouse=True)
def as_users_run_it():
    with unchecked():
        yield


def box_of(mode: str):
    gives, gradient, cost = MODES[mode]
    counted = Counted(gives)
    return as_target(from_callable(counted, 2, gradient=gradient, batched=gives == "batch")), counted, cost


@pytest.mark.parametrize("mode", MODES)
def test_values_and_gradients_are_those_of_the_callable_and_every_point_is_counted(mode):
    target, counted, cost = box_of(mode)
    values, gradients = jax.block_until_ready(evaluate_many(target, POINTS))
    points = np.asarray(POINTS, np.float64)
    np.testing.assert_allclose(values, [gaussian(point) for point in points], rtol=1e-5)
    expected = np.zeros((5, 2)) if mode == "none" else [gaussian_gradient(point) for point in points]
    np.testing.assert_allclose(gradients, expected, atol=1e-4)
    assert counted.points == 5 * cost == 5 * points_per_gradient(target)
    assert has_gradient(target) == has_gradient(Scaled(target, Units.plain(2))) == (mode != "none")


@pytest.mark.parametrize("mode", MODES)
def test_value_and_gradient_are_one_visit_and_a_value_alone_is_one_point(mode):
    target, counted, cost = box_of(mode)
    for compute in (jax.value_and_grad(target.log_density), jax.jit(jax.value_and_grad(target.log_density))):
        counted.points = 0
        jax.block_until_ready(compute(POINTS[0]))
        assert counted.points == cost
    for compute in (target.log_density, jax.jit(target.log_density)):
        counted.points = 0
        jax.block_until_ready(compute(POINTS[0]))
        assert counted.points == 1


def test_a_batch_is_one_call_of_the_host():
    target, counted, _ = box_of("finite, batched")
    jax.block_until_ready(jax.jit(jax.vmap(jax.vmap(target.log_density)))(jnp.stack([POINTS, POINTS])))
    assert (counted.calls, counted.points) == (1, 10)
    jax.block_until_ready(evaluate_many(target, POINTS, 2))  # 2 + 2 + 1 points
    assert (counted.calls, counted.points) == (4, 25)


@pytest.mark.parametrize("mode", ["none", "finite", "returned"])
def test_the_ledger_knows_what_a_gradient_costs(mode):
    target, _, cost = box_of(mode)
    ledger = Ledger()
    spend(ledger, "pilot", Scaled(target, Units.plain(2)), 7)
    assert ledger.points == {"pilot": 7 * cost}
    # No gradient is asked of a callable that has none to give.
    assert ledger.value_only == ({} if mode == "returned" else {"pilot": 7 * cost})


def test_an_ordinary_target_costs_one_point():
    target = as_target(lambda x: -jnp.sum(x**2), 2)
    assert has_gradient(target) and points_per_gradient(target) == 1


class OwnError(Exception):
    pass


def failing_at(x):
    if x[0] > 0:
        raise OwnError(f"no solution at {x[0]:.0f}")
    return gaussian(x)


def evaluated(target, points):
    with reporting(target):
        return jax.block_until_ready(evaluate_many(target, points))


def test_an_exception_is_raised_as_it_is(caplog):
    target = from_callable(failing_at, 2)
    with pytest.raises(OwnError, match=r"^no solution at 1$") as caught:
        evaluated(target, jnp.asarray([[-1.0, 0.0], [1.0, 0.0]]))
    assert any(entry.name == "failing_at" for entry in caught.traceback), "the callable's own frames are shown"
    assert "callback failed" not in caplog.text
    # The target is as good as before.
    values, _ = evaluated(target, jnp.asarray([[-1.0, 0.0]]))
    np.testing.assert_allclose(values, [gaussian(np.asarray([-1.0, 0.0]))], rtol=1e-6)
    with pytest.raises(OwnError):
        target.log_density(jnp.ones(2))


def test_other_errors_go_through_the_door_unchanged():
    target = from_callable(gaussian, 2)
    for guarded in (target, as_target(lambda x: -jnp.sum(x**2), 2)):
        with pytest.raises(ZeroDivisionError), reporting(guarded):
            raise ZeroDivisionError


WRONG = {
    "nothing": (lambda x: None, {}, r"None for the value .*shape \(\)"),
    "text": (lambda x: "3", {}, r"a string \('3'\) for the value"),
    "a vector": (lambda x: x, {}, r"an array of shape \(2,\) and dtype float64 for the value"),
    "a vector of one": (lambda x: x[:1], {}, r"an array of shape \(1,\)"),
    "a complex number": (lambda x: 1j, {}, r"a complex \(1j\) for the value .*real numbers"),
    "a boolean": (lambda x: True, {}, r"a bool \(True\)"),
    "no pair": (lambda x: 1.0, {"gradient": "returned"}, r"a float \(1.0\) .*the pair \(value, gradient\)"),
    "a pair unasked": (lambda x: (1.0, x), {}, r"a tuple .* for the value"),
    "a short gradient": (
        lambda x: (1.0, x[:1]),
        {"gradient": "returned"},
        r"an array of shape \(1,\) .*for the gradient .*\(2,\)",
    ),
    "a ragged gradient": (lambda x: 1.0, {"gradient": lambda x: [[1], [1, 2]]}, r"a list .*for the gradient"),
    "a batch too short": (
        lambda x: x[1:, 0],
        {"batched": True},
        r"an array of shape \(1,\) .*of shape \(2, 2\); .*\(2,\)",
    ),
    "a column": (lambda x: x[:, :1], {"batched": True}, r"an array of shape \(2, 1\)"),
}


@pytest.mark.parametrize(("fn", "options", "message"), WRONG.values(), ids=WRONG.keys())
def test_wrong_answers_are_refused_with_what_was_returned(fn, options, message):
    with pytest.raises(DensityError, match=rf"returned {message}"):
        evaluated(from_callable(fn, 2, **options), POINTS[:2])


def test_non_finite_values_are_passed_on_and_integers_are_numbers():
    answers = {-2.0: np.nan, -1.0: -np.inf, 0.0: np.inf, 1.0: -1e300, 2.0: 3}
    target = from_callable(lambda x: answers[float(x[0])], 1)
    values, _ = evaluated(target, jnp.arange(-2.0, 3.0)[:, None])
    np.testing.assert_array_equal(values, np.asarray([np.nan, -np.inf, np.inf, -np.inf, 3.0]))
    # Outside the support there are no differences; the value says all.
    outside = from_callable(lambda x: -np.inf, 1, gradient="finite")
    assert np.all(np.isneginf(evaluated(outside, jnp.zeros((2, 1)))[0]))


def test_a_callable_may_write_into_its_argument():
    def spoiling(x):
        value = gaussian(x)
        x[:] = np.nan
        return value

    for gradient in ("none", "finite", lambda x: gaussian_gradient(x)):
        values, _ = evaluated(from_callable(spoiling, 2, gradient=gradient), POINTS)
        np.testing.assert_allclose(values, [gaussian(point) for point in np.asarray(POINTS, np.float64)], rtol=1e-5)


def test_points_arrive_as_float64_of_the_documented_shape():
    seen = []
    for batched in (False, True):
        fn = lambda x, batched=batched: seen.append((x.dtype, x.shape)) or (np.zeros(len(x)) if batched else 0.0)  # noqa: E731
        evaluated(from_callable(fn, 2, batched=batched), POINTS)
    assert seen == [(np.float64, (2,))] * 5 + [(np.float64, (5, 2))]


@pytest.mark.parametrize(
    ("arguments", "options", "error", "message"),
    [
        ((5, 2), {}, DensityError, "fn is an int"),
        ((gaussian, 0), {}, SettingsError, "dim = 0"),
        ((gaussian, 2.0), {}, SettingsError, "dim = 2.0"),
        ((gaussian, 2), {"gradient": "forward"}, SettingsError, "gradient = 'forward' .*'none', 'finite', 'returned'"),
        ((gaussian, 2), {"gradient": None}, SettingsError, "gradient = None"),
        ((gaussian, 2), {"batched": 1}, SettingsError, "batched = 1"),
        ((gaussian, 2), {"num_processes": -1}, SettingsError, "num_processes = -1"),
        ((gaussian, 2), {"finite_step": 0.0}, SettingsError, "finite_step = 0.0"),
        ((lambda x: 0.0, 2), {"num_processes": 2}, DensityError, "cannot be sent to another process.*num_processes=0"),
    ],
)
def test_bad_arguments_are_refused(arguments, options, error, message):
    with pytest.raises(error, match=message):
        from_callable(*arguments, **options)


def _scaled(scale, x):
    return scale * gaussian(x)


class _Model:
    def __init__(self, data):
        self.data = np.asarray(data)

    def __call__(self, x):
        return float(self.data @ x)

    def other(self, x):
        return float(x @ x)


def _closure(number):
    return lambda x: -number * float(x @ x)


def test_what_can_be_seen_of_a_black_box_tells_it_apart():
    def of(fn, dim=2, **options):
        return fingerprint(as_target(from_callable(fn, dim, **options)))

    different = {
        "a function": of(gaussian),
        "another": of(lambda x: 0.0),
        "another dimension": of(gaussian, 3),
        "differences": of(gaussian, gradient="finite"),
        "another step": of(gaussian, gradient="finite", finite_step=1e-4),
        "a gradient": of(gaussian, gradient=gaussian_gradient),
        "a partial": of(functools.partial(_scaled, 2.0)),
        "another partial": of(functools.partial(_scaled, 3.0)),
        "an object": of(_Model([1.0, 2.0])),
        "an object with other data": of(_Model([1.0, 3.0])),
        "its method": of(_Model([1.0, 2.0]).other),
        "a closure": of(_closure(1.0)),
        "a closure with another number": of(_closure(2.0)),
        "a builtin": of(max),
    }
    assert len(set(different.values())) == len(different)
    assert of(gaussian) == different["a function"] == of(gaussian)
    assert of(_closure(1.0)) == different["a closure"] and of(_Model([1.0, 2.0])) == different["an object"]


def test_the_message_of_a_refusal_is_one_line():
    with pytest.raises(DensityError) as refusal:
        evaluated(from_callable(lambda x: np.zeros((40, 40)), 2), POINTS)
    assert re.fullmatch(r"[^\n]{1,300}", str(refusal.value))
