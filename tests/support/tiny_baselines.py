"""Tiny settings of every baseline that is there, so that one table of tests covers them all."""

from tempering.settings import BaselineSettings, DiKLSettings, FABSettings

__all__ = ["TINY"]

TINY: dict[str, BaselineSettings] = {
    "fab": FABSettings(
        num_steps=3,
        num_final_draws=40,
        num_layers=2,
        width=8,
        num_levels=2,
        num_leapfrog=2,
        batch_size=8,
        num_updates=2,
        buffer_size=40,
        first_buffer_size=16,
    ),
    "dikl": DiKLSettings(
        num_steps=3,
        width=8,
        depth=2,
        num_noises=5,
        num_score_steps=2,
        batch_size=4,
        num_particles=3,
        num_levels=3,
        num_mala=2,
    ),
}
"""Settings by method: seconds of work, most of them compilation."""
