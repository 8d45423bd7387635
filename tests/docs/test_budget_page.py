"""The least budgets of docs/budget.md are those at which a fit is refused no more."""

import re
from dataclasses import replace

import jax.numpy as jnp
import pytest

from support.pages import DOCS
from tempering.adapters import as_target
from tempering.errors import BudgetError
from tempering.methods.budget import check_budget
from tempering.settings import Ladder, PTSDSettings, resolved

LADDERS = {"the fit finds the temperatures": Ladder(), "you give two temperatures": Ladder(temperatures=(4.0, 1.0))}


def rows() -> dict[str, list[int]]:
    """The table: the least budget in 2, 3 to 5 and 10 dimensions."""
    table = re.findall(r"^\| ([^|`,]+)[^|]*\| ([\d,]+) \| ([\d,]+) \| ([\d,]+) \|$", PAGE, re.MULTILINE)
    return {name.strip(): [int(number.replace(",", "")) for number in numbers] for name, *numbers in table}


PAGE = (DOCS / "budget.md").read_text(encoding="utf-8").split("## The least budget")[1].split("\n## ")[0]


def is_enough(budget: int, dim: int, ladder: Ladder) -> bool:
    try:
        settings = replace(resolved(PTSDSettings(), dim), ladder=ladder)
        check_budget(settings, as_target(lambda x: -0.5 * jnp.sum(x**2), dim), budget)
    except BudgetError:
        return False
    return True


@pytest.mark.parametrize("name", LADDERS)
def test_the_least_budgets_are_as_printed(name):
    assert rows().keys() == LADDERS.keys()
    small, middle, large = rows()[name]
    for dim, least in ((2, small), (3, middle), (5, middle), (10, large)):
        assert is_enough(least, dim, LADDERS[name]) and not is_enough(least - 1, dim, LADDERS[name]), dim


def test_a_ladder_of_three_saves_little():
    assert not is_enough(rows()["the fit finds the temperatures"][1] - 500, 3, Ladder(temperatures=(8.0, 2.8, 1.0)))
