"""Truths of the ridges and landscapes of the proving ground, by other means: draws of another density, or a grid."""

import dataclasses
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from proving import landscapes, ridges
from proving.record import Density

from support.random_checks import must_fail

NUM = 200_000


def by_draws(density: Density, draws: np.ndarray, log_q: np.ndarray) -> tuple[float, np.ndarray, float]:
    """log Z and masses by importance weights of draws of q, and four standard errors of either."""
    points = jnp.asarray(draws, jnp.float32)
    log_p = np.asarray(jax.jit(jax.vmap(density.log_density))(points), np.float64)
    weights = np.exp(log_p - log_q - (top := np.max(log_p - log_q)))
    error = np.std(weights) / np.mean(weights) / math.sqrt(len(weights))
    shares = np.asarray(jax.jit(jax.vmap(density.shares))(points), np.float64)
    return top + math.log(np.mean(weights)), weights @ shares / np.sum(weights), 4.0 * error + 2e-3


def is_true(density: Density, draws: np.ndarray, log_q: np.ndarray) -> None:
    log_z, masses, most = by_draws(density, draws, log_q)
    assert most < 0.12, "the draws do not cover the density"
    assert abs(log_z - density.log_z) < most, (log_z, density.log_z)
    np.testing.assert_allclose(masses, density.masses, atol=most)


def normal(rng, mean, std):
    """Draws of independent normals, and their log density."""
    z = rng.standard_normal(np.broadcast_shapes(np.shape(mean), np.shape(std)))
    return mean + std * z, -0.5 * z**2 - np.log(std) - 0.5 * math.log(2.0 * math.pi)


def about_torus(rng):
    turn, angle = rng.uniform(-math.pi, math.pi, (2, NUM))
    tube, log_q = normal(rng, np.ones(NUM), np.full(NUM, 0.06))
    rho = 3.0 + tube * np.cos(angle)
    volume = np.log(rho) + np.log(tube) + 2.0 * math.log(2.0 * math.pi)
    return np.stack([rho * np.cos(turn), rho * np.sin(turn), tube * np.sin(angle)], axis=1), log_q - volume


def about_rotors(rng):
    angle = rng.uniform(-math.pi, math.pi, (NUM, 3))
    length, log_q = normal(rng, np.ones((NUM, 3)), np.full((NUM, 3), 0.08))
    draws = np.stack([length * np.cos(angle), length * np.sin(angle)], axis=2).reshape(NUM, 6)
    return draws, np.sum(log_q - np.log(np.abs(length)) - math.log(2.0 * math.pi), axis=1)


def about_box(rng):
    sides = np.stack([np.geomspace(0.5, 4.0, 8), np.full(8, 0.5)])
    which = (rng.uniform(size=NUM) < 0.3).astype(int)
    centres = np.array([0.0, 5.0])
    draws = centres[which][:, None] + 1.5 * sides[which] * rng.uniform(-1.0, 1.0, (NUM, 8))
    inside = np.stack([np.all(np.abs(draws - centres[k]) < 1.5 * sides[k], axis=1) for k in range(2)], axis=1)
    return draws, np.log(inside @ (np.array([0.7, 0.3]) / np.prod(3.0 * sides, axis=1)))


def about_cusp(rng):
    radius = rng.gamma(12.0, 1.0 / 1.9, NUM) ** 2
    direction = rng.standard_normal((NUM, 6))
    direction /= np.linalg.norm(direction, axis=1, keepdims=True)
    root = np.sqrt(radius)
    log_radial = 12.0 * math.log(1.9) - math.lgamma(12.0) + 11.0 * np.log(root) - 1.9 * root - np.log(2.0 * root)
    log_sphere = math.log(2.0) + 3.0 * math.log(math.pi) - math.lgamma(3.0)
    draws = np.linspace(-3.0, 4.0, 6) + radius[:, None] * direction
    return draws, log_radial - 5.0 * np.log(radius) - log_sphere


CASES = {
    "torus": (ridges.torus, about_torus),
    "rotors": (lambda: landscapes.rotors(3), about_rotors),
    "boxes": (ridges.boxes, about_box),
    "stretched": (ridges.stretched, about_cusp),
}


@pytest.mark.parametrize("name", CASES)
def test_truths_are_those_of_draws_of_another_density(name):
    make, draw = CASES[name]
    density, drawn = make(), draw(np.random.default_rng(7))
    is_true(density, *drawn)
    must_fail(is_true, dataclasses.replace(density, log_density=lambda x: 1.3 * density.log_density(x)), *drawn)


PLANES = {
    "spiral-2": (lambda: ridges.RIDGES["spiral-2"](), (-13.0, -13.0), (13.0, 13.0), 2200),
    "mueller-brown-2": (lambda: landscapes.mueller_brown(0), (-3.0, -2.0), (2.5, 4.0), 800),
}


@pytest.mark.parametrize("name", [pytest.param("spiral-2", marks=pytest.mark.slow), "mueller-brown-2"])
def test_truths_in_the_plane_are_those_of_a_grid(name):
    make, low, high, num = PLANES[name]
    density = make()
    axes = [low[k] + (high[k] - low[k]) * (np.arange(num) + 0.5) / num for k in range(2)]
    points = jnp.asarray(np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, 2), jnp.float32)
    logs = np.asarray(jax.jit(jax.vmap(density.log_density))(points), np.float64)
    cell = math.prod((high[k] - low[k]) / num for k in range(2))
    weights = np.exp(logs - logs.max())
    assert math.log(weights.sum() * cell) + logs.max() == pytest.approx(density.log_z, abs=3e-3)
    shares = np.asarray(jax.jit(jax.vmap(density.shares))(points), np.float64)
    np.testing.assert_allclose(weights @ shares / weights.sum(), density.masses, atol=3e-3)


@pytest.mark.slow
def test_the_rings_have_their_masses_beside_normal_coordinates_as_well():
    alone, beside = ridges.rings(), ridges.rings(extra=True)
    np.testing.assert_allclose(alone.masses, beside.masses)
    assert beside.log_z - alone.log_z == pytest.approx(1.5 * math.log(2.0 * math.pi) + math.log(0.05 * 1.0 * 20.0))
