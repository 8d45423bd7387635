"""The fingerprint of a density: the same in every process, another for every other density, at no evaluation."""

import os
import subprocess
import sys
from pathlib import Path

import equinox as eqx
import jax
import jax.numpy as jnp
import pytest

from support.counting import counting_target
from tempering.adapters import as_target, fingerprint
from tempering.targets import ManyWell, anisotropic_gaussian, mog40

SOURCE = Path(__file__).parent.parent.parent / "src"


def of(density, dim: int = 2) -> int:
    return fingerprint(as_target(density, dim))


def well(centre, scale=1.0):
    """A density that holds an array, inside a compiled function of its own."""
    held = jnp.asarray(centre)
    inner = jax.jit(lambda x: jnp.sum((x - held) ** 2))
    return lambda x: -inner(x) / scale


class Well(eqx.Module):
    centre: jax.Array

    def __call__(self, x):
        """Log density of one point."""
        return -jnp.sum((x - self.centre) ** 2)


def looped(held):
    """A density with arrays in the body of a loop and in a branch."""

    def body(total, row):
        return total + jax.lax.cond(row[0] > 0, lambda: row @ held, lambda: held @ held), None

    return lambda x: jax.lax.scan(body, 0.0, jnp.stack([x, x]))[0]


@pytest.mark.parametrize(
    ("make", "first", "second"),
    [
        (well, [0.0, 1.0], [0.0, 1.5]),
        (lambda scale: well([0.0, 1.0], scale), 1.0, 2.0),
        (lambda centre: Well(jnp.asarray(centre)), [0.0, 1.0], [0.0, 1.5]),
        (lambda held: looped(jnp.asarray(held)), [0.0, 1.0], [0.0, 1.5]),
        (lambda power: lambda x: -jnp.sum(jnp.abs(x) ** power), 2, 4),
        (lambda seed: anisotropic_gaussian(2, seed), 0, 1),
    ],
)
def test_another_density_has_another_fingerprint(make, first, second):
    assert of(make(first)) == of(make(first))
    assert of(make(first)) != of(make(second))


def test_the_dimension_counts_too():
    assert len({of(lambda x: -jnp.sum(x**2), dim) for dim in (1, 2, 3)}) == 3
    assert len({fingerprint(target) for target in (mog40(), ManyWell(2), ManyWell(4), anisotropic_gaussian())}) == 4


def test_it_costs_no_evaluation():
    target, counter = counting_target(anisotropic_gaussian())
    assert 0 <= fingerprint(target) < 2**48
    assert counter.wait(jnp.zeros(())) == 0


PROGRAM = """
import jax, jax.numpy as jnp, numpy as np
from tempering.adapters import as_target, fingerprint

table = np.linspace(0.0, 1.0, 7, dtype=np.float32)

@jax.custom_vjp
def squared(x):
    return jnp.sum(x**2)

squared.defvjp(lambda x: (squared(x), x), lambda x, g: (2 * g * x,))

def log_density(x):
    seen = jax.pure_callback(lambda y: y, jax.ShapeDtypeStruct((), jnp.float32), 1.0, vmap_method="sequential")
    return -squared(x) + jax.nn.relu(x[0]) + jnp.interp(x[1], table, table**2) + 0 * jax.lax.stop_gradient(seen)

print(fingerprint(as_target(log_density, 2)))
"""


@pytest.mark.slow
def test_two_processes_agree():
    # Addresses and the order of sets differ between processes; neither may show.
    found = set()
    for seed in ("1", "2"):
        environment = {**os.environ, "PYTHONPATH": str(SOURCE), "PYTHONHASHSEED": seed}
        done = subprocess.run(
            [sys.executable, "-c", PROGRAM], env=environment, capture_output=True, text=True, timeout=120
        )
        assert done.returncode == 0, done.stderr
        found.add(done.stdout.strip())
    assert len(found) == 1 and int(found.pop()) > 0
