"""The first stage of a run: an atlas of modes, and whether the path may start from what it shows."""

import dataclasses
from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from tempering.atlas.adapt import Drawn, adapted
from tempering.atlas.even import evened
from tempering.atlas.judge import GOOD_SHARE, MOST_HIDDEN, Judgement, cost_of_judging, judge
from tempering.atlas.mixture import StudentMixture, blank_mixture
from tempering.atlas.optima import Optima, Shape
from tempering.atlas.patch import cost_of_patches, with_patches
from tempering.atlas.prior import with_prior
from tempering.atlas.survey import LEAST_SEARCHES, MOST_OPTIMA, TIME_SHARE, Survey, survey
from tempering.devices.keys import folded, generator, split
from tempering.errors import DensityError
from tempering.kernels import Kernel, kernel_of
from tempering.methods.budget import default_budget
from tempering.parallel_tempering.initial import StartFn
from tempering.runs.checkpoint import Journal
from tempering.runs.ledger import Ledger
from tempering.runs.records import Checks, finite_or_none
from tempering.settings import MethodSettings
from tempering.shape import learned_shape
from tempering.targets import Target
from tempering.targets.cost import has_gradient, points_per_gradient
from tempering.targets.rows import whole_parts
from tempering.targets.shaped import Shaped
from tempering.transforms.triangular import Triangular
from tempering.types import Array, Float, Int, Key

__all__ = ["SEARCH_SHARE", "Found", "OnModes", "Tell", "find_modes", "has_atlas", "no_modes"]

Tell = Callable[..., None]
"""Reports progress: stage, level, what is done and in all, and readings by name."""

OnModes = Callable[..., bool]
"""Hears the number of modes that are known, and by `is_all` whether they are taken for all; says whether that settles
how many places the network has."""


def no_modes(num: int, *, is_all: bool) -> bool:
    """Nobody hears."""
    del num, is_all
    return False


_LARGEST_DIM = 256
"""Second derivatives are as many evaluations for every optimum, and their square is kept."""
SEARCH_SHARE, _DRAW_SHARE, _REFEREE_SHARE = 0.8, 0.08, 0.12
"""Of the share: what searches may take, what four rounds of draws take, what the referee takes. Rounds and referees
are a stage of their own, `reference`, which may take a share too, all of them together."""
_HELD_BACK = 0.25
"""Of the share of that stage: for learned coordinates, in which the reference is made once more."""
_MOST_ROUNDS, _LEAST_DRAWS, _MOST_DRAWS = 4, 250, 2000
_MOST_TRIES, _MOST_TRIES_NEARLY, _NEARLY = 3, 6, 0.05
"""Of a reference: each after the first has what the referee's chains found beyond the one before. There are more where
no more than the last of these of the chains' states is left uncovered: a curved valley is covered piece by piece."""
_MOST_CHAINS, _LEAST_CHAINS, _LEAST_STEPS = 48, 8, 24
_SHAPE_SHARE, _LARGEST_SHAPED, LEAST_SHAPED = 0.4, 32, 0.3
"""Of the budget, for learning coordinates; dimensions up to which they are, and effective share from which used."""
_LEAST_BUDGET = 30_000
"""Below which coordinates are not learned: the temperature path would have too little left."""
_SEED_RANGE = 2**31 - 1
_FEW, _MANY = 0.01, 1000
"""Optima that were found once, over the searches, up to which most are known; searches after which all are, if none is
such an optimum."""


class Found(eqx.Module):
    """What the atlas has found, as arrays, so that it can be kept.

    Args:
        position, log_density, covariance, weight, hits, num_walls: of the optima.
        centre: where their masses are; at walls a width inside of each.
        reference: what the density is to be drawn from; without components where the temperature path is taken.
        before, drawn: what points that are evaluated already are draws of, and these: place, log density, gradient.
        numbers: searches, searches lost, the chance of another optimum, share, Pareto k, hidden share, p-value, whether
            coordinates were learned, and starts of searches without a density.
        learned: these coordinates; the reference and its draws are in them.
        num_settled: the number of modes that settled how many places the network has; -1 if none did.
    """

    position: Float[Array, "optimum dim"]
    log_density: Float[Array, " optimum"]
    covariance: Float[Array, "optimum dim dim"]
    weight: Float[Array, " optimum"]
    hits: Float[Array, " optimum"]
    num_walls: Float[Array, " optimum"]
    centre: Float[Array, "optimum dim"]
    numbers: Float[Array, " nine"]
    learned: Triangular
    reference: StudentMixture
    before: StudentMixture
    drawn: tuple[Float[Array, "point dim"], Float[Array, " point"], Float[Array, "point dim"]]
    num_settled: Int[Array, ""]

    @property
    def has_reference(self) -> bool:
        """Whether the path starts from the modes."""
        return self.reference.log_weight.shape[0] > 0

    @property
    def saw_nothing(self) -> bool:
        """Whether no search started where there is a density with a slope."""
        return len(self.log_density) == 0 and float(np.sum(np.asarray(self.numbers)[:2])) == 0.0

    @property
    def is_mostly_outside(self) -> bool:
        """Whether most searches started where there is no density, as chains would."""
        numbers = np.asarray(self.numbers)
        return float(numbers[8]) > float(np.sum(numbers[:2]))

    @property
    def path(self) -> str:
        """Where draws come from, in a word."""
        if not self.has_reference:
            return "temperature"
        return "shape" if self.is_shaped else "reference"

    @property
    def is_shaped(self) -> bool:
        """Whether the reference is in learned coordinates."""
        return bool(np.asarray(self.numbers)[7])

    @property
    def share(self) -> float:
        """Effective share of the reference's latest draws."""
        return float(np.asarray(self.numbers)[3])

    def checks(self, checks: Checks) -> Checks:
        """The same checks with the numbers of the atlas."""
        values = [finite_or_none(number) for number in np.asarray(self.numbers)[:7]]
        names = ("num_searches", "num_lost", "missing", "share", "pareto_k", "hidden", "p_value")
        own: dict[str, Any] = {f"atlas_{name}": value for name, value in zip(names, values, strict=True)}
        own |= {"num_optima": len(self.log_density), "path": self.path}
        return Checks.from_dict(checks.as_dict() | own)


def has_atlas(settings: MethodSettings, target: Target) -> bool:
    """Whether modes are searched for."""
    ladder = settings.ladder
    is_given = ladder.temperatures is not None or ladder.hottest is not None
    is_fit = has_gradient(target) and target.geometry is None and target.dim <= _LARGEST_DIM
    return settings.atlas.share > 0 and settings.is_sized_by_budget and not is_given and is_fit


def find_modes(
    key: Key,
    target: Target,
    settings: MethodSettings,
    start_fn: StartFn,
    journal: Journal,
    tell: Tell,
    on_modes: OnModes = no_modes,
) -> Found:
    """Search uphill, make a reference of the optima, and let a referee judge it; or find it kept.

    Args:
        start_fn: the user's starting points.
        on_modes: called once or more with the number of optima, when nearly all are found.
    """
    blank, settled = _found(Survey(Optima(target.dim))), -1

    def hear(num: int, *, is_all: bool) -> bool:
        nonlocal settled
        if settled < 0 and on_modes(num, is_all=is_all):
            settled = num
        return settled >= 0

    def search() -> Found:
        found = _search(key, target, settings, start_fn, journal.ledger, tell, hear)
        return dataclasses.replace(found, num_settled=jax.device_put(np.int32(settled)))

    found = journal.part(0, "atlas", blank, search)
    if int(found.num_settled) >= 0:  # a run that is resumed has the network that it began with
        on_modes(int(found.num_settled), is_all=True)
    return found


def _search(
    key: Key,
    target: Target,
    settings: MethodSettings,
    start_fn: StartFn,
    ledger: Ledger,
    tell: Tell,
    on_modes: OnModes,
) -> Found:
    key_search, key_draw, key_shape, key_start = split(key, 4)
    each, kernel = points_per_gradient(target), kernel_of(settings.exploration, target.dim)
    budget = (ledger.budget or default_budget(target.dim) * each) // each
    affordable = int(settings.atlas.share * budget)
    ledger.most = {"atlas": int(SEARCH_SHARE * affordable) * each, "reference": affordable * each}
    seed = int(generator(key_search).integers(_SEED_RANGE))
    points = np.asarray(start_fn(key_start, 256), np.float64)
    optima = Optima(target.dim)

    def on_look(done: int, _: int) -> None:
        tell("searching for modes", 0, ledger.total, affordable * each)
        if done >= LEAST_SEARCHES and np.sum(optima.hits == 1) <= _FEW * done:
            on_modes(len(optima), is_all=done >= _MANY and bool(np.all(optima.hits > 1)))

    surveyed = survey(
        seed,
        target,
        ledger,
        ledger.most["atlas"],
        scale=settings.initial.scale,
        own_fn=_about(points),
        optima=optima,
        on_look=on_look,
    )
    if surveyed.is_closed or len(optima) <= 1:
        on_modes(len(optima), is_all=True)
    can_be_shaped = _can_be_shaped(target, surveyed, budget)
    held_back = int(_HELD_BACK * affordable) * each if can_be_shaped else 0
    path, room = settings.atlas.path, _Room(affordable, kernel, start_fn, ledger, tell, held_back)
    # There may be one level only, of one network.
    if path == "temperature" or not settings.network.is_shared:
        return _found(surveyed)
    tried = None
    # Out of time, what was found is the quickest way; the verdict says how much may be missing.
    is_tried = path == "reference" or surveyed.is_closed or ledger.clock.left(TIME_SHARE) < 0.0
    if len(surveyed.optima) > 0 and is_tried:
        tried = _tried(key_draw, target, surveyed.optima, room)
    if tried is not None and (tried.judgement.is_good or path == "reference"):
        even = evened(tried.drawn) if tried.judgement.is_good else None
        return _found(surveyed, tried) if even is None else _found(surveyed, tried._replace(drawn=even[0]), even[1])
    shaped = None
    if can_be_shaped:
        starts = np.concatenate([surveyed.optima.centre, points])
        most = min(int(_SHAPE_SHARE * budget) * each, ledger.left("shape"))
        shaped = _shaped(key_shape, target, starts, room._replace(held_back=0), int(most))
    if shaped is not None:
        return _found(surveyed, *shaped)
    return _found(surveyed, tried if tried is not None and tried.judgement.is_usable else None)


class _Room(NamedTuple):
    """What a reference is tried with."""

    affordable: int
    kernel: Kernel
    start_fn: StartFn
    ledger: Ledger
    tell: Tell
    held_back: int = 0
    """Evaluations of the stage that must be left."""


class _Tried(NamedTuple):
    """A reference and what the referee says of it."""

    drawn: Drawn
    judgement: Judgement


def _tried(key: Key, target: Target, optima: Optima, room: _Room) -> _Tried | None:
    """A reference made of the optima, improved by its draws and judged; None where no draw has a density.

    Every batch is held against what is left of the stage's share before it is made; None where that is too little.
    """
    key_draw, key_judge = split(key)
    affordable, tell = room.affordable, room.tell
    num = whole_parts(int(np.clip(_DRAW_SHARE * affordable / 2, min(_LEAST_DRAWS, affordable // 20), _MOST_DRAWS)))
    on_round = lambda index, share: tell("fitting the modes", 0, index + 1, _MOST_ROUNDS, ess_fraction=share)  # noqa: E731
    chains, steps = _walks(int(_REFEREE_SHARE * affordable), room.kernel)
    judging = cost_of_judging(target, room.kernel, chains, steps)
    each_try, held_back = judging + num * points_per_gradient(target), room.held_back
    drawn, tried, hidden, components = None, None, np.inf, with_prior(target, optima.heaviest(MOST_OPTIMA))
    if room.ledger.left("reference") < each_try + held_back:
        return None
    for index in range(_MOST_TRIES_NEARLY):
        keys = [folded(key, index) if index else key for key in (key_draw, key_judge)]
        drawn = adapted(
            keys[0], target, components, num, _MOST_ROUNDS, room.ledger, on_round, drawn, held_back + judging
        )
        if not np.any(np.isfinite(drawn.log_weights())):
            return None
        own = (room.kernel, optima, drawn, room.start_fn, chains, steps, room.ledger, held_back)
        try:
            tried = _Tried(drawn, judge(keys[1], target, *own))
        except DensityError:  # no chain can start: of a reference like this nothing is known
            return None
        before, hidden = hidden, tried.judgement.hidden_share
        is_near = hidden <= _NEARLY and tried.judgement.share >= LEAST_SHAPED
        is_better = hidden <= 0.5 * before and index + 1 < _MOST_TRIES
        if hidden <= MOST_HIDDEN or index + 1 == _MOST_TRIES_NEARLY or not (is_better or is_near):
            break
        if is_near and tried.judgement.share >= GOOD_SHARE:
            held_back = 0  # a piece is missing: no need for other coordinates
        if room.ledger.left("reference") < each_try + held_back + cost_of_patches(target):
            break
        # What chains found, and no optimum shows, is made a part of the reference.
        known = drawn.components or optima
        components = with_patches(target, known, *tried.judgement.beyond, drawn.log_z, room.ledger)
        if len(components) == len(known):
            break
    return tried


def _can_be_shaped(target: Target, surveyed: Survey, budget: int) -> bool:
    """Whether coordinates may be learned in which the density is nearly normal.

    They are looked for where searches closed in on few optima that do not show the density's shape, or are held up on
    their way: a curved valley, a funnel. Where optima are many they would not help.
    """
    may_help = surveyed.is_closed or surveyed.is_held_up
    return budget >= _LEAST_BUDGET and target.dim <= _LARGEST_SHAPED and may_help


def _shaped(
    key: Key, target: Target, points: np.ndarray, room: _Room, most_evaluations: int
) -> tuple[_Tried, Triangular] | None:
    """Coordinates in which the density is nearly normal, and a reference in them; None where there are none."""
    key_learn, key_try = split(key)
    room.tell("learning coordinates", 0, 0, 1)
    learned = learned_shape(key_learn, target, jnp.asarray(points, jnp.float32), room.ledger, most_evaluations)
    room.tell("learning coordinates", 0, 1, 1, ess_fraction=learned.effective_share)
    if learned.effective_share < LEAST_SHAPED or not learned.is_settled:
        return None
    inner, restrict = Shaped(target, learned.chart), jax.vmap(learned.chart.restrict)
    own = room._replace(start_fn=lambda key, num: restrict(room.start_fn(key, num)))
    tried = _tried(key_try, inner, _at_origin(target.dim), own)
    if tried is None or not tried.judgement.covers or tried.judgement.share < LEAST_SHAPED:
        return None
    return tried, learned.chart


def _at_origin(dim: int) -> Optima:
    """The one optimum of a standard normal."""
    optima, one = Optima(dim), np.eye(dim)
    optima.add(Shape(np.zeros(dim), 0.0, 0.0, True, one, one, np.zeros(dim)))
    return optima


def _walks(affordable: int, kernel: Kernel) -> tuple[int, int]:
    """Chains of each group and their steps: more chains first, then longer ones."""
    cost = kernel.evaluations_per_step
    chains = int(np.clip(affordable // (2 * _LEAST_STEPS * cost), _LEAST_CHAINS, _MOST_CHAINS))
    return chains, max(_LEAST_STEPS, affordable // (2 * chains * cost))


def _about(points: np.ndarray):
    """Starts from the user's points, each moved by the points' own spread or less."""
    spread = np.maximum(np.std(points, axis=0), 1e-6)

    def own_fn(rng: np.random.Generator, num: int) -> tuple[np.ndarray, np.ndarray]:
        rows = points[rng.integers(len(points), size=num)]
        widths = np.exp(rng.uniform(np.log(0.1), np.log(2.0), num))
        return rows + widths[:, None] * spread * rng.normal(size=rows.shape), widths * float(np.mean(spread))

    return own_fn


def _found(surveyed: Survey, tried: _Tried | None = None, learned: Triangular | None = None) -> Found:
    optima, dim = surveyed.optima, surveyed.optima.dim
    measured = (np.nan,) * 4 if tried is None else tried.judgement.numbers
    searched = (surveyed.num_searches, surveyed.num_lost, surveyed.missing)
    numbers = [*searched, *measured, float(learned is not None), surveyed.num_outside]
    points, values = np.zeros((0, dim)), np.zeros((0,))
    reference = before = blank_mixture(dim)
    states = (points, values, points)
    if tried is not None:
        # The rest is drawn from the latest mixture; what was drawn before stays in use beside it.
        drawn = tried.drawn
        reference, before = drawn.mixtures[-1], drawn.reference
        states = (drawn.position, drawn.log_density, drawn.gradient)
    chart = Triangular.identity(dim) if learned is None else learned
    single = lambda array: jax.device_put(np.asarray(array, np.float32))  # noqa: E731
    return Found(
        single(optima.position),
        single(optima.log_density),
        single(optima.covariance),
        single(optima.local_weight()),
        single(optima.hits),
        single(optima.num_walls),
        single(optima.centre),
        single(numbers),
        chart,
        reference,
        before,
        (single(states[0]), single(states[1]), single(states[2])),
        jax.device_put(np.int32(-1)),
    )
