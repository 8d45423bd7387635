r"""Transport between sets of configurations up to their symmetries. Consumes configurations, produces distances.

The distance between two configurations is the paper's (its appendix on metrics, d_Kabsch),

    d(X, Y) = min over R in SO(d), t in R^d of || X - (Y R^T + t) ||,

which is d^2 = |X - mean|^2 + |Y - mean|^2 - 2 (s_1 + ... + s_{d-1} + sign(det H) s_d), with H = (Y - mean)^T (X - mean)
and its singular values s_1 >= ... >= s_d;
the root of the *summed* squared distances of the particles. (The paper's code takes a mean of the norms of particles,
about an eighth of this for LJ-55: `paper_aligned_w2`.) With permutation it is minimised over the particles' labels too.
Configurations are rows of an array (num, n*d), the particle being the slower axis; they need not be centred.

Without permutation the minimum is exact (Kabsch). With it, finding the minimum is a hard problem, and what is returned
is an **upper bound**: the best local minimum of a fixed search. So compare a permuted distance with its own floor, by
the same search at the same N, and never with one from elsewhere: a lazier search gives a larger number. For LJ-13 at
N = 120 the W2 floor is 1.57-1.63 from one start, 1.45-1.50 from our four and 1.43-1.47 from 24; 300 random starts would
bring single distances another 4 % down. For LJ-55 the four starts are 1 % above 24 and 2 % above 150 random ones.
"""

import itertools

import numpy as np
import numpy.typing as npt
from jaxtyping import Float

from tempering.lab.metrics.distances import least_cost
from tempering.lab.metrics.particles import checked_configurations

__all__ = ["aligned_distances", "aligned_w2", "most_permuted", "paper_aligned_w2"]

_CHUNK = 1 << 22
"""Entries of the largest intermediate array (32 MB); it bounds memory and does not change results."""
_MAX_ROUNDS = 100
"""Assignments in one descent, at most. Two to five are the rule; it only ends a cycle between tied labels."""
_PERMUTED_WORK = 18_000
"""Configurations times particles that one core compares, all with all and permuted, in about two minutes."""
_MAX_CONFIGURATIONS = 2_000
"""As for the other transport distances."""


def most_permuted(num_particles: int) -> int:
    """How many configurations of each set one core compares, permuted, in about two minutes; at most 2,000.

    18,000 / n: 1,384 of LJ-13, 327 of LJ-55. A pair takes 0.07 ms for LJ-13 and 0.8 ms for LJ-55; without permutation
    3 microseconds.
    """
    return max(min(_PERMUTED_WORK // num_particles, _MAX_CONFIGURATIONS), 2)


def aligned_distances(
    samples: npt.ArrayLike,
    reference: npt.ArrayLike,
    *,
    num_particles: int,
    spatial_dim: int,
    is_permuted: bool = False,
    allow_reflection: bool = False,
) -> Float[np.ndarray, "num m"]:
    """d of every sample and every reference configuration, the cost of `aligned_w2` before squaring.

    The search over labels starts from both configurations in their principal axes, once for each way of pointing the
    axes (2^(d-1)), and from each start alternates the optimal assignment (Hungarian) and the optimal rotation (Kabsch)
    until the labels stay. Principal axes turn with the configuration and do not see labels, so the result is as
    invariant as the distance itself, unless two principal moments coincide. It is an upper bound of the minimum.

    Args:
        samples: shape (num, n*d).
        reference: shape (m, n*d).
        num_particles: n, at least 2.
        spatial_dim: d.
        is_permuted: minimise over the labels of the particles, which must be identical, too.
        allow_reflection: minimise over O(d) instead of SO(d).

    Raises:
        MetricError: for wrong shapes, or coordinates that are not finite.
    """
    x = _centred(samples, "samples", num_particles, spatial_dim)
    y = _centred(reference, "reference", num_particles, spatial_dim)
    if is_permuted:
        overlaps = _permuted_overlaps(x, y, _axis_signs(spatial_dim, allow_reflection), allow_reflection)
    else:
        overlaps = np.empty((len(x), len(y)))
        step = max(_CHUNK // (len(y) * spatial_dim**2), 1)
        for start in range(0, len(x), step):
            part = slice(start, start + step)
            # (row, axis of x, column, axis of y) as one matrix product; the order within a pair does not matter here.
            products = np.tensordot(x[part], y, axes=(1, 1)).transpose(0, 2, 1, 3)
            overlaps[part] = _overlaps(np.ascontiguousarray(products), allow_reflection)
    squares = np.sum(x * x, axis=(-1, -2))[:, None] + np.sum(y * y, axis=(-1, -2))[None]
    # Rounding may leave -1e-14 for equal configurations.
    return np.sqrt(np.maximum(squares - 2.0 * overlaps, 0.0))


def aligned_w2(
    samples: npt.ArrayLike,
    reference: npt.ArrayLike,
    *,
    num_particles: int,
    spatial_dim: int,
    is_permuted: bool = False,
    allow_reflection: bool = False,
) -> float:
    """W2 between two sets of configurations up to rigid motions: (min over couplings of E[d^2])^(1/2), solved exactly.

    The distance falls with N: compare at equal N only. Arguments and errors as in `aligned_distances`.
    """
    sizes = {"num_particles": num_particles, "spatial_dim": spatial_dim}
    cost = aligned_distances(samples, reference, is_permuted=is_permuted, allow_reflection=allow_reflection, **sizes)
    return float(np.sqrt(least_cost(cost**2)))


def paper_aligned_w2(
    samples: npt.ArrayLike, reference: npt.ArrayLike, *, num_particles: int, spatial_dim: int
) -> float:
    """What the paper's code calls W2 of particles: the transport whose cost is the *mean of the atoms' distances*.

    Every configuration is turned onto the other by the rotation of least squares (Kabsch), and then the n distances of
    corresponding particles are averaged; neither square nor root is taken. It is at most d / sqrt(n), with d of
    `aligned_distances`: for LJ-55 an eighth of it. For comparison with published tables only.
    """
    x = _centred(samples, "samples", num_particles, spatial_dim)
    y = _centred(reference, "reference", num_particles, spatial_dim)
    cost = np.empty((len(x), len(y)))
    step = max(_CHUNK // (len(y) * num_particles * spatial_dim), 1)
    for start in range(0, len(x), step):
        part = x[start : start + step]
        products = np.tensordot(part, y, axes=(1, 1)).transpose(0, 2, 3, 1)  # Y^T X of every pair
        rotations, _ = _rotations(np.ascontiguousarray(products).reshape((-1, spatial_dim, spatial_dim)), False)
        turned = y[None] @ rotations.reshape((len(part), len(y), spatial_dim, spatial_dim))
        cost[start : start + step] = np.linalg.norm(part[:, None] - turned, axis=-1).mean(axis=-1)
    return least_cost(cost)


def _centred(points: npt.ArrayLike, name: str, num_particles: int, spatial_dim: int) -> np.ndarray:
    x = checked_configurations(points, name, num_particles=num_particles, spatial_dim=spatial_dim)
    return x - x.mean(axis=1, keepdims=True)


def _transposed(x: np.ndarray) -> np.ndarray:
    return x.swapaxes(-1, -2)


def _overlaps(products: np.ndarray, allow_reflection: bool) -> np.ndarray:
    """max over R of trace(R H) for every H = Y^T X, shape (..., d, d)."""
    values = np.linalg.svd(products, compute_uv=False)
    if not allow_reflection:
        values[..., -1] *= np.where(np.linalg.det(products) < 0.0, -1.0, 1.0)
    return values.sum(axis=-1)


def _rotations(products: np.ndarray, allow_reflection: bool) -> tuple[np.ndarray, np.ndarray]:
    """R, such that Y R is nearest to X, and its overlap, for every H = Y^T X of shape (pair, d, d)."""
    u, values, v_transposed = np.linalg.svd(products)
    if not allow_reflection:
        # The sign is that of the factors, not of H: a flat configuration has det H = 0 and still needs a rotation.
        signs = np.where(np.linalg.det(u) * np.linalg.det(v_transposed) < 0.0, -1.0, 1.0)
        u[..., -1] *= signs[:, None]
        values[..., -1] *= signs
    return u @ v_transposed, values.sum(axis=-1)


def _in_principal_axes(x: np.ndarray) -> np.ndarray:
    """Every configuration turned into its principal axes, by a proper rotation."""
    _, axes = np.linalg.eigh(_transposed(x) @ x)
    axes[..., 0] *= np.where(np.linalg.det(axes) < 0.0, -1.0, 1.0)[:, None]
    return x @ axes


def _axis_signs(spatial_dim: int, allow_reflection: bool) -> np.ndarray:
    """The starts: signed axes, without reflections unless allowed.

    A group that holds all proper choices of the axes' signs, which is why those, arbitrary as they are, do not matter.
    """
    matrices = np.array([np.diag(signs) for signs in itertools.product((1.0, -1.0), repeat=spatial_dim)])
    return matrices if allow_reflection else matrices[np.linalg.det(matrices) > 0.0]


def _permuted_overlaps(x: np.ndarray, y: np.ndarray, starts: np.ndarray, allow_reflection: bool) -> np.ndarray:
    x, y = _in_principal_axes(x), _in_principal_axes(y)
    overlaps = np.full(len(x) * len(y), -np.inf)
    step = max(_CHUNK // x.shape[1] ** 2, 1)
    for begin in range(0, len(overlaps), step):
        part = slice(begin, begin + step)
        rows, columns = np.divmod(np.arange(len(overlaps))[part], len(y))
        for start in starts:
            found = _descend(x[rows], y[columns], start, allow_reflection)
            overlaps[part] = np.maximum(overlaps[part], found)
    return overlaps.reshape(len(x), len(y))


def _descend(x: np.ndarray, y: np.ndarray, start: np.ndarray, allow_reflection: bool) -> np.ndarray:
    """Assignment and rotation in turn, for every pair of rows until its labels stay; the overlaps, shape (pair,)."""
    overlaps = np.full(len(x), -np.inf)
    labels = np.full(x.shape[:2], -1)
    turned, active = y @ start, np.arange(len(x))
    for _ in range(_MAX_ROUNDS):
        found = _assign(x[active], turned)
        has_changed = (found != labels[active]).any(axis=1)
        active = active[has_changed]
        if not len(active):
            break
        labels[active] = found[has_changed]
        relabelled = np.take_along_axis(y[active], labels[active][..., None], axis=1)
        rotations, overlaps[active] = _rotations(_transposed(relabelled) @ x[active], allow_reflection)
        turned = y[active] @ rotations
    return overlaps


def _assign(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """For every pair of configurations the particle of y that each particle of x gets, at least squared distance."""
    from scipy.optimize import linear_sum_assignment  # here: importing it costs as much as NumPy

    costs = np.sum(x * x, axis=2)[:, :, None] + np.sum(y * y, axis=2)[:, None, :] - 2.0 * (x @ _transposed(y))
    # What is taken off a column changes no assignment, but this start is nearer to the solver's end: 2.7 times as
    # fast, for 55 particles, as the products alone.
    costs -= costs.min(axis=1, keepdims=True)
    return np.array([linear_sum_assignment(cost)[1] for cost in costs])
