"""What diffusion models can be told: network, noise, training, sampling, guidance, resampling."""

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
_LEAST_SHARE, _MOST_CUT = 0.2, 0.5
"""The effective share that weights are truncated to, and that of few samples: at 1 the weights would say nothing."""
_LARGEST_BETA = 60.0
"""Beyond it sigma_max is more than 3e6 units, whose squares leave no digit of a unit in single precision."""


@dataclass(frozen=True)
class Network:
    """The denoiser's network: the paper's plain MLP or a residual one; for particles an equivariant one.

    Args:
        kind: mlp, residual, egnn (the paper's, for particles) or particle_transformer.
        width: hidden width.
        depth: linear layers of the MLP, residual blocks, or layers of a network of particles.
        coordinate_width: hidden width of a branch that sees every coordinate alone, beside the residual network that
            sees them all; 0 leaves it out.
        is_shared: one network for all levels, told the temperature; or one a level, as in the paper.
        num_particles, spatial_dim: of what egnn and particle_transformer see; a fit of particles fills them in.
        unit: a length such as that of two particles in contact, for the particle_transformer's radial features.
        is_half: matrix products of the particle_transformer, and messages of the egnn, in bfloat16.
        atoms: of a molecule, the kind of every particle, a number from 0; particles of one kind are exchangeable, as
            far as bonds allow. Empty, all particles are alike. A fit of a molecule fills it in: every atom its own.
        bonds: pairs of atoms that are joined; what is up to three bonds apart is told from the rest.
        is_chiral: the particle_transformer tells mirror images apart, by the signed volumes of four atoms each.
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
    """The noise levels of training and sampling (Karras et al. 2022), and the process that they belong to.

    Args:
        process: ve, variance exploding (the paper's), or vp, variance preserving: a change of variables of the other,
            with a clock of its own that training and solvers step through.
        beta_min, beta_max: of vp, the rate of its clock at the start and at the end. It ends with
            sqrt(exp((beta_min + beta_max) / 2) - 1) units of noise: 152 for 0.1 and 20, the usual ones.
        sigma_min: None takes 3 % of the smallest within-mode scale, read off the buffered gradients, or off the log
            densities of neighbouring samples where the target has no gradient.
        sigma_max: None takes five times the spread of the hottest buffer; of vp, the unit that its variance is
            preserved in is then that spread, and otherwise what makes it end there.
        prior: matched starts from the noised buffer's Gaussian (mean and covariance), isotropic from N(0, s^2) with the
            noised buffer's mean variance s^2, noise from N(0, sigma_max^2), or of vp from N(0, unit^2).
        is_isotropic: one scale for all coordinates (the paper), or one for each. Particles need it: their coordinates
            are alike.
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
    """How a denoiser is fitted to a buffer.

    Args:
        num_steps: optimiser steps at the first two levels, and of the last level's and PT+DM's model.
        num_finetune_steps: optimiser steps at every further level; None means num_steps (the paper).
        batch_size: samples a step.
        learning_rate: peak of a warm-up and cosine schedule.
        validation_fraction: share of the buffer held out.
        check_every: steps between validation checks.
        patience: checks without improvement after which training stops and the best weights are kept; 0 never stops
            and keeps the last. A schedule that ends sooner keeps the last, unless they are clearly worse held out.
        use_gradients: regress on the blend of x0 and the target-score identity, from the stored gradients.
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
    """How a denoiser is turned into samples.

    Args:
        solver: heun or euler on EDM's grid, churn (EDM's stochastic sampler: Heun with kicks that forget the denoiser's
            errors; weights are those of paths), or sde (ancestral reverse SDE; no density).
        num_steps: steps of the grid.
        divergence: how volume is tracked: exact (determinants from dim forward-mode products), hutchinson (probes),
            integrated (the paper's: the divergence by probes, integrated along the steps of euler, and not the density
            of what these steps make), or automatic: exact up to 16 dimensions, and else hutchinson.
        num_probes: random probes of Hutchinson's estimator.
        chunk_size: samples integrated at once; bounds memory, does not change results.
        is_quasi_random: draws that a level keeps start from scrambled Sobol points, which cover the modes more evenly
            than independent ones; what the finished sampler draws is always independent.
        churn: EDM's S_churn: every step first raises sigma by the share min(churn / num_steps, sqrt(2) - 1). More
            forgets more, and the weights vary more; at a given churn both errors fall with num_steps.
        churn_max: EDM's S_max, the largest sigma that is kicked; None has no limit.
        raw_solver: the solver of draws that nobody weighs; None takes `solver`. Kicks forget the errors that the flow
            keeps, so that churned draws are better than those of the flow, which alone have a cheap and exact density.
        raw_num_steps: steps of those draws; None takes `num_steps`.
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
        """The settings of draws that nobody weighs."""
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
        require(is_possible, "sampling.divergence", self.divergence, "integrated with solver euler only", remedy)
        require_count("sampling.num_probes", self.num_probes)
        require_count("sampling.chunk_size", self.chunk_size)
        require_flag("sampling.is_quasi_random", self.is_quasi_random)
        require_number("sampling.churn", self.churn, lambda number: number >= 0, "a number of at least 0")
        if self.churn_max is not None:
            require_positive("sampling.churn_max", self.churn_max)


@dataclass(frozen=True)
class Guidance:
    """How models of hotter levels become the proposal for the next level.

    Args:
        kind: finite_difference extrapolates between models (the paper); conditioned asks the network for the next
            temperature (the paper's model extrapolation, where nothing is anticipated); none takes the coldest model as
            it is; automatic takes the one of several whose weights promise the largest effective size, at no
            evaluation. Three more are the laboratory's, for the paper's ablations: second_order extrapolates from three
            levels where one network knows so many; autodiff is a Taylor step of the conditioned network; rescale
            multiplies the coldest model's score by the ratio of temperatures.
        coordinate: T (the paper) or log_T: in what the finite difference and the Taylor step are linear.
        is_anticipating: train the shared network also on the last buffer reweighted to the next temperature, which
            costs no evaluation.
    """

    kind: Literal["automatic", "finite_difference", "conditioned", "none", "second_order", "autodiff", "rescale"] = (
        "automatic"
    )
    coordinate: Literal["T", "log_T"] = "log_T"
    is_anticipating: bool = True

    def __post_init__(self) -> None:
        ablations = ("second_order", "autodiff", "rescale")
        require_choice(
            "guidance.kind", self.kind, ("automatic", "finite_difference", "conditioned", "none", *ablations)
        )
        require_choice("guidance.coordinate", self.coordinate, ("T", "log_T"))
        require_flag("guidance.is_anticipating", self.is_anticipating)


@dataclass(frozen=True)
class Resampling:
    """Truncated importance weights, and what becomes of them.

    Args:
        quantile: weights above this quantile are cut to it (the paper's tau); 1 cuts none; None cuts as little as
            brings the effective share to 0.2 (or `min_effective`), and nothing where it is larger already.
        min_effective: with quantile None, cut further where that leaves fewer samples than so many in effect, but to a
            share of one half at the most: a network trained on a hundred samples reproduces those, and every colder
            level inherits it.
        is_resampled: draw equally weighted samples, with duplicates (the paper); otherwise every sample is kept with
            its weight, and training draws by weight.
        scheme: multinomial (the paper) or systematic (less noise), where resampled.
        levels: which levels are corrected by their weights: all, all but the last (the paper on Many-Well-32), or none.
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
        """The effective share that the weights of `num` samples are cut to, with quantile None."""
        return max(_LEAST_SHARE, min(_MOST_CUT, self.min_effective / num))
