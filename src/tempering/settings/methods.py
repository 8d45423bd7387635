"""What a whole method can be told: the stages' settings together, checked against one another."""

from dataclasses import dataclass, field, fields

from tempering.settings.chains import Exploration, Initial, Ladder, Pilot, Refinement
from tempering.settings.checks import require, require_count, require_flag, require_kind, require_number
from tempering.settings.models import Guidance, Network, Noise, Resampling, Sampling, Training

__all__ = ["MethodSettings", "PTDMSettings", "PTSDSettings"]


@dataclass(frozen=True)
class MethodSettings:
    """What every method that starts from parallel tempering and ends in a diffusion model shares. Abstract.

    Args:
        buffer_size: samples of a level, generated and kept.
        num_final_draws: draws of the final model that are weighted to report ESS and log Z; each is an evaluation.
        is_sized_by_budget: take buffer sizes, final draws and the length of the initial PT from the budget and the
            ladder, in place of the numbers here.
    """

    buffer_size: int = 2000
    num_final_draws: int = 1000
    is_sized_by_budget: bool = False
    ladder: Ladder = field(default_factory=Ladder)
    pilot: Pilot = field(default_factory=Pilot)
    initial: Initial = field(default_factory=Initial)
    exploration: Exploration = field(default_factory=Exploration)
    network: Network = field(default_factory=Network)
    noise: Noise = field(default_factory=Noise)
    training: Training = field(default_factory=Training)
    sampling: Sampling = field(default_factory=Sampling)

    def __post_init__(self) -> None:
        for group in fields(self):
            if isinstance(group.default_factory, type):
                require_kind(group.name, getattr(self, group.name), group.default_factory)
        require_count("buffer_size", self.buffer_size, 20)
        require_count("num_final_draws", self.num_final_draws, 0)
        require_flag("is_sized_by_budget", self.is_sized_by_budget)
        kept = self.initial.num_chains * self.initial.num_draws
        require(
            kept >= self.buffer_size,
            "buffer_size",
            self.buffer_size,
            f"at most the {kept:,} states the initial PT keeps (num_chains x (num_steps - burn_in) / thin)",
            "lower buffer_size or initial.thin, or raise initial.num_chains or initial.num_steps",
        )
        require(
            self.sampling.solver != "sde",
            "sampling.solver",
            self.sampling.solver,
            "'heun', 'euler' or 'churn' while fitting, where importance weights need a density",
            "draw with `sampler.sample(n, solver='sde')` afterwards",
        )


@dataclass(frozen=True)
class PTDMSettings(MethodSettings):
    """Everything PT+DM can be told: parallel tempering over the whole ladder, then one diffusion model at T = 1."""


@dataclass(frozen=True)
class PTSDSettings(MethodSettings):
    """Everything PTSD can be told.

    Args:
        level_size: samples drawn at a level on the way; None means buffer_size, which the initial PT keeps.
        last_buffer_size: samples of the last level, whose weights the final model learns; None means buffer_size.
        initial_share: of what the pilot leaves of a budget, for the initial PT, where the budget sets the sizes. A
            ladder of two levels has nothing else to spend it on.
        last_refinement: of the level at T = 1, which the final model learns; None means as `refinement` says. A ladder
            of two levels refines nothing. On a command line it is given whole: `last_refinement={"num_steps": 26}`.
    """

    level_size: int | None = None
    last_buffer_size: int | None = None
    initial_share: float = 0.3
    guidance: Guidance = field(default_factory=Guidance)
    resampling: Resampling = field(default_factory=Resampling)
    refinement: Refinement = field(default_factory=Refinement)
    last_refinement: Refinement | None = None

    def refinement_at(self, temperature: float) -> Refinement:
        """That of the level at `temperature`."""
        return self.last_refinement if self.last_refinement and temperature <= 1.0 else self.refinement

    @property
    def is_reweighting(self) -> bool:
        """Whether levels come from the buffer before, and from no model."""
        return self.guidance.kind == "reweighted"

    def __post_init__(self) -> None:
        super().__post_init__()
        require_number("initial_share", self.initial_share, lambda share: 0 < share < 1, "a number between 0 and 1")
        if self.last_refinement is not None:
            require_kind("last_refinement", self.last_refinement, Refinement)
        refinements = (self.refinement, self.refinement_at(1.0))
        for name in ("level_size", "last_buffer_size"):
            size = getattr(self, name)
            if size is not None:
                require_count(name, size, 20)
                is_even = all(one.num_steps == 0 for one in refinements) or size == self.buffer_size
                require(is_even, name, size, "None or buffer_size where samples are refined in pairs of levels")
        needs_sharing = self.guidance.kind in ("conditioned", "autodiff") or self.guidance.is_anticipating
        require(
            self.network.is_shared or not needs_sharing,
            "network.is_shared",
            self.network.is_shared,
            "True for guidance that asks the network for a temperature (conditioned, autodiff, is_anticipating)",
        )
        for name, one in zip(("refinement", "last_refinement"), refinements, strict=True):
            require(
                one.num_steps == 0 or not self.is_sized_by_budget,
                f"{name}.num_steps",
                one.num_steps,
                "0 where the budget sets the sizes, which differ from level to level: pairs of samples are refined",
                "or give sizes and is_sized_by_budget=false",
            )
            require(
                one.num_steps > 0 or not self.is_reweighting,
                f"{name}.num_steps",
                one.num_steps,
                "at least 1 with guidance.kind = 'reweighted', which repeats samples of the level before",
            )
            if one.num_chains is not None:
                require(one.num_chains <= self.buffer_size, f"{name}.num_chains", one.num_chains, "at most buffer_size")
        # Levels that are taken over have grown by what joined them, and every one of their samples would be refined.
        grows = self.is_reweighting and self.refinement.num_chains is not None
        require(
            not grows or refinements[1].num_chains is not None,
            "last_refinement.num_chains",
            refinements[1].num_chains,
            "a number where refinement.num_chains is one and guidance.kind = 'reweighted'",
        )
        require(
            self.refinement.num_states == 1,
            "refinement.num_states",
            self.refinement.num_states,
            "1 but in `last_refinement`: levels on the way have as many samples as chains",
        )
