"""The named runs of the baselines: the settings of their papers, and a smaller run of each (`-small`) for minutes.

Where papers and code differ, or leave something open, docs/baselines.md says what was taken.
"""

import dataclasses
from typing import Any

from tempering.runs.config import MetricsConfig, RunConfig, TargetConfig
from tempering.settings import BaselineSettings, DiKLSettings, FABSettings

__all__ = ["BASELINE_PRESETS", "with_small"]

MOG40, MW32 = TargetConfig("mog40"), TargetConfig("many_well", {"dim": 32})
METRICS = MetricsConfig(num_transport=2_000, is_paper_compatible=True)


def with_small(
    name: str, words: str, target: TargetConfig, settings: BaselineSettings, **smaller: Any
) -> list[RunConfig]:
    """A run with the papers' settings, and one with some of them changed that ends within ten minutes on a GPU."""
    small = dataclasses.replace(settings, **smaller)
    method = settings.method
    return [
        RunConfig(name, words, target, method, settings, metrics=METRICS),
        RunConfig(f"{name}-small", f"{words}; smaller, for minutes", target, method, small, metrics=METRICS),
    ]


# fab-torch's gmm.yaml, in float32 in place of float64. The smaller one has the sizes of fab-jax's gmm_v0; its learning
# rate and buffer are ours.
_FAB_MOG40 = FABSettings(
    num_steps=52_076,
    num_layers=15,
    width=80,
    num_levels=1,
    kernel="random_walk",
    step_size=5.0,
    is_adapting=False,
    lowest=-1e4,
    max_weight=None,
    learning_rate=1e-4,
)
# fab-jax's settings: its log Z is the one to reproduce. Its least buffer is 40 batches, and it begins with one more.
# fab-torch's many_well.yaml spends 9.5e9 points.
_FAB_MW32 = FABSettings(
    num_steps=10_000,
    num_layers=8,
    width=128,
    is_mixing=False,
    num_levels=8,
    step_size=0.01,
    batch_size=1024,
    buffer_size=409_600,
    first_buffer_size=41_984,
    learning_rate=2e-4,
    first_learning_rate=2e-5,
    num_warmup=10,
    schedule="cosine",
    max_norm=1e6,
    median_window=100,
)
_FAB_MW32_TORCH = dataclasses.replace(
    _FAB_MW32,
    num_steps=221_915,
    num_layers=10,
    width=320,
    is_mixing=True,
    num_levels=4,
    step_size=1.0,
    batch_size=2048,
    num_updates=8,
    buffer_size=512_000,
    first_buffer_size=65_536,
    max_weight=None,
    learning_rate=3e-4,
    first_learning_rate=None,
    num_warmup=0,
    schedule="constant",
    max_norm=100.0,
    median_window=0,
)

_DIKL_MOG40 = DiKLSettings(num_steps=75_000, most_beta=0.7, hmc_step_size=1.0, mala_step_size=0.01)
_DIKL_MW32 = DiKLSettings(num_steps=50_000, most_beta=0.15, hmc_step_size=0.3, mala_step_size=0.05)

_FAB_SMALL = {"num_steps": 4_000, "num_layers": 12, "width": 32, "num_levels": 3, "step_size": 10.0}
_FAB_SMALL |= {
    "batch_size": 200,
    "buffer_size": 20_000,
    "first_buffer_size": 2_000,
    "learning_rate": 4e-4,
    "max_weight": 10.0,
}

BASELINE_PRESETS: dict[str, RunConfig] = {
    run.name: run
    for run in (
        *with_small("mog40-fab", "FAB on MoG-40, fab-torch's settings", MOG40, _FAB_MOG40, **_FAB_SMALL),
        *with_small("mw32-fab", "FAB on Many-Well-32, fab-jax's settings", MW32, _FAB_MW32, num_steps=2_500),
        RunConfig(
            "mw32-fab-torch",
            "FAB on Many-Well-32, fab-torch's settings, 1.5 to 2 hours of a GPU",
            MW32,
            "fab",
            _FAB_MW32_TORCH,
            metrics=METRICS,
        ),
        *with_small("mog40-dikl", "DiKL on MoG-40, its paper's settings", MOG40, _DIKL_MOG40, num_steps=15_000),
        *with_small("mw32-dikl", "DiKL on Many-Well-32, its paper's settings", MW32, _DIKL_MW32, num_steps=15_000),
    )
}
"""Every preset of a baseline by name."""
