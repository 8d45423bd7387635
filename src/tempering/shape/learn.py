"""The loop that learns a chart from counted evaluations: short chains, then draws in the chart, weighed, and a refit.

Consumes a target and starting points; produces a chart with all draws that were weighed on the way, and how good it is.
A mode that neither chains nor draws meet is not seen here.
"""

from dataclasses import dataclass, field

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from tempering.adapters import reporting
from tempering.devices import by_row, on_devices
from tempering.kernels.base import ChainState, init
from tempering.kernels.multi_scale import MultiScaleMALA
from tempering.kernels.step_size import guess
from tempering.runs.ledger import Ledger
from tempering.shape.fit import fit_triangular
from tempering.shape.spread import Spread
from tempering.targets.base import Target
from tempering.targets.cost import points_per_gradient, spend
from tempering.transforms.triangular import Triangular
from tempering.types import Array, Float, Key
from tempering.weights.ess import effective_size
from tempering.weights.log_z import log_z_with_tail
from tempering.weights.pareto import pareto_k
from tempering.weights.weigh import weigh

__all__ = ["LearnedShape", "learned_shape"]

STAGE = "shape"
_NUM_CHAINS, _NUM_STEPS = 128, 24
_WIDEST = 30.0
"""The largest step of the chains over the guess from gradients; the smallest is e^-7 of it."""
_STEADY = 0.03
"""log Z that moves less from round to round is settled, if `_LEAST_SIZE` effective points stand behind it."""
_LEAST_SIZE = 200.0
_AGREEING = 0.8
"""Of the share that a round's own draws show, what all points together must confirm."""
_GROWTH = 1.1
_PATIENCE, _HOPE = 2, 5
"""Rounds without growth of the share after which to stop: once log Z is settled, and where it never is. As many, at the
least, are made after log Z has settled once: the chart was not bent before."""
_UNCOVERED = float(np.log(1000.0))
"""log of p / (Z q) at the end of a chain, above which the chart's draws would meet its place too seldom."""


@dataclass(frozen=True)
class LearnedShape:
    """What was learned.

    Args:
        chart: from y, in which the target is nearly standard normal, to the target's coordinates.
        effective_share: of the weights of draws of `Spread.close` in the chart; 0 where chains ended outside its reach.
        is_settled: whether log Z had stopped moving, and all points confirm the share; take the chart only then.
        points: every draw that was weighed, in the target's coordinates; the origin stands for one that is not finite.
        log_weights: theirs, taken as drawn from the mixture of all rounds; -inf where there is no density.
        log_z: of these weights, with its standard error.
        pareto_k: of these weights.
        num_evaluations: what all of it took.
        reason: in words, why it ended and how it went.
    """

    chart: Triangular
    effective_share: float
    is_settled: bool
    points: Float[Array, "point dim"]
    log_weights: Float[Array, " point"]
    log_z: float
    log_z_error: float
    pareto_k: float
    num_evaluations: int
    reason: str


@dataclass
class _Rounds:
    """All draws so far and their density under every round's proposal: `log_qs[round][batch]`."""

    charts: list[Triangular] = field(default_factory=list)
    spreads: list[Spread] = field(default_factory=list)
    points: list[np.ndarray] = field(default_factory=list)
    log_densities: list[np.ndarray] = field(default_factory=list)
    log_qs: list[list[np.ndarray]] = field(default_factory=list)
    shares: list[float] = field(default_factory=list)
    log_zs: list[float] = field(default_factory=list)

    def all_points(self) -> np.ndarray:
        return np.concatenate(self.points)

    def log_q(self, number: int) -> np.ndarray:
        return np.concatenate(self.log_qs[number])

    def log_weights(self) -> np.ndarray:
        """Of all points, with the mean of all proposals below the bar (the balance heuristic of Veach and Guibas)."""
        log_q = np.logaddexp.reduce([self.log_q(number) for number in range(len(self.charts))], axis=0)
        log_density = np.concatenate(self.log_densities)
        is_usable = np.isfinite(log_density) & np.isfinite(log_q)
        return np.where(is_usable, log_density, -np.inf) - np.where(is_usable, log_q - np.log(len(self.charts)), 0.0)


def learned_shape(
    key: Key,
    target: Target,
    start_points: Float[Array, "start dim"],
    ledger: Ledger,
    most_evaluations: int,
) -> LearnedShape:
    """A chart in which one reference suffices, learned with at most `most_evaluations` of the ledger's evaluations.

    Chains of many step sizes run from the starting points, only to show what the density looks like near them; they
    need not have mixed. Each round then draws from the chart of all rounds before, weighs, and fits again. A chart that
    is right near the start goes on being right beyond it where the density has the chart's form, so that rounds
    reach further and further into a funnel's neck or along a valley.

    Args:
        start_points: in the target's coordinates, where its density is finite. The first 128 at the most are used. Put
            known optima among them: a chain that stays at one is what speaks against a chart that leaves it out.
    """
    key_chains, key_draws = jax.random.split(key)
    dim, each = target.dim, points_per_gradient(target)
    batch = min(1000 + 50 * dim, max(most_evaluations // (8 * each), 1))
    num_chains = min(_NUM_CHAINS, max(most_evaluations // (6 * each * (_NUM_STEPS + 1)), 1))
    at_hand = most_evaluations - num_chains * (_NUM_STEPS + 1) * each
    if at_hand < batch * each:
        return _nothing(
            target, f"{most_evaluations:,} evaluations are too few for chains and a round of {batch:,} draws"
        )
    path = _run_chains(key_chains, target, jnp.asarray(start_points), num_chains, ledger)
    seen, ends, end_values = _second_half(path)
    if len(seen) < 2:
        return _nothing(target, "no chain met a finite density", num_chains * (_NUM_STEPS + 1) * each)
    chart = fit_triangular(seen, np.zeros(len(seen)), is_bent=False)
    rounds, is_close, is_steady, num_close, why = _Rounds(), False, False, 0, "the evaluations given to it were used"
    num_rounds = at_hand // (batch * each)
    for number in range(num_rounds):
        spread = Spread.close(dim) if is_close else Spread.wide(dim)
        _draw(jax.random.fold_in(key_draws, number), target, chart, spread, batch, rounds, ledger)
        is_steady = _note_log_z(rounds)
        stalled = _rounds_without_growth(rounds.shares)
        num_close += is_close
        if is_steady and is_close and min(stalled, num_close) >= _PATIENCE:
            why = "the effective share stopped growing"
            break
        if not is_steady and stalled >= _HOPE:
            why = f"the effective share did not grow in {_HOPE} rounds"
            break
        if number + 1 < num_rounds and np.any(np.isfinite(rounds.log_weights())):
            has_settled = is_steady or num_close > 0
            chart = fit_triangular(rounds.all_points(), rounds.log_weights(), is_bent=has_settled)
        is_close = is_steady
    spent = (num_chains * (_NUM_STEPS + 1) + len(rounds.charts) * batch) * each
    return _judged(rounds, ends, end_values, spent, why, is_settled=is_steady)


def _run_chains(key: Key, target: Target, starts: Array, num: int, ledger: Ledger) -> ChainState:
    """States of all steps, (step, chain)."""
    positions = starts[jnp.arange(num) % starts.shape[0]]
    spend(ledger, STAGE, target, num * (_NUM_STEPS + 1))
    with reporting(target):
        return jax.block_until_ready(_chains(key, target, positions))


@on_devices
def _chains(key: Key, target: Target, positions: Float[Array, "chain dim"]) -> ChainState:
    kernel, beta = MultiScaleMALA(), jnp.ones(())
    states = by_row(lambda position: init(position, target))(positions)
    is_finite = jnp.all(jnp.isfinite(states.log_density_grad), axis=1, keepdims=True)
    gradients = jnp.where(is_finite, states.log_density_grad, jnp.inf)
    step_size = jnp.maximum(_WIDEST * guess(gradients, beta[None], kernel.scale_power)[0], 1e-12)

    def advance(states: ChainState, key: Key) -> tuple[ChainState, ChainState]:
        keys = jax.random.split(key, positions.shape[0])
        step = lambda key, state: kernel.step(key, state, target, beta=beta, step_size=step_size)[0]  # noqa: E731
        states = by_row(step)(keys, states)
        return states, states

    return jax.lax.scan(advance, states, jax.random.split(key, _NUM_STEPS))[1]


def _second_half(path: ChainState) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Every second state of the later half; the last states with their log densities. Finite ones only."""
    positions, values = np.asarray(path.position), np.asarray(path.log_density)
    late, late_values = positions[_NUM_STEPS // 2 :: 2], values[_NUM_STEPS // 2 :: 2]
    is_end = np.isfinite(values[-1])
    return late[np.isfinite(late_values)], positions[-1][is_end], values[-1][is_end]


@eqx.filter_jit
def _drawn(key: Key, chart: Triangular, spread: Spread, num: int) -> Float[Array, "num dim"]:
    return jax.vmap(chart.embed)(spread.sample(key, num))


@eqx.filter_jit
def _log_q(chart: Triangular, spread: Spread, points: Float[Array, "point dim"]) -> Float[Array, " point"]:
    """Of draws of `spread` in the chart, as a density of the target's coordinates."""

    def one(x: Array) -> Array:
        y = chart.restrict(x)
        value = spread.log_density(y) - chart.log_volume(y)
        return jnp.where(jnp.isfinite(value), value, -jnp.inf)

    return jax.vmap(one)(points)


def _draw(
    key: Key, target: Target, chart: Triangular, spread: Spread, num: int, rounds: _Rounds, ledger: Ledger
) -> None:
    """One round: draw, weigh, and complete the table of all points under all proposals."""
    x = _drawn(key, chart, spread, num)
    log_q = _log_q(chart, spread, x)
    weighted = weigh(target, x, log_q, jnp.ones(()), ledger=ledger, stage=STAGE)
    is_usable = np.isfinite(np.asarray(weighted.log_weights))
    log_density = np.where(is_usable, np.asarray(weighted.states.log_density, np.float64), -np.inf)
    earlier = [_log_q(chart, spread, jnp.asarray(points)) for points in rounds.points]
    for row, (old_chart, old_spread) in zip(
        rounds.log_qs, zip(rounds.charts, rounds.spreads, strict=True), strict=True
    ):
        row.append(np.asarray(_log_q(old_chart, old_spread, x), np.float64))
    rounds.charts.append(chart)
    rounds.spreads.append(spread)
    rounds.points.append(np.asarray(x))
    rounds.log_densities.append(log_density)
    rounds.log_qs.append([np.asarray(values, np.float64) for values in [*earlier, log_q]])
    rounds.shares.append(weighted.ess_fraction)


def _note_log_z(rounds: _Rounds) -> bool:
    """Enter log Z of all draws so far; whether it has settled."""
    log_weights = rounds.log_weights()
    highest = np.max(log_weights)
    if not np.isfinite(highest):
        rounds.log_zs.append(-np.inf)
        return False
    weights = np.exp(log_weights - highest)
    rounds.log_zs.append(float(np.log(np.mean(weights)) + highest))
    if len(rounds.log_zs) < 2 or effective_size(weights / np.sum(weights)) < _LEAST_SIZE:
        return False
    has_settled = abs(rounds.log_zs[-1] - rounds.log_zs[-2]) < _STEADY
    return has_settled and _predicted_share(rounds, len(rounds.charts) - 1) > _AGREEING * rounds.shares[-1]


def _predicted_share(rounds: _Rounds, number: int) -> float:
    """1 / E_p[p / q] of a round's proposal q, by all weighted points: they know of tails that its own draws missed."""
    log_weights = rounds.log_weights()
    has_weight, log_density = np.isfinite(log_weights), np.concatenate(rounds.log_densities)
    normalised = log_weights - np.logaddexp.reduce(log_weights)
    # A proposal that has no density at a point with weight makes the share zero.
    log_ratios = np.where(has_weight, log_density, 0.0) - np.maximum(rounds.log_q(number), -1e30)
    log_ratios = np.where(has_weight, log_ratios - rounds.log_zs[-1], 0.0)
    return float(min(np.exp(-np.logaddexp.reduce(normalised + log_ratios)), 1.0))


def _rounds_without_growth(shares: list[float]) -> int:
    """Since the last round whose share was a tenth above all before."""
    best, since = 0.0, 0
    for share in shares:
        since = 0 if share > _GROWTH * best else since + 1
        best = max(best, share)
    return since


def _judged(
    rounds: _Rounds, ends: np.ndarray, end_values: np.ndarray, spent: int, why: str, *, is_settled: bool
) -> LearnedShape:
    """The chart whose draws would weigh most evenly by all weighted points, and what chains say against it."""
    log_weights, points = rounds.log_weights(), rounds.all_points()
    if not np.any(np.isfinite(log_weights)):
        return _nothing_of(rounds.charts[0], "no draw met a finite density", spent)
    log_z, log_z_error = log_z_with_tail(log_weights)
    shares = [_predicted_share(rounds, number) for number in range(len(rounds.charts))]
    best = int(np.argmax(shares))
    chart, share = rounds.charts[best], shares[best]
    log_q_ends = np.asarray(_log_q(chart, rounds.spreads[best], jnp.asarray(ends)), np.float64)
    num_outside = int(np.sum(end_values - log_q_ends - log_z > _UNCOVERED))
    k = pareto_k(log_weights)
    reason = f"{why}: {share:.2f} after {len(rounds.charts)} rounds and {spent:,} evaluations, k {k:.2f}"
    if not is_settled:
        reason += "; log Z has not settled"
    if num_outside:
        share = 0.0
        reason += f"; {num_outside} of {len(ends)} chains ended where the chart does not reach: probably another mode"
    return LearnedShape(
        chart,
        share,
        is_settled and num_outside == 0,
        jnp.asarray(np.where(np.all(np.isfinite(points), axis=1, keepdims=True), points, 0.0)),
        jnp.asarray(log_weights, jnp.float32),
        log_z,
        log_z_error,
        k,
        spent,
        reason,
    )


def _nothing(target: Target, reason: str, spent: int = 0) -> LearnedShape:
    return _nothing_of(Triangular.identity(target.dim), reason, spent)


def _nothing_of(chart: Triangular, reason: str, spent: int) -> LearnedShape:
    """No chart to speak of, and why."""
    none = float("nan")
    empty = jnp.zeros((0, chart.dim)), jnp.zeros((0,))
    return LearnedShape(chart, 0.0, False, *empty, none, none, none, spent, reason)
