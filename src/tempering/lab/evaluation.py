"""A sampler judged: draws against exact samples, every number beside its floor. Evaluations count as metrics, apart."""

import dataclasses
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from tempering.kernels import MALA
from tempering.lab.many_draws import many_dihedrals
from tempering.lab.metrics import Metric, evaluate_samples, molecule_metrics
from tempering.lab.metrics.suite import log_densities
from tempering.molecules import MoleculeTarget
from tempering.parallel_tempering import Rules, run, start
from tempering.runs.config import MetricsConfig
from tempering.runs.ledger import Ledger
from tempering.sampler import Sampler
from tempering.targets import ExactTarget, Inner
from tempering.targets.base import Target
from tempering.types import Array, Event, Float, Key, OnEvent, ignore_event
from tempering.weights.ess import ess_fraction

__all__ = ["judge", "langevin"]

_GRID = 160
"""Points a side of the density picture in two dimensions."""


def judge(
    sampler: Sampler,
    key: Key,
    config: MetricsConfig,
    on_event: OnEvent = ignore_event,
    *,
    trusted: np.ndarray | None = None,
    evaluates: bool = True,
) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Metrics by name, JSON-ready, and the arrays that figures need.

    Consumes the sampler with its target; enters what it evaluates in the sampler's ledger under `metrics`.

    Args:
        trusted: reference samples of a target that has no exact ones; twice `config.num_samples` are used if there are.
        evaluates: whether figures may evaluate the density, which a user may pay for.
    """
    target = sampler.target
    key_draw, key_reference, key_second, key_weights, key_likelihood = jax.random.split(key, 5)

    def tell(name: str, done: int, total: int) -> None:
        spent = sampler.evaluations
        on_event(Event(f"metrics: {name}", len(sampler.levels) - 1, len(sampler.levels), done, total, spent, spent))

    tell("draws", 0, 1)
    draws = sampler.inner_draws(key_draw, config.num_samples, "metrics")
    arrays: dict[str, np.ndarray] = {"draws": sampler.outer(draws)}
    metrics: dict[str, Metric] = {}
    outer = target.target if isinstance(target, Inner) else target
    sets: list[np.ndarray] = []
    if isinstance(target, ExactTarget):
        sets = [np.asarray(target.sample(k, config.num_samples)) for k in (key_reference, key_second)]
        metrics |= _likelihood(sampler, key_likelihood, jnp.asarray(sets[0][: config.num_likelihood]))
    elif trusted is not None:
        sets = [part for part in np.split(trusted[: 2 * config.num_samples], [config.num_samples]) if len(part) > 3]
        tell("likelihood", 0, 1)
        metrics |= _trusted_likelihood(sampler, sets[0][: config.num_likelihood])
        if config.num_ramachandran and isinstance(outer, MoleculeTarget):
            metrics |= many_dihedrals(sampler, outer, jax.random.fold_in(key, 6), config, trusted, tell)
    with ThreadPoolExecutor(1) as beside:
        # Transport keeps the host busy, draws with their densities the device.
        drawn = None
        if config.num_weighted and sampler.has_weights:
            drawn = beside.submit(sampler.proposed, key_weights, config.num_weighted)
        if sets:
            arrays["reference"] = sets[0]
            metrics |= _compared(sampler, outer, arrays["draws"], sets, config, tell)
            if config.num_langevin:
                tell("Langevin steps", 0, 1)
                moved, num_replaced = langevin(
                    jax.random.fold_in(key, 5), target, draws, config.num_langevin, sampler.ledger
                )
                arrays["moved"] = sampler.outer(moved)
                remark = f"; after {config.num_langevin:,} Langevin steps on the draws"
                if num_replaced:
                    remark += f", {num_replaced:,} of which had no usable density and were replaced by others"
                compared = _compared(sampler, outer, arrays["moved"], sets, config, tell)
                metrics |= _named(compared, "langevin", remark)
    for name in ("draws", "reference"):
        if name in arrays and evaluates:
            sampler.ledger.spend("metrics", arrays[name].shape[0], with_gradient=False)
            arrays[f"{name}_log_density"] = _log_densities(outer, arrays[name])
    if drawn is not None:
        tell("weights", 0, 1)
        weighted = sampler.weigh_proposed(drawn.result(), "metrics")
        arrays["log_weights"] = np.asarray(weighted.log_weights)
        metrics |= _weight_metrics(target, weighted.ess_fraction, weighted.log_z, config.num_weighted)
        if sets and isinstance(outer, MoleculeTarget):
            metrics |= _reweighted(outer, sampler.outer(weighted.states.position), arrays["log_weights"], sets)
    if sampler.dim == 2 and sampler.geometry is None and evaluates:
        arrays |= _grid(sampler, target, arrays)
    return {name: metric.as_dict() for name, metric in metrics.items()}, arrays


def _compared(sampler: Sampler, target: Target, draws: np.ndarray, sets: list[np.ndarray], config: MetricsConfig, tell):
    """Every metric of draws against one set of trusted samples; a second one is for the floors."""
    report = evaluate_samples(
        target,
        draws,
        reference=sets[0],
        reference_second=sets[1] if len(sets) > 1 else None,
        num_transport=config.num_transport,
        paper_compatible=config.is_paper_compatible,
        on_metric=tell,
    )
    sampler.ledger.spend("metrics", report.num_evaluations, with_gradient=False)
    return report.metrics


def _reweighted(
    target: MoleculeTarget, draws: np.ndarray, log_weights: np.ndarray, sets: list[np.ndarray]
) -> dict[str, Metric]:
    """Metrics of the first weighted draws, as many as there are trusted samples to take their part in the floors.

    More would leave fewer bins empty than the floor has, and pass for better than exact samples. The floor is that of
    as many exact samples, not of the fewer that the weights are worth: what is lost by weighting must show. Populations
    of rare modes, which come with errors of their own, are those of all draws.
    """
    second = sets[1] if len(sets) > 1 else None
    most = len(sets[0]) // 2 if second is None else len(second)

    def of_first(num: int) -> dict[str, Metric]:
        own = log_weights[:num]
        if not np.any(np.isfinite(own)):
            return {}
        worth = num * float(ess_fraction(jnp.asarray(own)))
        found = molecule_metrics(target, draws[:num], sets[0], reference_second=second, log_weights=own)
        remark = f"; of {num:,} weighted draws, worth {worth:,.0f} equal ones; floor: {min(num, most):,} exact samples"
        return _named(found, "reweighted", remark)

    metrics = of_first(min(len(draws), most))
    if len(draws) > most:
        metrics |= {name: metric for name, metric in of_first(len(draws)).items() if name.startswith("rare_mode")}
    return metrics


def _named(metrics: dict[str, Metric], ending: str, remark: str) -> dict[str, Metric]:
    return {
        f"{name}_{ending}": dataclasses.replace(
            metric, name=f"{name}_{ending}", description=metric.description + remark
        )
        for name, metric in metrics.items()
    }


def langevin(
    key: Key, target: Target, draws: Float[Array, "particle dim"], num_steps: int, ledger: Ledger
) -> tuple[Float[Array, "particle dim"], int]:
    """Draws moved by Langevin steps with a Metropolis correction, one chain a draw: num_steps + 1 evaluations each.

    The first half of the steps adapts their size. It fixes energies, which are local, and not the weights of modes.

    Returns:
        The points, and how many draws had no usable density and were replaced by others before the first step.
    """
    key_start, key_run = jax.random.split(key)
    kernel, betas = MALA(), jnp.ones((1,))
    state, num_replaced = start(key_start, target, kernel, draws[None], betas, ledger, "metrics")
    rules = Rules.of(kernel.optimal_acceptance, 1, num_steps // 2, "even_odd")
    _, kept = run(
        key_run, target, kernel, state, betas, rules, burn_in=num_steps - 1, num_draws=1, thin=1, ledger=ledger,
        stage="metrics",
    )  # fmt: skip
    return kept.position[0, 0], num_replaced


def _log_densities(target: Target, points: np.ndarray) -> np.ndarray:
    return np.asarray(log_densities(target, jnp.asarray(points, jnp.float32)))


def _likelihood(sampler: Sampler, key: Key, reference) -> dict[str, Metric]:
    """Mean log likelihood of exact samples; the floor is what the normalised target itself gives them."""
    num = reference.shape[0]
    if num == 0:
        return {}
    values = sampler.inner_log_prob(key, reference)
    if values is None:
        return {}
    log_q = np.asarray(values, np.float64)
    sampler.ledger.spend("metrics", num, with_gradient=False)
    exact = _log_densities(sampler.target, np.asarray(reference)).astype(np.float64) - sampler.target.log_z()
    floor = {"floor": float(np.mean(exact)), "num_floor": num, "floor_source": "the normalised target"}
    return _likelihoods(log_q, "exact samples", "floor: the target's own", floor)


def _trusted_likelihood(sampler: Sampler, reference: np.ndarray) -> dict[str, Metric]:
    """The same of reference samples, where there are no exact ones: E_p[log q], of the density in user's coordinates.

    It has no floor: that would be minus the entropy of the target, which nobody knows. A sampler with more is closer:
    the difference of two is that of their KL(p || q).
    """
    if len(reference) == 0:
        return {}
    of_what = "by the volume of centred configurations" if sampler.geometry is not None else "in its own coordinates"
    log_q = np.asarray(sampler.log_prob(reference), np.float64)
    return _likelihoods(log_q, "reference samples", f"{of_what}; no floor is known", {"floor": None})


def _likelihoods(log_q: np.ndarray, whose: str, remark: str, floor: dict[str, Any]) -> dict[str, Metric]:
    """The mean and the median: one sample that the model all but excludes decides the mean alone."""
    num, num_bad = len(log_q), int(np.sum(~np.isfinite(log_q)))
    error = float(np.std(log_q) / np.sqrt(num))
    how = {"unit": "nats", "smaller_is_better": False, "num_samples": num}
    failure = f"{num_bad} of {num} log likelihoods are not finite" if num_bad else None
    mean = Metric(
        "log_likelihood",
        float(np.mean(log_q)),
        description=f"mean log likelihood of {whose} (standard error {error:.3f}); {remark}",
        failure=failure,
        **how,
        **floor,
    )
    median = Metric(
        "log_likelihood_median",
        float(np.median(log_q)),
        description=f"median log likelihood of {whose}: what the mean is without the few that decide it",
        failure=failure,
        floor=None,
        **how,
    )
    return {"log_likelihood": mean, "log_likelihood_median": median}


def _weight_metrics(target: Target, ess: float, log_z: tuple[float, float], num: int) -> dict[str, Metric]:
    metrics = {
        "ess_fraction": Metric(
            "ess_fraction",
            ess,
            floor=1.0,
            unit="",
            description="effective share of the final model's raw importance weights",
            smaller_is_better=False,
            num_samples=num,
            floor_source="exact samples",
        )
    }
    if isinstance(target, ExactTarget):
        metrics["log_z_error"] = Metric(
            "log_z_error",
            abs(log_z[0] - target.log_z()),
            floor=None,
            unit="nats",
            description=f"absolute error of log Z from these weights (their own standard error: {log_z[1]:.3f})",
            num_samples=num,
        )
    return metrics


def _grid(sampler: Sampler, target: Target, arrays: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Log density on a square grid over the samples, for the picture of a 2-D target."""
    points = arrays.get("reference", arrays["draws"])
    points = points[np.all(np.isfinite(points), axis=1)]
    low, high = points.min(axis=0), points.max(axis=0)
    margin = 0.08 * (high - low) + 1e-6
    x, y = (np.linspace(low[i] - margin[i], high[i] + margin[i], _GRID, dtype=np.float32) for i in (0, 1))
    mesh = np.stack(np.meshgrid(x, y), axis=-1).reshape(-1, 2)
    sampler.ledger.spend("metrics", mesh.shape[0], with_gradient=False)
    return {"grid_x": x, "grid_y": y, "grid_log_density": _log_densities(target, mesh).reshape(_GRID, _GRID)}
