"""Fixed indices outside their arrays: what is found, what is not there to be found, and what a user is shown."""

import jax
import jax.numpy as jnp
import pytest

import tempering as tp
from tempering.adapters import as_target
from tempering.adapters.indices import index_outside
from tempering.errors import DensityError


@jax.jit
def _compiled(x):
    return -(x[7] ** 2)


def _looped(x):
    return jax.lax.scan(lambda total, i: (total - (x[i] - x[9]) ** 2, i), 0.0, jnp.arange(4))[0]


OUTSIDE = {
    "past the end": (lambda x: -(x[5] ** 2), (5, 4)),
    "before the start": (lambda x: -(x[-6] ** 2), (-6, 4)),
    "of a matrix": (lambda x: -jnp.sum(x.reshape(2, 2)[3] ** 2), (3, 2)),
    "of its second axis": (lambda x: -(x.reshape(1, 4)[0, 4] ** 2), (4, 4)),
    "in a compiled function": (_compiled, (7, 4)),
    "in a loop": (_looped, (9, 4)),
}
INSIDE = {
    "the last": lambda x: -(x[-1] ** 2) - x[3] ** 2 - x[-4] ** 2,
    "slices": lambda x: -jnp.sum(x[1:9] ** 2) - jnp.sum(x[::2] ** 2),
    "by value": lambda x: -(x[jnp.argmax(x)] ** 2),
    "of a table": lambda x: -jnp.sum((x - jnp.arange(12.0)[8]) ** 2),
    "a loop": lambda x: jax.lax.fori_loop(0, 4, lambda i, total: total - x[i] ** 2, 0.0),
}


@pytest.mark.parametrize(("density", "found"), OUTSIDE.values(), ids=OUTSIDE.keys())
def test_an_index_outside_is_found(density, found):
    assert index_outside(density, (4,)) == found


@pytest.mark.parametrize("density", INSIDE.values(), ids=INSIDE.keys())
def test_an_index_inside_is_not(density):
    assert index_outside(density, (4,)) is None


def test_a_density_that_takes_what_is_not_there_is_refused():
    with pytest.raises(DensityError, match=r"element 5 of an axis of length 2, .* correct the index or `dim`"):
        tp.fit(lambda x: -(x[0] ** 2) - x[5] ** 2, dim=2)
    with pytest.raises(DensityError, match="element 3 of an axis of length 3"):
        tp.fit(lambda p: -(p["a"][3] ** 2) - p["a"][0] ** 2, like={"a": jnp.zeros(3)})
    with pytest.raises(DensityError, match="element 2 of an axis of length 2"):
        tp.fit(lambda x: -(x[2] ** 2), dim=2, prior=tp.Normal(0.0, 1.0))
    assert as_target(lambda x: -(x[0] ** 2) - x[5] ** 2, dim=6).dim == 6
