"""The settings of iDEM and BNEM, which regress on Monte Carlo estimates of the noised density."""

from dataclasses import dataclass

from tempering.settings.baselines import BaselineSettings
from tempering.settings.checks import require, require_count, require_flag, require_number, require_positive

__all__ = ["BNEMSettings", "IDEMSettings", "ScoreSettings"]


@dataclass(frozen=True)
class ScoreSettings(BaselineSettings):
    """The settings that iDEM and BNEM share. A step is an outer loop: `num_inner` updates, then new samples.

    Args:
        sigma_min, sigma_max: the smallest and the largest noise level, in units of `scale`.
        num_mc: the number of points for an estimate.
        batch_size: the number of estimates of an update.
        num_inner: the number of updates of the network in an outer loop.
        num_new: the number of samples that join the buffer after these updates.
        num_first: the number of points that the buffer starts with.
        buffer_size: the size of the buffer. The oldest samples leave it first.
        num_sde_steps: the number of steps of a draw.
        noise_scale: a factor of the noise of the reverse SDE. 1 is the SDE itself.
        max_score: the norm at which scores are clipped. For particles it is the norm of each particle's score.
        learning_rate: the learning rate of Adam.
        max_norm: the largest norm of the gradient of the network's weights.
        width, depth: the sizes of the network.
        ema: the decay per update of an average of the network's weights. Draws use the average, and it teaches BNEM. 0
            uses the weights themselves. The published average begins after more loops than there are, so that it equals
            the weights too.
        num_final_descent: the number of steps along the clipped score at the end of a draw. Each has the size
            `descent_size` and costs one evaluation.
    """

    sigma_min: float = 1e-5
    sigma_max: float = 1.0
    num_mc: int = 100
    batch_size: int = 512
    num_inner: int = 100
    num_new: int = 1000
    num_first: int = 1024
    buffer_size: int = 10_000
    num_sde_steps: int = 1000
    noise_scale: float = 1.0
    max_score: float = 70.0
    learning_rate: float = 5e-4
    max_norm: float = 0.5
    width: int = 128
    depth: int = 3
    ema: float = 0.0
    num_final_descent: int = 0
    descent_size: float = 1e-4
    num_final_draws: int = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        counts = ("num_mc", "batch_size", "num_inner", "num_new", "num_first", "buffer_size", "num_sde_steps")
        for name in (*counts, "width", "depth"):
            require_count(name, getattr(self, name))
        is_held = self.num_first <= self.buffer_size
        require(is_held, "num_first", self.num_first, f"at most buffer_size = {self.buffer_size}")
        require_count("num_final_descent", self.num_final_descent, 0)
        for name in ("sigma_min", "sigma_max", "max_score", "learning_rate", "max_norm", "descent_size"):
            require_positive(name, getattr(self, name))
        require(self.sigma_max > self.sigma_min, "sigma_max", self.sigma_max, "above sigma_min")
        require_number("noise_scale", self.noise_scale, lambda scale: scale >= 0, "a number of at least 0")
        require_number("ema", self.ema, lambda decay: 0 <= decay < 1, "a number from 0 to below 1")


@dataclass(frozen=True)
class IDEMSettings(ScoreSettings):
    """The settings of iDEM, iterated denoising energy matching (Akhound-Sadegh et al. 2024).

    Args:
        is_weighted: True weighs the loss by the variance of the noise, as the paper does for mixtures. False gives all
            noise levels the same weight, as the paper does for particles.
        is_first_estimated: True fills the first buffer with draws by the estimator itself, which costs evaluations.
            False fills it from noise.
    """

    is_weighted: bool = True
    is_first_estimated: bool = False

    @property
    def method(self) -> str:
        return "idem"

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("is_weighted", "is_first_estimated"):
            require_flag(name, getattr(self, name))


@dataclass(frozen=True)
class BNEMSettings(ScoreSettings):
    """The settings of NEM and BNEM, noised energy matching (OuYang et al. 2026).

    Args:
        num_bootstrap_after: the number of outer loops of NEM before estimates are bootstrapped. None never bootstraps:
            this is NEM. The published code switches by early stopping. Here a number decides, so that the cost is known
            beforehand.
        num_bootstrap: the number of the teacher network's estimates among `num_mc`, once it is used. The same number of
            evaluations goes to the lower noise level of the teacher. So an update costs the same before and after.
        bootstrap_variance: the step of the noise's variance between the network and its teacher.
        clean_weight: the weight of the loss at zero noise.
        is_factorised: for particles only. True takes one log-mean-exp for each particle. This estimate has a bias and a
            lower variance.
    """

    num_bootstrap_after: int | None = None
    num_bootstrap: int = 80
    bootstrap_variance: float = 0.1
    clean_weight: float = 0.5
    is_factorised: bool = False
    max_score: float = 1000.0
    learning_rate: float = 1e-3

    @property
    def method(self) -> str:
        return "bnem"

    def __post_init__(self) -> None:
        super().__post_init__()
        require_count("num_bootstrap", self.num_bootstrap)
        if self.num_bootstrap_after is not None:
            require_count("num_bootstrap_after", self.num_bootstrap_after, 0)
            require_count("num_bootstrap", self.num_bootstrap, 1, self.num_mc - 1)
        require_positive("bootstrap_variance", self.bootstrap_variance)
        require_number("clean_weight", self.clean_weight, lambda weight: weight >= 0, "a number of at least 0")
        require_flag("is_factorised", self.is_factorised)
