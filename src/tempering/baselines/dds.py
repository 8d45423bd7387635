"""DDS: denoising diffusion sampling (Vargas, Grathwohl and Doucet, 2023).

An Ornstein-Uhlenbeck process that leaves N(0, s^2 I) unchanged forgets the target; the control u learns to run it
backwards. In K steps, with b_k^2 falling from 0.13 to 0 and a_k^2 = 1 - b_k^2,

    F:  x_{k+1} = a_k x_k + b_k^2 u(k, x_k) + b_k s noise           B:  x_k = a_k x_{k+1} + b_k s noise

Without control F and B are one reversible chain, so that B's path measure from the target is Q, and

    log F - log B + log N(x_k; 0, s^2) - log N(x_{k+1}; 0, s^2) = u . (x_{k+1} - a_k x_k) / s^2 - b_k^2 |u|^2 / (2 s^2).
"""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np

from tempering.baselines.control import Control
from tempering.baselines.controlled import Controlled
from tempering.baselines.paths import FromNormal, Look
from tempering.settings import DDSSettings
from tempering.types import Array, Float, Int, Key

__all__ = ["DDS", "DDSProcess", "steps_of"]

_OFFSET = 0.008
"""Of the cosine schedule (Nichol and Dhariwal, 2021)."""


_DURATION = 6.0
"""What all b_k^2 add up to, about: exp(-3) of where a path began is left at its end."""


def steps_of(num_steps: int) -> np.ndarray:
    """b_k^2 in the order of sampling, (step,).

    d_i = cos^4(phase_i), over their sum, from the largest to the smallest. As in the published code the first is taken
    twice and the last, which is 0, never: there the index runs from K to 1 into an array of length K.
    """
    phase = (np.arange(num_steps) / (num_steps - 1) + _OFFSET) / (1.0 + _OFFSET) * (np.pi / 2)
    share = np.cos(phase) ** 4
    share = _DURATION * share / share.sum()
    return np.clip(np.concatenate([share[:1], share[:-1]]), 0.0, 1.0)


class DDSProcess(FromNormal):
    """The controlled chain and its uncontrolled reversal."""

    control: Callable[..., Any]
    num_steps: int = eqx.field(static=True)
    dim: int = eqx.field(static=True)
    init_std: float = eqx.field(static=True)

    def _b2(self, k: Int[Array, ""]) -> Float[Array, ""]:
        return jnp.asarray(steps_of(self.num_steps), jnp.float32)[k]

    def move(
        self, k: Int[Array, ""], x: Float[Array, " dim"], gradient: Float[Array, " dim"], noise: Float[Array, " dim"]
    ) -> tuple[Float[Array, " dim"], Float[Array, " dim"]]:
        """x_{k+1}, and x_{k+1} - a_k x_k."""
        b2 = self._b2(k)
        innovation = b2 * self.control(k, x, gradient) + jnp.sqrt(b2) * self.init_std * noise
        return jnp.sqrt(1.0 - b2) * x + innovation, innovation

    def log_ratio(
        self, k: Int[Array, ""], here: Look, innovation: Float[Array, " dim"], there: Look
    ) -> Float[Array, ""]:
        """log F - log B. The normal densities at both ends of a step telescope, and are exact in float32 this way."""
        u = self.control(k, here.x, here.gradient)
        girsanov = jnp.sum(u * innovation) - 0.5 * self._b2(k) * jnp.sum(u * u)
        return girsanov / self.init_std**2 + self.log_start(there.x) - self.log_start(here.x)

    def cost(self, k: Int[Array, ""], here: Look, innovation: Float[Array, " dim"], there: Look) -> Float[Array, ""]:
        """The published running cost: what is linear in the noise has mean 0 and is left out."""
        del innovation
        u = self.control(k, here.x, here.gradient)
        running = 0.5 * self._b2(k) * jnp.sum(u * u) / self.init_std**2
        return running + self.log_start(there.x) - self.log_start(here.x)


class DDS(Controlled):
    """Denoising diffusion sampling."""

    title = "DDS"

    def process(self, key: Key, dim: int, settings: DDSSettings) -> DDSProcess:
        # The published start follows the gradient. Trust regions start from the chain without a control, whose weights
        # are those of importance sampling; on Many-Well the other start has none that are finite in effect.
        control = Control(key, dim, settings, bias=1.0 if settings.loss == "kl" else 0.0)
        return DDSProcess(control=control, num_steps=settings.num_path_steps, dim=dim, init_std=settings.init_std)
