"""An optimum that the model lacks is weighed against Z, also where a flat ridge beside it promises any mass."""

from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from support.unchecked import unchecked
from tempering.methods.optima import uncovered
from tempering.runs.ledger import Ledger
from tempering.targets import GaussianMixture
from tempering.weights.weigh import Weighted

MEANS, STDS = [[0.5, -0.2, 0.0], [15.0, 3.0, -2.0]], [1.0, 0.5]
TARGET = GaussianMixture(MEANS, STDS, [0.5, 0.5])
ALONE = GaussianMixture(MEANS[:1], STDS[:1], [1.0])


@pytest.mark.parametrize(("lacks_it", "budget"), [(True, None), (True, 100), (False, None)])
def test_half_of_the_mass_beside_a_ridge_is_not_overlooked(lacks_it, budget):
    model = ALONE if lacks_it else TARGET
    with unchecked():
        draws = jax.vmap(model.sample, (0, None))(jax.random.split(jax.random.key(0), 1), 400)[0]
        log_weights = jax.vmap(TARGET.log_density)(draws) - jax.vmap(model.log_density)(draws)
        weighted = Weighted(SimpleNamespace(position=draws), log_weights, 0)
        found = SimpleNamespace(
            position=jnp.asarray(MEANS),
            log_density=jax.vmap(TARGET.log_density)(jnp.asarray(MEANS)),
            # Second derivatives of a ridge next to nothing: as wide as a thousand.
            covariance=jnp.stack([1e6 * jnp.eye(3), 0.25 * jnp.eye(3)]),
            weight=jnp.asarray([1.0, 1e-9]),
            num_walls=jnp.zeros(2),
            centre=jnp.asarray(MEANS),
            is_shaped=False,
        )
        journal = SimpleNamespace(ledger=Ledger(budget=budget))
        run = SimpleNamespace(start=SimpleNamespace(found=found), journal=journal, target=TARGET)
        log_prob = lambda key, x: jax.vmap(model.log_density)(x)  # noqa: E731
        told = uncovered(run, jax.random.key(1), log_prob, weighted)
    assert told["num_uncovered"] == int(lacks_it)
    assert (told["uncovered"] > 0.8) if lacks_it else (told["uncovered"] == 0.0)
    assert np.isfinite(told["uncovered"])
