"""As many draws from the modes are made as are planned: the path between levels begins at what they are draws of."""

from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from support.unchecked import unchecked
from tempering.adapters import as_target
from tempering.atlas.mixture import log_densities, mixture_of
from tempering.kernels import kernel_of
from tempering.methods.explore_modes import _drawn
from tempering.methods.from_modes import way_from
from tempering.runs.ledger import Ledger
from tempering.settings import PTSDSettings, resolved
from tempering.targets.base import evaluate_many


@pytest.mark.parametrize(("share", "left"), [(0.9, 16_123), (0.9, 300), (0.1, 16_123), (0.1, 4_321)])
def test_as_many_draws_are_made_as_are_planned(share, left):
    target, settings = as_target(lambda x: -0.5 * jnp.sum(x**2), 2), resolved(PTSDSettings(), 2)
    before, latest = (mixture_of(np.ones(1), np.zeros((1, 2)), width * np.eye(2)[None], 8.0) for width in (1.0, 4.0))
    with unchecked():
        position = before.sample(jax.random.key(1), 400)
        drawn = (position, *evaluate_many(target, position))
        found = SimpleNamespace(before=before, reference=latest, drawn=drawn, share=share, is_shaped=False)
        settings, way = way_from(found, settings, target, left, kernel_of(settings.exploration, 2))
        ledger = Ledger(left)
        run = SimpleNamespace(target=target, start=SimpleNamespace(way=way, found=found))
        run.journal = SimpleNamespace(ledger=ledger)
        reference, states = _drawn(jax.random.key(2), run, is_mended=way.temperatures == (1.0,))
    assert ledger.total == way.num_draws == settings.buffer_size - 400 == len(states[1]) - 400
    points = np.random.default_rng(0).normal(size=(50, 2))
    np.testing.assert_allclose(log_densities(reference, points), log_densities(way.reference, points), atol=1e-5)
