"""The settings of DDS and CMCD, which learn the drift of a stochastic path from a Gaussian to the density."""

from dataclasses import dataclass
from typing import Literal

from tempering.settings.baselines import BaselineSettings
from tempering.settings.checks import require, require_choice, require_count, require_positive

__all__ = ["CMCDSettings", "DDSSettings", "PathSettings"]

PathLoss = Literal["kl", "log_variance", "tr_lv"]


@dataclass(frozen=True)
class PathSettings(BaselineSettings):
    """The settings that DDS and CMCD share. This class is abstract.

    Args:
        num_path_steps: K, the number of steps of a path. A draw costs K evaluations.
        init_std: the standard deviation of the Gaussian that paths start from, in units of `scale`.
        loss: "kl" is the reverse divergence of path measures, as in the papers; it drops modes. "log_variance" is the
            variance of the log weights. "tr_lv" is the log-variance loss within a trust region.
        trust_region: for "tr_lv", the largest change by a step, as a KL divergence of path measures in nats.
        num_updates: for "tr_lv", the number of updates per step.
        update_size: for "tr_lv", the number of paths per update. They are drawn from the paths of the step.
        width, depth: the sizes of the networks.
        batch_size: the number of paths of a step.
        learning_rate: the learning rate of Adam.
        max_gradient: the largest entry of the gradient of the networks' weights. Larger entries are clipped.
        max_score: the largest entry of the density's gradient that the network sees.
    """

    num_path_steps: int = 128
    init_std: float = 1.0
    loss: PathLoss = "kl"
    trust_region: float = 0.1
    num_updates: int = 10
    update_size: int = 1000
    width: int = 64
    depth: int = 2
    batch_size: int = 2000
    learning_rate: float = 5e-4
    max_gradient: float = 1.0
    max_score: float = 100.0

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("width", "depth", "batch_size", "num_updates"):
            require_count(name, getattr(self, name))
        require_count("num_path_steps", self.num_path_steps, 2)
        require_choice("loss", self.loss, ("kl", "log_variance", "tr_lv"))
        require_count("update_size", self.update_size, 2)
        is_part = self.loss != "tr_lv" or self.update_size <= self.batch_size
        require(is_part, "update_size", self.update_size, f"at most batch_size = {self.batch_size}")
        for name in ("init_std", "trust_region", "learning_rate", "max_gradient", "max_score"):
            require_positive(name, getattr(self, name))


@dataclass(frozen=True)
class DDSSettings(PathSettings):
    """The settings of DDS, the denoising diffusion sampler (Vargas et al. 2023)."""

    @property
    def method(self) -> str:
        return "dds"


@dataclass(frozen=True)
class CMCDSettings(PathSettings):
    """The settings of CMCD, controlled Monte Carlo diffusions (Nüsken, Vargas et al. 2024).

    Args:
        max_diffusion: the largest diffusion coefficient of the schedule.
    """

    max_diffusion: float = 1.0

    @property
    def method(self) -> str:
        return "cmcd"

    def __post_init__(self) -> None:
        super().__post_init__()
        require_positive("max_diffusion", self.max_diffusion)
