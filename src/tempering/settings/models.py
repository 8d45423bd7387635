"""The settings of diffusion models: network, noise, training, sampling, guidance, resampling."""

from dataclasses import dataclass, replace
from typing import Literal

from tempering.settings.checks import (
    require,
    require_choice,
    require_count,
    require_flag,
    require_number,
    require_positive,
)

__all__ = ["Guidance", "Network", "Noise", "Resampling", "Sampling", "Training"]

_SOLVERS = ("heun", "euler", "churn", "sde")
_LEAST_SHARE, _MOST_SHARE = 0.2, 0.5
"""The effective share to which weights are truncated, of many and of few samples: at 1 they would say nothing."""
_LARGEST_BETA = 60.0
"""Beyond it sigma_max is more than 3e6 units, whose squares leave no digit of a unit in single precision."""


@dataclass(frozen=True)
class Network:
    """The settings of the denoiser's network. It is an MLP (the paper's), a residual network, or one for particles.

    Args:
        kind: mlp, residual, egnn (the paper's, for particles) or particle_transformer.
        width: the hidden width.
        depth: the number of linear layers of the MLP, of residual blocks, or of layers of a network for particles.
        coordinate_width: the hidden width of an extra branch, which sees each coordinate alone. It stands beside the
            residual network, which sees all coordinates. 0 leaves it out.
        is_shared: True trains one network for all levels, with the temperature as an input. False trains one network
            per level, as in the paper.
        num_particles, spatial_dim: the number of particles and their dimension, for egnn and particle_transformer. A
            fit of particles fills them in.
        unit: a typical length, such as the distance of two particles in contact. The particle_transformer's radial
            features use it.
        is_half: compute matrix products of the particle_transformer, and messages of the egnn, in bfloat16.
        atoms: the kind of every particle of a molecule, as numbers from 0. Particles of one kind are exchangeable, as
            far as bonds allow. If it is empty, all particles are alike. A fit of a molecule gives each atom its own
            kind.
        bonds: pairs of atoms that are joined. The network treats atoms up to three bonds apart differently from others.
        is_on_modes: a density that is drawn from its modes has a denoiser that starts from a mixture of Gaussians, one
            at each mode, in place of a linear one.
        num_components: places of this mixture; 0 is none. A fit fills it in.
        is_chiral: the particle_transformer distinguishes mirror images, by the signed volumes of four atoms each.
    """

    kind: Literal["mlp", "residual", "egnn", "particle_transformer"] = "residual"
    width: int = 128
    depth: int = 3
    coordinate_width: int = 24
    is_shared: bool = True
    num_particles: int = 0
    spatial_dim: int = 3
    unit: float = 1.0
    is_half: bool = False
    atoms: tuple[int, ...] = ()
    bonds: tuple[tuple[int, int], ...] = ()
    is_chiral: bool = False
    is_on_modes: bool = True
    num_components: int = 0

    @property
    def is_of_particles(self) -> bool:
        """Whether the network takes a configuration apart into particles."""
        return self.kind in ("egnn", "particle_transformer")

    def __post_init__(self) -> None:
        require_choice("network.kind", self.kind, ("mlp", "residual", "egnn", "particle_transformer"))
        require_count("network.width", self.width)
        require_count("network.depth", self.depth, 2)
        require_count("network.coordinate_width", self.coordinate_width, 0)
        require_flag("network.is_shared", self.is_shared)
        require_count("network.num_particles", self.num_particles, 0)
        require_count("network.spatial_dim", self.spatial_dim)
        require_positive("network.unit", self.unit)
        require_flag("network.is_half", self.is_half)
        require_flag("network.is_chiral", self.is_chiral)
        require_flag("network.is_on_modes", self.is_on_modes)
        require_count("network.num_components", self.num_components, 0)
        self._check_molecule()

    def _check_molecule(self) -> None:
        given, num = self.atoms, self.num_particles
        require(isinstance(given, tuple), "network.atoms", given, "a tuple of integers, one for each particle")
        for atom in given:
            require_count("network.atoms", atom, 0)
        is_whole = not given or not self.is_of_particles or len(given) == num
        require(is_whole, "network.atoms", given, f"empty or one integer for each of num_particles = {num}")
        require(isinstance(self.bonds, tuple), "network.bonds", self.bonds, "a tuple of pairs of atoms")
        for bond in self.bonds:
            is_pair = isinstance(bond, tuple) and len(bond) == 2 and bond[0] != bond[1]
            require(is_pair, "network.bonds", bond, "pairs of two different atoms")
            for atom in bond:
                require_count("network.bonds", atom, 0, len(given) - 1)
        if self.is_chiral and self.is_of_particles:
            is_possible = self.kind == "particle_transformer" and self.spatial_dim == 3 and bool(self.bonds)
            remedy = "give atoms and bonds to a particle_transformer, or is_chiral = False"
            require(is_possible, "network.is_chiral", True, "False without bonds in 3-D, and for an egnn", remedy)


@dataclass(frozen=True)
class Noise:
    """The settings of the noise levels for training and sampling (Karras et al. 2022), and of their process.

    Args:
        process: "ve" is variance exploding (the paper's). "vp" is variance preserving. It is a change of variables of
            "ve", with its own clock for training and solvers.
        beta_min, beta_max: the rate of the clock of "vp" at the start and at the end. It ends with
            sqrt(exp((beta_min + beta_max) / 2) - 1) units of noise: 152 for the usual 0.1 and 20.
        sigma_min: the smallest noise level. None takes 3 % of the smallest scale within a mode. That scale comes from
            the stored gradients, or from log densities of neighbouring samples if the target has no gradient.
        sigma_max: the largest noise level. None takes five times the spread of the hottest buffer. "vp" preserves the
            variance of a unit. With None this unit is that spread. With a number the unit is such that the clock ends
            there.
        prior: where draws start. "matched" is a Gaussian with mean and covariance of the noised buffer. "isotropic" is
            N(0, s^2), where s^2 is the noised buffer's mean variance. "noise" is N(0, sigma_max^2), with "vp"
            N(0, unit^2).
        is_isotropic: True uses one scale for all coordinates (the paper). False uses one scale per coordinate.
            Particles need True, because their coordinates are alike.
    """

    sigma_min: float | None = None
    sigma_max: float | None = None
    prior: Literal["matched", "isotropic", "noise"] = "matched"
    is_isotropic: bool = False
    process: Literal["ve", "vp"] = "ve"
    beta_min: float = 0.1
    beta_max: float = 20.0

    def __post_init__(self) -> None:
        require_choice("noise.process", self.process, ("ve", "vp"))
        require_positive("noise.beta_min", self.beta_min)
        allowed = f"a number of at least noise.beta_min = {self.beta_min} and at most {_LARGEST_BETA:g}"
        require_number("noise.beta_max", self.beta_max, lambda rate: self.beta_min <= rate <= _LARGEST_BETA, allowed)
        for name in ("sigma_min", "sigma_max"):
            if getattr(self, name) is not None:
                require_positive(f"noise.{name}", getattr(self, name))
        if self.sigma_min is not None and self.sigma_max is not None:
            require(self.sigma_min < self.sigma_max, "noise.sigma_min", self.sigma_min, "below noise.sigma_max")
        require_choice("noise.prior", self.prior, ("matched", "isotropic", "noise"))
        require_flag("noise.is_isotropic", self.is_isotropic)


@dataclass(frozen=True)
class Training:
    """The settings of training: how a denoiser is fitted to a buffer.

    Args:
        num_steps: the number of optimiser steps at the first two levels, and for the last level. PT+DM's model takes as
            many.
        num_finetune_steps: the number of optimiser steps at every other level. None means num_steps (the paper).
        batch_size: the number of samples per step.
        learning_rate: the peak of a schedule with warm-up and cosine decay.
        validation_fraction: the share of the buffer that is held out for validation.
        check_every: the number of steps between two validation checks.
        patience: training stops after this many checks without improvement, and keeps the best weights. 0 never stops
            early and keeps the last weights. If the schedule ends first, the last weights are kept, unless the
            validation loss says that they are clearly worse.
        use_gradients: train on a mixture of x0 and the target-score identity, which uses the stored gradients.
    """

    num_steps: int = 8000
    num_finetune_steps: int | None = 2000
    batch_size: int = 512
    learning_rate: float = 2e-3
    validation_fraction: float = 0.1
    check_every: int = 250
    patience: int = 40
    use_gradients: bool = True

    def __post_init__(self) -> None:
        require_count("training.num_steps", self.num_steps)
        if self.num_finetune_steps is not None:
            require_count("training.num_finetune_steps", self.num_finetune_steps)
        require_count("training.batch_size", self.batch_size)
        require_positive("training.learning_rate", self.learning_rate)
        name, given = "training.validation_fraction", self.validation_fraction
        require_number(name, given, lambda fraction: 0 < fraction < 1, "strictly between 0 and 1")
        require_count("training.check_every", self.check_every)
        require_count("training.patience", self.patience, 0)
        require_flag("training.use_gradients", self.use_gradients)


@dataclass(frozen=True)
class Sampling:
    """The settings of sampling: how a denoiser makes draws.

    Args:
        solver: heun and euler follow the flow on EDM's grid. churn is EDM's stochastic sampler: Heun steps with random
            kicks, which remove errors of the denoiser; its weights are those of whole paths. sde is the reverse SDE; it
            has no density.
        num_steps: the number of steps of the grid.
        divergence: how the density of a draw is computed. "exact" takes determinants, from dim forward-mode products.
            "hutchinson" estimates them with random probes. "integrated" is the paper's: the divergence by probes,
            integrated along the steps of euler; it is not the density of what these steps make. "automatic" is exact up
            to 16 dimensions, and else hutchinson.
        num_probes: the number of random probes of Hutchinson's estimator.
        chunk_size: the number of draws that are made at once. It limits memory and does not change results.
        is_quasi_random: draws of a level start from scrambled Sobol points, which cover the modes more evenly than
            independent ones. Draws of the finished sampler are always independent.
        churn: EDM's S_churn. Every step first raises sigma by the share min(churn / num_steps, sqrt(2) - 1). A larger
            value removes more errors, and makes the weights vary more. Both effects shrink with num_steps.
        churn_max: EDM's S_max, the largest sigma at which there are kicks. None sets no limit.
        raw_solver: the solver of draws without weights. None takes `solver`. Churned draws are better than those of the
            flow, because kicks remove errors. Only the flow has an exact density that is cheap.
        raw_num_steps: the number of steps for draws without weights. None takes `num_steps`.
    """

    solver: Literal["heun", "euler", "churn", "sde"] = "heun"
    num_steps: int = 32
    divergence: Literal["automatic", "exact", "hutchinson", "integrated"] = "automatic"
    num_probes: int = 4
    chunk_size: int = 2000
    is_quasi_random: bool = True
    churn: float = 40.0
    churn_max: float | None = None
    raw_solver: Literal["heun", "euler", "churn", "sde"] | None = None
    raw_num_steps: int | None = None

    @property
    def raw(self) -> "Sampling":
        """The settings of draws without weights."""
        solver, num_steps = self.raw_solver or self.solver, self.raw_num_steps or self.num_steps
        how = {} if solver == self.solver or self.divergence != "integrated" else {"divergence": "automatic"}
        return replace(self, solver=solver, num_steps=num_steps, raw_solver=None, raw_num_steps=None, **how)

    def __post_init__(self) -> None:
        require_choice("sampling.solver", self.solver, _SOLVERS)
        require_count("sampling.num_steps", self.num_steps, 2)
        if self.raw_solver is not None:
            require_choice("sampling.raw_solver", self.raw_solver, _SOLVERS)
        if self.raw_num_steps is not None:
            require_count("sampling.raw_num_steps", self.raw_num_steps, 2)
        require_choice("sampling.divergence", self.divergence, ("automatic", "exact", "hutchinson", "integrated"))
        is_possible = self.divergence != "integrated" or self.solver == "euler"
        remedy = "set sampling.solver = 'euler', or sampling.divergence = 'automatic'"
        require(
            is_possible,
            "sampling.divergence",
            self.divergence,
            "another way with this solver: only euler integrates it",
            remedy,
        )
        require_count("sampling.num_probes", self.num_probes)
        require_count("sampling.chunk_size", self.chunk_size)
        require_flag("sampling.is_quasi_random", self.is_quasi_random)
        require_number("sampling.churn", self.churn, lambda number: number >= 0, "a number of at least 0")
        if self.churn_max is not None:
            require_positive("sampling.churn_max", self.churn_max)


@dataclass(frozen=True)
class Guidance:
    """The settings of guidance: how models of hotter levels give the proposal for the next level.

    Args:
        kind: "finite_difference" extrapolates from two models (the paper). "conditioned" asks one network for the next
            temperature; without `is_anticipating` this is the paper's model extrapolation. "none" takes the coldest
            model as it is. "automatic" compares several ways and takes the one with the largest expected effective
            size; this costs no evaluation. Three more are for the paper's ablations: "second_order" extrapolates from
            three levels with one network, "autodiff" is a Taylor step of the conditioned network, and "rescale"
            multiplies the coldest model's score by the ratio of temperatures.
        coordinate: the finite difference and the Taylor step are linear in T (the paper) or in log_T.
        is_anticipating: also train the shared network on the last buffer, reweighted to the next temperature. This
            costs no evaluation.
        num_between: temperatures between each two neighbouring levels, even in log T, at which the shared network is
            trained as well, on the hotter buffer reweighted: the paper's continuum. This costs no evaluation.
    """

    kind: Literal["automatic", "finite_difference", "conditioned", "none", "second_order", "autodiff", "rescale"] = (
        "automatic"
    )
    coordinate: Literal["T", "log_T"] = "log_T"
    is_anticipating: bool = True
    num_between: int = 0

    def __post_init__(self) -> None:
        ablations = ("second_order", "autodiff", "rescale")
        require_choice(
            "guidance.kind", self.kind, ("automatic", "finite_difference", "conditioned", "none", *ablations)
        )
        require_choice("guidance.coordinate", self.coordinate, ("T", "log_T"))
        require_flag("guidance.is_anticipating", self.is_anticipating)
        require_count("guidance.num_between", self.num_between, 0)


@dataclass(frozen=True)
class Resampling:
    """The settings of importance weights: how they are truncated, and what is done with them.

    Args:
        quantile: weights above this quantile are lowered to it (the paper's tau). 1 lowers none. None lowers only
            the largest weights, until the effective share is 0.2 or `min_effective` samples are effective.
        min_effective: the number of effective samples to reach if quantile is None. Weights are not truncated beyond an
            effective share of one half for it. The reason: a network that was trained on a hundred samples only repeats
            them, and every colder level inherits that.
        is_resampled: True draws samples of equal weight, with duplicates (the paper). False keeps every sample with its
            weight, and training draws by weight.
        scheme: how samples are drawn if `is_resampled`: "multinomial" (the paper) or "systematic" (less noise).
        levels: which levels are corrected by their weights: "all", "but_last" (the paper on Many-Well-32) or "none".
    """

    quantile: float | None = None
    min_effective: int = 700
    is_resampled: bool = False
    scheme: Literal["multinomial", "systematic"] = "systematic"
    levels: Literal["all", "but_last", "none"] = "all"

    def __post_init__(self) -> None:
        if self.quantile is not None:
            require_number("resampling.quantile", self.quantile, lambda quantile: 0 < quantile <= 1, "in (0, 1]")
        require_count("resampling.min_effective", self.min_effective, least=0)
        require_flag("resampling.is_resampled", self.is_resampled)
        require_choice("resampling.scheme", self.scheme, ("multinomial", "systematic"))
        require_choice("resampling.levels", self.levels, ("all", "but_last", "none"))

    def least_share(self, num: int) -> float:
        """The effective share to which the weights of `num` samples are truncated, for quantile None."""
        return max(_LEAST_SHARE, min(_MOST_SHARE, self.min_effective / num))
