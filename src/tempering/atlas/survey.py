"""The survey: searches from clouds of many widths, until another one would hardly find anything new.

Good and Turing's estimate says when: of n searches, f ended at optima that were found once; the chance that the next
one finds a new optimum is about f / n. Counted are optima that matter: whose local weight is not tiny.
"""

import dataclasses
import math
from collections.abc import Callable
from dataclasses import dataclass

import jax
import numpy as np

from tempering.atlas.climb import Climbers, climb, placed
from tempering.atlas.curvature import is_drowned, is_twice_differentiable, second_derivatives, seen_along_own_axes
from tempering.atlas.optima import Optima, Shape
from tempering.atlas.walls import at_walls
from tempering.atlas.widths import with_measured_widths
from tempering.runs.ledger import Ledger
from tempering.targets.base import Target
from tempering.targets.cost import points_per_gradient, spend

__all__ = [
    "LEAST_SEARCHES",
    "TIME_SHARE",
    "Survey",
    "expected_optima",
    "few_count",
    "missing_chance",
    "survey",
]

NUM_SEARCHERS, NUM_TICKS = 128, 1
"""Searches side by side, and evaluations of each between looks at them."""
MOST_SEARCHES = 40000
"""Enough to find what one search in a thousand finds, at nineteen in twenty."""
MOST_OPTIMA, _MOST_LISTED, _MOST_NUMBERS = 256, 2000, 100_000
"""Optima that are listed in many dimensions and in few, and numbers of all their second derivatives. A reference has no
more components than the first of these."""
MATTERS = 1e-3
"""Local weight from which an optimum counts."""
HOPELESS = ((30, 0.8), (100, 0.5))
"""Searches, and the share of them that ended at an optimum of their own above which optima cannot be listed."""
_LARGEST_LISTED, _OUT_OF_REACH = 12, 2.0
"""Dimensions up to which many optima are listed all the same, because few of them may count; and how many times as many
as the searches that can be paid they must promise to be for that to be given up."""
_FEW_COUNT = 0.05
"""Of the optima: where no more of them count, many may be found once, and the list counts as closed."""
LEAST_SEARCHES = 100
"""Below which the chance is not known."""
CLOSED, MOST_SINGLE, MOST_LOST = 0.02, 0.3, 0.2
"""Chance of a new optimum that matters, and of any; share of searches that came to nothing: the list counts as closed
up to these."""
_DONE, _ARRIVED = 0.01, 0.01
"""Rise that is left, in nats, at which a search seems to have arrived, and by second derivatives has."""
_MOST_OUTSIDE = 2000
"""Starts without a density for every search that arrives or is on its way: they cost one evaluation each."""
_THIN = 0.1
"""Times the smallest curvature over the largest: the rise at which a peak can be told from a ridge."""
_ROUNDING, _KINK = 1e-6, 0.5
"""Rise since the last look, over the value, that single precision cannot tell from none; and rise that derivatives may
promise where nothing higher is found: at a kink, where the slopes of both sides meet, they promise one for ever."""
_MOST_LOOKS = 6
"""At second derivatives, of one search."""
_LONGEST, _SHORTEST_STEP = 150, 1e-7
"""Evaluations of one search, and the step at which it is stuck."""
_HELD_UP, _CUT_BY, _NEAR, _MUCH = 0.05, 20.0, 0.3, 1.0
"""The step at which a search is looked at where a density has walls; how many times as long a step has met one; nats
that such a step may promise, so that the wall is near; and nats that derivatives promise to a search that has none to
gain by its steps, from which it may stand at one."""
_FAR = 1e6
"""Coordinates, in the same units, beyond which a search has run away."""
_NARROWEST, _WIDEST = 1.0, 40.0
"""Widths of clouds about the origin, in units of the scale of starting points."""
_FAR_SHARE, _FARTHEST = 0.1, 1000.0
"""Of these clouds so many are wider, up to this: a mode two hundred widths away takes one search in ten thousand of the
others, and one in fifty of these. They are few because far from a density its gradients may overflow."""

StartFn = Callable[[np.random.Generator, int], tuple[np.ndarray, np.ndarray]]
"""Starts for so many searches, with the width of the cloud that each came from."""


@dataclass
class Survey:
    """What was found.

    Args:
        optima: all of them, hits counted.
        num_searches: that ended at an optimum; `num_lost` did not, and `num_outside` started where there is no density.
        evaluations: that it took.
        far: a coordinate beyond which a search has run away.
        is_smooth: whether JAX can differentiate twice; second derivatives are differences of gradients otherwise.
        most_evaluations: that it may take.
    """

    optima: Optima
    num_searches: int = 0
    num_lost: int = 0
    num_outside: int = 0
    evaluations: int = 0
    far: float = np.inf
    is_smooth: bool = True
    most_evaluations: int | float = np.inf

    @property
    def is_closed(self) -> bool:
        """Whether searches have closed in on the optima: nearly all arrive, and at ones that are known.

        Where very many optima are found once, a few of them may hold the mass; then these alone are to be known.
        """
        num = self.num_searches
        is_known = self.missing <= CLOSED and (self.single <= MOST_SINGLE or self.has_few)
        return num >= LEAST_SEARCHES and is_known and self.num_lost <= MOST_LOST * num and len(self.optima) > 0

    @property
    def is_held_up(self) -> bool:
        """Whether searches come to nothing, in curved valleys: most, or many while the others end where others did."""
        num, lost = self.num_searches, self.num_lost
        return lost >= num or (lost > MOST_LOST * num and self.missing <= CLOSED and self.single <= MOST_SINGLE)

    @property
    def has_few(self) -> bool:
        """Whether few of very many optima count, and these are known."""
        return few_count(self.optima) and self.missing <= CLOSED and self.optima.dim <= _LARGEST_LISTED

    @property
    def single(self) -> float:
        """The share of searches that ended at an optimum of their own, whether it matters or not."""
        return float(np.sum(self.optima.hits == 1)) / max(1, self.num_searches)

    @property
    def is_endless(self) -> bool:
        """Whether optima cannot be listed: there are far more than searches that can be paid (Chao's estimate)."""
        num = self.num_searches
        if not any(num >= least and self.single > share for least, share in HOPELESS):
            return False
        if self.optima.dim > _LARGEST_LISTED:
            return True
        if self.has_few and num >= LEAST_SEARCHES:
            return False
        affordable = num * self.most_evaluations / max(self.evaluations, 1)
        return num >= LEAST_SEARCHES and expected_optima(self.optima.hits) > _OUT_OF_REACH * affordable

    @property
    def most_optima(self) -> int:
        """Optima that are listed."""
        return max(MOST_OPTIMA, min(_MOST_LISTED, _MOST_NUMBERS // self.optima.dim**2))

    @property
    def missing(self) -> float:
        """The chance that another search finds an optimum that matters and is not known."""
        return missing_chance(self.optima.hits, self.optima.local_weight(), self.num_searches)


def missing_chance(hits: np.ndarray, local_weight: np.ndarray, num_searches: int) -> float:
    """Good and Turing's estimate: optima that matter and were found once, over the number of searches."""
    if num_searches == 0:
        return 1.0
    return float(np.sum((hits == 1) & (local_weight >= MATTERS))) / num_searches


def few_count(optima: Optima) -> bool:
    """Whether nearly all optima hold next to nothing."""
    weight = optima.local_weight()
    return bool(np.sum(weight >= MATTERS) <= _FEW_COUNT * len(weight))


def expected_optima(hits: np.ndarray) -> float:
    """How many optima there are at the least, those that were not found among them, by how many were found twice.

    Chao's estimate (1984): K + f1 (f1 - 1) / (2 (f2 + 1)), with f1 found once and f2 twice.
    """
    once, twice = float(np.sum(hits == 1)), float(np.sum(hits == 2))
    return float(np.sum(hits > 0)) + once * (once - 1.0) / (2.0 * (twice + 1.0))


def clouds(dim: int, scale: float, optima: Optima, own_fn: StartFn | None) -> StartFn:
    """Starts from normals of all widths about the origin, from a cloud about what is known, and from one's own.

    Args:
        own_fn: starts that the user or a reference gives; a third of all come from it.
    """

    def about_origin(rng: np.random.Generator, num: int) -> tuple[np.ndarray, np.ndarray]:
        widths = np.exp(rng.uniform(math.log(_NARROWEST), math.log(_WIDEST), num))
        is_far = rng.uniform(size=num) < _FAR_SHARE
        widths = scale * np.where(is_far, np.exp(rng.uniform(math.log(_WIDEST), math.log(_FARTHEST), num)), widths)
        return widths[:, None] * rng.normal(size=(num, dim)), widths

    def about_known(rng: np.random.Generator, num: int) -> tuple[np.ndarray, np.ndarray]:
        weight = np.full(len(optima), 1.0 / len(optima))
        centre = weight @ optima.position
        spread = np.sqrt(weight @ (optima.position - centre) ** 2 + weight @ np.einsum("kii->ki", optima.covariance))
        widths = np.exp(rng.uniform(math.log(0.3), math.log(3.0), num))
        starts = centre + widths[:, None] * spread * rng.normal(size=(num, dim))
        return starts, widths * float(np.mean(spread))

    def start(rng: np.random.Generator, num: int) -> tuple[np.ndarray, np.ndarray]:
        ways = [about_origin] + [about_known] * (len(optima) > 1) + ([own_fn] if own_fn is not None else [])
        which = rng.integers(len(ways), size=num)
        starts, widths = np.zeros((num, dim)), np.zeros(num)
        for index, way in enumerate(ways):
            own = which == index
            starts[own], widths[own] = way(rng, int(np.sum(own)))
        return starts, widths

    return start


TIME_SHARE = 0.25
"""Of a time limit, after which no more searches begin."""


def survey(
    seed: int,
    target: Target,
    ledger: Ledger,
    most_evaluations: int,
    *,
    scale: float = 1.0,
    own_fn: StartFn | None = None,
    optima: Optima | None = None,
    on_look: Callable[[int, int], None] = lambda done, total: None,
) -> Survey:
    """Search until nothing new is to be expected, optima cannot be listed, or the evaluations are used up.

    Args:
        scale: of starting points about the origin, which the widths of clouds are multiples of.
        own_fn: starts that the user or a reference gives.
        optima: that are known already; they are added to.
        on_look: called with the searches done, and the most that there may be.
    """
    dim, each = target.dim, points_per_gradient(target)
    rng = np.random.default_rng(seed)
    found = Survey(
        Optima(dim) if optima is None else optima,
        far=_FAR * scale,
        is_smooth=is_twice_differentiable(target),
        most_evaluations=most_evaluations,
    )
    start_fn = clouds(dim, scale, found.optima, own_fn)
    before, block = ledger.total, NUM_SEARCHERS * NUM_TICKS * each
    state = placed(*start_fn(rng, NUM_SEARCHERS))
    looked_at = np.full(NUM_SEARCHERS, -np.inf)
    while ledger.total - before + block + dim * each <= most_evaluations and not _is_enough(found, state):
        if found.num_searches > 0 and ledger.clock.ends("the search for modes", TIME_SHARE):
            break
        spend(ledger, "atlas", target, NUM_SEARCHERS * NUM_TICKS)
        state = _seen(climb(target, state, NUM_TICKS))
        is_over = _settle(target, state, found, ledger, before + most_evaluations, looked_at)
        if np.any(is_over):
            fresh = placed(*start_fn(rng, int(np.sum(is_over))))
            for name in _LOOKED_AT:
                getattr(state, name)[is_over] = np.asarray(getattr(fresh, name))
            looked_at[is_over] = -np.inf
        found.evaluations = ledger.total - before
        on_look(found.num_searches, MOST_SEARCHES)
    return found


_KEPT_THERE = ("moves", "changes")
_LOOKED_AT = tuple(field.name for field in dataclasses.fields(Climbers) if field.name not in _KEPT_THERE)


def _seen(state: Climbers) -> Climbers:
    """The state on the host, to be changed there; but for the last steps, of which `num_kept` says how many count."""
    seen = jax.device_get([getattr(state, name) for name in _LOOKED_AT])
    known = dict(zip(_LOOKED_AT, map(np.array, seen), strict=True))
    leaves = [known.get(field.name, getattr(state, field.name)) for field in dataclasses.fields(Climbers)]
    return jax.tree.unflatten(jax.tree.structure(state), leaves)


def _is_enough(found: Survey, state: Climbers) -> bool:
    """Whether optima are all known, as far as searches can tell, or cannot be listed."""
    num = found.num_searches
    is_lost = found.num_lost >= LEAST_SEARCHES and found.num_lost > 3 * num
    # Those that are on their way may arrive: in a small box few starts have a density at all.
    is_lost |= found.num_outside > _MOST_OUTSIDE * (1 + num + int(np.sum(np.asarray(state.num_taken) > 0)))
    return found.is_endless or is_lost or num >= MOST_SEARCHES or len(found.optima) >= found.most_optima


def _settle(
    target: Target, state: Climbers, found: Survey, ledger: Ledger, limit: int, looked_at: np.ndarray
) -> np.ndarray:
    """Count the searches that are over: at an optimum that is known, at a new one, or lost. Returns which.

    A search that seems to have arrived, and has not by the second derivatives there, is sent on by them.
    """
    optima = found.optima
    position, value, gradient = (np.asarray(a, np.float64) for a in (state.position, state.log_density, state.gradient))
    # One that runs away has no summit to come to.
    is_lost = ~np.isfinite(value) | (np.max(np.abs(position), axis=1) > found.far)
    value = np.where(is_lost, -1e30, value)
    known = np.where(is_lost, -1, optima.recognise(position, value, gradient))
    promise = 0.5 * np.sum(gradient * np.asarray(state.direction, np.float64), axis=1)
    has_arrived = (state.num_taken >= 3) & (promise < _DONE) & ~is_lost
    is_late = (state.num_ticks >= _LONGEST) | (state.step < _SHORTEST_STEP)
    # Where some starts had no density, a step that was cut again and again may have met a wall.
    is_near = _CUT_BY * state.step * 2.0 * np.abs(promise) < _NEAR
    is_held_up = (state.step < _HELD_UP) & is_near & (state.num_taken > 0) & (found.num_outside > 0)
    is_held_up |= has_arrived & np.any(state.at_wall, axis=1)
    for index in np.flatnonzero((has_arrived | is_late | is_held_up) & (known < 0) & ~is_lost):
        own = slice(index, index + 1)
        same = optima.same(position[index], float(value[index]))
        same = same if same >= 0 else int(optima.recognise(position[own], value[own], gradient[own])[0])
        known[index] = same
        # A search that can take no step has come as far as single precision goes.
        is_stuck = bool(state.step[index] < _SHORTEST_STEP)
        if same >= 0 or (is_late[index] and not is_stuck):
            continue
        cost, num = target.dim + int(not found.is_smooth), found.num_searches + int(np.sum(known >= 0))
        is_large = target.dim > _LARGEST_LISTED
        if is_large and num >= HOPELESS[0][0] and np.sum(optima.hits <= 1) > HOPELESS[0][1] * num:
            continue  # no end of them: the next look ends the survey
        if ledger.total + cost * points_per_gradient(target) > limit or len(optima) >= found.most_optima:
            continue
        spend(ledger, "atlas", target, cost)
        at = np.asarray(state.position)[index]
        hessian = second_derivatives(target, at, is_exact=found.is_smooth)
        if not np.all(np.isfinite(hessian)):
            is_late[index] = True
            continue
        is_resolved = found.is_smooth and is_drowned(hessian)
        is_resolved &= ledger.total + target.dim * points_per_gradient(target) <= limit
        if is_resolved:
            spend(ledger, "atlas", target, target.dim)
            hessian = seen_along_own_axes(target, at, hessian)
        shape = Shape.at(position[index], float(value[index]), gradient[index], hessian, is_resolved=is_resolved)
        is_flat = bool(np.max(np.diagonal(shape.covariance)) > found.far**2)
        # Steps that a wall has made short promise little, and derivatives promise much.
        may_be_wall = is_held_up[index] or (has_arrived[index] and found.num_outside > 0 and shape.rise > _MUCH)
        if is_flat and not may_be_wall:
            is_late[index] = True  # a flat top: its width is not told by second derivatives
            continue
        is_level = is_stuck or value[index] <= looked_at[index] + _ROUNDING * abs(value[index])
        looked_at[index] = value[index]
        # On a ridge curvature along it is what is left of the slope: close to the top it shows as none.
        most = _KINK if is_level else min(_ARRIVED, _THIN * shape.roundness)
        if not is_flat and shape.is_peak and shape.rise < most:
            shape = shape.here(position[index], float(value[index])) if is_level else shape
            known[index] = optima.add(with_measured_widths(target, shape, ledger, limit))
            continue
        walled, along = None, None
        if may_be_wall:
            reach = _CUT_BY * float(state.step[index]) * np.asarray(state.direction[index], np.float64)
            reach = np.where(state.at_wall[index], np.inf, reach)
            own = (position[index], float(value[index]), gradient[index], hessian, reach)
            walled, along = at_walls(target, *own, ledger, limit)
        if walled is not None:
            known[index] = optima.add(walled)
            continue
        if is_flat and along is None:
            is_late[index] = True
            continue
        # Not there yet: on by Newton's step, with an empty memory. A ridge has no top, and the third look ends it.
        state.num_looks[index] += int(along is None)
        is_late[index] = state.num_looks[index] >= _MOST_LOOKS
        state.direction[index], state.step[index] = shape.ascent if along is None else along, 1.0
        state.num_kept[index], state.num_taken[index] = 0, 1
        # What rests on walls stays there, so that the next steps go along them and are not cut short again.
        state.at_wall[index] = False if along is None else (along == 0.0) & (gradient[index] != 0.0)
    is_home = known >= 0
    np.add.at(optima.hits, known[is_home], 1)
    found.num_searches += int(np.sum(is_home))
    is_over = is_home | is_lost | is_late
    is_outside = is_lost & (state.num_taken == 0)
    found.num_outside += int(np.sum(is_outside))
    found.num_lost += int(np.sum(is_over & ~is_home & ~is_outside))
    return is_over
