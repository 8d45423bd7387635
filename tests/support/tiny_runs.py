"""Changes that make a run of a preset tiny; files that run the same presets share its programs."""

from support.tiny import SIZE

__all__ = ["METRICS_CHANGES", "PTSD_CHANGES", "PT_DM_CHANGES"]

METRICS_CHANGES = (
    "metrics.num_samples=32",
    "metrics.num_transport=16",
    "metrics.num_weighted=16",
    "metrics.num_likelihood=16",
)

PT_DM_CHANGES = (
    "is_sized_by_budget=false",
    f"buffer_size={SIZE}",
    "num_final_draws=16",
    "ladder.hottest=8",
    "ladder.spacing=geometric",
    "ladder.num_levels=2",
    f"initial.num_chains={SIZE}",
    "initial.num_steps=8",
    "initial.burn_in=4",
    "initial.thin=2",
    "network.width=8",
    "network.depth=2",
    "network.coordinate_width=4",
    "training.num_steps=20",
    "training.num_finetune_steps=10",
    "training.batch_size=16",
    "training.check_every=10",
    "sampling.num_steps=6",
    f"sampling.chunk_size={SIZE}",
    *METRICS_CHANGES,
)
"""`--set` values that shrink a PT+DM preset: two levels, so that PT shares its compilation with PTSD's; no pilot."""

PTSD_CHANGES = (*PT_DM_CHANGES, "ladder.num_levels=4", "refinement.num_steps=3")
"""`--set` values that shrink a PTSD preset; its one network for all levels and its choice of proposals stay."""
