"""What is told of a level when it is done: plain numbers, ready for JSON and for a table."""

import math
from dataclasses import asdict, dataclass, field, fields

__all__ = ["LevelRecord", "finite_or_none", "level_table", "level_warnings"]


def finite_or_none(value) -> float | None:
    """A number as JSON can carry it: NaN and infinities become None."""
    number = float(value)
    return number if math.isfinite(number) else None


@dataclass
class LevelRecord:
    """One level of a run.

    Args:
        level: 0 is the hottest.
        proposal: what the level was drawn from, where a model was.
        predicted_ess_fraction: what the choice of the proposal rested on, where there was a choice.
        ess_fraction: of the raw importance weights, before truncation; None where nothing was weighted.
        pareto_k: of the raw weights (`pareto.pareto_k`); None where it was not measured or has no finite value.
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
        num_nonfinite: proposals or samples whose density was NaN or +inf, or had no gradient.
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
    hidden_share: float | None = None
    hidden_error: float | None = None
    num_hidden: int | None = None
    step_size: float | None = None
    train_loss: float | None = None
    validation_loss: float | None = None
    training_steps: int | None = None
    num_nonfinite: int = 0
    num_replaced: int = 0
    evaluations: dict[str, int] = field(default_factory=dict)

    def as_dict(self) -> dict:
        """A JSON-ready copy."""
        return asdict(self)

    @classmethod
    def from_dict(cls, record: dict) -> "LevelRecord":
        """The record that `as_dict` described; numbers it has not are left at their defaults."""
        return cls(**{name.name: record[name.name] for name in fields(cls) if name.name in record})


_COLUMNS = (
    ("level", "level", "{:d}"),
    ("T", "temperature", "{:.4g}"),
    ("proposal", "proposal", "{:s}"),
    ("predicted", "predicted_ess_fraction", "{:.3f}"),
    ("ESS", "ess_fraction", "{:.3f}"),
    ("ESS cut", "truncated_ess_fraction", "{:.3f}"),
    ("Pareto k", "pareto_k", "{:.2f}"),
    ("log Z", "log_z", "{:.3f}"),
    ("accept", "acceptance", "{:.2f}"),
    ("swap", "swap_rate", "{:.2f}"),
    ("loss", "validation_loss", "{:.4f}"),
    ("steps", "training_steps", "{:d}"),
    ("non-finite", "num_nonfinite", "{:d}"),
)


def level_table(levels: list[LevelRecord]) -> list[list[str]]:
    """The per-level table as text cells, header first; a dash where a level has no such number."""
    rows = [[title for title, _, _ in _COLUMNS] + ["evaluations"]]
    for record in levels:
        values = [(getattr(record, name), form) for _, name, form in _COLUMNS]
        cells = ["-" if value is None else form.format(value) for value, form in values]
        rows.append([*cells, f"{sum(record.evaluations.values()):,}"])
    return rows


_LOW_ESS = 0.05
"""Below this effective share, twenty draws are worth one: weighted means are noise and unweighted ones biased."""


_HIGH_K = 0.7
"""Above it, means over a practical number of weighted draws cannot be trusted (Vehtari et al. 2024)."""


def level_warnings(
    levels: list[LevelRecord], ess_fraction: float | None, pareto_k: float | None = None
) -> tuple[str, ...]:
    """What a user should know before trusting the draws, in words, with what to do.

    Args:
        ess_fraction, pareto_k: of the final model's raw weights; None where it was not measured.
    """
    warnings = []
    num_nonfinite = sum(record.num_nonfinite for record in levels)
    num_replaced = sum(record.num_replaced for record in levels)
    if num_nonfinite:
        warnings.append(
            f"{num_nonfinite:,} proposals, samples or training steps met a density that was NaN or +inf, or had no "
            "finite gradient; none was accepted, but mend the density there, or return -inf outside its support"
        )
    if num_replaced:
        warnings.append(
            f"{num_replaced:,} starting points could not start a chain (outside the support, or not finite) and were "
            "replaced by others; give `scale=` or `init=` points inside the support"
        )
    if ess_fraction is not None and ess_fraction < _LOW_ESS:
        warnings.append(
            f"the final model's weights have an effective share of {ess_fraction:.3f}: its draws differ from the "
            "target and weighted expectations rest on few of them; raise `budget`, or give more levels in `ladder=`"
        )
    if pareto_k is not None and pareto_k > _HIGH_K:
        warnings.append(
            f"the final model's weights have a Pareto k of {pareto_k:.2f}, above {_HIGH_K}: the largest have a heavy "
            "tail, so that weighted means, log Z and their errors are not to be relied on; raise `budget`, or give "
            "more levels in `ladder=`, and compare `sample_weighted` over several seeds"
        )
    return tuple(warnings)
