"""The first stage of a run: an atlas of modes, and whether the path may start from what it shows."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from tempering.atlas.adapt import Drawn, adapted
from tempering.atlas.judge import Judgement, judge
from tempering.atlas.mixture import StudentMixture
from tempering.atlas.optima import Optima
from tempering.atlas.survey import Survey, survey
from tempering.kernels import Kernel, kernel_of
from tempering.methods.budget import default_budget
from tempering.parallel_tempering.initial import StartFn
from tempering.runs.checkpoint import Journal
from tempering.runs.ledger import Ledger
from tempering.runs.records import Checks, finite_or_none
from tempering.settings import MethodSettings
from tempering.targets import Target
from tempering.targets.cost import has_gradient, points_per_gradient
from tempering.types import Array, Float, Key

__all__ = ["Found", "Tell", "find_modes", "has_atlas"]

Tell = Callable[..., None]
"""Reports progress: stage, level, what is done and in all, and readings by name."""

_LARGEST_DIM = 256
"""Second derivatives are as many evaluations for every optimum, and their square is kept."""
_SEARCH_SHARE, _DRAW_SHARE, _REFEREE_SHARE = 0.8, 0.08, 0.12
"""Of the atlas's evaluations: for searches, for rounds of draws together, for the referee."""
_MOST_ROUNDS, _LEAST_DRAWS, _MOST_DRAWS = 4, 250, 2000
_MOST_CHAINS, _LEAST_CHAINS, _LEAST_STEPS = 48, 8, 24
_SEED_RANGE = 2**31 - 1


class Found(eqx.Module):
    """What the atlas has found, as arrays, so that it can be kept.

    Args:
        position, log_density, covariance, weight, hits: of the optima.
        reference: what the density is to be drawn from; without components where the temperature path is taken.
        before, drawn: what points that are evaluated already are draws of, and these: place, log density, gradient.
        numbers: searches, searches lost, the chance of another optimum, share, Pareto k, hidden share, p-value.
    """

    position: Float[Array, "optimum dim"]
    log_density: Float[Array, " optimum"]
    covariance: Float[Array, "optimum dim dim"]
    weight: Float[Array, " optimum"]
    hits: Float[Array, " optimum"]
    numbers: Float[Array, " seven"]
    reference: StudentMixture
    before: StudentMixture
    drawn: tuple[Float[Array, "point dim"], Float[Array, " point"], Float[Array, "point dim"]]

    @property
    def has_reference(self) -> bool:
        """Whether the path starts from the modes."""
        return self.reference.log_weight.shape[0] > 0

    @property
    def share(self) -> float:
        """Effective share of the reference's latest draws."""
        return float(self.numbers[3])

    def checks(self, checks: Checks) -> Checks:
        """The same checks with the numbers of the atlas."""
        values = [finite_or_none(number) for number in np.asarray(self.numbers)]
        names = ("num_searches", "num_lost", "missing", "share", "pareto_k", "hidden", "p_value")
        own: dict[str, Any] = {f"atlas_{name}": value for name, value in zip(names, values, strict=True)}
        own |= {"num_optima": len(self.log_density), "path": "reference" if self.has_reference else "temperature"}
        return Checks.from_dict(checks.as_dict() | own)


def has_atlas(settings: MethodSettings, target: Target) -> bool:
    """Whether modes are searched for."""
    ladder = settings.ladder
    is_given = ladder.temperatures is not None or ladder.hottest is not None
    is_fit = has_gradient(target) and target.geometry is None and target.dim <= _LARGEST_DIM
    return settings.atlas.share > 0 and settings.is_sized_by_budget and not is_given and is_fit


def find_modes(
    key: Key, target: Target, settings: MethodSettings, start_fn: StartFn, journal: Journal, tell: Tell
) -> Found:
    """Search uphill, make a reference of the optima, and let a referee judge it; or find it kept.

    Args:
        start_fn: the user's starting points.
    """
    blank = _found(Survey(Optima(target.dim)), None, None)
    search = lambda: _search(key, target, settings, start_fn, journal.ledger, tell)  # noqa: E731
    return journal.part(0, "atlas", blank, search)


def _search(key: Key, target: Target, settings: MethodSettings, start_fn: StartFn, ledger: Ledger, tell: Tell) -> Found:
    key_search, key_draw, key_judge, key_start = jax.random.split(key, 4)
    each, kernel = points_per_gradient(target), kernel_of(settings.exploration, target.dim)
    budget = (ledger.budget or default_budget(target.dim) * each) // each
    affordable = int(settings.atlas.share * budget)
    seed = int(jax.random.randint(key_search, (), 0, _SEED_RANGE))
    points = np.asarray(start_fn(key_start, 256), np.float64)
    surveyed = survey(
        seed,
        target,
        ledger,
        int(_SEARCH_SHARE * affordable) * each,
        scale=settings.initial.scale,
        own_fn=_about(points),
        on_look=lambda done, total: tell("searching for modes", 0, ledger.total, affordable * each),
    )
    path, has_any = settings.atlas.path, len(surveyed.optima) > 0
    is_wanted = path == "reference" or (path == "automatic" and surveyed.is_closed)
    if not (is_wanted and has_any and settings.network.is_shared):  # there may be one level only, of one network
        return _found(surveyed, None, None)
    num = int(np.clip(_DRAW_SHARE * affordable / 2, min(_LEAST_DRAWS, affordable // 20), _MOST_DRAWS))
    drawn = adapted(
        key_draw,
        target,
        surveyed.optima,
        num,
        _MOST_ROUNDS,
        ledger,
        on_round=lambda index, share: tell("drawing from the modes", 0, index + 1, _MOST_ROUNDS, ess_fraction=share),
    )
    if not np.any(np.isfinite(drawn.log_weights())):
        return _found(surveyed, None, None)
    chains, steps = _walks(int(_REFEREE_SHARE * affordable), kernel)
    judgement = judge(key_judge, target, kernel, surveyed.optima, drawn, start_fn, chains, steps, ledger)
    is_taken = path == "reference" or judgement.is_usable
    return _found(surveyed, drawn, judgement, is_taken=is_taken)


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


def _found(surveyed: Survey, drawn: Drawn | None, judgement: Judgement | None, *, is_taken: bool = False) -> Found:
    optima, dim = surveyed.optima, surveyed.optima.dim
    numbers = [surveyed.num_searches, surveyed.num_lost, surveyed.missing]
    numbers += (
        [np.nan] * 4
        if judgement is None
        else [
            judgement.share,
            judgement.pareto_k,
            judgement.hidden_share,
            judgement.p_value,
        ]
    )
    points, matrices, values = jnp.zeros((0, dim)), jnp.zeros((0, dim, dim)), jnp.zeros((0,))
    reference = before = StudentMixture(values, points, matrices, matrices, values)
    states = (points, values, points)
    if drawn is not None and is_taken:
        # The rest is drawn from the latest mixture; what was drawn before stays in use beside it.
        reference, before = drawn.mixtures[-1], drawn.reference
        states = (drawn.position, drawn.log_density, drawn.gradient)
    arrays = (optima.position, optima.log_density, optima.covariance, optima.local_weight(), optima.hits, numbers)
    own = (jnp.asarray(np.asarray(array, np.float32)) for array in arrays)
    return Found(*own, reference, before, tuple(jnp.asarray(np.asarray(a, np.float32)) for a in states))
