"""A sampler's records, of which a verdict is made: all well but for what a test changes."""

import dataclasses
from types import SimpleNamespace

from tempering.runs.records import Checks, LevelRecord

CHECKS = {
    "determinants": "exact",
    "pilot_temperature": 64.0,
    "pilot_rhat": 1.1,
    "pilot_is_mixed": True,
    "scout_rhat": 1.1,
    "scout_reach": 256.0,
    "is_running_away": False,
    "num_starts": 200,
    "num_final_draws": 2000,
    "log_z_final": 1.0,
    "log_z_final_error": 0.02,
    "num_evidence": 300.0,
    "hidden_share": 0.002,
    "hidden_error": 0.002,
    "num_hidden": 1,
    "predicted_ess_fraction": 0.7,
}
HOTTEST = LevelRecord(
    0,
    64.0,
    rhat=1.05,
    drift=2.0,
    spread_growth=1.05,
    virial=0.98,
    virial_error=0.03,
    swap_rate=None,
    round_trips=40,
    acceptance=0.6,
)
NEXT = LevelRecord(1, 16.0, swap_rate=0.5, round_trips=40)
LAST = LevelRecord(
    2,
    1.0,
    ess_fraction=0.5,
    predicted_ess_fraction=0.6,
    pareto_k=0.3,
    num_draws=3000,
    log_z=1.03,
    log_z_error=0.02,
)


def sampler_of(checks=None, hottest=None, after=None, last=None, **changes) -> SimpleNamespace:
    """A sampler's records, all well but for what is given."""
    levels = [
        dataclasses.replace(record, **(new or {})) for record, new in ((HOTTEST, hottest), (NEXT, after), (LAST, last))
    ]
    numbers = {
        "ess_fraction": 0.8,
        "pareto_k": 0.2,
        "log_z": 1.0,
        "log_z_error": 0.02,
        "evaluations": 50_000,
        "dim": 165,
        "host": None,
        "modes": (),
    }
    return SimpleNamespace(levels=levels, checks=Checks(**{**CHECKS, **(checks or {})}), **{**numbers, **changes})
