"""Densities that no budget can sample: suspected from the pilot's own points, confirmed by a few points far away.

Consumes points with their values and gradients, which are paid for; produces nothing, or words that name the likely
cause. A density that can be sampled falls off in all directions. One that is handed over with the wrong sign, as a
probability, or without one of its coordinates does not, and that shows far out: at a million times the spread of the
points even a Cauchy's log density is 30 nats lower, while these are as high as before. Only densities under suspicion
are looked at there, for `NUM_FAR` evaluations at the most.
"""

import jax.numpy as jnp
import numpy as np

from tempering.errors import DensityError
from tempering.runs.ledger import Ledger
from tempering.targets.base import Target, evaluate_many
from tempering.targets.cost import has_gradient, spend
from tempering.types import Array, Float

__all__ = ["NUM_FAR", "far_points", "hopeless", "is_suspicious", "refuse_hopeless"]

_RADII = (1e1, 1e4, 1e7)
"""Where rays are looked at, in spreads of the points: an overflow at the last leaves those before."""
_NUM_RANDOM, _NUM_AXES = 6, 4
"""Random directions, and coordinates on their own; each is looked at both ways."""
NUM_FAR = 2 * (_NUM_RANDOM + _NUM_AXES + 2) * len(_RADII)
"""Evaluations far away, at the most: of these rays, and of those along the mean gradient and along a flat direction."""
_AS_HIGH = 3.0
"""Nats below the middle of the points' values at which a far value is as high as theirs. A proper tail is 16 lower."""
_DEAD = 1e-10
"""Of the squared gradient along a direction over that along the steepest: single precision leaves 1e-14 of none."""
_MOST_NAMED = 4


def is_suspicious(values: np.ndarray, gradients: np.ndarray | None, *, is_held: bool = True) -> bool:
    """Whether to look further: chains without hold, values of a probability, or a direction without slope.

    Args:
        values: log densities of points that chains drew at T = 1.
        gradients: at the same points; None where there are none.
        is_held: whether the chains settled down.
    """
    values = np.asarray(values, np.float64)
    if not is_held or (np.min(values) >= 0.0 and np.min(values) < 0.5 * np.max(values)):
        return True
    return gradients is not None and _flattest(np.asarray(gradients, np.float64))[1]


def _flattest(gradients: np.ndarray) -> tuple[np.ndarray, bool]:
    """The direction in which the log density changes least, and whether it does not change at all."""
    usable = gradients[np.all(np.isfinite(gradients), axis=1)]
    dim = gradients.shape[1]
    if usable.shape[0] < 2 * dim:  # too few to tell, but for whole coordinates
        is_dead = np.all(usable == 0.0, axis=0) & (usable.shape[0] > 0)
        return np.eye(dim)[np.argmax(is_dead)], bool(np.any(is_dead))
    scaled = usable / max(np.max(np.abs(usable)), 1e-300)
    sizes, directions = np.linalg.eigh(scaled.T @ scaled)
    return directions[:, 0], bool(sizes[0] <= _DEAD * sizes[-1])


def far_points(points: np.ndarray, values: np.ndarray, gradients: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
    """Rays from a typical point, axes (ray, radius, dim), and the coordinates that the rays of axes belong to.

    Rays come in pairs, one in each direction: random ones first, then coordinates (those that hold chains least),
    then the mean gradient and the flattest direction where there are gradients.
    """
    points, values = np.asarray(points, np.float64), np.asarray(values, np.float64)
    num, dim = points.shape
    spread = np.std(points, axis=0)
    spread = np.where(spread > 0, spread, max(np.max(spread), 1e-3))
    typical = points[np.argsort(values)[num // 2]]
    random = np.random.default_rng(0).standard_normal((_NUM_RANDOM, dim))
    directions = [random / np.linalg.norm(random, axis=1, keepdims=True)]
    if gradients is None:
        axes = np.argsort(-spread, kind="stable")[:_NUM_AXES]
    else:
        slope = np.where(np.isfinite(gradients), np.asarray(gradients, np.float64), 0.0) * spread[None]
        hold = -np.mean((points - np.median(points, axis=0)) / spread[None] * slope, axis=0)
        # Coordinates without any slope first.
        axes = np.lexsort((hold, np.any(slope != 0.0, axis=0)))[:_NUM_AXES]
    directions.append(np.eye(dim)[axes])
    if gradients is not None:
        mean = np.mean(slope, axis=0)
        if np.any(mean != 0.0):
            directions.append((mean / np.linalg.norm(mean))[None])
        directions.append(_flattest(slope)[0][None])
    both = np.concatenate([np.stack([own, -own], axis=1).reshape((-1, dim)) for own in directions])
    steps = np.asarray(_RADII)[None, :, None] * spread[None, None] * both[:, None]
    return typical[None, None] + steps, axes


def hopeless(
    points: np.ndarray,
    values: np.ndarray,
    gradients: np.ndarray | None,
    far: np.ndarray,
) -> str | None:
    """What is wrong with a density that cannot be sampled, in words; None for one that can.

    Args:
        points: that chains drew at T = 1.
        values: log densities there.
        gradients: at the same points; None where there are none.
        far: log densities at `far_points` of these.
    """
    values, far = np.asarray(values, np.float64), np.asarray(far, np.float64)
    num, dim = np.shape(points)
    highest, lowest = np.max(values), np.min(values)
    is_flat = np.ptp(values) == 0.0
    if is_flat and np.all(far == lowest):
        return (
            f"log_density is {lowest:.4g} at all {num:,} points of the pilot and far away from them: the integral of "
            "a flat density is infinite; give `support=` if it is flat within bounds, or fix it"
            + ("; is it a probability that vanishes here, instead of its logarithm?" if lowest == 0.0 else "")
        )
    _, axes = far_points(points, values, gradients)
    dead = _dead_coordinates(values, gradients, far, axes)
    if dead:
        names = " and ".join(filter(None, [", ".join(map(str, dead[:-1])), str(dead[-1])]))
        return (
            f"log_density does not depend on coordinate{'s' * (len(dead) > 1)} {names} (numbered from 0) at any of the "
            f"{num:,} points of the pilot: is `dim` = {dim} larger than the density's own, or does an index repeat? "
            "(JAX clamps indices out of range.) A coordinate that is meant to be free needs a prior, or `support=`"
        )
    last = _last(far)
    if gradients is not None:  # further out rounding leads off the flattest direction
        last[-2:] = _last(far[-2:, :-1])
    if lowest >= 0.0 and np.all(np.abs(last) <= 1e-6 * max(highest, 1e-30)):
        return (
            f"log_density lies between {lowest:.4g} and {highest:.4g} at all {num:,} points of the pilot and is 0 far "
            "away: did you hand over a probability instead of its logarithm? return jnp.log of it, or better a formula "
            "for the logarithm itself"
        )
    is_high = last >= np.median(values) - _AS_HIGH
    if not np.any(is_high):
        return None
    is_growing = last > highest + _AS_HIGH
    if np.all(is_growing[: 2 * _NUM_RANDOM]):
        return (
            "log_density grows without bound away from the start, in all directions that were looked at: did you hand "
            "over an energy? pass -energy: log_density must be high where points are likely"
        )
    what = "grows" if np.any(is_growing) else "does not fall off"
    return (
        f"log_density {what} far away from the start in {np.sum(is_high)} of {is_high.size} directions that were "
        f"looked at (the highest value there is {np.max(last):.4g}, against {highest:.4g} at the points of the pilot): "
        "the integral of such a density is infinite; give a prior that falls off, or bounds by `support=`, or fix "
        "the sign of a term"
    )


def _last(far: np.ndarray) -> np.ndarray:
    """The value of every ray at its last radius that has one; -inf where none has."""
    is_number = ~np.isnan(far)
    index = far.shape[1] - 1 - np.argmax(is_number[:, ::-1], axis=1)
    return np.where(np.any(is_number, axis=1), far[np.arange(far.shape[0]), index], -np.inf)


def _dead_coordinates(values: np.ndarray, gradients, far: np.ndarray, axes: np.ndarray) -> list[int]:
    """The coordinates without slope at any point, and without any effect far away; a few of them."""
    if gradients is None:
        return []
    is_dead = np.all(np.asarray(gradients) == 0.0, axis=0)
    of_axes = far[2 * _NUM_RANDOM : 2 * (_NUM_RANDOM + axes.size)].reshape((axes.size, -1))
    typical = np.sort(values)[values.size // 2]
    is_same = np.all(np.abs(of_axes - typical) <= 1e-5 * max(1.0, abs(typical)), axis=1)  # NaN and -inf are not
    return sorted(int(axis) for axis, same in zip(axes, is_same, strict=True) if same and is_dead[axis])[:_MOST_NAMED]


def refuse_hopeless(
    target: Target,
    points: Float[Array, "*batch dim"],
    values: Float[Array, "*batch"],
    gradients: Float[Array, "*batch dim"],
    ledger: Ledger,
    stage: str,
    *,
    is_held: bool = True,
) -> None:
    """Stop a fit that cannot succeed, for at most `NUM_FAR` evaluations; none where nothing is suspicious.

    Args:
        points: that chains drew at T = 1, in the target's coordinates, with their log densities and gradients.
        is_held: whether the chains settled down: with too low a virial, or unmixed, they did not.

    Raises:
        DensityError: with the likely cause.
    """
    rows = np.asarray(points).reshape((-1, target.dim))
    own, slopes = np.asarray(values).reshape(-1), np.asarray(gradients).reshape((-1, target.dim))
    is_usable = np.isfinite(own)
    if not np.any(is_usable):
        return
    known = (rows[is_usable], own[is_usable], slopes[is_usable] if has_gradient(target) else None)
    if not is_suspicious(known[1], known[2], is_held=is_held):
        return
    places = far_points(*known)[0]
    spend(ledger, stage, target, places.shape[0] * places.shape[1])
    far, _ = evaluate_many(target, jnp.asarray(places.reshape((-1, target.dim)), jnp.float32))
    cause = hopeless(*known, np.asarray(far).reshape(places.shape[:2]))
    if cause is not None:
        raise DensityError(cause)
