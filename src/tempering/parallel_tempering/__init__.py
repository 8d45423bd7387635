"""MANY betas: ladder, swaps, the run itself, evidence, mixing, and the pilot that finds the hottest temperature."""

from tempering.parallel_tempering.evidence import stepping_stone
from tempering.parallel_tempering.ladder import betas_of, next_temperature, temperatures_of
from tempering.parallel_tempering.pilot.heat import PilotResult, heat
from tempering.parallel_tempering.run import Rules, advance, collect, evenly, run, start
from tempering.parallel_tempering.state import Tally, TemperingState

__all__ = [
    "PilotResult",
    "Rules",
    "Tally",
    "TemperingState",
    "advance",
    "betas_of",
    "collect",
    "evenly",
    "heat",
    "next_temperature",
    "run",
    "start",
    "stepping_stone",
    "temperatures_of",
]
