"""What a run records of its levels, its pilot and its final draws: plain numbers, ready for JSON and for a table."""

import math
from dataclasses import asdict, dataclass, field, fields
from typing import Any, Literal, cast

__all__ = ["IMPROVED", "Checks", "LevelRecord", "Mode", "Weighed", "finite_or_none", "level_table"]

IMPROVED = "improved"
"""The proposal of a record that `Sampler.improve` adds to those of the levels."""


def finite_or_none(value) -> float | None:
    """A number as JSON can carry it: NaN and infinities become None."""
    number = float(value)
    return number if math.isfinite(number) else None


class _Plain:
    """A dataclass in and out of JSON."""

    def as_dict(self) -> dict[str, Any]:
        """A JSON-ready copy."""
        return asdict(cast(Any, self))

    @classmethod
    def from_dict(cls, content: dict[str, Any]) -> Any:
        """What `as_dict` described; numbers it has not are left at their defaults."""
        return cls(**{one.name: content[one.name] for one in fields(cast(Any, cls)) if one.name in content})


@dataclass
class LevelRecord(_Plain):
    """One level of a run.

    Args:
        level: 0 is the hottest.
        proposal: what the level was drawn from, where a model was.
        predicted_ess_fraction: what the choice of the proposal rested on, where there was a choice.
        ess_fraction: of the raw importance weights, before truncation; None where nothing was weighted.
        pareto_k: of the raw weights (`pareto.pareto_k`); None where it was not measured or has no finite value.
        unseen: the share of the mass beyond the largest of them (`pareto.unseen_mass`).
        log_z: of the level, estimated from the raw weights.
        log_z_ratio: log Z of this level minus that of the hottest, by stepping stones over the initial PT; the coldest
            level that PT explored has it.
        acceptance: of the kernel at this level, in the initial PT or the refinement.
        swap_rate: with the next hotter level.
        round_trips: replicas that went hot, cold and back.
        rhat, drift, spread_growth: of the initial PT's draws at this level: the largest split R-hat over coordinates,
            the largest shift of a mean between early and late draws in standard errors, and the largest growth of a
            spread between them.
        virial, virial_error: of the same draws (`parallel_tempering.mixing.virial`); 1 in equilibrium.
        num_draws: samples drawn from the level's proposal, where there was one.
        hidden_share, hidden_error, num_hidden: mass of the level above that the proposal does not cover
            (`diagnosis.coverage`), its standard error, and the samples behind it.
        train_loss, validation_loss: of the level's denoiser, in units of the best linear one.
        rescue: what was done in place of the plan where draws or networks of the level were of no use; None where all
            went as planned. `is_rescued` says whether the level does without a model of its own.
        num_nonfinite: proposals or samples whose density was NaN or +inf, or had no gradient.
        lost_mass: where the level was drawn from modes, what such draws may hold at the most.
        num_replaced: starting points that could not start a chain.
        evaluations: spent at this level, by stage.
    """

    level: int
    temperature: float
    proposal: str | None = None
    predicted_ess_fraction: float | None = None
    ess_fraction: float | None = None
    truncated_ess_fraction: float | None = None
    pareto_k: float | None = None
    log_z: float | None = None
    log_z_error: float | None = None
    log_z_ratio: float | None = None
    log_z_ratio_error: float | None = None
    acceptance: float | None = None
    swap_rate: float | None = None
    round_trips: int | None = None
    rhat: float | None = None
    drift: float | None = None
    spread_growth: float | None = None
    virial: float | None = None
    virial_error: float | None = None
    num_draws: int | None = None
    unseen: float | None = None
    hidden_share: float | None = None
    hidden_error: float | None = None
    num_hidden: int | None = None
    step_size: float | None = None
    train_loss: float | None = None
    validation_loss: float | None = None
    training_steps: int | None = None
    rescue: str | None = None
    is_rescued: bool = False
    num_nonfinite: int = 0
    lost_mass: float | None = None
    num_replaced: int = 0
    evaluations: dict[str, int] = field(default_factory=dict)

    def note_rescue(self, words: str, *, is_lasting: bool) -> None:
        """Write down what was done in place of the plan, and whether the level does without what was planned."""
        self.rescue = words if self.rescue is None else f"{self.rescue}; {words}"
        self.is_rescued |= is_lasting


@dataclass(frozen=True)
class Mode(_Plain):
    """An optimum that searches found.

    Args:
        position: in the user's coordinates, as one vector.
        log_density: there, in the coordinates that the method works in.
        weight: its share of the mass of all optima, each by the curvature at its top (Laplace's approximation).
        hits: searches that ended there.
    """

    position: tuple[float, ...]
    log_density: float
    weight: float
    hits: int


@dataclass(frozen=True)
class Weighed(_Plain):
    """What all weighted draws of a model together say: those of the fit, and all since.

    Args:
        num: draws.
        ess_fraction, pareto_k: of their raw weights.
        log_z, log_z_error: of the independent ones among them.
        unseen: the share of the mass beyond the largest weight (`pareto.unseen_mass`).
    """

    num: int
    ess_fraction: float
    pareto_k: float | None = None
    log_z: float | None = None
    log_z_error: float | None = None
    unseen: float | None = None


@dataclass(frozen=True)
class Checks(_Plain):
    """Numbers of a whole run that findings are made of, beside those of its levels; None where nothing was measured.

    Args:
        path: reference, where the density is drawn from modes that were found; shape, where it is drawn in coordinates
            that were learned; temperature, where hot chains lead.
        num_optima, atlas_num_searches, atlas_num_lost, atlas_missing: of the search for modes: what was found, the
            searches that arrived and those that did not, and the chance that another finds something new.
        atlas_share, atlas_pareto_k: of weights of draws from the modes.
        atlas_hidden, atlas_p_value: what the referee found: states that the modes do not cover, and ranks of chains.
        uncovered, num_uncovered: local weight and number of optima where the final model has practically nothing.
        pilot_temperature: the hottest temperature that the pilot settled on.
        pilot_rhat: of the pilot's chains there: the largest split R-hat over coordinates.
        pilot_is_mixed: whether they mixed at any temperature that was tried.
        scout_rhat: of chains and returned scouts together (`parallel_tempering.pilot`).
        scout_reach: how many times as hot as the chains the scouts went.
        is_running_away: whether hot chains spread without end.
        num_starts: starting points that the initial tempering asked for.
        num_final_draws: draws of the final model that were weighed.
        num_first_draws, unseen_first: how many of them were made at first, and the share of the mass beyond the largest
            weight that these predicted, where more were made because of it.
        log_z_final, log_z_final_error: log Z from these draws alone, and its standard error.
        determinants: of these draws' densities: exact, or estimated from random probes and checked, or not.
        num_evidence, hidden_share, hidden_error, num_hidden, predicted_ess_fraction: what samples of hotter levels say
            of the final model (`sampler.diagnosis.Coverage`).
        cube_end: mass of these draws where single precision cannot tell a coordinate of a prior's cube from 1.
        time_limit, hurried: the seconds that the fit was given, and what had to end sooner because of them.
    """

    path: str | None = None
    num_optima: int | None = None
    atlas_num_searches: float | None = None
    atlas_num_lost: float | None = None
    atlas_missing: float | None = None
    atlas_share: float | None = None
    atlas_pareto_k: float | None = None
    atlas_hidden: float | None = None
    atlas_p_value: float | None = None
    uncovered: float | None = None
    num_uncovered: int | None = None
    pilot_temperature: float | None = None
    pilot_rhat: float | None = None
    pilot_is_mixed: bool | None = None
    scout_rhat: float | None = None
    scout_reach: float | None = None
    is_running_away: bool | None = None
    num_starts: int | None = None
    num_final_draws: int | None = None
    num_first_draws: int | None = None
    unseen_first: float | None = None
    log_z_final: float | None = None
    log_z_final_error: float | None = None
    determinants: Literal["exact", "checked", "unchecked"] | None = None
    num_evidence: float | None = None
    hidden_share: float | None = None
    hidden_error: float | None = None
    num_hidden: int | None = None
    predicted_ess_fraction: float | None = None
    cube_end: float | None = None
    time_limit: float | None = None
    hurried: str | None = None


_COLUMNS = (
    ("T", "temperature", "{:.4g}"),
    ("proposal", "proposal", "{:s}"),
    ("predicted", "predicted_ess_fraction", "{:.3f}"),
    ("ESS", "ess_fraction", "{:.3f}"),
    ("truncated", "truncated_ess_fraction", "{:.3f}"),
    ("Pareto k", "pareto_k", "{:.2f}"),
    ("log Z", "log_z", "{:.3f}"),
    ("accept", "acceptance", "{:.2f}"),
    ("swap", "swap_rate", "{:.2f}"),
    ("loss", "validation_loss", "{:.4f}"),
    ("steps", "training_steps", "{:d}"),
    ("non-finite", "num_nonfinite", "{:d}"),
)


def level_table(levels: list[LevelRecord]) -> list[list[str]]:
    """The per-level table as text cells, header first; a dash where a level has no such number.

    Levels are counted from 1, as the display of a run counts them.
    """
    rows = [["level", *(title for title, _, _ in _COLUMNS), "evaluations"]]
    for record in levels:
        values = [(getattr(record, name), form) for _, name, form in _COLUMNS]
        cells = ["-" if value is None else form.format(value) for value, form in values]
        rows.append([f"{record.level + 1}", *cells, f"{sum(record.evaluations.values()):,}"])
    return rows
