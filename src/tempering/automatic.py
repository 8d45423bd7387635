"""Settings for a density nobody has tuned for: from its dimension, the ladder's length and the budget.

The shares and sizes below are rules of thumb that serve both benchmark targets; docs/decisions/0004-automatic.md says
where they come from and when they would be wrong.
"""

from tempering.errors import BudgetError
from tempering.settings import (
    Guidance,
    Initial,
    Ladder,
    MethodSettings,
    Network,
    Pilot,
    PTDMSettings,
    PTSDSettings,
    Refinement,
    Sampling,
    Training,
)

__all__ = ["automatic_settings", "default_budget", "pilot_settings"]

_NUM_CHAINS = 100
_INITIAL_SHARE = 0.35
_LEVEL_SHARE = 0.55
_MAX_REFINEMENT = 20


def default_budget(dim: int) -> int:
    """Evaluations a fit may spend when the user names none."""
    return 50_000 + 10_000 * dim


def pilot_settings(dim: int, budget: int) -> Pilot:
    """A pilot that spends at most a fifth of the budget, with rounds long enough for the dimension to mix."""
    num_steps = 4 * max(10, round(6 * dim ** (1 / 3)))
    affordable = int(0.2 * budget / (Pilot.max_rounds * num_steps + 1))
    if affordable < 4:
        least = 20 * (Pilot.max_rounds * num_steps + 1)
        raise BudgetError(
            f"a budget of {budget:,} evaluations is too small to find a ladder in {dim} dimensions: give at least "
            f"{least:,}, or a `ladder=` of your own"
        )
    return Pilot(num_chains=min(24, affordable), num_steps=num_steps)


def _steps(left: float, num_levels: int) -> tuple[int, int]:
    """Steps a chain can afford, start-up evaluation aside, and how many of them burn in."""
    num_steps = max(0, int(left / (num_levels * _NUM_CHAINS)) - 1)
    return num_steps, max(1, int(0.35 * num_steps))


def _affordable(size: int, left: float, num_levels: int) -> int:
    """At most `size` samples a level, and no more than the initial PT can keep."""
    num_steps, burn_in = _steps(left, num_levels)
    return min(size, _NUM_CHAINS * max(0, num_steps - burn_in))


def _initial(left: float, num_levels: int, buffer_size: int, scale: float) -> Initial:
    num_steps, burn_in = _steps(left, num_levels)
    num_draws = -(-buffer_size // _NUM_CHAINS)
    thin = (num_steps - burn_in) // num_draws
    return Initial(_NUM_CHAINS, burn_in + thin * num_draws, burn_in, thin, scale)


def automatic_settings(
    method: str, *, dim: int, temperatures: tuple[float, ...], budget: int, scale: float
) -> MethodSettings:
    """The settings of `method` for a known ladder.

    Args:
        budget: what is left of it after the pilot.

    Raises:
        BudgetError: if the budget is too small for a ladder of this length.
    """
    num_levels = len(temperatures)
    num_final = max(100, min(2000, int(0.05 * budget)))
    common = {
        "ladder": Ladder(temperatures=temperatures),
        "network": Network(width=128 if dim <= 16 else 256, depth=3),
        "training": Training(num_steps=2000, num_finetune_steps=1000),
        "sampling": Sampling(
            num_steps=40, divergence="exact" if dim <= 12 else "hutchinson", num_probes=4, chunk_size=2000
        ),
        "num_final_draws": num_final,
    }
    if method == "pt_dm":
        largest = 1500 + 100 * dim
        left = budget - num_final
        size = _affordable(largest, left, num_levels)
        _check(size, budget, num_levels)
        return PTDMSettings(buffer_size=size, initial=_initial(left, num_levels, size, scale), **common)
    num_steps_down = max(1, num_levels - 2)
    for_levels = _LEVEL_SHARE * budget / num_steps_down
    size = _affordable(min(1500 + 100 * dim, int(for_levels)), _INITIAL_SHARE * budget, 2)
    _check(size, budget, num_levels)
    refinement = min(_MAX_REFINEMENT, int((for_levels / size - 1) / 2))
    return PTSDSettings(
        buffer_size=size,
        initial=_initial(_INITIAL_SHARE * budget, 2, size, scale),
        guidance=Guidance("log_T"),
        refinement=Refinement(num_steps=refinement),
        **common,
    )


def _check(buffer_size: int, budget: int, num_levels: int) -> None:
    # 500 samples a level is where denoisers trained on them stop being of use.
    if buffer_size < 500:
        raise BudgetError(
            f"a budget of {budget:,} evaluations leaves {buffer_size} samples for each of {num_levels} levels, fewer "
            "than the 500 a denoiser needs; raise the budget or give a shorter `ladder=`"
        )
