"""Bad input, generated: more than a thousand wrong arguments, and each is refused in words, soon, at no evaluation.

A refusal is an error of `tempering.errors`, or exit code 2 with one line. Never a traceback out of JAX, a hang, or a
point spent: the ledger of these tests raises what nothing catches. As users run it, without the suite's checks of
types. The inputs are in `support/bad_input.py` and `support/bad_commands.py`.
"""

import contextlib
import dataclasses
import io
import os
import subprocess
import types
import typing
from collections.abc import Callable
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import strategies as st

import tempering as tp
from support.bad_commands import bad_commands
from support.bad_input import (
    BAD_DENSITIES,
    Spent,
    bad_ladders,
    bad_places,
    bad_points,
    density,
    flags,
    hammer,
    negative,
    not_a_count,
    not_a_flag,
    not_a_number,
    not_a_seed,
    not_a_word,
    not_positive,
    nothing,
    odd_one,
    raises,
    refused,
    undefined,
    words,
)
from support.exact_sampler import linear_denoiser, sampler_of
from support.tiny import COMMAND, quick_compilation, subprocess_environment, tiny_pt_dm, tiny_ptsd
from support.unchecked import unchecked
from tempering import settings as all_settings
from tempering.cli import main
from tempering.runs.config import MetricsConfig
from tempering.runs.ledger import Ledger
from tempering.sampler import Sampler
from tempering.settings import Ladder

SHARES = {"settings": 500, "fit": 300, "sampler": 120, "potential": 60, "load": 40, "command": 120}
"""Bad inputs that each test makes at least."""


@pytest.fixture(scope="module", autouse=True)
def nothing_is_spent():
    """An evaluation raises; the compilation cache that `main` sets is the suite's, whose settings come back."""

    def spend(*_, **__):
        raise Spent("a bad input reached the density")

    cache = jax.config.jax_compilation_cache_dir
    least = jax.config.jax_persistent_cache_min_compile_time_secs
    with pytest.MonkeyPatch.context() as patched, quick_compilation(), unchecked():
        patched.setattr(Ledger, "spend", spend)
        patched.setenv("TEMPERING_CACHE", cache)
        yield
    jax.config.update("jax_compilation_cache_dir", cache)
    jax.config.update("jax_persistent_cache_min_compile_time_secs", least)


# Settings.

CLASSES = [
    kind
    for kind in (*vars(all_settings).values(), MetricsConfig)
    if isinstance(kind, type) and dataclasses.is_dataclass(kind)
]


def bad_values(kind: type, name: str, hint: typing.Any) -> st.SearchStrategy:
    """Values that a field of this type cannot have."""
    is_chosen = any(field.name == name and field.default is None for field in dataclasses.fields(kind))
    is_optional = is_chosen or type(None) in typing.get_args(hint)
    if typing.get_origin(hint) in (typing.Union, types.UnionType):
        hint = next(part for part in typing.get_args(hint) if part is not type(None))
    if hint is bool:
        return not_a_flag
    if hint is int:
        found = not_a_count
    elif hint is float:
        below = () if name == "lowest" else (negative, st.floats(max_value=-1e-9))  # a log density may be any number
        found = st.one_of(not_a_number, *below)
    elif typing.get_origin(hint) is typing.Literal:
        found = not_a_word
    elif typing.get_origin(hint) is tuple:
        found = st.one_of(words, flags, undefined, negative)
        if name == "temperatures":
            found = st.one_of(found, bad_ladders)
    else:
        found = st.one_of(not_a_word, st.just(hint))  # the class in place of one of it
    return found if is_optional else st.one_of(nothing, found)


settings_inputs = st.one_of(
    [
        st.tuples(
            st.just(kind), st.just(field.name), bad_values(kind, field.name, typing.get_type_hints(kind)[field.name])
        )
        for kind in CLASSES
        for field in dataclasses.fields(kind)
    ]
)


def refuse_setting(kind: type, name: str, value) -> None:
    refused(kind, **{name: value})


def test_bad_settings_are_refused():
    assert len(CLASSES) >= 14
    assert hammer(settings_inputs, refuse_setting, 700) >= SHARES["settings"]


# tp.fit.


fit_inputs = st.one_of(
    st.tuples(st.just("log_density"), st.sampled_from(BAD_DENSITIES)),
    st.tuples(st.just("dim"), st.one_of(not_a_count, nothing, st.just(0))),
    st.tuples(st.just("method"), st.one_of(not_a_word, nothing)),
    st.tuples(st.just("budget"), st.one_of(not_a_count, st.integers(0, 200))),
    st.tuples(st.just("seed"), not_a_seed),
    st.tuples(st.just("scale"), not_positive),
    st.tuples(st.just("init"), bad_points),
    st.tuples(st.just("ladder"), st.one_of(bad_ladders, words, flags, undefined, negative, st.builds(object))),
    st.tuples(
        st.just("settings"),
        st.one_of(
            words,
            flags,
            odd_one.filter(lambda given: not isinstance(given, dict) or given),  # no changes are allowed
            undefined,
            st.sampled_from([tiny_pt_dm(), tp.PTSDSettings, {"buffer_size": 20}, Ladder(), 0]),
        ),
    ),
    st.tuples(st.just("out"), bad_places),
    st.tuples(st.just("progress"), not_a_flag),
    st.tuples(st.just("support"), st.one_of(words, flags, undefined, odd_one.filter(callable), st.integers())),
    st.tuples(
        st.just("like"), st.one_of(words, flags, st.just({}), st.just([]), st.just({"a": "b"}), st.builds(object))
    ),
)


@pytest.fixture(scope="module")
def places(tmp_path_factory):
    """A folder with a file, and a folder that is somebody's."""
    place = tmp_path_factory.mktemp("places")
    (place / "file").write_text("the only copy")
    (place / "full").mkdir()
    (place / "full" / "thesis.txt").write_text("the only copy")
    return place


def refuse_fit(places: Path) -> Callable[[str, typing.Any], None]:
    def refuse(name: str, value) -> None:
        named = {"log_density": density, "dim": 2, "settings": tiny_ptsd(), "progress": False}
        if name == "out" and isinstance(value, str) and value[0] in "f":
            value = places / value
        if name == "like":
            named["dim"] = None
        if name == "log_density":
            named["dim"] = None if hasattr(value, "dim") else 2
        if name == "budget":  # the sizes by hand ask for more
            named["settings"] = None
        before = sorted(places.rglob("*"))
        refused(tp.fit, **{**named, name: value})
        assert sorted(places.rglob("*")) == before

    return refuse


def test_bad_arguments_of_fit_are_refused(places):
    assert hammer(fit_inputs, refuse_fit(places), 380) >= SHARES["fit"]


@pytest.mark.parametrize(
    "init",
    [
        lambda key, num: jnp.zeros((num, 3)),
        lambda key, num: jnp.zeros((num,)),
        lambda key, num: "points",
        lambda key, num: None,
        lambda key, num: jnp.full((num, 2), jnp.nan),
        lambda key: jnp.zeros((1, 2)),
    ],
)
def test_a_function_that_gives_no_points_is_refused(init):
    refused(tp.fit, density, dim=2, init=init, settings=tiny_ptsd(), progress=False)


# A sampler's methods.


@pytest.fixture(scope="module")
def sampler() -> Sampler:
    return sampler_of(linear_denoiser())


wrong_points = st.one_of(
    words,
    flags,
    undefined,
    odd_one,
    nothing,
    st.integers(),
    st.sampled_from(
        [
            np.zeros(2),
            np.zeros((4, 2)),
            np.zeros((1, 1, 3)),
            np.array(["a", "b", "c"]),
            [[1, 2, 3], [4]],
            np.array([1, None, 2]),
            np.zeros(3) + 1j,
        ]
    ),
)
bad_files = st.one_of(
    st.integers(),
    flags,
    nothing,
    st.just("a\0b.npz"),
    st.just("x" * 5000 + ".npz"),
    st.just(b"a.npz"),
    st.builds(object),
    st.sampled_from(
        ["draws", "draws.xls", "draws.NPZ", "", ".", "file/draws.npz", "taken.npz", "taken.parquet", "taken.nc"]
    ),
)
bad_nums = st.one_of(not_a_count, nothing, st.just(0), st.integers(2**40, 2**80))
DRAWING = ("sample", "sample_weighted", "sample_exact", "sample_even")
sampler_inputs = st.one_of(
    st.tuples(st.sampled_from(DRAWING), st.just("num"), bad_nums),
    st.tuples(st.sampled_from(["to_arviz", "plot"]), st.just("num"), bad_nums.filter(lambda num: num is not None)),
    st.tuples(st.just("to_arviz"), st.sampled_from(["weighted", "with_log_prob"]), not_a_flag),
    st.tuples(st.sampled_from([*DRAWING, "to_arviz", "plot"]), st.just("seed"), not_a_seed),
    st.tuples(st.just("sample_even"), st.just("num_draws"), st.one_of(not_a_count, st.just(0))),
    st.tuples(st.just("plot"), st.just("what"), st.one_of(bad_places.filter(lambda place: place != "full"))),
    st.tuples(st.just("sample"), st.just("solver"), not_a_word),
    st.tuples(st.just("log_prob"), st.just("x"), wrong_points),
    st.tuples(st.just("log_prob"), st.just("seed"), not_a_seed),
    st.tuples(st.just("save"), st.just("folder"), st.one_of(nothing, bad_places.filter(lambda place: place != "full"))),
    st.tuples(st.just("save_draws"), st.just("path"), bad_files),
    st.tuples(st.just("save_draws"), st.just("num"), bad_nums),
    st.tuples(st.just("save_draws"), st.sampled_from(["weighted", "is_even"]), not_a_flag),
    st.tuples(st.sampled_from(["sample_weighted", "save_draws"]), st.just("is_quasi_random"), not_a_flag),
)


def refuse_method(sampler: Sampler, places: Path) -> Callable[[str, str, typing.Any], None]:
    for suffix in ("npz", "parquet", "nc"):
        (places / f"taken.{suffix}").write_text("the only copy")

    def refuse(method: str, name: str, value) -> None:
        good = {name: {"num": 2} for name in (*DRAWING, "save_draws")}
        named = {**good.get(method, {}), **({"x": np.zeros(3)} if method == "log_prob" else {})}
        named |= {"path": places / "new.npz"} if method == "save_draws" else {}
        if isinstance(value, str) and value.partition("/")[0].partition(".")[0] in ("file", "taken"):
            value = places / value
        before = sorted(places.rglob("*"))
        refused(getattr(sampler, method), **{**named, name: value})
        assert sorted(places.rglob("*")) == before

    return refuse


def test_bad_arguments_of_a_sampler_are_refused(sampler, places):
    without = dataclasses.replace(sampler, target=None)
    refused(without.sample_weighted, 2)
    assert hammer(sampler_inputs, refuse_method(sampler, places), 180) >= SHARES["sampler"]


def test_bad_folders_to_load_are_refused(places):
    inputs = st.tuples(st.one_of(bad_places, nothing, st.text(min_size=1, max_size=8)))

    def refuse(value) -> None:
        refused(tp.load, places / value if isinstance(value, str) and value[0] == "f" else value)

    assert hammer(inputs, refuse, 60) >= SHARES["load"]


# Particles.

bad_pairs = st.sampled_from(
    [
        None,
        3.0,
        "r",
        lambda r: "x",
        lambda r: None,
        lambda r: jnp.stack([r, r]),
        lambda: 0.0,
        lambda r: r > 1,
        raises,
        lambda r: float(r),
        lambda r: jnp.asarray(r, jnp.int32),
        lambda r: np.asarray(r),
        lambda r: r * 1j,
    ]
)
potential_inputs = st.one_of(
    st.tuples(st.just("pair_fn"), bad_pairs),
    st.tuples(st.just("num_particles"), st.one_of(not_a_count, nothing, st.sampled_from([0, 1]))),
    st.tuples(st.just("spatial_dim"), st.one_of(not_a_count, nothing, st.just(0))),
    st.tuples(st.just("trap"), st.one_of(not_a_number, negative, nothing)),
    st.tuples(st.just("count"), st.one_of(not_a_count, nothing, st.sampled_from([0, 3, 1.0, 2.5]))),
    st.tuples(st.just("smoothing"), not_positive),
    st.tuples(st.just("name"), st.one_of(flags, undefined, odd_one, nothing, st.integers())),
)


def refuse_potential(name: str, value) -> None:
    refused(tp.PairPotential, **{"pair_fn": lambda r: r**2, "num_particles": 3, name: value})


def test_bad_particles_are_refused():
    assert hammer(potential_inputs, refuse_potential, 90) >= SHARES["potential"]


# The command line.


def refuse_command(arguments: list[str]) -> None:
    out, errors = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(errors):
        code = main(arguments)
    line = errors.getvalue()
    assert code == 2, f"exit code {code} for {arguments}: {out.getvalue()!r} {line!r}"
    assert out.getvalue() == "" and line.startswith("tempering: ") and line.count("\n") == 1, (arguments, line)
    assert len(line) > 25 and "Traceback" not in line and "\u2502" not in line


def test_bad_command_lines_are_refused_in_one_line(places, monkeypatch):
    monkeypatch.chdir(places)
    before = sorted(places.rglob("*"))
    assert hammer(st.tuples(bad_commands), refuse_command, 200) >= SHARES["command"]
    assert sorted(places.rglob("*")) == before


@pytest.mark.slow
def test_a_process_refuses_in_one_line_too(places):
    commands = (["run", "mog40", "--seed", "three"], ["sample", "full", "-o", "a.csv"])
    for arguments in commands:
        done = subprocess.run(
            [*COMMAND, *arguments],
            env=subprocess_environment(os.environ["TEMPERING_CACHE"]),
            cwd=places,
            capture_output=True,
            text=True,
            timeout=120,
        )
        assert done.returncode == 2 and done.stdout == "", done.stderr
        assert done.stderr.startswith("tempering: ") and done.stderr.count("\n") == 1, done.stderr


def test_the_shares_are_more_than_a_thousand():
    assert sum(SHARES.values()) >= 1000


@pytest.mark.slow
def test_ten_times_as_many(places, sampler, monkeypatch):
    monkeypatch.chdir(places)
    num = hammer(settings_inputs, refuse_setting, 5000) + hammer(fit_inputs, refuse_fit(places), 3000)
    num += hammer(sampler_inputs, refuse_method(sampler, places), 1500) + hammer(
        potential_inputs, refuse_potential, 800
    )
    num += hammer(st.tuples(bad_commands), refuse_command, 1500)
    assert num >= 6000


@pytest.mark.parametrize("dtype", [np.float16, np.float64, np.int32, np.int8])
def test_numbers_of_any_dtype_are_points(sampler, dtype):
    points = np.array([[1, -2, 3], [0, 1, 2]], dtype)
    np.testing.assert_array_equal(sampler.log_prob(points), sampler.log_prob(points.astype(np.float32)))
    np.testing.assert_array_equal(sampler.log_prob(points.tolist()), sampler.log_prob(points.astype(np.float32)))
