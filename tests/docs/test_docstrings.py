"""Docstrings of public names: every one has one, and its examples run as doctests where they cost no fit."""

import doctest
import inspect
import re

import pytest

import tempering as tp
from support.pages import as_users_run_it

PUBLIC = {name: getattr(tp, name) for name in tp.__all__}
CODE = {name: value for name, value in PUBLIC.items() if callable(value) and inspect.getdoc(value)}
FINDER = doctest.DocTestFinder(recurse=False)


def examples(value) -> list[doctest.DocTest]:
    """The doctests of a name: its own, and of a class those of its public methods."""
    own = [value]
    if inspect.isclass(value):
        own += [
            member for name, member in vars(value).items() if not name.startswith("_") and inspect.isfunction(member)
        ]
    found = [test for each in own for test in FINDER.find(each, each.__name__, globs={})]
    return [test for test in found if test.examples]


def failures(test: doctest.DocTest) -> int:
    """How many examples of a doctest print something else than they say."""
    runner = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS)
    with as_users_run_it():
        runner.run(test)
    return runner.failures


TESTS = {f"{name}.{test.name}": test for name, value in CODE.items() for test in examples(value)}


@pytest.mark.parametrize("test", TESTS.values(), ids=TESTS)
def test_an_example_prints_what_it_says(test):
    assert failures(test) == 0


def test_a_wrong_example_would_be_found():
    (test,) = doctest.DocTestFinder().find(type("Wrong", (), {"__doc__": ">>> 1 + 1\n3\n"}), "wrong")
    assert failures(test) == 1


def test_what_a_user_meets_first_has_an_example():
    with_example = {name.split(".")[0] for name in TESTS}
    assert {"fit", "split_budget", "resample", "Uniform", "interval", "from_callable", "PairPotential"} <= with_example


def lone_examples(value) -> list[str]:
    """Docstrings of a name and its members with a heading that the site takes for a box of plain text, not for code."""
    members = (
        [member for name, member in vars(value).items() if not name.startswith("_")] if inspect.isclass(value) else []
    )
    texts = [inspect.getdoc(each) or "" for each in (value, *members)]
    return [text for text in texts if re.search(r"^ *Example:$", text, re.MULTILINE)]


@pytest.mark.parametrize("name", CODE)
def test_examples_are_shown_as_code(name):
    assert not lone_examples(PUBLIC[name])


def test_a_lone_example_would_be_found():
    assert lone_examples(type("Wrong", (), {"__doc__": "Does a thing.\n\nExample:\n    >>> 1\n    1\n"}))


@pytest.mark.parametrize("name", CODE)
def test_every_public_name_says_what_it_is(name):
    text = inspect.getdoc(PUBLIC[name])
    assert text and text.splitlines()[0].rstrip().endswith((".", ":")), text
