"""A model with the methods of `bridgestan.StanModel`, written by hand: what tests use where no model can be compiled.

It is `parameters { array[2, 3] real z; real<lower=0> sigma; vector[2] m; }` in Stan's conventions: entries
of arrays are named `z.1.1`, the first index runs fastest, sigma is unconstrained by its logarithm, and a rejected point
raises RuntimeError. `transformed parameters { real twice = 2 * sigma; }`.
"""

import numpy as np

__all__ = ["FakeStan"]


class FakeStan:
    """Unconstrained: log sigma, z column by column, m. Constrained: the same with sigma itself."""

    def __init__(self, shift: float = 0.5):
        self.shift = shift
        self.pointer = id(self)  # another one in every process, as those of the real one

    def name(self) -> str:
        return "fake_model"

    def param_unc_num(self) -> int:
        return 9

    def param_names(self, *, include_tp: bool = False, include_gq: bool = False) -> list[str]:
        names = ["sigma", *(f"z.{row}.{column}" for column in (1, 2, 3) for row in (1, 2)), "m.1", "m.2"]
        return names + (["twice"] if include_tp else [])

    def param_constrain(self, theta_unc, *, include_tp: bool = False, include_gq: bool = False):
        _require(theta_unc)
        theta = np.array(theta_unc)
        theta[0] = np.exp(theta[0])
        return np.append(theta, 2 * theta[0]) if include_tp else theta

    def param_unconstrain(self, theta):
        _require(theta)
        if theta[0] <= 0:
            raise RuntimeError("sigma must be positive")
        return np.concatenate([[np.log(theta[0])], theta[1:]])

    def log_density(self, theta_unc, *, propto: bool = True, jacobian: bool = True) -> float:
        return self.log_density_gradient(theta_unc, propto=propto, jacobian=jacobian)[0]

    def log_density_gradient(self, theta_unc, *, propto: bool = True, jacobian: bool = True):
        """sigma ~ exponential(2); z[i, j] ~ normal(i + 10 j, sigma); m ~ normal(shift, 0.5)."""
        _require(theta_unc)
        log_sigma, z, m = theta_unc[0], theta_unc[1:7], theta_unc[7:]
        if log_sigma > 20:
            raise RuntimeError("normal_lpdf: scale parameter is inf")
        sigma = np.exp(log_sigma)
        gap = (z - [i + 10 * j for j in (1, 2, 3) for i in (1, 2)]) / sigma
        value = -2 * sigma - np.sum(0.5 * gap**2) - 6 * log_sigma - np.sum(0.5 * ((m - self.shift) / 0.5) ** 2)
        value += 0.0 if propto else np.log(2) - 4 * np.log(2 * np.pi) - 2 * np.log(0.5)
        slope = np.concatenate([[-2 * sigma + np.sum(gap**2) - 6], -gap / sigma, -(m - self.shift) / 0.25])
        if jacobian:
            value, slope[0] = value + log_sigma, slope[0] + 1
        return float(value), slope


def _require(theta) -> None:
    """What ctypes' signature asks for."""
    assert isinstance(theta, np.ndarray) and theta.dtype == np.float64 and theta.flags.c_contiguous, theta
