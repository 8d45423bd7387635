"""An optimum that the model lacks is weighed against Z, also beside a flat ridge and among more than one batch."""

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


@pytest.mark.parametrize("num_low", [0, 600])
@pytest.mark.parametrize(("lacks_it", "budget"), [(True, None), (True, 100), (False, None)])
def test_half_of_the_mass_beside_a_ridge_is_not_overlooked(lacks_it, budget, num_low):
    """Low optima are listed between the ridge and the mode: the model is asked for more than one batch of them."""
    model = ALONE if lacks_it else TARGET
    places = jnp.concatenate([jnp.asarray(MEANS[:1]), jnp.full((num_low, 3), 40.0), jnp.asarray(MEANS[1:])])
    widths, weights = [1e6, *[1.0] * num_low, 0.25], [1.0, *[1e-30] * num_low, 1e-9]
    with unchecked():
        draws = jax.vmap(model.sample, (0, None))(jax.random.split(jax.random.key(0), 1), 400)[0]
        log_weights = jax.vmap(TARGET.log_density)(draws) - jax.vmap(model.log_density)(draws)
        weighted = Weighted(SimpleNamespace(position=draws), log_weights, 0)
        found = SimpleNamespace(
            position=places,
            log_density=jax.vmap(TARGET.log_density)(places),
            # Second derivatives of a ridge next to nothing: as wide as a thousand.
            covariance=jnp.asarray(np.array(widths)[:, None, None] * np.eye(3), jnp.float32),
            weight=jnp.asarray(weights),
            num_walls=jnp.zeros(len(places)),
            centre=places,
            is_shaped=False,
        )
        journal = SimpleNamespace(ledger=Ledger(budget=budget))
        run = SimpleNamespace(start=SimpleNamespace(found=found), journal=journal, target=TARGET)
        log_prob = lambda key, x: jax.vmap(model.log_density)(x)  # noqa: E731
        told = uncovered(run, jax.random.key(1), log_prob, weighted)
    assert told["num_uncovered"] == int(lacks_it)
    assert (told["uncovered"] > 0.8) if lacks_it else (told["uncovered"] == 0.0)
    assert np.isfinite(told["uncovered"])
