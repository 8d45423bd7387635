"""The documented examples do what they say."""

import importlib.util
from pathlib import Path

import jax
import numpy as np
import pytest

import tempering as tp

EXAMPLES = Path(__file__).parent.parent / "examples"


def _load(name: str):
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _exact_draws(example, num: int, weights) -> np.ndarray:
    rng = np.random.default_rng(3)
    modes = rng.choice(len(weights), size=num, p=weights)
    colour = np.linalg.inv(example.WHITENING)
    return example.MEANS[modes] + np.einsum("ne,ned->nd", rng.normal(size=(num, example.DIM)), colour[modes])


def test_the_mixture_of_the_example_knows_its_own_weights():
    example = _load("twelve_dimensions")
    draws = _exact_draws(example, 20_000, example.WEIGHTS).astype(np.float32)
    np.testing.assert_allclose(example.mode_weights(draws), example.WEIGHTS, atol=0.012)
    wrong = _exact_draws(example, 20_000, np.full(6, 1 / 6)).astype(np.float32)
    assert np.max(np.abs(example.mode_weights(wrong) - example.WEIGHTS)) > 0.1


@pytest.mark.slow
@pytest.mark.telling
def test_plain_fit_finds_all_modes_of_a_mixture_in_twelve_dimensions():
    example = _load("twelve_dimensions")
    with jax.numpy_rank_promotion("allow"), jax.numpy_dtype_promotion("standard"):  # a user's function may promote
        sampler = tp.fit(example.log_density, dim=example.DIM, budget=example.BUDGET, seed=0, progress=False)
        found = example.mode_weights(sampler.sample(10_000, seed=1))
    assert sampler.evaluations <= example.BUDGET
    assert np.max(np.abs(found - example.WEIGHTS)) <= 0.03, found
