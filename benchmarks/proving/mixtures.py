"""Random Gaussian mixtures, and whether uphill searches can find all of their components."""

import json
import math
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
from scipy.special import logsumexp

from .record import Density
from .shapes import mixture

__all__ = ["FINDABLE", "RandomMixture", "hits", "is_findable", "known_findable", "random_mixture", "uphill"]

FINDABLE = Path(__file__).resolve().parents[2] / "results" / "findable.json"
NUM_SEARCHES, MIN_HITS = 2000, 4
SCALES = 2.0, 20.0
_LEAST_WEIGHT = 0.03


@dataclass(frozen=True)
class RandomMixture:
    """Means (component, dim), matrices R with covariance R R^T (component, dim, dim), and weights."""

    seed: int
    means: np.ndarray
    roots: np.ndarray
    weights: np.ndarray

    @property
    def dim(self) -> int:
        """The dimension."""
        return self.means.shape[1]

    def density(self) -> Density:
        """As a density of the proving ground, normalised."""
        hardness = f"{len(self.weights)} components in {self.dim} dimensions"
        return mixture(f"mixture-{self.seed}", self.means, self.roots, self.weights, hardness, box=40.0)

    def value_and_gradient(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Log density and its gradient at many points, axes (point, dim)."""
        whiten = np.linalg.inv(self.roots)
        constants = np.log(self.weights) - np.linalg.slogdet(self.roots)[1] - 0.5 * self.dim * math.log(2.0 * math.pi)
        white = np.einsum("kij,nkj->nki", whiten, x[:, None] - self.means[None])
        logs = constants[None] - 0.5 * np.sum(white**2, axis=2)
        value = np.asarray(logsumexp(logs, axis=1))
        shares = np.exp(logs - value[:, None])
        return value, -np.einsum("nk,nki,kij->nj", shares, white, whiten, optimize=True)


def random_mixture(seed: int) -> RandomMixture:
    """dim in 2..12, components in 2..8, means N(0, s^2) with s in 3..8, each with its own rotation and axis lengths.

    An axis has a length uniform in 0.3..1.6, times a number uniform in 0.6..1.4 for the whole component.
    Weights are Dirichlet(2), drawn until all are at least 0.03.
    """
    generator = np.random.default_rng(seed)
    dim, num = int(generator.integers(2, 13)), int(generator.integers(2, 9))
    means = generator.normal(0.0, generator.uniform(3.0, 8.0), (num, dim))
    rotations = np.linalg.qr(generator.standard_normal((num, dim, dim)))[0]
    lengths = generator.uniform(0.3, 1.6, (num, dim)) * generator.uniform(0.6, 1.4, (num, 1))
    weights = generator.dirichlet(np.full(num, 2.0))
    while weights.min() < _LEAST_WEIGHT:
        weights = generator.dirichlet(np.full(num, 2.0))
    return RandomMixture(seed, means, rotations * lengths[:, None], weights)


def uphill(value_and_gradient, x: np.ndarray, num_steps: int = 200, tolerance: float = 1e-3) -> np.ndarray:
    """BFGS from every row at once, with a step that is halved until the value rises (Armijo). Rows that end uphill."""
    num, dim = x.shape
    value, gradient = value_and_gradient(x)
    # The first step has unit length, as is usual where nothing is known of the curvature.
    inverse = np.eye(dim)[None] / np.maximum(np.linalg.norm(gradient, axis=1), 1e-12)[:, None, None]
    is_first = np.ones(num, bool)
    for _ in range(num_steps):
        going = np.flatnonzero(np.linalg.norm(gradient, axis=1) > tolerance)
        if not len(going):
            break
        direction = np.einsum("nij,nj->ni", inverse[going], gradient[going])
        slope = np.sum(direction * gradient[going], axis=1)
        step, new, new_value, new_gradient = _armijo(
            value_and_gradient, x[going], value[going], gradient[going], direction, slope
        )
        change = new_gradient - gradient[going]
        inverse[going] = _bfgs(inverse[going], step, -change, is_first[going])
        stuck = np.all(step == 0.0, axis=1)
        new_gradient[stuck] = 0.0  # nothing rises any more: as far up as single steps can see
        x[going], value[going], gradient[going], is_first[going] = new, new_value, new_gradient, False
    return x


def _armijo(value_and_gradient, x, value, gradient, direction, slope):
    """Steps along `direction`, halved where they do not rise enough."""
    length, step = np.ones(len(x)), np.zeros_like(x)
    new, new_value, new_gradient = x.copy(), value.copy(), gradient.copy()
    open_rows = np.arange(len(x))
    for _ in range(30):
        trial = x[open_rows] + length[open_rows, None] * direction[open_rows]
        found, found_gradient = value_and_gradient(trial)
        good = found >= value[open_rows] + 1e-4 * length[open_rows] * slope[open_rows]
        rows = open_rows[good]
        new[rows], new_value[rows], new_gradient[rows] = trial[good], found[good], found_gradient[good]
        step[rows] = trial[good] - x[rows]
        open_rows = open_rows[~good]
        length[open_rows] *= 0.5
        if not len(open_rows):
            break
    return step, new, new_value, new_gradient


def _bfgs(inverse, step, change, is_first):
    """The inverse Hessians of the negative log density after a step; unchanged where the curvature is not positive."""
    curvature = np.sum(step * change, axis=1)
    good = curvature > 1e-10
    scale = curvature / np.maximum(np.sum(change**2, axis=1), 1e-300)
    eye = np.eye(step.shape[1])[None]
    inverse = np.where((is_first & good)[:, None, None], scale[:, None, None] * eye, inverse)
    rho = 1.0 / np.where(good, curvature, 1.0)
    left = eye - rho[:, None, None] * step[:, :, None] * change[:, None]
    updated = left @ inverse @ np.swapaxes(left, 1, 2) + rho[:, None, None] * step[:, :, None] * step[:, None]
    return np.where(good[:, None, None], updated, inverse)


def hits(found: RandomMixture, num_searches: int = NUM_SEARCHES, seed: int = 0) -> np.ndarray:
    """How many searches end at each component's optimum; two components that share an optimum share its hits."""
    generator = np.random.default_rng(seed)
    low, high = np.log(SCALES)
    scales = np.exp(generator.uniform(low, high, (num_searches, 1)))
    ends = uphill(found.value_and_gradient, scales * generator.standard_normal((num_searches, found.dim)))
    optima = uphill(found.value_and_gradient, found.means.copy())
    distance = np.linalg.norm(ends[:, None] - optima[None], axis=2)
    return np.sum(distance < 0.02, axis=0)


def is_findable(found: RandomMixture) -> bool:
    """Whether every component takes at least 4 of 2,000 uphill searches from N(0, s^2), s log-uniform in 2..20."""
    return bool(np.all(hits(found) >= MIN_HITS))


@cache
def _kept() -> dict[str, list[int]]:
    return json.loads(FINDABLE.read_text())["hits"] if FINDABLE.exists() else {}


def known_findable(seed: int) -> bool:
    """`is_findable` of a random mixture, read where it has been kept."""
    kept = _kept().get(str(seed))
    return is_findable(random_mixture(seed)) if kept is None else min(kept) >= MIN_HITS
