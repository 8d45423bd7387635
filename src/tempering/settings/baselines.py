"""The settings of the baselines: what all six share, and those of FAB and DiKL. The other four are in
`path_baselines.py` (DDS, CMCD) and `score_baselines.py` (iDEM, BNEM).

Without arguments they are sized for a density of a few dimensions. The papers' are the presets (docs/baselines.md).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

from tempering.settings.changes import changed
from tempering.settings.checks import (
    require,
    require_choice,
    require_count,
    require_flag,
    require_number,
    require_positive,
)

__all__ = ["BaselineSettings", "DiKLSettings", "FABSettings"]

Self = TypeVar("Self", bound="BaselineSettings")


@dataclass(frozen=True)
class BaselineSettings:
    """The settings that all baselines share. This class is abstract.

    Args:
        num_steps: the number of training steps, or of outer loops. None makes as many as the budget allows.
        scale: the unit of length of the method's coordinates. Networks, noise and step sizes use x / scale.
        num_final_draws: the number of weighted draws after training, for ESS and log Z. Methods without weights make
            none.
    """

    num_steps: int | None = None
    scale: float = 1.0
    num_final_draws: int = 2000

    @property
    def method(self) -> str:
        """The name of the method that these settings are for."""
        raise NotImplementedError

    @property
    def is_sized_by_budget(self) -> bool:
        """Always False: a budget sets the number of steps and no other size."""
        return False

    def with_changes(self: Self, changes: Mapping[str, Any]) -> Self:
        """Change some settings by name, such as `{"num_steps": 2000}`.

        Returns:
            New settings. These settings do not change.

        Raises:
            SettingsError: for an unknown name (the message has the nearest known one), or a value that is not allowed.
        """
        return changed(self, changes)

    def __post_init__(self) -> None:
        if self.num_steps is not None:
            require_count("num_steps", self.num_steps)
        require_positive("scale", self.scale)
        require_count("num_final_draws", self.num_final_draws, 0)


@dataclass(frozen=True)
class FABSettings(BaselineSettings):
    """The settings of FAB, flow annealed importance sampling bootstrap (Midgley et al. 2023), with its buffer.

    Args:
        num_layers: the number of layers of the flow. Each layer is an affine coupling and a linear map.
        width, depth: the sizes of the network of a coupling.
        is_mixing: True puts a learned LU-linear map behind each coupling. False only reverses the coordinates.
        alpha: the order of the divergence. The paper has 2.
        num_levels: the number of distributions of AIS between the flow q and p^alpha q^(1 - alpha).
        kernel: how AIS moves: "random_walk", or "hmc" with `num_leapfrog` steps.
        num_mcmc: the number of transitions at every level.
        step_size: the step size of the kernel, in units of `scale`. If it adapts, every level starts with it.
        is_adapting: True moves the step size of every level towards `acceptance`, by 5 % per step, without an end.
        lowest: log densities below this number count as -inf, as for the paper's MoG-40. None sets no limit.
        batch_size: the number of points of an AIS pass, and of an update of the flow.
        num_updates: the number of updates of the flow after every AIS pass.
        buffer_size: the largest number of points that the prioritised buffer holds.
        first_buffer_size: the number of points in the buffer when training begins.
        max_weight: the largest weight of a point in the loss. The weight is the change of q since the point was stored.
            None sets no limit.
        learning_rate: the learning rate of Adam. If `first_learning_rate` and `num_warmup` are given, the rate rises
            from the first one in that many steps.
        schedule: "constant", or "cosine" down to 0 at the last step.
        max_norm: the largest norm of a gradient. A larger gradient is scaled down. With `median_window`, gradients are
            clipped at twice the median norm of that many gradients before, and left out above ten times.
    """

    num_layers: int = 8
    width: int = 64
    depth: int = 2
    is_mixing: bool = True
    alpha: float = 2.0
    num_levels: int = 3
    kernel: Literal["random_walk", "hmc"] = "hmc"
    num_leapfrog: int = 5
    num_mcmc: int = 1
    step_size: float = 0.1
    is_adapting: bool = True
    acceptance: float = 0.65
    lowest: float | None = None
    batch_size: int = 128
    num_updates: int = 4
    buffer_size: int = 12_800
    first_buffer_size: int = 1_280
    max_weight: float | None = 10.0
    learning_rate: float = 5e-4
    first_learning_rate: float | None = None
    num_warmup: int = 0
    schedule: Literal["constant", "cosine"] = "constant"
    max_norm: float = 100.0
    median_window: int = 0

    @property
    def method(self) -> str:
        return "fab"

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("num_layers", "width", "depth", "num_leapfrog", "num_mcmc", "batch_size", "num_updates"):
            require_count(name, getattr(self, name))
        require_count("num_levels", self.num_levels)
        require_count("num_warmup", self.num_warmup, 0)
        require_count("median_window", self.median_window, 0)
        require_choice("kernel", self.kernel, ("random_walk", "hmc"))
        require_choice("schedule", self.schedule, ("constant", "cosine"))
        require_number("alpha", self.alpha, lambda alpha: alpha > 0, "a positive number")
        require_number("acceptance", self.acceptance, lambda rate: 0 < rate < 1, "a number between 0 and 1")
        for name in ("step_size", "learning_rate", "max_norm"):
            require_positive(name, getattr(self, name))
        for name in ("max_weight", "first_learning_rate"):
            if getattr(self, name) is not None:
                require_positive(name, getattr(self, name))
        if self.lowest is not None:
            require_number("lowest", self.lowest, lambda _: True, "a finite number")
        for name in ("is_mixing", "is_adapting"):
            require_flag(name, getattr(self, name))
        least = self.batch_size * self.num_updates
        for name in ("first_buffer_size", "buffer_size"):
            require_count(name, getattr(self, name))
        require(
            self.first_buffer_size + self.batch_size >= least,
            "first_buffer_size",
            self.first_buffer_size,
            f"at least batch_size x (num_updates - 1) = {least - self.batch_size}: updates draw without replacement",
        )
        for name, of in (("first_buffer_size", self.first_buffer_size), ("buffer_size", self.buffer_size)):
            require(of % self.batch_size == 0, name, of, f"a multiple of batch_size = {self.batch_size}")
        require(
            self.buffer_size >= self.first_buffer_size + self.batch_size,
            "buffer_size",
            self.buffer_size,
            "at least first_buffer_size + batch_size",
        )


@dataclass(frozen=True)
class DiKLSettings(BaselineSettings):
    """The settings of DiKL, a one-step generator by diffusive reverse KL divergences (He et al. 2025).

    Args:
        width, depth: the sizes of the generator and of the score network.
        latent_dim: the dimension of the generator's normal input. None takes the dimension of the density.
        num_noises: the number of steps of the variance-preserving chain. Training uses steps 1 to num_noises - 1.
        least_beta, most_beta: the first and the last beta of the chain. Beta is linear in the step.
        num_score_steps: the number of updates of the score network before each update of the generator.
        score_learning_rate, learning_rate: the learning rates of Adam for the score network and the generator.
        max_norm: the largest norm of the generator's gradient.
        batch_size: the number of points of a step.
        num_particles: the number of AIS particles for every posterior. One of them is taken, by weight.
        num_levels: the number of AIS levels. Particles are drawn at the first level. At each other level they make one
            step of HMC, with one leapfrog step of size `hmc_step_size`.
        num_mala: the number of MALA steps after AIS, with `mala_step_size`.
    """

    width: int = 400
    depth: int = 5
    latent_dim: int | None = None
    num_noises: int = 30
    least_beta: float = 1e-4
    most_beta: float = 0.15
    num_score_steps: int = 50
    score_learning_rate: float = 1e-4
    learning_rate: float = 1e-3
    max_norm: float = 10.0
    batch_size: int = 1024
    num_particles: int = 10
    num_levels: int = 15
    hmc_step_size: float = 0.3
    num_mala: int = 5
    mala_step_size: float = 0.05
    num_final_draws: int = 0

    @property
    def method(self) -> str:
        return "dikl"

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("width", "depth", "num_score_steps", "batch_size", "num_particles"):
            require_count(name, getattr(self, name))
        require_count("num_levels", self.num_levels, 2)
        if self.latent_dim is not None:
            require_count("latent_dim", self.latent_dim)
        require_count("num_noises", self.num_noises, 2)
        require_count("num_mala", self.num_mala, 0)
        for name in ("score_learning_rate", "learning_rate", "max_norm", "hmc_step_size", "mala_step_size"):
            require_positive(name, getattr(self, name))
        require_number("least_beta", self.least_beta, lambda beta: 0 < beta < 1, "a number between 0 and 1")
        require_number("most_beta", self.most_beta, lambda beta: 0 < beta < 1, "a number between 0 and 1")
