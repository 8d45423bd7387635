"""The settings of a whole method: those of its stages together, checked against one another.

An instance without arguments is what `tp.fit` runs. A group that is None is chosen from the density (`defaults.py`).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from tempering.settings.chains import Atlas, Exploration, Initial, Ladder, Pilot, Refinement
from tempering.settings.changes import changed
from tempering.settings.checks import require, require_count, require_flag, require_kind, require_number
from tempering.settings.models import Guidance, Network, Noise, Resampling, Sampling, Training

__all__ = ["DescentSettings", "MethodSettings", "PTDMSettings", "PTSDSettings", "ReweightedSettings"]

_GROUPS = {
    "atlas": Atlas,
    "ladder": Ladder,
    "pilot": Pilot,
    "initial": Initial,
    "exploration": Exploration,
    "network": Network,
    "noise": Noise,
    "training": Training,
    "sampling": Sampling,
    "guidance": Guidance,
    "resampling": Resampling,
    "refinement": Refinement,
    "last_refinement": Refinement,
}


@dataclass(frozen=True)
class MethodSettings:
    """The settings that all methods of this library share. Such a method starts with parallel tempering and ends with a
    diffusion model. This class is abstract.

    Args:
        buffer_size: the number of samples per level.
        num_final_draws: the number of draws of the final model that get weights, for ESS and log Z. Each costs one
            evaluation.
        is_sized_by_budget: choose buffer sizes, final draws, and the lengths of the pilot and the initial PT from the
            budget and the ladder. The numbers given for them here are then not used.
        network, noise, training, sampling: None chooses them from the density. The choice depends on its dimension, and
            on whether it is a density of particles or of a molecule. `sampler.settings` shows the choice.
    """

    buffer_size: int = 2000
    num_final_draws: int = 1000
    is_sized_by_budget: bool = True
    atlas: Atlas = field(default_factory=lambda: Atlas(share=0.0))
    ladder: Ladder = field(default_factory=Ladder)
    pilot: Pilot = field(default_factory=Pilot)
    initial: Initial = field(default_factory=Initial)
    exploration: Exploration = field(default_factory=Exploration)
    # None is for users alone: `resolved` puts a group in its place before any stage sees it.
    network: Network = None  # pyright: ignore[reportAssignmentType]
    noise: Noise = None  # pyright: ignore[reportAssignmentType]
    training: Training = None  # pyright: ignore[reportAssignmentType]
    sampling: Sampling = None  # pyright: ignore[reportAssignmentType]

    def with_changes(self, changes: Mapping[str, Any]) -> "MethodSettings":
        """Change some settings by their dotted names, such as `{"training.num_steps": 2000}`.

        Returns:
            New settings. These settings do not change.

        Raises:
            SettingsError: for an unknown name (the message has the nearest known one), for a value that is not allowed,
                or for a size if the budget sets the sizes.
        """
        return changed(self, changes)

    def __post_init__(self) -> None:
        may_be_none = ("network", "noise", "training", "sampling", "last_refinement")
        for name in [group.name for group in fields(self) if group.name in _GROUPS]:
            given = getattr(self, name)
            if given is not None or name not in may_be_none:
                require_kind(name, given, _GROUPS[name])
        require_count("buffer_size", self.buffer_size, 20)
        require_count("num_final_draws", self.num_final_draws, 0)
        require_flag("is_sized_by_budget", self.is_sized_by_budget)
        kept = self.initial.num_chains * self.initial.num_draws
        require(
            kept >= self.buffer_size or self.is_sized_by_budget,
            "buffer_size",
            self.buffer_size,
            f"at most the {kept:,} states the initial PT keeps (num_chains x (num_steps - burn_in) / thin)",
            "lower buffer_size or initial.thin, or raise initial.num_chains or initial.num_steps",
        )
        if self.sampling is not None:
            require(
                self.sampling.solver != "sde",
                "sampling.solver",
                self.sampling.solver,
                "'heun', 'euler' or 'churn' while fitting, where importance weights need a density",
                "draw with `sampler.sample(n, solver='sde')` afterwards",
            )


@dataclass(frozen=True)
class PTDMSettings(MethodSettings):
    """The settings of PT+DM: parallel tempering over the whole ladder, then one diffusion model at T = 1."""

    ladder: Ladder = field(default_factory=lambda: Ladder(spacing="geometric"))

    def __post_init__(self) -> None:
        super().__post_init__()
        require(
            self.atlas.share == 0,
            "atlas.share",
            self.atlas.share,
            "0 in PT+DM, which begins with hot chains",
            "method='ptsd' searches for modes",
        )


@dataclass(frozen=True)
class DescentSettings(MethodSettings):
    """The settings that methods share which go down the ladder level by level. This class is abstract.

    Args:
        last_refinement: the refinement of the level at T = 1, which the final model learns. None means the same as
            `refinement`. A ladder of two levels refines nothing. On the command line give all of it at once:
            `last_refinement={"num_steps": 26}`.
    """

    resampling: Resampling = field(default_factory=Resampling)
    refinement: Refinement = field(default_factory=Refinement)
    last_refinement: Refinement | None = None

    def refinement_at(self, temperature: float) -> Refinement:
        """The settings of the refinement at `temperature`."""
        return self.last_refinement if self.last_refinement and temperature <= 1.0 else self.refinement

    @property
    def _refinements(self) -> tuple[tuple[str, Refinement], ...]:
        return (("refinement", self.refinement), ("last_refinement", self.refinement_at(1.0)))

    def __post_init__(self) -> None:
        super().__post_init__()
        for name, one in self._refinements:
            require(
                one.num_steps == 0 or not self.is_sized_by_budget,
                f"{name}.num_steps",
                one.num_steps,
                "0 where the budget sets the sizes, which differ from level to level: pairs of samples are refined",
                "or give sizes and is_sized_by_budget=false",
            )
            if one.num_chains is not None:
                require(one.num_chains <= self.buffer_size, f"{name}.num_chains", one.num_chains, "at most buffer_size")
        require(
            self.refinement.num_states == 1,
            "refinement.num_states",
            self.refinement.num_states,
            "1 but in `last_refinement`: levels on the way have as many samples as chains",
        )


@dataclass(frozen=True)
class PTSDSettings(DescentSettings):
    """The settings of PTSD. Without arguments they are what `tp.fit` runs; `PTSDSettings.paper()` is the paper's.

    Args:
        level_size: the number of samples that are drawn for each level between the initial PT and T = 1. None means
            buffer_size.
        last_buffer_size: the number of samples at T = 1, from which the final model learns. None means buffer_size.
        initial_share: the share of the budget that goes to the initial PT, after the pilot is paid. It is used if the
            budget sets the sizes. With a ladder of two levels the initial PT gets all.
    """

    atlas: Atlas = field(default_factory=Atlas)
    level_size: int | None = None
    last_buffer_size: int | None = None
    initial_share: float = 0.3
    guidance: Guidance = field(default_factory=Guidance)

    @classmethod
    def paper(cls, num_particles: int = 0, spatial_dim: int = 3) -> "PTSDSettings":
        """The settings of the paper's Algorithm 1, with its table for MoG-40. What the table leaves open is our choice.

        - There are ten temperatures from 100 to 1, and chains move by MALA.
        - Each level has its own network, a 5-layer MLP, or an EGNN for particles. It learns by denoising score
          matching.
        - Draws start from N(0, t_max^2) and make Euler steps, each with one Hutchinson probe.
        - Guidance is linear in T.
        - Weights are truncated at their 99 % quantile and resampled. Five steps of local parallel tempering follow.

        A fit spends about a million evaluations. docs/decisions/0003-paper-presets.md has the choices.
        """
        is_of_particles = num_particles > 0
        mlp = Network("mlp", width=256, depth=5, coordinate_width=0, is_shared=False)
        egnn = Network(
            "egnn", 64, 3, coordinate_width=0, is_shared=False, num_particles=num_particles, spatial_dim=spatial_dim
        )
        return cls(
            atlas=Atlas(share=0.0),
            buffer_size=10_000,
            num_final_draws=0,
            is_sized_by_budget=False,
            ladder=Ladder(hottest=100.0, num_levels=10, spacing="geometric"),
            initial=Initial(num_chains=100, num_steps=1000, burn_in=100, thin=9),
            exploration=Exploration(kernel="mala", swap_interval=5, swap_scheme="sweep"),
            network=egnn if is_of_particles else mlp,
            noise=Noise(sigma_min=0.002, sigma_max=40.0, prior="noise", is_isotropic=True),
            training=Training(
                num_steps=10_000,
                num_finetune_steps=None,
                batch_size=1000,
                learning_rate=1e-3,
                patience=0,
                validation_fraction=0.02,
                use_gradients=False,
            ),
            sampling=Sampling(
                solver="euler",
                num_steps=1000,
                divergence="hutchinson",
                num_probes=1,
                chunk_size=2_000 if is_of_particles else 12_000,
                is_quasi_random=False,
            ),
            guidance=Guidance("finite_difference", "T", is_anticipating=False),
            resampling=Resampling(quantile=0.99, min_effective=0, is_resampled=True, scheme="multinomial"),
            refinement=Refinement(num_steps=5),
        )

    def __post_init__(self) -> None:
        super().__post_init__()
        require_number("initial_share", self.initial_share, lambda share: 0 < share < 1, "a number between 0 and 1")
        for name in ("level_size", "last_buffer_size"):
            size = getattr(self, name)
            if size is not None:
                require_count(name, size, 20)
                is_even = all(one.num_steps == 0 for _, one in self._refinements) or size == self.buffer_size
                require(is_even, name, size, "None or buffer_size where samples are refined in pairs of levels")
        is_asked = self.guidance.kind in ("conditioned", "autodiff") or self.guidance.num_between > 0
        needs_sharing = is_asked or self.guidance.is_anticipating
        asking = "conditioned, autodiff, is_anticipating, num_between"
        require(
            self.network is None or self.network.is_shared or not needs_sharing,
            "network.is_shared",
            False,
            f"True for guidance that asks the network for a temperature ({asking})",
        )


@dataclass(frozen=True)
class ReweightedSettings(DescentSettings):
    """The settings of reweighted tempering: each level is the level before, with new weights, and refined."""

    is_sized_by_budget: bool = False
    ladder: Ladder = field(default_factory=lambda: Ladder(spacing="geometric"))
    resampling: Resampling = field(default_factory=lambda: Resampling(min_effective=0, is_resampled=True))
    refinement: Refinement = field(default_factory=lambda: Refinement(num_steps=6))

    def __post_init__(self) -> None:
        super().__post_init__()
        for name, one in self._refinements:
            require(
                one.num_steps > 0,
                f"{name}.num_steps",
                one.num_steps,
                "at least 1 in reweighted tempering, which repeats samples of the level before",
            )
        # Levels that are taken over have grown by what joined them, and every one of their samples would be refined.
        last = self.refinement_at(1.0).num_chains
        require(
            self.refinement.num_chains is None or last is not None,
            "last_refinement.num_chains",
            last,
            "a number where refinement.num_chains is one in reweighted tempering",
        )
