"""A user's density: what is wrong with it is said before anything is evaluated."""

import re
from dataclasses import dataclass
from functools import partial
from types import SimpleNamespace

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from support.counting import counting_target
from support.unchecked import unchecked
from tempering.adapters import as_target
from tempering.adapters.forward import ForwardTarget
from tempering.adapters.structure import StructuredTarget, structure_of
from tempering.atlas.curvature import second_derivatives
from tempering.errors import DensityError, SettingsError, what_is
from tempering.targets import Target, anisotropic_gaussian
from tempering.targets.base import evaluate_many


@pytest.fixture(autouse=True)
def as_users_run_it():
    with unchecked():
        yield


def _normal(x):
    return -0.5 * jnp.sum((x - 1.0) ** 2)


def _python_if(x):
    return -jnp.sum(x**2) if x[0] > 0 else -jnp.sum(x**4)


def _python_float(x):
    return -(float(x[0]) ** 2) * jnp.sum(x)


def _numpy(x):
    return -jnp.asarray(np.sum(np.asarray(x) ** 2))


def _math(x):
    rows = list(range(x[0].astype(jnp.int32)))
    return -jnp.sum(x) * len(rows)


def _raising(x):
    raise RuntimeError("the sky is falling\nand more")


def _batched(x):
    return -0.5 * jnp.sum(x**2, axis=1)


def _callback(x, vmap_method="expand_dims"):
    shape = jax.ShapeDtypeStruct((), jnp.float32)
    return jax.pure_callback(lambda x: -np.sum(np.asarray(x) ** 2, axis=-1), shape, x, vmap_method=vmap_method)


def _callback_with_gradient(vmap_method):
    @jax.custom_vjp
    def density(x):
        return _callback(x, vmap_method)

    density.defvjp(lambda x: (density(x), x), lambda x, g: (-2.0 * g * x,))
    return density


def _root(x):
    """Of -(r^3 + r) = x[0] + 2 x[1], by Newton's steps until they are small: r is known by its inverse."""
    total = x[0] + 2.0 * x[1]
    is_far = lambda root: jnp.abs(root**3 + root + total) > 1e-6  # noqa: E731
    start = jnp.where(jnp.isnan(total), total, 0.0)
    return jax.lax.while_loop(is_far, lambda r: r - (r**3 + r + total) / (3.0 * r**2 + 1.0), start)


def _looped(x):
    return -0.5 * _root(x) ** 2 - 0.5 * x[1] ** 2


BAD = {
    "a vector": (lambda x: -0.5 * x**2, r"shape \(2,\) and dtype float32 .*shape \(\) and a floating dtype"),
    "a vector of one": (lambda x: -jnp.sum(x**2, keepdims=True), r"shape \(1,\) .*one real number"),
    "an integer": (lambda x: jnp.sum(x > 0), r"dtype int32 .*floating dtype"),
    "a boolean": (lambda x: jnp.all(x > 0), r"dtype bool .*floating dtype"),
    "a complex number": (lambda x: jnp.sum(x).astype(jnp.complex64), r"dtype complex64 .*one real number"),
    "a tuple": (lambda x: (jnp.sum(x), x), r"returned a tuple .*one real number"),
    "nothing": (lambda x: None, r"returned None .*one real number"),
    "a Python integer": (lambda x: 3, r"returned an int .*one real number"),
    "an exception": (_raising, r"raised RuntimeError .*shape \(2,\) and dtype float32: the sky is falling;"),
    "a batch axis": (_batched, r"raised .*it takes one point, not a batch$"),
    "another dimension": (lambda x: -jnp.sum((x - jnp.arange(3.0)) ** 2), r"not a batch; with dim=3 it runs"),
    "two arguments": (lambda x, y: jnp.sum(x), r"raised TypeError .*missing 1 required positional"),
    "a Python if": (_python_if, r"not traceable by JAX.*jnp\.where or lax\.cond in place of `if`"),
    "a Python float": (_python_float, r"not traceable by JAX.*Python number"),
    "NumPy": (_numpy, r"not traceable by JAX.*NumPy array.*jax\.numpy.*tp\.from_callable\(fn, dim=2\)"),
    "a Python integer of a value": (_math, r"raised TracerIntegerConversionError|not traceable by JAX"),
    "a callback without gradient": (_callback, r"no gradient: jax\.grad raised .*jax\.custom_vjp"),
    "a callback that takes no batch": (
        _callback_with_gradient(None),
        r"cannot be batched: jax\.vmap raised NotImplementedError.*vmap_method",
    ),
}


@pytest.mark.parametrize(("density", "message"), BAD.values(), ids=BAD.keys())
def test_bad_functions_are_refused_with_the_trouble_named(density, message):
    with pytest.raises(DensityError, match=message):
        as_target(density, dim=2)


@pytest.mark.parametrize(("density", "message"), BAD.values(), ids=BAD.keys())
def test_bad_objects_are_refused_alike(density, message):
    with pytest.raises(DensityError, match=message):
        as_target(SimpleNamespace(dim=2, log_density=density))


@pytest.mark.parametrize("dim", [0, -1, True, 2.5, "2", 2.0])
def test_bad_dimensions_are_refused(dim):
    for arguments in ((_normal, dim), (SimpleNamespace(dim=dim, log_density=_normal),)):
        with pytest.raises(SettingsError, match=f"dim = {dim!r} is not allowed: .*integer of at least 1"):
            as_target(*arguments)


def test_a_function_without_dim_is_told_how_to_give_it():
    with pytest.raises(SettingsError, match=r"dim is missing.*tp\.fit\(log_density, dim=2\)"):
        as_target(_normal)


def test_a_contradiction_between_dim_and_the_object_is_refused():
    with pytest.raises(SettingsError, match="dim = 3 contradicts the target's own dim = 2"):
        as_target(SimpleNamespace(dim=2, log_density=_normal), dim=3)
    with pytest.raises(SettingsError, match="dim = 3 contradicts"):
        as_target(anisotropic_gaussian(dim=2), dim=3)


NO_DENSITIES = [5, "x**2", None, np.zeros(2), SimpleNamespace(log_density=_normal), SimpleNamespace(dim=2)]


@pytest.mark.parametrize("thing", NO_DENSITIES)
def test_what_is_no_density_at_all_is_refused(thing):
    with pytest.raises(
        DensityError, match=f"is {re.escape(what_is(thing))}; it must be a function of one point, or an object"
    ):
        as_target(thing, dim=2)


class _Module(Target):
    location: jax.Array
    dim: int = eqx.field(static=True, default=2)

    def log_density(self, x):
        return _normal(x - self.location)


class _Plain:
    dim = 2

    def log_density(self, x):
        return _normal(x)


class _CallableModule(eqx.Module):
    location: jax.Array

    def __call__(self, x):
        return _normal(x - self.location)


@dataclass
class _CallableWithoutHash:
    location: float

    def __call__(self, x):
        return _normal(x - self.location)


GOOD = {
    "a function": (_normal, 2),
    "a jitted function": (jax.jit(_normal), 2),
    "an object": (_Plain(), None),
    "an object, with its dim": (_Plain(), 2),
    "a namespace": (SimpleNamespace(dim=2, log_density=_normal), None),
    "a module": (_Module(jnp.zeros(2)), None),
    "a method of a module": (_Module(jnp.ones(2)).log_density, 2),
    "a callable module": (_CallableModule(jnp.ones(2)), 2),
    "a callable dataclass": (_CallableWithoutHash(0.5), 2),
    "a partial function": (partial(lambda a, x: _normal(a * x), jnp.asarray(2.0)), 2),
    "a callback with a gradient": (_callback_with_gradient("expand_dims"), 2),
    "minus infinity outside": (lambda x: jnp.where(x[0] > 0, _normal(x), -jnp.inf), 2),
    "half precision": (lambda x: _normal(x).astype(jnp.bfloat16), 2),
}


@pytest.mark.parametrize(("density", "dim"), GOOD.values(), ids=GOOD.keys())
def test_good_densities_are_targets(density, dim):
    target = as_target(density, dim)
    assert target.dim == 2
    points = jnp.asarray([[0.5, 2.0], [1.0, -1.0], [3.0, 0.0]])
    values, grads = evaluate_many(target, points)
    log_density_fn = density.log_density if hasattr(density, "log_density") else density
    expected = [jax.value_and_grad(log_density_fn)(point) for point in points]
    np.testing.assert_allclose(np.asarray(values, np.float32), [float(value) for value, _ in expected], rtol=1e-2)
    np.testing.assert_allclose(grads, [grad for _, grad in expected], rtol=1e-2, atol=1e-2)


def test_modules_pass_through_as_they_are():
    # So that their arrays stay arguments of the compiled programs.
    target = _Module(jnp.ones(2))
    assert as_target(target) is target


def test_the_same_density_is_compiled_once():
    traces = []

    def traced(x):
        traces.append(x.shape)
        return _normal(x)

    class Traced(_CallableModule):
        def __call__(self, x):
            return traced(x - self.location)

    plain = SimpleNamespace(dim=2, log_density=traced)
    same = {
        "function": (lambda: as_target(traced, 2),) * 2,
        "object": (lambda: as_target(plain),) * 2,
        # Other arrays in the same module: they are arguments of the program.
        "module": (lambda: as_target(Traced(jnp.zeros(2)), 2), lambda: as_target(Traced(jnp.ones(2)), 2)),
    }
    for name, (first, second) in same.items():
        evaluate_many(first(), jnp.zeros((3, 2)))
        target = second()
        traces.clear()
        evaluate_many(target, jnp.zeros((3, 2)))
        assert traces == [], f"{name}: traced again"


def test_the_checks_evaluate_nothing():
    counting, counter = counting_target(anisotropic_gaussian(dim=2))
    as_target(counting)
    as_target(counting.log_density, dim=2)
    as_target(SimpleNamespace(dim=2, log_density=counting.log_density))
    assert counter.total == 0
    # The counter works: one evaluation is one point.
    assert counter.wait(as_target(counting).log_density(jnp.zeros(2))) == 1


def test_a_while_loop_gets_a_gradient_of_slopes_and_second_derivatives():
    """By the rule of inverses: dr/dx0 = -1 / (3 r^2 + 1)."""
    with pytest.raises(ValueError, match="Reverse-mode"):  # JAX alone has none
        jax.grad(_looped)(jnp.ones(2))
    target, x = as_target(_looped, 2), jnp.asarray([0.7, -1.3])
    assert isinstance(target, ForwardTarget) and as_target(target) is target
    root = float(_root(x))
    slope = -1.0 / (3.0 * root**2 + 1.0)
    values, gradients = evaluate_many(target, jnp.stack([x, x + 1.0]))
    np.testing.assert_allclose(values[0], -0.5 * root**2 - 0.5 * 1.3**2, rtol=1e-5)
    np.testing.assert_allclose(gradients[0], [-root * slope, -2.0 * root * slope + 1.3], rtol=1e-4)
    bend = 6.0 * root * slope**3  # of the root itself
    curve = -(slope**2) - root * bend
    found = second_derivatives(target, np.asarray(x), is_exact=True)
    np.testing.assert_allclose(found, curve * np.asarray([[1.0, 2.0], [2.0, 4.0]]) - np.diag([0.0, 1.0]), rtol=2e-3)
    assert not np.allclose(found, -(slope**2) * np.asarray([[1.0, 2.0], [2.0, 4.0]]) - np.diag([0.0, 1.0]), rtol=2e-3)


def test_a_while_loop_of_named_parameters_keeps_their_names():
    structure = structure_of({"a": 0.0, "b": 0.0})
    target = as_target(StructuredTarget(lambda tree: _looped(jnp.stack([tree["a"], tree["b"]])), structure))
    assert isinstance(target, ForwardTarget) and target.structure is structure
