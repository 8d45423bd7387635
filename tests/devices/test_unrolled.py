"""Tests of `devices.unrolled`: long densities are compiled without fusion on CPUs, and nothing else is."""

import ast
from pathlib import Path

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tempering
from support.compilation import optimised
from tempering.adapters import as_target
from tempering.adapters.prior import posterior_of
from tempering.compilation import quick
from tempering.devices import by_row, on_one, unrolled, use
from tempering.devices.unrolled import LONGEST_FUSED, holds_long_density, steps_in_a_row
from tempering.runs.ledger import Ledger
from tempering.targets.base import Referenced, evaluate, evaluate_many
from tempering.targets.rows import _evaluate_parts
from tempering.weights.weigh import weigh

POINTS = jnp.asarray(np.random.default_rng(0).normal(0.3, 1.0, (3, 2)), jnp.float32)


def _looped(num: int, counted: list | None = None):
    """A density with `num` turns of a Python loop, two operations in a row each."""

    def log_density(x):
        if counted is not None:
            counted.append(num)
        y = x[1]
        for _ in range(num):
            y = jnp.tanh(y + x[0])
        return -0.5 * jnp.sum((x - 0.4) ** 2) - y**2

    return log_density


FUSED = "fused_computation"
"""Several operations in one. Emitters put each single one into a wrapper, which is called a fusion too."""

LONG, SHORT = _looped(LONGEST_FUSED // 2 + 5), _looped(3)


def _compiled(program, *args):
    with optimised():
        return program.lower(*args).compile()


def _text(program, *args) -> str:
    return _compiled(program, *args).compiled.as_text()


def test_a_chain_is_counted_and_a_loop_of_jax_once():
    def chained(x):
        y = jnp.sin(x) + jnp.cos(x)  # side by side
        y = jax.lax.scan(lambda carry, _: (jnp.tanh(jnp.tanh(jnp.tanh(carry))), None), y, None, length=50)[0]
        return jax.lax.cond(x > 0, lambda y: -jnp.exp(y), lambda y: y, jax.jit(jnp.exp)(y))

    point = jax.ShapeDtypeStruct((), jnp.float32)
    # A cosine or a sine, their sum, three in the scan, exp by its name, the longer branch.
    assert steps_in_a_row(jax.make_jaxpr(chained)(point).jaxpr) == 1 + 1 + 3 + 1 + 2
    assert steps_in_a_row(jax.make_jaxpr(lambda x: x)(point).jaxpr) == 0
    side_by_side = jax.make_jaxpr(lambda x: [jnp.sin(x + number) for number in range(300)])(point)
    assert steps_in_a_row(side_by_side.jaxpr) == 2 and len(side_by_side.eqns) >= 300


def test_programs_of_a_long_density_have_no_fusion_and_those_of_a_short_one_are_what_they_were():
    long, short, plain = as_target(LONG, 2), as_target(SHORT, 2), eqx.filter_jit(evaluate_many.__wrapped__)
    own, saboteur = _compiled(evaluate_many, long, POINTS), _compiled(plain, long, POINTS)
    assert FUSED not in own.compiled.as_text()
    assert FUSED in saboteur.compiled.as_text()  # as it was
    for one, other in zip(own(long, POINTS), saboteur(long, POINTS), strict=True):
        np.testing.assert_allclose(one, other, rtol=2e-5, atol=2e-5)
    text = _text(evaluate_many, short, POINTS)
    assert FUSED in text and text == _text(plain, short, POINTS)
    assert FUSED not in _text(_evaluate_parts, long, jnp.zeros((500, 2)), jnp.asarray(1))


def test_it_is_the_same_on_a_mesh():
    rows = jnp.tile(POINTS, (8, 1))
    with use(1):
        assert FUSED not in _text(evaluate_many, as_target(LONG, 2), rows)
        assert FUSED in _text(evaluate_many, as_target(SHORT, 2), rows)


def test_what_was_handed_over_is_counted_and_not_what_is_put_round_it(monkeypatch):
    prior = [tempering.Normal(0.0, 2.0), tempering.LogNormal(0.0, 1.0)]
    for function, is_long in ((LONG, True), (SHORT, False)):
        target = posterior_of(function, 2, None, prior, None)
        assert holds_long_density((target, POINTS), {}) is is_long
        wrapped = Referenced(2, target, None)
        assert holds_long_density((POINTS,), {"target": wrapped}) is is_long
        assert not holds_long_density((POINTS, {"a": 1}), {"rows": 3})
    monkeypatch.setattr(unrolled, "_is_long", lambda density: density.log_density_fn is SHORT)
    assert holds_long_density((wrapped,), {})


def test_weighted_draws_go_the_same_way(monkeypatch):
    asked = []
    known = unrolled.holds_long_density
    monkeypatch.setattr(unrolled, "holds_long_density", lambda *given: asked.append(known(*given)) or asked[-1])
    rows = np.resize(np.asarray(POINTS), (253, 2))
    weigh(as_target(LONG, 2), jnp.asarray(rows), jnp.zeros(253), jnp.ones(()), ledger=Ledger(), stage="sampling")
    assert asked == [True, True]  # a whole part, and three rows that are left


def test_a_density_is_traced_once_for_it_and_one_that_fails_is_left_to_others():
    counted = []
    target = as_target(_looped(4, counted), 2)
    before = len(counted)
    for _ in range(3):
        assert not holds_long_density((target, POINTS), {})
    assert len(counted) == before + 1

    class Broken:
        dim = 2

        def log_density(self, x):
            raise RuntimeError("no")

    assert not holds_long_density((Broken(),), {})


def test_not_on_another_device_and_not_inside_another_program(monkeypatch):
    long = as_target(LONG, 2)
    program = on_one(lambda target, x: by_row(lambda row: evaluate(target, row)[0])(x))
    seen = []
    jax.make_jaxpr(lambda x: seen.append(holds_long_density((long, x), {})) or program(long, x))(POINTS)
    assert seen == [False]
    assert program._program((long, POINTS), {}) is not program._usual
    monkeypatch.setattr(unrolled, "_platform", lambda: "gpu")
    assert program._program((long, POINTS), {}) is program._usual


WITHOUT_DENSITY = {"_mixing", "_largest_rhat", "_of_reference"}
"""They take a target for what it brings, and do not evaluate its density."""


def test_no_plain_program_takes_a_target():
    source, found = Path(tempering.__file__).parent, []
    for file in source.rglob("*.py"):
        if "lab" in file.relative_to(source).parts:
            continue
        for node in ast.walk(ast.parse(file.read_text())):
            if not isinstance(node, ast.FunctionDef):
                continue
            words = [ast.unparse(each) for each in node.decorator_list]
            plain = {"eqx.filter_jit", "jax.jit", quick.__name__} & set(words)
            if plain and "target" in [each.arg for each in [*node.args.args, *node.args.kwonlyargs]]:
                found.append(node.name)
    assert set(found) == WITHOUT_DENSITY


@pytest.mark.parametrize("version", [(0, 9, 2), (0, 10, 1), (0, 11, 2)])
def test_emitters_come_back_where_they_were_switched_off(monkeypatch, version):
    monkeypatch.setattr(jax, "__version_info__", version)
    options = unrolled.without_passes("cse", "fusion")
    assert options["xla_disable_hlo_passes"] == "cse,fusion"
    assert options.get("xla_cpu_use_fusion_emitters") == (True if version[1] == 10 else None)
    assert unrolled.without_passes("cse") == {"xla_disable_hlo_passes": "cse"}
