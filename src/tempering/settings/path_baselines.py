"""The settings of DDS and CMCD, which learn the drift of a stochastic path from a Gaussian to the density."""

from dataclasses import dataclass
from typing import Literal

from tempering.settings.baselines import BaselineSettings
from tempering.settings.checks import require_choice, require_count, require_positive

__all__ = ["CMCDSettings", "DDSSettings"]

PathLoss = Literal["kl", "log_variance", "tr_lv"]


@dataclass(frozen=True)
class _PathSettings(BaselineSettings):
    """What DDS and CMCD share.

    Args:
        num_path_steps: K, steps of a path; a draw costs as many evaluations.
        init_std: standard deviation of the Gaussian that paths start from, in units of `scale`.
        loss: "kl", the papers'; "log_variance"; or "tr_lv", log-variance within a trust region.
        trust_region: the most that one trust-region update may change, as a KL divergence of paths.
        width, depth: of the networks.
        batch_size: paths of a step.
        learning_rate: of Adam.
        max_gradient: of every entry of the gradient of the networks' weights; larger ones are clipped.
        max_score: of every entry of the density's gradient as the network sees it.
    """

    num_path_steps: int = 128
    init_std: float = 1.0
    loss: PathLoss = "kl"
    trust_region: float = 0.1
    width: int = 64
    depth: int = 2
    batch_size: int = 2000
    learning_rate: float = 5e-4
    max_gradient: float = 1.0
    max_score: float = 100.0

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("width", "depth", "batch_size"):
            require_count(name, getattr(self, name))
        require_count("num_path_steps", self.num_path_steps, 2)
        require_choice("loss", self.loss, ("kl", "log_variance", "tr_lv"))
        for name in ("init_std", "trust_region", "learning_rate", "max_gradient", "max_score"):
            require_positive(name, getattr(self, name))


@dataclass(frozen=True)
class DDSSettings(_PathSettings):
    """The settings of DDS, the denoising diffusion sampler (Vargas et al. 2023)."""

    @property
    def method(self) -> str:
        return "dds"


@dataclass(frozen=True)
class CMCDSettings(_PathSettings):
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
