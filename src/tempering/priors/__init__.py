"""Priors: distributions in a user's words, and the coordinates in which they are the standard normal."""

from tempering.priors.chart import Entry, PriorChart, box_chart, prior_chart
from tempering.priors.distributions import (
    Beta,
    Distribution,
    Exponential,
    Gamma,
    HalfNormal,
    LogNormal,
    Normal,
    StudentT,
    Uniform,
)

__all__ = [
    "Beta",
    "Distribution",
    "Entry",
    "Exponential",
    "Gamma",
    "HalfNormal",
    "LogNormal",
    "Normal",
    "PriorChart",
    "StudentT",
    "Uniform",
    "box_chart",
    "prior_chart",
]
