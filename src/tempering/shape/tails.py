"""Skew and tails of one standardised coordinate: a sinh-arcsinh map that makes it normal, where it is not."""

import numpy as np

__all__ = ["Bend", "fit_bend"]

Bend = tuple[float, float, float, float]
"""shift, skew, log tail, log width: v = e^{log width} (shift + sinh(e^{log tail} asinh(z) + skew)) for normal z."""

STRAIGHT: Bend = (0.0, 0.0, 0.0, 0.0)
_BOUNDS = ((-2.0, 2.0), (-1.0, 1.0), (-0.7, 0.7), (-1.5, 1.5))
_PRIOR = np.array([0.0, 40.0, 40.0, 0.0])
"""Precisions: skew and log tail are of order 0.5, known as if from ten points."""


def fit_bend(values: np.ndarray, weights: np.ndarray) -> Bend:
    """Maximum likelihood; straight where bending gains less than its parameters cost (BIC, and two nats)."""
    from scipy.optimize import minimize

    def loss(parameters: np.ndarray) -> float:
        shift, skew, log_tail, log_width = parameters
        angle = np.arcsinh(values * np.exp(-log_width) - shift)
        normal = np.sinh(np.clip((angle - skew) * np.exp(-log_tail), -30.0, 30.0))
        log_cosh = np.logaddexp(angle, -angle) - np.log(2.0)
        log_slope = log_width + log_tail + log_cosh - 0.5 * np.log1p(normal**2)
        terms = 0.5 * np.minimum(normal**2, 1e4) + log_slope
        return float(weights @ terms + 0.5 * _PRIOR @ parameters**2)

    straight = np.zeros(4)
    found = minimize(loss, straight, method="L-BFGS-B", bounds=_BOUNDS)
    cost = np.log(np.sum(weights)) + 2.0
    if not np.isfinite(found.fun) or loss(straight) - found.fun < cost:
        return STRAIGHT
    shift, skew, log_tail, log_width = (float(value) for value in found.x)
    return shift, skew, log_tail, log_width
