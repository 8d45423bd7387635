"""What parallel tempering carries from step to step, and what it counts on the way."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from tempering.compilation import quick
from tempering.kernels import ChainState, StepSizes
from tempering.types import Array, Float, Int

__all__ = ["Replicas", "Tally", "TemperingState", "track"]

_NOWHERE, _FROM_HOT, _FROM_COLD = 0, 1, 2


class Replicas(eqx.Module):
    """Which replica sits where, and which end of the ladder it saw last. Moves with every swap."""

    index: Int[Array, "level chain"]
    heading: Int[Array, "level chain"]

    @classmethod
    def start(cls, num_levels: int, num_chains: int) -> "Replicas":
        """Replica k at level k; only the hottest one has seen an end."""
        index = np.broadcast_to(np.arange(num_levels, dtype=np.int32)[:, None], (num_levels, num_chains))
        heading = np.where(index == 0, _FROM_HOT, _NOWHERE).astype(np.int32)
        return cls(jnp.asarray(index), jnp.asarray(heading))


class Tally(eqx.Module):
    """Sums over steps; ratios are taken by the reader. Reset when burn-in ends."""

    num_steps: Int[Array, ""]
    acceptance: Float[Array, " level"]
    num_nonfinite: Int[Array, " level"]
    swaps_tried: Float[Array, " pair"]
    swaps_made: Float[Array, " pair"]
    round_trips: Int[Array, ""]

    @classmethod
    def zero(cls, num_levels: int) -> "Tally":
        """Nothing counted yet."""
        pairs = jnp.zeros((num_levels - 1,))
        counts = jnp.zeros((num_levels,), jnp.int32)
        zero = jnp.zeros((), jnp.int32)
        return cls(zero, jnp.zeros((num_levels,)), counts, pairs, pairs, zero)

    @quick
    def cleared(self) -> "Tally":
        """The same levels with nothing counted."""
        return jax.tree.map(jnp.zeros_like, self)

    @property
    def acceptance_rate(self) -> Float[Array, " level"]:
        """Mean acceptance probability; NaN before the first step."""
        return self.acceptance / self.num_steps.astype(jnp.float32)

    @property
    def swap_rate(self) -> Float[Array, " pair"]:
        """Share of the swaps tried that were made; NaN where none was tried."""
        return self.swaps_made / self.swaps_tried


class TemperingState(eqx.Module):
    """Everything the next step needs. `step` numbers the steps of the whole run: keys and swap rounds follow it."""

    chain: ChainState
    step_sizes: StepSizes
    replicas: Replicas
    tally: Tally
    step: Int[Array, ""]


def track(replicas: Replicas) -> tuple[Replicas, Int[Array, ""]]:
    """Update headings at the two ends; count the replicas that came back to the hot end by way of the cold one."""
    hottest, coldest = replicas.heading[0], replicas.heading[-1]
    num_returned = jnp.sum(hottest == _FROM_COLD).astype(jnp.int32)
    heading = replicas.heading.at[0].set(_FROM_HOT)
    if replicas.heading.shape[0] > 1:
        heading = heading.at[-1].set(jnp.where(coldest == _FROM_HOT, _FROM_COLD, coldest))
    return Replicas(replicas.index, heading), num_returned
