"""Inputs that are wrong, drawn by hypothesis, and how they are given: for `test_fuzz.py`."""

import math
import re
import time
import traceback
from collections.abc import Callable

import hypothesis
import jax.numpy as jnp
import numpy as np
from hypothesis import strategies as st

from tempering.errors import TemperingError
from tempering.sampler import Sampler

__all__ = [
    "BAD_DENSITIES",
    "Spent",
    "bad_ladders",
    "bad_places",
    "bad_points",
    "density",
    "flags",
    "hammer",
    "negative",
    "not_a_count",
    "not_a_flag",
    "not_a_number",
    "not_a_seed",
    "not_a_word",
    "not_positive",
    "nothing",
    "odd_one",
    "raises",
    "refused",
    "undefined",
    "words",
]

SLOWEST = 5.0
"""Seconds of processor time after which a refusal counts as a hang; they take milliseconds."""


class Spent(BaseException):
    """Nothing in the package may catch it."""


def hammer(strategy: st.SearchStrategy, refuse: Callable[..., None], num: int) -> int:
    """Give `refuse` examples of `strategy`, `num` of them or as many as there are; how many different ones it had.

    All failures are told together, as they were drawn: shrinking each would take minutes and show one.
    """
    seen, failures = set(), {}

    @hypothesis.settings(
        max_examples=num,
        database=None,
        phases=[hypothesis.Phase.generate],
        suppress_health_check=list(hypothesis.HealthCheck),
    )
    @hypothesis.given(strategy)
    def one(example) -> None:
        begin = time.process_time()
        try:
            refuse(*example)
            assert time.process_time() - begin < SLOWEST, f"took {time.process_time() - begin:.1f} s"
        except (Exception, Spent) as error:
            where = traceback.extract_tb(error.__traceback__)[-1]
            failures.setdefault((where.filename, where.lineno), f"{example!r}: {error!r} at {where}")
        seen.add(re.sub(r" at 0x[0-9a-f]+", "", repr(example)))

    one()
    assert not failures, "\n".join(failures.values())
    return len(seen)


def refused(call: Callable, *arguments, **named) -> None:
    """The call raises an error of ours, whose message says something."""
    try:
        call(*arguments, **named)
    except TemperingError as error:
        assert len(str(error)) > 20 and "Traceback" not in str(error)
        return
    raise AssertionError(f"{call} took {arguments} {named}")


# What is never right.

nothing = st.none()
words = st.one_of(st.text(max_size=8), st.sampled_from(["", "auto", "1", "1.0", "nan", "True", "ptsd "]))
flags = st.booleans()
undefined = st.sampled_from([math.nan, math.inf, -math.inf])
negative = st.one_of(st.integers(-(2**70), -1), st.just(-1))
odd = st.sampled_from([b"1", 1j, object, [], {}, (), [1], {"a": 1}, range(7), np.array([1.0, 2.0]), np.array(["a"])])
odd_one = st.one_of(odd, st.builds(object), st.just(jnp.zeros((2, 5))), st.just(lambda *_: None))
not_a_count = st.one_of(words, flags, undefined, negative, odd_one, st.floats(0.1, 0.9), st.just(2.0))
not_a_number = st.one_of(words, flags, undefined, odd_one, st.just(10**400))
not_positive = st.one_of(not_a_number, negative, st.floats(max_value=0.0, allow_nan=False), st.just(0))
not_a_flag = st.one_of(nothing, words, odd_one, undefined, st.integers(), st.just(np.array([True, False])))
not_a_word = st.one_of(flags, undefined, negative, odd_one, st.text(max_size=8))
not_a_seed = st.one_of(words, flags, undefined, negative, odd_one, nothing, st.integers(2**32, 2**80), st.floats(0, 9))


@st.composite
def _ladders(draw):
    rungs = draw(st.lists(st.floats(1.0, 1e6), min_size=0, max_size=5))
    how = draw(st.sampled_from(["rising", "not to one", "repeated", "nan", "short", "negative", "words"]))
    falling = sorted({*rungs, 2.0, 5.0}, reverse=True)
    return {
        "rising": [1.0, *falling[::-1]],
        "not to one": [*falling, draw(st.sampled_from([1.1, 0.5, 1.0000001]))],
        "repeated": [*falling, falling[-1], 1.0],
        "nan": [*falling, draw(undefined), 1.0],
        "short": draw(st.sampled_from([[], [1.0], [7.0]])),
        "negative": [*falling, 1.0, -draw(st.floats(0.0, 9.0))],
        "words": [*falling, draw(st.sampled_from(["x", "nan", None, [1.0], True])), 1.0],
    }[how]


bad_ladders = _ladders().map(tuple)


def density(x):
    return -0.5 * jnp.sum((x - 1.0) ** 2)


class Target:
    """An object with `dim` and `log_density`, whatever `dim` is."""

    def __init__(self, dim, log_density=density):
        self.dim, self.log_density = dim, log_density


def raises(x):
    raise KeyError("of the user")


BAD_DENSITIES = [
    None,
    1.0,
    "density",
    [density],
    object(),
    Sampler,
    np.zeros(2),
    lambda x: x,  # one value a coordinate
    lambda x: jnp.sum(x) > 0,
    lambda x: jnp.sum(x).astype(jnp.int32),
    lambda x: None,
    lambda x: "0",
    lambda x: (jnp.sum(x), 0),
    lambda: 0.0,
    lambda x, y: jnp.sum(x),
    lambda x: float(x[0]),
    lambda x: np.sum(np.asarray(x)),
    lambda x: jnp.sum(x) if x[0] > 0 else 0.0,
    raises,
    lambda x: jnp.sum(x[None] * x),
    lambda x: x @ jnp.zeros((3, 3)) @ x,
    lambda x: jnp.sum(x) * 1j,
    Target("2"),
    Target(-1),
    Target(2.0),
    Target(None),
    Target(True),
    Target(2, None),
    Target(2, lambda x: x),
]
bad_points = st.one_of(
    words,
    flags,
    undefined,
    odd_one,
    st.integers(),
    st.sampled_from(
        [
            np.zeros((3, 3)),
            np.zeros((0, 2)),
            np.zeros(2),
            np.full((4, 2), np.nan),
            [[1, 2], [3]],
            np.zeros((2, 2, 2)),
            np.array([["a", "b"]]),
            np.array([[None, None]]),
            np.zeros((2, 2)) + 1j,
        ]
    ),
)
bad_places = st.one_of(
    st.integers(),
    st.floats(),
    flags,
    st.just("a\0b"),
    st.just("x" * 5000),
    st.just(b"folder"),
    st.just([]),
    st.builds(object),
    st.sampled_from(["file", "file/below", "file/below/deeper", "full"]),
)
