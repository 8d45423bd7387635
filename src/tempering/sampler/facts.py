"""A sampler in JSON: everything of it but the arrays."""

import dataclasses
from typing import Any

from tempering.runs.records import finite_or_none
from tempering.settings.changes import plain

__all__ = ["FORMAT", "facts_of"]

FORMAT = "tempering sampler 3"
"""Of sampler.json: what `load` reads."""


def facts_of(sampler) -> dict[str, Any]:
    """Everything but the arrays, JSON-ready."""
    chart, geometry, settings = sampler.chart, sampler.geometry, sampler.settings
    weighed = sampler.weighed
    return {
        "format": FORMAT,
        "method": sampler.method,
        "dim": sampler.dim,
        "geometry": None if geometry is None else geometry.as_dict(),
        "chart": None if chart is None or geometry is not None else chart.as_dict(),
        "structure": None if sampler.structure is None else sampler.structure.as_dict(),
        "network": sampler.network and dataclasses.asdict(sampler.network),  # a baseline has none of them
        "process": _process(sampler),
        "sampling": sampler.sampling and dataclasses.asdict(sampler.sampling),
        "settings": settings and {"kind": type(settings).__name__, **plain(settings)},
        "levels": [record.as_dict() for record in sampler.levels],
        "ledger": sampler.ledger.as_dict(),
        "log_z": None if sampler.log_z is None else finite_or_none(sampler.log_z),
        "log_z_error": None if sampler.log_z_error is None else finite_or_none(sampler.log_z_error),
        "ess_fraction": sampler.ess_fraction,
        "pareto_k": None if sampler.pareto_k is None else finite_or_none(sampler.pareto_k),
        "weighed": None if weighed is None else weighed.as_dict(),
        "checks": sampler.checks.as_dict(),
        "host": None if sampler.host is None else sampler.host.as_dict(),
        "modes": [mode.as_dict() for mode in sampler.modes],
        "verdict": sampler.diagnose().as_dict(),
    }


def _process(sampler) -> dict[str, float] | None:
    """The clock of a variance-preserving process; None for the variance-exploding one, and for a baseline."""
    process = None if sampler.sampling is None else sampler.model.levels.process
    return None if process is None else {"beta_min": process.beta_min, "beta_max": process.beta_max}
