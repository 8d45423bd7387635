"""Skew and tails of one standardised coordinate: a sinh-arcsinh map that makes it normal, where it is not."""

import numpy as np

__all__ = ["STRAIGHT", "Bend", "fit_bend", "misfit", "straightened"]

Bend = tuple[float, float, float, float]
"""shift, skew, log tail, log width: v = e^{log width} (shift + sinh(e^{log tail} asinh(z) + skew)) for normal z."""

STRAIGHT: Bend = (0.0, 0.0, 0.0, 0.0)
_BOUNDS = np.array([2.0, 1.0, 0.7, 1.5])
_NUM_NEWTON = 20
_PRIOR = np.array([0.0, 40.0, 40.0, 0.0])
"""Precisions: skew and log tail are of order 0.5, known as if from ten points."""


def fit_bend(values: np.ndarray, weights: np.ndarray) -> Bend:
    """Maximum likelihood; straight where bending gains less than its parameters cost (BIC, and two nats)."""
    num = np.sum(weights)
    cost = np.log(num) + 2.0
    if _promise(values, weights) < cost:
        return STRAIGHT
    here, loss = np.zeros(4), _loss(np.zeros(4), values, weights)
    straight, damping = loss, 1.0
    for _ in range(_NUM_NEWTON):
        gradient, hessian = _derivatives(here, loss, values, weights)
        for _ in range(6):
            step = np.linalg.solve(hessian + damping * np.diag(np.maximum(np.diag(hessian), num)), -gradient)
            moved = np.clip(here + step, -_BOUNDS, _BOUNDS)
            new_loss = _loss(moved, values, weights)
            if new_loss < loss:
                break
            damping *= 4.0
        else:
            break
        here, gain, loss, damping = moved, loss - new_loss, new_loss, damping / 8.0
        if gain < 0.05:
            break
    if straight - loss < cost:
        return STRAIGHT
    shift, skew, log_tail, log_width = (float(value) for value in here)
    return shift, skew, log_tail, log_width


def _promise(values: np.ndarray, weights: np.ndarray) -> float:
    """Nats that skewness and kurtosis promise: half the statistic of Jarque and Bera."""
    share = weights / np.sum(weights)
    centred = values - share @ values
    variance = share @ centred**2
    if variance < 1e-12:
        return 0.0
    skewness, excess = share @ centred**3 / variance**1.5, share @ centred**4 / variance**2 - 3.0
    return float(np.sum(weights) * (skewness**2 / 12.0 + excess**2 / 48.0))


def straightened(values: np.ndarray, bend: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The z that a bend leads to these values from, and the logarithms of its slopes there.

    Args:
        bend: four numbers, or four rows with one column for every column of `values`.
    """
    shift, skew, log_tail, log_width = bend
    angle = np.arcsinh(values * np.exp(-log_width) - shift)
    normal = np.sinh(np.clip((angle - skew) * np.exp(-log_tail), -30.0, 30.0))
    log_cosh = np.logaddexp(angle, -angle) - np.log(2.0)
    return normal, log_width + log_tail + log_cosh - 0.5 * np.log1p(normal**2)


def misfit(bend: np.ndarray, values: np.ndarray, weights: np.ndarray) -> float:
    """Negative log likelihood without constants."""
    normal, log_slope = straightened(values, bend)
    return float(weights @ (0.5 * np.minimum(normal**2, 1e4) + log_slope))


def _loss(parameters: np.ndarray, values: np.ndarray, weights: np.ndarray) -> float:
    """The same and the prior's."""
    return misfit(parameters, values, weights) + 0.5 * float(_PRIOR @ parameters**2)


def _derivatives(
    here: np.ndarray, loss: float, values: np.ndarray, weights: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Gradient and Hessian by differences: four numbers, where a programme for derivatives would be longer."""
    size, steps = 1e-3, 1e-3 * np.eye(4)
    up = np.array([_loss(here + step, values, weights) for step in steps])
    down = np.array([_loss(here - step, values, weights) for step in steps])
    hessian = np.diag((up + down - 2.0 * loss) / size**2)
    for i in range(4):
        for j in range(i):
            both = _loss(here + steps[i] + steps[j], values, weights)
            hessian[i, j] = hessian[j, i] = (both - up[i] - up[j] + loss) / size**2
    return (up - down) / (2.0 * size), hessian
