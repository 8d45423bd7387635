"""Exact samples of MoG-40 and Many-Well at any temperature with their densities, and chains at a temperature.

A block of coordinates is drawn from its tempered density tabulated on a grid, constant inside a cell. That is not the
tempered density itself, but its own density is known, so that weights make up for the difference; they are even to one
per cent. MoG-40 is one block of two coordinates. Many-Well is blocks of one: the wells u from a grid, v a normal.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from tempering.buffer import Buffer
from tempering.kernels import MALA, ChainState, StepSizes
from tempering.kernels.step_size import adapt, guess
from tempering.runs.ledger import Ledger
from tempering.settings import Resampling
from tempering.targets.base import Target, evaluate_many
from tempering.types import Array, Key
from tempering.weights.resample import resampled
from tempering.weights.weigh import weigh

__all__ = ["ManyWellTruth", "MixtureTruth", "Moved", "exact_buffer", "moved"]

_MOG_REACH, _MOG_CELL = 50.0, 0.1
"""Ten beyond the outermost mean, 6.7 standard deviations at T = 1.3; a quarter of a standard deviation at T = 0.1."""
_WELL_REACH, _WELL_CELL = 4.0, 0.001
_NEGLIGIBLE = 1e-10
"""Cells of less mass do not count in the regions' weights."""


@dataclass(frozen=True)
class Grid:
    """A density constant in square cells: centres (cell, dim), probabilities (cell,), and the side of a cell."""

    centres: np.ndarray
    mass: np.ndarray
    side: float

    @classmethod
    def of(cls, log_density, axes: int, reach: float, side: float, beta: float) -> "Grid":
        """The density exp(beta log_density) of `axes` coordinates at the centres of cells in [-reach, reach]."""
        places = np.arange(-reach + side / 2, reach, side)
        centres = np.stack(np.meshgrid(*[places] * axes, indexing="ij"), axis=-1).reshape(-1, axes)
        many = jax.jit(lambda x: jax.lax.map(log_density, x, batch_size=10_000))
        values = beta * np.asarray(many(jnp.asarray(centres, jnp.float32)), np.float64)
        mass = np.exp(values - values.max())
        return cls(centres, mass / mass.sum(), side)

    def sample(self, generator: np.random.Generator, num: int) -> tuple[np.ndarray, np.ndarray]:
        """Points (num, dim) and their log densities (num,)."""
        # In float64: a cumulative sum over a million cells in float32 would lose whole cells.
        cell = np.searchsorted(np.cumsum(self.mass), generator.random(num) * (1.0 - 1e-12), side="right")
        cell = np.minimum(cell, len(self.mass) - 1)
        inside = self.side * (generator.random((num, self.centres.shape[1])) - 0.5)
        return self.centres[cell] + inside, np.log(self.mass[cell]) - inside.shape[1] * np.log(self.side)


class MixtureTruth:
    """A mixture in two dimensions at inverse temperature beta."""

    def __init__(self, target, beta: float):
        self.target, self.beta = target, beta
        self.grid = Grid.of(target.log_density, 2, _MOG_REACH, _MOG_CELL, beta)

    def propose(self, generator: np.random.Generator, num: int) -> tuple[np.ndarray, np.ndarray]:
        """Points and their log densities."""
        return self.grid.sample(generator, num)

    def region_weights(self) -> np.ndarray:
        """E of every component's posterior probability, at this temperature."""
        is_counted = self.grid.mass > _NEGLIGIBLE
        indicators = jax.vmap(self.target.region_indicators)(jnp.asarray(self.grid.centres[is_counted], jnp.float32))
        weights = self.grid.mass[is_counted] @ np.asarray(indicators, np.float64)
        return weights / weights.sum()


class ManyWellTruth:
    """Many-Well at inverse temperature beta: every coordinate is independent."""

    def __init__(self, target, beta: float):
        self.target, self.beta = target, beta

        def log_well(u):  # all other coordinates at zero, where they add nothing
            return target.log_density(jnp.zeros(target.dim).at[0].set(u[0]))

        self.grid = Grid.of(log_well, 1, _WELL_REACH, _WELL_CELL, beta)

    def propose(self, generator: np.random.Generator, num: int) -> tuple[np.ndarray, np.ndarray]:
        """Points and their log densities."""
        num_wells = self.target.num_wells
        u, log_q = self.grid.sample(generator, num * num_wells)
        v = generator.normal(size=(num, num_wells)) / np.sqrt(self.beta)
        log_q_v = 0.5 * np.log(self.beta / (2 * np.pi)) - 0.5 * self.beta * v**2
        x = np.stack([u.reshape(num, num_wells), v], axis=-1).reshape(num, self.target.dim)
        return x, log_q.reshape(num, num_wells).sum(axis=1) + log_q_v.sum(axis=1)

    def region_weights(self) -> np.ndarray:
        """P(u > 0) of every well, at this temperature."""
        return np.full(self.target.num_wells, self.grid.mass[self.grid.centres[:, 0] > 0].sum())


def exact_buffer(truth: MixtureTruth | ManyWellTruth, seed: int, num: int) -> Buffer:
    """`num` exact samples as a weighted buffer."""
    x, log_q = (jnp.asarray(part, jnp.float32) for part in truth.propose(np.random.default_rng(seed), num))
    beta = jnp.asarray(truth.beta, jnp.float32)
    weighted = weigh(truth.target, x, log_q, beta, ledger=Ledger(), stage="importance_weights")
    assert weighted.ess_fraction > 0.9  # cells are small beside what the density changes over
    return resampled(jax.random.key(seed), weighted, Resampling(is_resampled=False))


class Moved(NamedTuple):
    """Chains after some steps: where they are, their energies at every mark, and the step size."""

    position: Array
    energies: dict[int, np.ndarray]
    step_size: Array


def moved(
    key: Key,
    target: Target,
    x: Array,
    beta: float,
    marks: Sequence[int],
    ledger: Ledger,
    step_size: Array | None = None,
) -> Moved:
    """MALA at inverse temperature `beta` from every point, looked at after each of `marks` steps.

    Without a step size the first half of the steps adapts one. Modes keep the weights that the points have, because
    chains do not cross between them at a low temperature: from exact samples of T = 1 it is the paper's ground truth.
    A point whose density is not finite stays where it is.
    """
    kernel, inverse, num = MALA(), jnp.asarray(beta, jnp.float32), max(marks)
    ledger.spend("metrics", x.shape[0] * (1 + num), with_gradient=True)
    state = ChainState(x, *evaluate_many(target, x))
    is_adapting = step_size is None
    first = guess(state.log_density_grad, inverse[None], kernel.scale_power) if step_size is None else step_size

    @jax.jit
    def onward(state, sizes, begin, end):
        def body(step, carry):
            state, sizes = carry
            keys = jax.random.split(jax.random.fold_in(key, step), x.shape[0])
            size = jnp.exp(sizes.log_step_size[0])
            move = lambda key, state: kernel.step(key, state, target, beta=inverse, step_size=size)  # noqa: E731
            state, info = jax.vmap(move)(keys, state)
            acceptance = jnp.mean(info.acceptance_probability)[None]
            is_early = is_adapting & (step < num // 2)
            return state, adapt(sizes, acceptance, jnp.asarray(kernel.optimal_acceptance), is_early)

        return jax.lax.fori_loop(begin, end, body, (state, sizes))

    sizes, energies, done = StepSizes.at(first), {}, 0
    for mark in sorted(marks):
        state, sizes = onward(state, sizes, done, mark)
        energies[mark], done = -np.asarray(state.log_density), mark
    return Moved(state.position, energies, jnp.exp(sizes.log_step_size))
