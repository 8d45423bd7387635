"""MMD between energies: the defining formula, its limits, the bias, and bounded memory."""

import tracemalloc

import numpy as np
import pytest

from support.random_checks import assert_mean, must_fail
from tempering.lab.metrics import MetricError, energy_mmd

RNG = np.random.default_rng(2)
X, Y = RNG.normal(1.0, 1.0, size=700), RNG.gamma(2.0, 1.0, size=1100)


def _kernel(a, b):
    squares = (np.asarray(a)[:, None] - np.asarray(b)[None]) ** 2
    return sum(np.exp(-squares / 2.0**power) for power in range(-2, 3))


def test_the_defining_formula():
    """Sizes are above the block and no multiple of it."""
    xx, yy, xy = _kernel(X, X), _kernel(Y, Y), _kernel(X, Y)
    result = energy_mmd(X, Y)
    assert result.mmd_squared == pytest.approx(xx.mean() + yy.mean() - 2 * xy.mean())
    assert result.mmd == pytest.approx(np.sqrt(result.mmd_squared))
    off = [(k.sum() - np.trace(k)) / (len(k) * (len(k) - 1)) for k in (xx, yy)]
    assert result.mmd_squared_unbiased == pytest.approx(sum(off) - 2 * xy.mean())


def test_limits():
    assert energy_mmd(X, X[::-1]).mmd == pytest.approx(0.0, abs=1e-7)
    # Two points masses far apart: k = 5 within and 0 across.
    far = energy_mmd(np.zeros(3), np.full(4, 1e4))
    assert far.mmd_squared == pytest.approx(10.0) and far.mmd_squared_unbiased == pytest.approx(10.0)


def test_the_unbiased_one_is_unbiased_and_the_papers_is_not():
    rng = np.random.default_rng(3)
    results = [energy_mmd(rng.gamma(2.0, 1.0, 40), rng.gamma(2.0, 1.0, 30)) for _ in range(1500)]
    assert_mean([r.mmd_squared_unbiased for r in results], 0.0, name="unbiased MMD^2", key=3)
    must_fail(assert_mean, [r.mmd_squared for r in results], 0.0)


def test_memory_is_bounded():
    """Every pair of 5,000 energies at once would be 200 MB an array."""
    values = RNG.normal(size=5000)
    tracemalloc.start()
    energy_mmd(values, values[:3000])
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 100e6


def test_refusals():
    for x, y, message in (([0.0], [0.0, 1.0], "two"), ([0.0, np.inf], [0.0, 1.0], "finite"), ([[0.0]], [0.0], "shape")):
        with pytest.raises(MetricError, match=message):
            energy_mmd(x, y)
