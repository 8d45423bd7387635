"""What PTSD will spend, before it spends it: evaluations by stage, from the settings alone."""

from tempering.kernels import Kernel
from tempering.methods.preparation import kernel_of, planned_pilot
from tempering.parallel_tempering import initial, temperatures_of
from tempering.refinement import planned_evaluations as refinement_evaluations
from tempering.settings import PTSDSettings

__all__ = ["plan", "planned_draws", "planned_refinements"]


def plan(settings: PTSDSettings, dim: int) -> dict[str, int]:
    """The evaluations a run will make, by stage: exactly for a given or evenly spaced ladder, about for an adaptive."""
    kernel = kernel_of(settings, dim)
    num_levels = len(temperatures_of(settings.ladder, dim=dim))
    num_between, num_last = max(0, num_levels - 3), int(num_levels > 2)
    between, last = planned_draws(settings)
    refined, last_refined = planned_refinements(settings, kernel)
    return planned_pilot(settings, kernel) | {
        "initial_pt": initial.planned_evaluations(settings.initial, min(2, num_levels), kernel),
        "importance_weights": between * num_between + last * num_last,
        "refinement": refined * num_between + last_refined * num_last,
        "final_weights": settings.num_final_draws,
    }


def planned_draws(settings: PTSDSettings) -> tuple[int, int]:
    """Samples of a level on the way and of the last one that are evaluated because they are new."""
    if settings.is_reweighting:
        return 0, 0
    return settings.level_size or settings.buffer_size, settings.last_buffer_size or settings.buffer_size


def planned_refinements(settings: PTSDSettings, kernel: Kernel) -> tuple[int, int]:
    """Evaluations of the refinement of a level on the way, and of the last one."""
    both = settings.refinement, settings.refinement_at(1.0)
    between, last = (refinement_evaluations(refinement, settings.buffer_size, kernel) for refinement in both)
    return between, last
