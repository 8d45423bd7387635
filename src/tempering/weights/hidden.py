"""When a point is hidden from a proposal: its weight is beyond everything that the proposal's own draws have."""

import math

import numpy as np

__all__ = ["HIDDEN_MARGIN", "HIDDEN_RATIO", "hidden_limit"]

HIDDEN_RATIO, HIDDEN_MARGIN = math.log(10.0), math.log(2.0)
"""A point is hidden if its weight is twice the largest of the proposal's own draws, and twenty times the mean."""


def hidden_limit(own_log_ratios: np.ndarray) -> float:
    """log p - log q - log Z beyond which a point is hidden from a q whose own draws have these."""
    own = own_log_ratios[np.isfinite(own_log_ratios)]
    return max(float(np.max(own, initial=-np.inf)), HIDDEN_RATIO) + HIDDEN_MARGIN
