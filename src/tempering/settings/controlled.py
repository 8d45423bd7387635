"""The settings of DDS and CMCD, which steer a diffusion by a learned control."""

from dataclasses import dataclass

from tempering.settings.checks import require, require_choice, require_count, require_positive

__all__ = ["CMCDSettings", "ControlledSettings", "DDSSettings"]


@dataclass(frozen=True)
class ControlledSettings:
    """What both share. Abstract.

    Args:
        loss: "kl" is the reverse divergence of path measures, as published; "lv" the log-variance loss; "tr_lv" the
            log-variance loss within trust regions, which finds modes that the others drop.
        num_iterations: steps of training: updates of "kl" and "lv", trust regions of "tr_lv".
        num_steps: K, steps of a trajectory. A draw costs as many evaluations.
        start_scale: s, the standard deviation of where trajectories start.
        batch_size: trajectories of an iteration.
        learning_rate: of Adam.
        gradient_clip: the largest component of a gradient.
        width: of the network.
        trust_region: the largest divergence between the path measures of two iterations of "tr_lv", in nats.
        num_updates: updates in one trust region.
        update_size: trajectories of an update of "lv" and "tr_lv", drawn from those of the iteration.
    """

    loss: str = "kl"
    num_iterations: int = 10_000
    num_steps: int = 128
    start_scale: float = 1.0
    batch_size: int = 2000
    learning_rate: float = 5e-4
    gradient_clip: float = 1.0
    width: int = 64
    trust_region: float = 0.1
    num_updates: int = 10
    update_size: int = 500

    def __post_init__(self) -> None:
        require_choice("loss", self.loss, ("kl", "lv", "tr_lv"))
        for name in ("num_iterations", "batch_size", "width", "num_updates"):
            require_count(name, getattr(self, name))
        require_count("num_steps", self.num_steps, 2)
        require_count("update_size", self.update_size, 2)
        for name in ("start_scale", "learning_rate", "gradient_clip", "trust_region"):
            require_positive(name, getattr(self, name))
        is_part = self.loss == "kl" or self.update_size <= self.batch_size
        require(is_part, "update_size", self.update_size, f"at most batch_size = {self.batch_size}")


@dataclass(frozen=True)
class DDSSettings(ControlledSettings):
    """The settings of DDS.

    Args:
        duration: what the squares of the steps' noise add up to, about: 6 leaves exp(-3) of where a trajectory began.
    """

    duration: float = 6.0

    def __post_init__(self) -> None:
        super().__post_init__()
        require_positive("duration", self.duration)


@dataclass(frozen=True)
class CMCDSettings(ControlledSettings):
    """The settings of CMCD.

    Args:
        sigma_max: twice the speed of the first Langevin steps, in the units of the density.
    """

    sigma_max: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        require_positive("sigma_max", self.sigma_max)
