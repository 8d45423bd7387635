"""The optima that searches have found: places, heights, curvatures, and how often each was found. Plain NumPy.

A search belongs to a known optimum if the quadratic shape there foretells its value and its gradient. In a normal mode
that holds from afar, so that most searches end after a few evaluations.
"""

import math
from dataclasses import dataclass, field, replace

import numpy as np

__all__ = ["Optima", "Shape", "laplace_log_mass"]

_FLAT, _RESOLVED_FLAT = 1e-6, 1e-10
"""Curvatures below this part of the largest count as none: a ridge. The second where they were seen along own axes."""
_GRADIENT_TOLERANCE, _SLOPE_TOLERANCE, _VALUE_TOLERANCE = 0.02, 0.1, 0.05
"""Squared misfit of a gradient, of a slope towards a wall, and misfit of a value, over what the shape foretells."""
_GRADIENT_SLACK, _VALUE_SLACK = 0.05, 0.3
"""The same near the top, in nats."""


def laplace_log_mass(log_density: np.ndarray, covariance: np.ndarray, num_walls: np.ndarray | int = 0) -> np.ndarray:
    """Log of the mass about every optimum, by its height and the inverse of its curvature.

    From a wall a density falls like an exponential, whose mass is its height times its width: no root of 2 pi.
    """
    if not len(log_density):
        return np.zeros((0,))
    log_det = np.linalg.slogdet(np.asarray(covariance, np.float64))[1]
    num_free = covariance.shape[-1] - np.asarray(num_walls)
    return np.asarray(log_density, np.float64) + 0.5 * (num_free * math.log(2.0 * math.pi) + log_det)


@dataclass(frozen=True)
class Shape:
    """The surface about a point, by its second derivatives.

    Args:
        top, height: of the parabola there; the point itself where the surface is none, or the top too far.
        rise: that is left to the top.
        is_peak: whether the surface falls in every direction.
        precision, covariance: minus the second derivatives, with flat and rising directions mended, and the inverse.
        roundness: the smallest curvature over the largest.
        slope: the gradient in coordinates in which the top is at a wall; None where there is none.
        ascent: the way to go on from here: Newton's, and along the direction that rises most where one does.
    """

    top: np.ndarray
    height: float
    rise: float
    is_peak: bool
    precision: np.ndarray
    covariance: np.ndarray
    ascent: np.ndarray
    roundness: float = 1.0
    slope: np.ndarray | None = None

    @classmethod
    def at(
        cls,
        position: np.ndarray,
        log_density: float,
        gradient: np.ndarray,
        hessian: np.ndarray,
        *,
        is_resolved: bool = False,
    ) -> "Shape":
        """Of a point with these derivatives.

        Args:
            is_resolved: whether small curvatures are known to be more than the rounding of large ones.
        """
        flat = _RESOLVED_FLAT if is_resolved else _FLAT
        values, vectors = np.linalg.eigh(-0.5 * (hessian + hessian.T))
        largest = max(float(np.max(np.abs(values))), 1e-30)
        is_peak = bool(np.all(values > flat * largest))
        mended = np.maximum(np.abs(values), flat * largest)
        covariance, precision = (vectors / mended) @ vectors.T, (vectors * mended) @ vectors.T
        newton = covariance @ gradient
        rise = 0.5 * float(gradient @ newton)
        ascent = newton
        if values[0] < 0:  # a saddle: a step as wide as the surface is curved there, to the side that rises
            side = vectors[:, 0] * (1.0 if vectors[:, 0] @ gradient >= 0 else -1.0)
            ascent = newton + side / np.sqrt(mended[0])
        has_top = is_peak and rise < 1.0
        top, height = (position + newton, log_density + rise) if has_top else (position, log_density)
        return cls(top, height, rise, is_peak, precision, covariance, ascent, float(mended.min() / largest))

    def here(self, position: np.ndarray, log_density: float) -> "Shape":
        """The same surface with its top at the point itself, whatever the derivatives promise."""
        return replace(self, top=position, height=log_density)


@dataclass
class Optima:
    """Known optima, one along the first axis of every array.

    Args:
        precision, covariance: minus the second derivatives, with flat directions mended, and the inverse.
        is_peak: whether the surface falls in every direction.
        slope: the gradient in coordinates in which the optimum is at a wall, 0 in all others.
        hits: searches that ended there.
        keeps: for a component of a reference that keeps its place and its shape, up to what share of the draws it has
            more than its mass; 0 for optima.
    """

    dim: int
    position: np.ndarray = field(init=False)
    log_density: np.ndarray = field(init=False)
    precision: np.ndarray = field(init=False)
    covariance: np.ndarray = field(init=False)
    is_peak: np.ndarray = field(init=False)
    slope: np.ndarray = field(init=False)
    hits: np.ndarray = field(init=False)
    keeps: np.ndarray = field(init=False)

    def __post_init__(self) -> None:
        self.position, self.log_density = np.zeros((0, self.dim)), np.zeros((0,))
        self.slope = np.zeros((0, self.dim))
        self.precision = self.covariance = np.zeros((0, self.dim, self.dim))
        self.is_peak, self.hits, self.keeps = np.zeros((0,), bool), np.zeros((0,), int), np.zeros((0,))

    def __len__(self) -> int:
        return len(self.log_density)

    def add(self, shape: "Shape", keeps: float = 0.0) -> int:
        """Enter a new optimum, without a hit yet. Returns its number."""
        self.keeps = np.append(self.keeps, keeps)
        self.position = np.concatenate([self.position, shape.top[None]])
        self.log_density = np.append(self.log_density, shape.height)
        self.precision = np.concatenate([self.precision, shape.precision[None]])
        self.covariance = np.concatenate([self.covariance, shape.covariance[None]])
        slope = np.zeros(self.dim) if shape.slope is None else shape.slope
        self.slope = np.concatenate([self.slope, slope[None]])
        self.is_peak, self.hits = np.append(self.is_peak, shape.is_peak), np.append(self.hits, 0)
        return len(self) - 1

    def heaviest(self, num: int) -> "Optima":
        """At most `num` of them, those with the most mass, in the same order."""
        if len(self) <= num:
            return self
        chosen, kept = Optima(self.dim), np.sort(np.argsort(-self.log_mass(), kind="stable")[:num])
        for name in ("position", "log_density", "precision", "covariance", "is_peak", "slope", "hits", "keeps"):
            setattr(chosen, name, getattr(self, name)[kept])
        return chosen

    def recognise(self, position: np.ndarray, log_density: np.ndarray, gradient: np.ndarray) -> np.ndarray:
        """The optimum that each search is on its way to, by the quadratic shape there; -1 where none fits.

        From a wall a density falls by its slope, evenly.
        """
        if not len(self):
            return np.full(len(position), -1)
        away = position[None] - self.position[:, None, :]  # optimum, search, dim
        slope = self.slope[:, None, :]
        bent = np.where(slope == 0.0, away, 0.0)
        pull = bent @ self.precision
        curved = 0.5 * np.sum(pull * bent, axis=2).T
        fall = curved - np.sum(slope * away, axis=2).T
        misfit = gradient[None] + pull - slope
        squared = np.sum((misfit @ self.covariance) * misfit, axis=2).T
        off = np.abs(log_density[:, None] - (self.log_density[None] - fall))
        most = _GRADIENT_TOLERANCE * 2.0 * curved + _SLOPE_TOLERANCE * self.num_walls[None] + _GRADIENT_SLACK
        is_known = (squared < most) & (off < _VALUE_TOLERANCE * fall + _VALUE_SLACK)
        is_known &= self.is_peak[None]
        fits = np.where(is_known, squared, np.inf)
        return np.where(np.any(is_known, axis=1), np.argmin(fits, axis=1), -1)

    def same(self, position: np.ndarray, log_density: float) -> int:
        """The optimum that a finished search is at: within two standard deviations, and nearly as high; -1 if none."""
        if not len(self):
            return -1
        away = position[None] - self.position
        square = np.einsum("ki,kij,kj->k", away, self.precision, away)
        is_same = (square < 4.0) & (np.abs(log_density - self.log_density) < 1.0)
        return int(np.argmin(np.where(is_same, square, np.inf))) if np.any(is_same) else -1

    def log_mass(self) -> np.ndarray:
        """Log of the mass of every optimum by Laplace's approximation."""
        return laplace_log_mass(self.log_density, self.covariance, self.num_walls)

    @property
    def centre(self) -> np.ndarray:
        """Where the mass about every optimum is: at walls a width inside, the mean of an exponential."""
        is_wall = self.slope != 0.0
        return self.position - np.where(is_wall, 1.0 / np.where(is_wall, self.slope, 1.0), 0.0)

    @property
    def num_walls(self) -> np.ndarray:
        """Walls at which every optimum is."""
        return np.sum(self.slope != 0.0, axis=1)

    def local_weight(self) -> np.ndarray:
        """The masses, over their sum."""
        log_mass = self.log_mass()
        if not len(self):
            return log_mass
        mass = np.exp(log_mass - np.max(log_mass))
        return mass / np.sum(mass)
