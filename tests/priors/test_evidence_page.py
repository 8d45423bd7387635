"""The examples of docs/evidence.md run as printed, with samplers that were never trained; slow tests fit them."""

import dataclasses
import json

import numpy as np
import pytest

from support.pages import DOCS, ROOT, blocks, run_blocks
from support.tiny import tiny_ptsd
from support.untrained import untrained
from tempering.methods.registry import METHODS
from tempering.settings import Ladder

PAGE = DOCS / "evidence.md"


def test_the_figures_of_the_eggbox_are_those_of_its_runs():
    rows = json.loads((ROOT / "results" / "proving" / "tempering.json").read_text(encoding="utf-8"))["rows"]
    own = [row for row in rows if row["density"] == "eggbox"]
    words = " ".join(PAGE.read_text(encoding="utf-8").split())
    off, shares = (max(abs(row[name]) for row in own) for name in ("log_z_off", "weights_off"))
    assert len(own) >= 3 and off < 0.02 and shares < 0.025, "the page says another thing"
    assert "off by less than 0.02, and the shares by less than 0.025" in words


@pytest.mark.slow
def test_examples_run(monkeypatch, capsys):
    samplers = []

    def fit(*args, **options):
        samplers.append(dataclasses.replace(untrained(*args, **options), log_z=1.0, log_z_error=0.1))
        return samplers[-1]

    tiny = tiny_ptsd(ladder=Ladder(hottest=2.0, num_levels=2))
    monkeypatch.setitem(METHODS, "ptsd", dataclasses.replace(METHODS["ptsd"], default=lambda **_: tiny, fit=fit))
    names = run_blocks(PAGE, [block.replace("20_000", "200") for block in blocks(PAGE)])
    assert len(samplers) == 6, "two priors, two standard densities, two models"
    for sampler in samplers:
        assert np.all(np.isfinite(sampler.sample_weighted(16)[1]))
    assert set(names["curve"].sample(3)) == {"a", "b", "c"}
    assert "log Bayes factor of the curve over the line: 0.00 ± 0.14" in capsys.readouterr().out
