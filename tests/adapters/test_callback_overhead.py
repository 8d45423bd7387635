"""What the adapter adds to a callable that takes 1 ms a point: less than a fifth."""

import runpy
from pathlib import Path

import pytest

BENCHMARK = Path(__file__).parent.parent.parent / "benchmarks" / "bench_callback.py"


@pytest.mark.slow
@pytest.mark.parametrize("make", ["sleeping", "busy"])
def test_the_adapter_adds_less_than_a_fifth(make):
    benchmark = runpy.run_path(str(BENCHMARK))
    assert benchmark["overhead"](benchmark[make](1e-3), 64, 20) < 1.2
