"""What users are shown: right articles, no word of our own dialect, and the type of what was given by name."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tempering as tp
from support.source_rules import message_texts
from tempering.errors import what_is, with_article

SOURCE = Path(tp.__file__).parent
GAP = "\N{WHITE SQUARE}"
"""Stands for what an f-string puts in."""
FAULTS = {
    "an article before something unknown": re.compile(rf"(?<!-)\b[Aa]n? {GAP}"),
    "a wrong article": re.compile(
        r"\b(?:a (?=[aeio]|un[^i]|u[^ns])(?!one|eu)|an (?=[b-df-gj-np-tv-z])(?!ndarray|npz|nc\b|mp|x\b|f-))[a-z]+"
    ),
    "our dialect": re.compile(
        r"\b(so many|told|dear|dearer|as few|polish|scouted|thereof|gone on with|mend|anew|foretold)\b"
    ),
    "`no` for `not a`": re.compile(r"\b(is|are|that is|which is) no (array|file|path|list|tree|page|part|sample)\b"),
    "an article for `per`": re.compile(r"% a [a-z]+|\b(evaluation|draw|value|key|row)s? an? (point|draw|level)\b"),
}


def faults(text: str) -> list[str]:
    """What is wrong with a text of the source."""
    return [f"{name}: {found.group(0)!r}" for name, rule in FAULTS.items() for found in rule.finditer(text)]


def messages() -> Iterator[tuple[str, str]]:
    """Every text of three words or more that is not a docstring, with its place."""
    for path in sorted(SOURCE.rglob("*.py")):
        for line, text in message_texts(ast.parse(path.read_text(encoding="utf-8")), GAP):
            yield f"{path.relative_to(SOURCE)}:{line}", text


def test_messages_are_plain_and_grammatical():
    found = dict(messages())
    assert len(found) > 1000
    assert not {place: faults(text) for place, text in found.items() if faults(text)}


@pytest.mark.parametrize(
    "text",
    [
        f"fn is a {GAP}; it must be a function",
        "give a array of numbers",
        "it is an list of numbers",
        "so many draws as it was told",
        "init is a list that is no array of numbers",
        "ten evaluations a draw, and % a degree",
    ],
)
def test_a_bad_message_would_be_found(text):
    tree = ast.parse(f"raise ValueError({text.replace(GAP, '{kind}')!r})".replace("ValueError('", "ValueError(f'"))
    assert any(faults(shown) for _, shown in message_texts(tree, GAP))


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (3, "an int"),
        (3.0, "a float"),
        (None, "None"),
        ("text", "a string"),
        ({}, "a dict"),
        (ValueError(), "a ValueError"),
        (OSError(), "an OSError"),
        (tp.Uniform(0.0, 1.0), "a Uniform"),
        (tp.Exponential(1.0), "an Exponential"),
        (np.zeros(2), "a NumPy array"),
        (jnp.zeros(2), "a JAX array"),
        (len, "a function"),
        (jax.jit(jnp.sin), "a compiled function"),
        (int, "a class"),
    ],
)
def test_what_was_given_is_named_as_a_sentence_names_it(value, words):
    assert what_is(value) == words


def test_articles_follow_the_sound():
    names = ("UniformPrior", "EnsembleSampler", "InitialSettings", "PTSDSettings", "uint8", "User")
    assert [with_article(name).split()[0] for name in names] == ["a", "an", "an", "a", "a", "a"]
