"""The translator of expressions: its grammar, and its values and slopes against OpenMM's own parser."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tempering.errors import SettingsError
from tempering.molecules.system.expressions import evaluate, parse
from tempering.molecules.system.tables import Table, spline_table


def value(text, **variables):
    expression = parse(text)
    varying = {name: jnp.asarray([float(given)]) for name, given in variables.items()}
    return float(evaluate(expression, varying or {"unused": jnp.zeros(1)}, {})[0])


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2+3*4", 14.0),
        ("2-3-4", -5.0),
        ("24/4/2", 3.0),
        ("2^3^2", 512.0),
        ("-2^2", -4.0),
        ("2^-2", 0.25),
        ("-2*-3", 6.0),
        ("1.5e-1+.5+2.", 2.65),
        ("(1+2)*(3+4)", 21.0),
        ("a*b; a=b+1; b=2", 6.0),
        ("a+c; a=2*c; c=1; c=9", 3.0),  # the nearest definition to the right
        ("or+lambda; or=1; lambda=2", 3.0),
        ("select(step(-1), 5, 7)+delta(0)", 8.0),
        ("max(2, min(5, 3))", 3.0),
    ],
)
def test_grammar(text, expected):
    assert value(text) == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("2*", "ends too early"),
        ("(2+3", r"'\)' is missing"),
        ("2 3", "out of place"),
        ("periodicdistance(1, 2, 3)", "'periodicdistance' is not known"),
        ("atan2(1)", "takes 2 arguments, not 1"),
        ("x; y", "is not a definition"),
        ("__import__(1)", "'__import__' is not known"),
    ],
)
def test_what_is_no_expression_is_refused(text, message):
    with pytest.raises(SettingsError, match=message):
        parse(text)


def test_free_names():
    assert parse("k*(r-r0)^2; k=2*half").variables == {"r", "r0", "half"}


def test_a_branch_not_taken_does_not_spoil_the_slope():
    expression = parse("select(step(x-1), sqrt(x-1), x^2)")
    slope = jax.jit(jax.grad(lambda x: jnp.sum(evaluate(expression, {"x": x}, {}))))(jnp.asarray([0.5, 3.0]))
    np.testing.assert_allclose(slope, [1.0, 0.5 / np.sqrt(2.0)], rtol=1e-6)
    # The saboteur: the same by plain `where`.
    plain = jax.grad(lambda x: jnp.sum(jnp.where(x >= 1, jnp.sqrt(x - 1), x**2)))(jnp.asarray([0.5, 3.0]))
    assert np.isnan(plain[0])


def test_tables():
    grid = Table("discrete", {"values": np.arange(6.0).reshape(2, 3)})
    expression = parse("f(i, 2)+x", {"f": 2})
    fixed = {"i": jnp.asarray([0.0, 1.0, 2.0])}
    values = evaluate(expression, {"x": jnp.zeros(3)}, fixed, {"f": grid})
    np.testing.assert_array_equal(values, [2.0, 5.0, np.nan])
    spline = spline_table(np.sin(np.linspace(0, 3, 60)), 0.0, 3.0)
    values = evaluate(parse("f(x)", {"f": 1}), {"x": jnp.asarray([1.0, 2.5, 3.5])}, {}, {"f": spline})
    np.testing.assert_allclose(values, [np.sin(1.0), np.sin(2.5), 0.0], atol=1e-3)


@pytest.mark.parametrize(
    "text",
    [
        "a*exp(-x^2)+b*sin(y)/cosh(z); a=1.5; b=sec(0.3)+csc(0.4)+cot(0.5)",
        "log(2+x)*tanh(y)^3-sqrt(4+z)+recip(3+x)*cube(y)*square(z)",
        "erf(x)+erfc(y)+atan2(x+2, z+3)+asin(x/9)+acos(y/9)+atan(z)+sinh(x)+tan(y/4)",
        "select(step(x-y), min(x, z), max(y, abs(z)))+floor(x+7.3)+ceil(y)+delta(z)",
        "(4+x)^1.7-(3+y)^-3+2^z+(x*y*z)^5+(3+z)^0.5",
    ],
)
def test_values_and_slopes_are_openmms(text):
    openmm = pytest.importorskip("openmm")
    point = np.array([0.37, -0.81, 0.59])
    system, force = openmm.System(), openmm.CustomExternalForce(text)
    system.addParticle(1.0)
    force.addParticle(0, [])
    system.addForce(force)
    context = openmm.Context(system, openmm.VerletIntegrator(0.001), openmm.Platform.getPlatform("Reference"))
    context.setPositions(point[None])
    state = context.getState(getEnergy=True, getForces=True)
    with jax.enable_x64(True):

        def ours(point):
            return evaluate(parse(text), {name: point[i : i + 1] for i, name in enumerate("xyz")}, {})[0]

        energy, slope = jax.jit(jax.value_and_grad(ours))(jnp.asarray(point))
    np.testing.assert_allclose(energy, state.getPotentialEnergy()._value, rtol=1e-12)
    np.testing.assert_allclose(-slope, np.array(state.getForces(asNumpy=True)._value)[0], rtol=1e-10)
