"""Our presets with one piece taken away or replaced: what each is worth, and the paper's ways to extrapolate."""

import dataclasses
from collections.abc import Iterator
from typing import Any

from tempering.runs.config import RunConfig
from tempering.settings import Guidance, PTSDSettings

__all__ = ["ablations"]

_WAYS: dict[str, tuple[str, Any, Any]] = {
    "fd": ("finite difference linear in T", "finite_difference", "T"),
    "fd-log": ("finite difference linear in log T", "finite_difference", "log_T"),
    "fd-2": ("finite difference of second order in log T", "second_order", "log_T"),
    "me": ("model extrapolation: the network asked for the next temperature", "conditioned", "T"),
    "ad": ("autodiff: a Taylor step of the network in T", "autodiff", "T"),
    "rs": ("rescaled score of the coldest model", "rescale", "T"),
    "no-guidance": ("the coldest model as it is", "none", "T"),
}
"""Ways to the next level, none of them helped by the anticipated buffer."""


def _without(settings: PTSDSettings) -> dict[str, tuple[str, PTSDSettings]]:
    """The preset without one of its pieces."""

    def change(**parts) -> PTSDSettings:
        fields = {name: dataclasses.replace(getattr(settings, name), **new) for name, new in parts.items()}
        return dataclasses.replace(settings, **fields)

    pairs = change(network={"is_shared": False}, guidance={"is_anticipating": False})
    return {
        "no-weights": ("no importance weights", change(resampling={"levels": "none"})),
        "no-gradients": ("plain denoising score matching", change(training={"use_gradients": False})),
        "no-branch": ("no branch for single coordinates", change(network={"coordinate_width": 0})),
        "no-sharing": ("one network per level, nothing anticipated", pairs),
        "resampled": ("resampled buffers instead of weighted ones", change(resampling={"is_resampled": True})),
        "random": ("independent instead of Sobol points", change(sampling={"is_quasi_random": False})),
        "vp": ("the variance-preserving process", change(noise={"process": "vp"})),
        "geometric": ("an evenly spaced ladder", change(ladder={"spacing": "geometric"})),
    }


def ablations(base: RunConfig) -> Iterator[RunConfig]:
    """`base` with each way to extrapolate, and without each of its pieces."""
    settings = base.settings
    assert isinstance(settings, PTSDSettings)
    changed = {
        name: (words, dataclasses.replace(settings, guidance=Guidance(kind, coordinate, is_anticipating=False)))
        for name, (words, kind, coordinate) in _WAYS.items()
    }
    for name, (words, new) in (changed | _without(settings)).items():
        yield dataclasses.replace(base, name=f"{base.name}-{name}", description=f"{base.name}: {words}", settings=new)
