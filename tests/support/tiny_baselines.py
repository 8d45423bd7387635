"""Tiny settings of every baseline that is there, so that one table of tests covers them all."""

from tempering.settings import (
    BaselineSettings,
    BNEMSettings,
    CMCDSettings,
    DDSSettings,
    DiKLSettings,
    FABSettings,
    IDEMSettings,
)

__all__ = ["TINY"]

_PATHS = {"num_steps": 3, "num_final_draws": 40, "num_path_steps": 4, "batch_size": 8, "width": 8, "init_std": 2.0}
_SCORES = {
    "num_steps": 3,
    "num_mc": 5,
    "batch_size": 6,
    "num_inner": 2,
    "num_new": 4,
    "num_first": 7,
    "buffer_size": 10,
}
_SCORES |= {"num_sde_steps": 5, "width": 8, "depth": 2, "sigma_max": 3.0}

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
    "dds": DDSSettings(**_PATHS),
    "cmcd": CMCDSettings(**_PATHS),
    "idem": IDEMSettings(**_SCORES, is_first_estimated=True, num_final_descent=2),
    "bnem": BNEMSettings(**_SCORES, num_bootstrap_after=1, num_bootstrap=2, ema=0.9),
}
"""Settings by method: seconds of work, most of them compilation."""
