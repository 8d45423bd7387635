"""Densities of many points for the host: the same numbers for any number of them, by one program, and none too many."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tempering as tp
from support.counting import counting_target
from tempering.adapters import as_target
from tempering.targets import Gaussian
from tempering.targets.base import evaluate
from tempering.targets.rows import evaluate_rows, whole_parts

NUM_TRACED = []


def log_density(x):
    NUM_TRACED.append(1)
    return -0.5 * jnp.sum(x**2) + jnp.sin(3.0 * x[0]) - 0.1 * x[1] ** 4


@pytest.mark.parametrize("num", [0, 1, 3, 250, 257, 1000, 8000, 9001])
def test_every_row_has_its_own_value_and_gradient(num):
    target = as_target(log_density, 2)
    points = np.random.default_rng(num).normal(size=(num, 2)).astype(np.float32)
    values, gradients = evaluate_rows(target, points)
    assert values.shape == (num,) and gradients.shape == (num, 2)
    expected = jax.jit(jax.vmap(lambda x: evaluate(target, x)))(points) if num else (values, gradients)
    np.testing.assert_allclose(values, expected[0], rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(gradients, expected[1], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("num", [1, 250, 501, 8251])
def test_exactly_one_evaluation_for_each_point(num):
    target, counter = counting_target(Gaussian([0.0, 1.0], np.eye(2)))
    values, _ = evaluate_rows(target, np.zeros((num, 2), np.float32))
    assert counter.wait(values) == num


@pytest.mark.parametrize(
    ("num", "most_lost", "expected"),
    [(7, 1.0, 7), (250, 1.0, 250), (499, 1.0, 250), (499, 0.1, 499), (2010, 0.1, 2000)],
)
def test_whole_parts(num, most_lost, expected):
    assert whole_parts(num, most_lost) == expected


def test_whole_parts_of_any_number_compile_nothing_more():
    target = as_target(log_density, 2)
    points = np.zeros((20_000, 2), np.float32)
    evaluate_rows(target, points[:250])
    before = len(NUM_TRACED)
    for num in (500, 2000, 8250, 20_000):
        evaluate_rows(target, points[:num])
    assert len(NUM_TRACED) == before


def test_a_function_of_the_host_is_asked_for_the_given_points_alone():
    asked = []

    def slow(points):
        asked.extend(points.tolist())
        return -0.5 * np.sum(points**2, axis=1)

    target = tp.from_callable(slow, 2, batched=True)
    points = np.random.default_rng(0).normal(size=(7, 2)).astype(np.float32)
    values, _ = evaluate_rows(target, points)
    np.testing.assert_allclose(values, -0.5 * np.sum(points**2, axis=1), rtol=1e-5)
    np.testing.assert_allclose(sorted(asked), sorted(points.tolist()), rtol=1e-6)
