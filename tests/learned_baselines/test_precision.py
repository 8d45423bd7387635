"""What the baselines ask of a density is multiplied out in full single precision, as in `evaluate`. GPUs round else."""

import equinox as eqx
import jax
import jax.numpy as jnp
import pytest

from support.random_checks import must_fail
from tempering.baselines.bnem import parts_of
from tempering.baselines.contract import row_keys
from tempering.baselines.fab import FAB
from tempering.baselines.flow import Flow
from tempering.baselines.paths import look_twice
from tempering.baselines.units import Rescaled
from tempering.settings import FABSettings
from tempering.targets import Target


class Form(Target):
    """A quadratic form, by a product of matrices."""

    dim: int = eqx.field(static=True, default=2)

    def log_density(self, x):
        return -0.5 * x @ (jnp.asarray([[2.0, 0.3], [0.3, 1.0]]) @ x) + jnp.sum(jnp.cos(x)) ** 3

    def particle_energies(self, x):
        return jnp.asarray([[2.0, 0.3], [0.3, 1.0]]) @ (x**2)


def weighed():
    keys, flow = row_keys(jax.random.key(0), 2), eqx.filter_jit(Flow)(jax.random.key(0), 2, 1, 4, 1, False)
    return jax.make_jaxpr(lambda keys: FAB().draw_weighted(keys, flow, Form(), FABSettings()))(keys)


def twice():
    def both(x):
        seen = look_twice(Form(), x)
        return seen.log_density + jnp.sum(seen.gradient)

    return jax.make_jaxpr(jax.grad(both))(jnp.ones(2))


def parts(is_factorised, target):
    return jax.make_jaxpr(lambda x: parts_of(target, is_factorised)(x))(jnp.ones(2))


def is_exact(program):
    text = str(program)
    num = text.count("= dot_general[")
    assert num >= 1 and text.count("precision=(Precision.HIGHEST, Precision.HIGHEST)") == num


@pytest.mark.parametrize(
    "program",
    [
        weighed,
        twice,
        lambda: parts(False, Form()),
        lambda: parts(True, Form()),
        lambda: parts(True, Rescaled(2, Form(), 2.0)),
    ],
    ids=["weights of FAB", "products of the Hessian", "parts of BNEM", "parts of particles", "parts in other units"],
)
def test_a_density_is_multiplied_exactly(program):
    is_exact(program())


def test_the_check_sees_a_density_that_is_not():
    must_fail(is_exact, jax.make_jaxpr(Form().log_density)(jnp.ones(2)))
