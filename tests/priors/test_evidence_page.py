"""The examples of docs/evidence.md run as printed, with samplers that were never trained; tests/test_pages.py fits."""

import dataclasses
import re
from pathlib import Path

import jax
import numpy as np
import pytest

from support.tiny import quick_compilation, tiny_ptsd
from support.unchecked import unchecked
from support.untrained import untrained
from tempering.methods.registry import METHODS
from tempering.settings import Ladder

PAGE = Path(__file__).parent.parent.parent / "docs" / "evidence.md"
BLOCKS = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("block", BLOCKS, ids=["names", "cube", "eggbox", "shells", "two models"])
def test_examples_run(block, monkeypatch):
    def fit(*args, **options):
        return dataclasses.replace(untrained(*args, **options), log_z=1.0, log_z_error=0.1)

    tiny = tiny_ptsd(ladder=Ladder(hottest=2.0, num_levels=2))
    monkeypatch.setitem(METHODS, "ptsd", dataclasses.replace(METHODS["ptsd"], default=lambda **_: tiny, fit=fit))
    names: dict = {}
    allowed = jax.numpy_rank_promotion("allow"), jax.numpy_dtype_promotion("standard")
    with allowed[0], allowed[1], unchecked(), quick_compilation():
        exec(compile(block, str(PAGE), "exec"), names)
        sampler = names.get("sampler") or names["curve"]
        assert np.all(np.isfinite(sampler.sample_weighted(16)[1]))
