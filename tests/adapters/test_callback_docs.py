"""The page on black boxes: its examples run as pasted, each after those before it."""

import re
from pathlib import Path

import jax
import pytest

from support.tiny import quick_compilation
from support.unchecked import unchecked

PAGE = Path(__file__).parent.parent.parent / "docs" / "black-box.md"
EXAMPLES = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)


def run(examples: list[str]) -> dict:
    names: dict = {}
    promotion = jax.numpy_rank_promotion("allow"), jax.numpy_dtype_promotion("standard")
    with unchecked(), quick_compilation(), promotion[0], promotion[1]:
        for example in examples:
            exec(compile(example, str(PAGE), "exec"), names)
    return names


def test_there_are_examples():
    assert len(EXAMPLES) == 5 and sum("import torch" in example for example in EXAMPLES) == 1


@pytest.mark.slow
def test_the_examples_run(capsys):
    names = run([example for example in EXAMPLES if "import torch" not in example])
    assert names["draws"].shape == (100, 2) and names["by_differences"].points_per_gradient == 4
    assert names["sampler"].ledger.value_only == {} and "no table for this point" in capsys.readouterr().out


def test_the_examples_that_cost_nothing_run():
    names = run([EXAMPLES[0].partition("sampler =")[0], EXAMPLES[1]])
    assert not names["target"].has_gradient and names["with_gradient"].has_gradient


def test_the_example_of_pytorch_runs(capsys):
    pytest.importorskip("torch")
    run(["import numpy as np, tempering as tp", *(example for example in EXAMPLES if "import torch" in example)])
    assert float(capsys.readouterr().out) == -1.0
