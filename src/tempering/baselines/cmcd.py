"""CMCD: controlled Monte Carlo diffusions (Nuesken, Vargas, Padhy and Blessing, 2024).

Langevin dynamics along pi_k = p~^{beta_k} N(0, s^2 I)^{1 - beta_k} lag behind; a control u transports what they miss.
With Delta = 1 / K and the same beta_k and sigma_k both ways,

    F:  x_{k+1} ~ N( x_k     + sigma^2 (grad log pi_k(x_k)     + u(k, x_k))         Delta, 2 sigma^2 Delta )
    B:  x_k     ~ N( x_{k+1} + sigma^2 (grad log pi_k(x_{k+1}) - u(k + 1, x_{k+1})) Delta, 2 sigma^2 Delta ).

The betas and a factor of all sigmas are learned with the control. The gradient at x_{k+1} belongs to B of this step and
to F of the next, and is evaluated once. The loss "kl" is differentiated through these gradients: one Hessian-vector
product for every point but the first.
"""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from tempering.baselines.control import Control
from tempering.baselines.controlled import Controlled
from tempering.baselines.paths import FromNormal, Look, look_twice
from tempering.baselines.refusals import require_jax
from tempering.settings import CMCDSettings
from tempering.targets.base import Target
from tempering.types import Array, Float, Int, Key

__all__ = ["CMCD", "CMCDProcess", "sigmas_of"]

_OFFSET = 0.008
_SMALLEST = 0.01
"""Of the sigmas' schedule; half of it is their floor."""


def sigmas_of(num_steps: int, sigma_max: float) -> np.ndarray:
    """The sigmas before training, (step,): from about sigma_max / 2 along a squared cosine down to 0.005."""
    phase = (1.0 + _OFFSET - (num_steps - np.arange(num_steps)) / num_steps) / (1.0 + _OFFSET)
    return 0.5 * (sigma_max - _SMALLEST) * np.cos(0.5 * np.pi * phase) ** 2 + 0.5 * _SMALLEST


class CMCDProcess(FromNormal):
    """Annealed Langevin steps with a control, there and back."""

    control: Callable[..., Any]
    raw_betas: Float[Array, " step"]
    raw_factor: Float[Array, ""]
    num_steps: int = eqx.field(static=True)
    dim: int = eqx.field(static=True)
    init_std: float = eqx.field(static=True)
    max_diffusion: float = eqx.field(static=True)
    table: tuple[Float[Array, " step"], Float[Array, " step"]] | None
    """beta_k and sigma_k^2 Delta of all steps, in a process that is `ready`."""

    def __init__(self, key: Key, dim: int, settings: CMCDSettings):
        self.control = Control(key, dim, settings, bias=0.0)
        self.raw_betas = jnp.ones(settings.num_path_steps)
        self.raw_factor = jnp.asarray(np.log(np.e - 1.0), jnp.float32)  # softplus of it is 1
        self.num_steps, self.dim = settings.num_path_steps, dim
        self.init_std, self.max_diffusion = settings.init_std, settings.max_diffusion
        self.table = None

    def betas(self) -> Float[Array, " step"]:
        """Rising, the last one 1."""
        parts = jnp.cumsum(jax.nn.softplus(self.raw_betas))
        return parts / parts[-1]

    def ready(self) -> "FromNormal":
        """The same process, with what depends on the step alone worked out for all steps."""
        at = lambda own: own.table  # noqa: E731
        return eqx.tree_at(at, super().ready(), (self.betas(), self._speeds()), is_leaf=lambda leaf: leaf is None)

    def _speeds(self) -> Float[Array, " step"]:
        """sigma_k^2 Delta."""
        sigmas = jnp.asarray(sigmas_of(self.num_steps, self.max_diffusion), jnp.float32)
        return (jax.nn.softplus(self.raw_factor) * sigmas) ** 2 / self.num_steps

    def _speed(self, k: Int[Array, ""]) -> Float[Array, ""]:
        return (self._speeds() if self.table is None else self.table[1])[k]

    def _annealed(
        self, k: Int[Array, ""], x: Float[Array, " dim"], gradient: Float[Array, " dim"]
    ) -> Float[Array, " dim"]:
        """grad log pi_k."""
        beta = (self.betas() if self.table is None else self.table[0])[k]
        return beta * gradient - (1.0 - beta) * x / self.init_std**2

    def move(
        self, k: Int[Array, ""], x: Float[Array, " dim"], gradient: Float[Array, " dim"], noise: Float[Array, " dim"]
    ) -> tuple[Float[Array, " dim"], Float[Array, " dim"]]:
        """x_{k+1}, and x_{k+1} - x_k."""
        speed, drift = self._speed(k), self._annealed(k, x, gradient)
        innovation = speed * (drift + self.control(k, x, drift)) + jnp.sqrt(2.0 * speed) * noise
        return x + innovation, innovation

    def log_ratio(
        self, k: Int[Array, ""], here: Look, innovation: Float[Array, " dim"], there: Look
    ) -> Float[Array, ""]:
        """log F - log B = (m + m') . (2 d + m' - m) / (4 sigma^2 Delta), with d the innovation and m, m' both moves.

        A product, where the difference of two squared residuals would cancel.
        """
        speed = self._speed(k)
        drift, drift_back = self._annealed(k, here.x, here.gradient), self._annealed(k, there.x, there.gradient)
        move = speed * (drift + self.control(k, here.x, drift))
        back = speed * (drift_back - self.control(k + 1, there.x, drift_back))
        return jnp.sum((move + back) * (2.0 * innovation + back - move)) / (4.0 * speed)

    def cost(self, k: Int[Array, ""], here: Look, innovation: Float[Array, " dim"], there: Look) -> Float[Array, ""]:
        """log F - log B, all of it."""
        return self.log_ratio(k, here, innovation, there)


class CMCD(Controlled):
    """Controlled Monte Carlo diffusions."""

    title = "CMCD"
    num_products = 1

    def process(self, key: Key, dim: int, settings: CMCDSettings) -> CMCDProcess:
        return CMCDProcess(key, dim, settings)

    def look_fn(self) -> Any:
        return look_twice

    def check(self, settings: CMCDSettings, target: Target) -> None:
        """Refuse what DDS refuses, and with the loss "kl" what JAX cannot differentiate twice."""
        super().check(settings, target)
        if settings.loss == "kl":
            require_jax("CMCD with loss = 'kl'", target)
