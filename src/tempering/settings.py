"""What a method can be told: frozen dataclasses, checked where they enter. Plain numbers only, no arrays, no functions.

`None` means "chosen from the run itself": the hottest temperature by a counted pilot, the number of levels from the
dimension, the noise range from the buffers.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from numbers import Integral
from typing import Any, Literal

from tempering.errors import SettingsError

__all__ = [
    "Exploration",
    "Guidance",
    "Initial",
    "Ladder",
    "Network",
    "Noise",
    "PTDMSettings",
    "PTSDSettings",
    "Pilot",
    "Refinement",
    "Resampling",
    "Sampling",
    "Training",
]


def require(condition: bool, name: str, given: Any, allowed: str, remedy: str = "") -> None:
    """Refuse a setting with what was given, what is allowed and what to do."""
    if not condition:
        raise SettingsError(
            f"{name} = {given!r} is not allowed: it must be {allowed}" + (f"; {remedy}" if remedy else "")
        )


def require_count(name: str, given: Any, least: int = 1) -> None:
    """Refuse anything but an integer of at least `least`."""
    is_count = isinstance(given, int) and not isinstance(given, bool)
    require(is_count and given >= least, name, given, f"an integer of at least {least}")


def require_seed(name: str, given: Any) -> None:
    """Refuse anything but 32 bits: JAX keeps no more of a seed, and 2**32 + 1 would silently be 1."""
    is_integer = isinstance(given, Integral) and not isinstance(given, bool)
    require(is_integer and 0 <= int(given) < 2**32, name, given, "an integer from 0 to 2**32 - 1")


def require_number(name: str, given: Any, is_allowed: Callable[[float], bool], allowed: str) -> None:
    """Refuse anything but a finite number for which `is_allowed` holds."""
    is_number = isinstance(given, int | float) and not isinstance(given, bool)
    require(is_number and math.isfinite(given) and is_allowed(given), name, given, allowed)


def require_positive(name: str, given: Any) -> None:
    """Refuse anything but a positive finite number."""
    require_number(name, given, lambda number: number > 0, "a positive finite number")


def require_flag(name: str, given: Any) -> None:
    """Refuse anything but True and False: the string "false" would read as true."""
    require(isinstance(given, bool), name, given, "True or False")


def require_choice(name: str, given: Any, choices: Sequence[str]) -> None:
    """Refuse a word that is not among the choices."""
    require(given in choices, name, given, "one of " + ", ".join(repr(choice) for choice in choices))


@dataclass(frozen=True)
class Ladder:
    """The temperatures, hottest first, ending at T = 1.

    Args:
        temperatures: given by hand; everything else here is ignored then.
        hottest: the hottest temperature; None lets the pilot find the coolest one at which chains mix.
        num_levels: how many temperatures; None takes steps that keep the spread of log weights bounded:
            T_{k+1} = T_k / r with r = 1 + 2.2 / sqrt(dim / 2) at the most.
        spacing: geometric or linear between hottest and 1.
    """

    temperatures: tuple[float, ...] | None = None
    hottest: float | None = None
    num_levels: int | None = None
    spacing: Literal["geometric", "linear"] = "geometric"

    def __post_init__(self) -> None:
        require_choice("ladder.spacing", self.spacing, ("geometric", "linear"))
        if self.hottest is not None:
            above = "a finite number above 1, the target's own temperature"
            require_number("ladder.hottest", self.hottest, lambda hottest: hottest > 1, above)
        if self.num_levels is not None:
            require_count("ladder.num_levels", self.num_levels, 2)
        if self.temperatures is not None:
            self._check_temperatures(self.temperatures)

    @staticmethod
    def _check_temperatures(temperatures: tuple[float, ...]) -> None:
        name, allowed = "ladder", "at least two temperatures"
        is_list = isinstance(temperatures, Iterable) and not isinstance(temperatures, str)
        require(is_list, name, temperatures, allowed, "give the hottest first and end at 1.0")
        given = tuple(temperatures)
        require(len(given) >= 2, name, given, allowed, "give the hottest first and end at 1.0")
        for temperature in given:
            require_positive("ladder temperature", temperature)
        falling = all(hot > cold for hot, cold in zip(given, given[1:], strict=False))
        require(falling, name, given, "strictly decreasing, hottest first", "sort it and drop repeated values")
        require(given[-1] == 1, name, given, "a ladder that ends at T = 1 exactly", "append 1.0")


@dataclass(frozen=True)
class Pilot:
    """Heating until chains mix: how the hottest temperature is found when none is given.

    Args:
        num_chains: chains of the pilot.
        num_steps: kernel steps at every temperature tried; half adapt, half are judged.
        growth: factor from one temperature tried to the next.
        max_rounds: temperatures tried at most.
        max_rhat: chains count as mixed when the largest R-hat over coordinates is below this.
    """

    num_chains: int = 32
    num_steps: int = 60
    growth: float = 2.0
    max_rounds: int = 14
    max_rhat: float = 1.3

    def __post_init__(self) -> None:
        require_count("pilot.num_chains", self.num_chains, 4)
        require_count("pilot.num_steps", self.num_steps, 16)  # fewer leave R-hat less than two draws of a half chain
        require_number("pilot.growth", self.growth, lambda growth: growth > 1, "a finite number above 1")
        require_count("pilot.max_rounds", self.max_rounds)
        require_number("pilot.max_rhat", self.max_rhat, lambda rhat: rhat > 1, "a finite number above 1")


@dataclass(frozen=True)
class Exploration:
    """How chains move: the kernel at one temperature and the swaps between temperatures.

    Args:
        kernel: mala or hmc.
        num_leapfrog: leapfrog steps of one HMC step, each an evaluation; MALA ignores it.
        target_acceptance: what the step sizes are adapted towards; None takes the kernel's optimum.
        swap_interval: kernel steps between swap rounds.
        swap_scheme: even_odd (non-reversible alternation) or sweep (all pairs in turn, hot to cold, as in the paper).
    """

    kernel: Literal["mala", "hmc"] = "mala"
    num_leapfrog: int = 8
    target_acceptance: float | None = None
    swap_interval: int = 5
    swap_scheme: Literal["even_odd", "sweep"] = "even_odd"

    def __post_init__(self) -> None:
        require_choice("exploration.kernel", self.kernel, ("mala", "hmc"))
        require_count("exploration.num_leapfrog", self.num_leapfrog)
        if self.target_acceptance is not None:
            name, given = "exploration.target_acceptance", self.target_acceptance
            require_number(name, given, lambda rate: 0 < rate < 1, "strictly between 0 and 1")
        require_count("exploration.swap_interval", self.swap_interval)
        require_choice("exploration.swap_scheme", self.swap_scheme, ("even_odd", "sweep"))


@dataclass(frozen=True)
class Initial:
    """The initial parallel tempering.

    Args:
        num_chains: independent ladders of chains side by side.
        num_steps: kernel steps of every chain, burn-in included.
        burn_in: steps that adapt and are thrown away.
        thin: steps between kept states.
        scale: standard deviation of the starting points around the origin, where the target brings no start of its own.
    """

    num_chains: int = 100
    num_steps: int = 400
    burn_in: int = 100
    thin: int = 10
    scale: float = 1.0

    def __post_init__(self) -> None:
        require_count("initial.num_chains", self.num_chains)
        require_count("initial.num_steps", self.num_steps)
        require_count("initial.burn_in", self.burn_in, 0)
        require_count("initial.thin", self.thin)
        require_positive("initial.scale", self.scale)
        enough = self.num_steps - self.burn_in >= self.thin
        require(enough, "initial.num_steps", self.num_steps, "at least burn_in + thin, so that a state is kept")

    @property
    def num_draws(self) -> int:
        """States kept of every chain."""
        return (self.num_steps - self.burn_in) // self.thin


@dataclass(frozen=True)
class Network:
    """The denoiser's network: the paper's plain MLP or a residual one.

    Args:
        kind: mlp or residual.
        width: hidden width.
        depth: linear layers of the MLP, or residual blocks.
        num_frequencies: Fourier features of the noise level.
    """

    kind: Literal["mlp", "residual"] = "residual"
    width: int = 128
    depth: int = 4
    num_frequencies: int = 16

    def __post_init__(self) -> None:
        require_choice("network.kind", self.kind, ("mlp", "residual"))
        require_count("network.width", self.width)
        require_count("network.depth", self.depth, 2)
        require_count("network.num_frequencies", self.num_frequencies)


@dataclass(frozen=True)
class Noise:
    """The noise levels of training and sampling (Karras et al. 2022, variance exploding).

    Args:
        sigma_min: None takes 3 % of the smallest within-mode scale, read off the buffered gradients.
        sigma_max: None takes five times the spread of the hottest buffer.
        rho: spacing of the sampling grid.
        distribution: of ln sigma in training: log_uniform over the range, or log_normal(log_mean, log_std).
        prior: matched starts from the noised buffer's Gaussian (mean and covariance), noise from N(0, sigma_max^2).
        is_isotropic: one sigma_data for all coordinates (the paper), or one for each.
    """

    sigma_min: float | None = None
    sigma_max: float | None = None
    rho: float = 7.0
    distribution: Literal["log_uniform", "log_normal"] = "log_uniform"
    log_mean: float = -1.2
    log_std: float = 1.2
    prior: Literal["matched", "noise"] = "matched"
    is_isotropic: bool = False

    def __post_init__(self) -> None:
        for name in ("sigma_min", "sigma_max"):
            if getattr(self, name) is not None:
                require_positive(f"noise.{name}", getattr(self, name))
        if self.sigma_min is not None and self.sigma_max is not None:
            require(self.sigma_min < self.sigma_max, "noise.sigma_min", self.sigma_min, "below noise.sigma_max")
        require_positive("noise.rho", self.rho)
        require_choice("noise.distribution", self.distribution, ("log_uniform", "log_normal"))
        require_number("noise.log_mean", self.log_mean, lambda number: True, "a finite number")
        require_positive("noise.log_std", self.log_std)
        require_choice("noise.prior", self.prior, ("matched", "noise"))
        require_flag("noise.is_isotropic", self.is_isotropic)


@dataclass(frozen=True)
class Training:
    """How a denoiser is fitted to a buffer.

    Args:
        num_steps: optimiser steps at the first two levels, and of the last level's and PT+DM's model.
        num_finetune_steps: optimiser steps at every further level; None means num_steps (the paper).
        batch_size: samples a step.
        learning_rate: peak of a warm-up and cosine schedule.
        clip_norm: limit on the global norm of the gradient.
        ema_decay: of the averaged weights that are kept.
        validation_fraction: share of the buffer held out.
        check_every: steps between validation checks.
        patience: checks without improvement after which training stops and the best weights are kept; 0 never stops
            and keeps the last.
        use_gradients: regress on the blend of x0 and the target-score identity, from the stored gradients.
    """

    num_steps: int = 3000
    num_finetune_steps: int | None = None
    batch_size: int = 512
    learning_rate: float = 2e-3
    warmup_steps: int = 100
    clip_norm: float = 1.0
    ema_decay: float = 0.999
    validation_fraction: float = 0.1
    check_every: int = 250
    patience: int = 6
    use_gradients: bool = True

    def __post_init__(self) -> None:
        require_count("training.num_steps", self.num_steps)
        if self.num_finetune_steps is not None:
            require_count("training.num_finetune_steps", self.num_finetune_steps)
        require_count("training.batch_size", self.batch_size)
        require_positive("training.learning_rate", self.learning_rate)
        require_count("training.warmup_steps", self.warmup_steps, 0)
        require_positive("training.clip_norm", self.clip_norm)
        require_number("training.ema_decay", self.ema_decay, lambda decay: 0 <= decay < 1, "in [0, 1)")
        name, given = "training.validation_fraction", self.validation_fraction
        require_number(name, given, lambda fraction: 0 < fraction < 1, "strictly between 0 and 1")
        require_count("training.check_every", self.check_every)
        require_count("training.patience", self.patience, 0)
        require_flag("training.use_gradients", self.use_gradients)


@dataclass(frozen=True)
class Sampling:
    """How a denoiser is turned into samples.

    Args:
        solver: heun or euler on the rho-spaced grid, adaptive (Diffrax), or sde (ancestral reverse SDE; no density).
        num_steps: steps of the grid.
        divergence: how volume is tracked: exact (determinants from dim forward-mode products) or hutchinson (probes).
        num_probes: random probes of Hutchinson's estimator.
        rtol, atol: tolerances of the adaptive solver.
        chunk_size: samples integrated at once; bounds memory, does not change results.
    """

    solver: Literal["heun", "euler", "adaptive", "sde"] = "heun"
    num_steps: int = 60
    divergence: Literal["exact", "hutchinson"] = "exact"
    num_probes: int = 1
    rtol: float = 1e-4
    atol: float = 1e-4
    chunk_size: int = 2000

    def __post_init__(self) -> None:
        require_choice("sampling.solver", self.solver, ("heun", "euler", "adaptive", "sde"))
        require_count("sampling.num_steps", self.num_steps, 2)
        require_choice("sampling.divergence", self.divergence, ("exact", "hutchinson"))
        require_count("sampling.num_probes", self.num_probes)
        require_positive("sampling.rtol", self.rtol)
        require_positive("sampling.atol", self.atol)
        require_count("sampling.chunk_size", self.chunk_size)


@dataclass(frozen=True)
class Guidance:
    """Extrapolation to the next level: in which coordinate the finite difference between two models is linear."""

    coordinate: Literal["T", "log_T", "inverse_T"] = "T"

    def __post_init__(self) -> None:
        require_choice("guidance.coordinate", self.coordinate, ("T", "log_T", "inverse_T"))


@dataclass(frozen=True)
class Resampling:
    """Truncated importance resampling.

    Args:
        quantile: weights above this quantile are cut to it (the paper's tau); 1 cuts none.
        scheme: multinomial (the paper) or systematic (less noise).
        is_last_resampled: whether the last level is resampled too.
    """

    quantile: float = 0.99
    scheme: Literal["multinomial", "systematic"] = "systematic"
    is_last_resampled: bool = True

    def __post_init__(self) -> None:
        require_number("resampling.quantile", self.quantile, lambda quantile: 0 < quantile <= 1, "in (0, 1]")
        require_choice("resampling.scheme", self.scheme, ("multinomial", "systematic"))
        require_flag("resampling.is_last_resampled", self.is_last_resampled)


@dataclass(frozen=True)
class Refinement:
    """A short parallel tempering over pairs of samples of the new and the previous level.

    Args:
        num_steps: kernel steps; 0 switches refinement off.
        num_chains: None refines every sample and keeps the last states; a number refines that many and joins their
            thinned states to the buffer.
        thin: steps between joined states, with num_chains.
        adapt_fraction: share of the steps, at the start, during which step sizes still adapt.
    """

    num_steps: int = 5
    num_chains: int | None = None
    thin: int = 10
    adapt_fraction: float = 0.5

    def __post_init__(self) -> None:
        require_count("refinement.num_steps", self.num_steps, 0)
        require_count("refinement.thin", self.thin)
        require_number("refinement.adapt_fraction", self.adapt_fraction, lambda share: 0 <= share < 1, "in [0, 1)")
        if self.num_chains is not None:
            require_count("refinement.num_chains", self.num_chains)
            enough = self.num_steps == 0 or self.num_kept >= 1
            require(enough, "refinement.thin", self.thin, "small enough that a frozen state is kept")

    @property
    def num_adapting(self) -> int:
        """Steps at the start whose states are never kept, because step sizes still move."""
        return int(self.num_steps * self.adapt_fraction)

    @property
    def num_kept(self) -> int:
        """States of every refined chain that join the buffer."""
        return (self.num_steps - self.num_adapting) // self.thin


@dataclass(frozen=True)
class PTSDSettings:
    """Everything PTSD can be told.

    Args:
        buffer_size: samples of a level, generated and kept.
        num_final_draws: draws of the final model that are weighted to report ESS and log Z; each is an evaluation.
    """

    buffer_size: int = 2000
    num_final_draws: int = 1000
    ladder: Ladder = field(default_factory=Ladder)
    pilot: Pilot = field(default_factory=Pilot)
    initial: Initial = field(default_factory=Initial)
    exploration: Exploration = field(default_factory=Exploration)
    network: Network = field(default_factory=Network)
    noise: Noise = field(default_factory=Noise)
    training: Training = field(default_factory=Training)
    sampling: Sampling = field(default_factory=Sampling)
    guidance: Guidance = field(default_factory=Guidance)
    resampling: Resampling = field(default_factory=Resampling)
    refinement: Refinement = field(default_factory=Refinement)

    def __post_init__(self) -> None:
        _check_buffer(self, refinement=self.refinement)


@dataclass(frozen=True)
class PTDMSettings:
    """Everything PT+DM can be told: parallel tempering over the whole ladder, then one diffusion model at T = 1."""

    buffer_size: int = 2000
    num_final_draws: int = 1000
    ladder: Ladder = field(default_factory=Ladder)
    pilot: Pilot = field(default_factory=Pilot)
    initial: Initial = field(default_factory=Initial)
    exploration: Exploration = field(default_factory=Exploration)
    network: Network = field(default_factory=Network)
    noise: Noise = field(default_factory=Noise)
    training: Training = field(default_factory=Training)
    sampling: Sampling = field(default_factory=Sampling)

    def __post_init__(self) -> None:
        _check_buffer(self, refinement=None)


def _check_buffer(settings: PTSDSettings | PTDMSettings, refinement: Refinement | None) -> None:
    require_count("buffer_size", settings.buffer_size, 20)
    require_count("num_final_draws", settings.num_final_draws, 0)
    kept = settings.initial.num_chains * settings.initial.num_draws
    require(
        kept >= settings.buffer_size,
        "buffer_size",
        settings.buffer_size,
        f"at most the {kept:,} states the initial PT keeps (num_chains x (num_steps - burn_in) / thin)",
        "lower buffer_size or initial.thin, or raise initial.num_chains or initial.num_steps",
    )
    require(
        settings.sampling.solver != "sde",
        "sampling.solver",
        settings.sampling.solver,
        "'heun', 'euler' or 'adaptive' while fitting, where importance weights need a density",
        "draw with `sampler.sample(n, solver='sde')` afterwards",
    )
    if refinement is not None and refinement.num_chains is not None:
        fits = refinement.num_chains <= settings.buffer_size
        require(fits, "refinement.num_chains", refinement.num_chains, "at most buffer_size")
