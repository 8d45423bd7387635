"""When training on draws from the modes ends: the share that is predicted does not hang on one of the draws."""

from types import SimpleNamespace

import jax
import numpy as np
import pytest

from support.unchecked import unchecked
from tempering.methods import practise
from tempering.weights.ess import NUM_JUDGED


def predicted(monkeypatch, num_lacking: int) -> float:
    """The share of a model that draws all but so many of the draws well."""
    position = np.arange(NUM_JUDGED, dtype=np.float32)[:, None]
    zeros = np.zeros(NUM_JUDGED, np.float32)
    model = SimpleNamespace(log_prob=lambda key, x, sampling: np.where(np.asarray(x)[:, 0] < num_lacking, -50.0, 0.0))
    monkeypatch.setattr(practise, "model_of", lambda *_: model)
    monkeypatch.setattr(practise, "unstack", lambda networks, num: [networks])
    monkeypatch.setattr(practise, "judging", lambda sampling, dim: sampling)
    run = SimpleNamespace(
        key_of=lambda level, stage: jax.random.key(0),
        settings=SimpleNamespace(sampling=None, network=None),
        target=SimpleNamespace(dim=1),
        ahead=SimpleNamespace(wait=lambda _: None),
    )
    levels = SimpleNamespace(buffers=(SimpleNamespace(log_weight=zeros, position=position, log_density=zeros),))
    with unchecked():
        return practise._foretold(run, levels, None)


def test_one_draw_that_the_model_never_makes_does_not_keep_training_going(monkeypatch):
    assert predicted(monkeypatch, 1) == pytest.approx(1.0)
    assert predicted(monkeypatch, NUM_JUDGED // 50) < 1e-6, "a fiftieth of the draws is a mode that it lacks"


def test_the_saboteur_leaves_nothing_out(monkeypatch):
    monkeypatch.setattr(practise, "_LEFT_OUT", 0.0)
    assert predicted(monkeypatch, 1) < 1e-6
