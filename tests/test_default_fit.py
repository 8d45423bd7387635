"""The product from end to end: the default method and settings on two modes, and the README's own example.

Fewer evaluations, fewer training steps and a narrower network than by default are all that is changed. Are the weights
of the modes, log Z, the verdict and the account right, and would each be found wrong if it were?
"""

import ast
import functools
import math
import re
from pathlib import Path
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

import tempering as tp
from support.random_checks import assert_fraction, assert_mean, must_fail
from support.tiny import quick_compilation
from support.unchecked import unchecked
from tempering.settings import PTSDSettings

README = Path(__file__).parent.parent / "README.md"

# Two modes, off-centre, with covariances A A^T that are neither alike nor round. The first coordinate parts them: the
# modes' means are 4.5 and 3.2 standard deviations from the line, on either side of it.
WEIGHTS = np.array([0.3, 0.7])
MEANS = np.array([[-4.0, 2.0, 1.0], [3.0, -1.0, 5.0]])
FACTORS = np.array(
    [[[0.6, 0.0, 0.0], [0.5, 1.2, 0.0], [-0.3, 0.2, 0.8]], [[1.3, 0.0, 0.0], [-0.6, 0.5, 0.0], [0.4, 0.1, 0.9]]]
)
LOG_Z = 2.5
LINE = -1.2
FIRST_SHARE = float(WEIGHTS @ stats.norm.cdf((LINE - MEANS[:, 0]) / FACTORS[:, 0, 0]))

BUDGET, NUM_DRAWS = 18_000, 2000
SHORT = {"training.num_steps": 250, "training.num_finetune_steps": 250, "network.width": 32}


@pytest.fixture(scope="module", autouse=True)
def as_users_run_it():
    with unchecked(), quick_compilation():
        yield


def log_density(x):
    """As a user would write it; its integral is exp(LOG_Z)."""
    log_parts = LOG_Z + np.log(WEIGHTS) - np.log(np.linalg.det(FACTORS)) - 1.5 * np.log(2.0 * np.pi)
    whitening, means = (jnp.asarray(array, jnp.float32) for array in (np.linalg.inv(FACTORS), MEANS))
    white = jnp.einsum("mij,mj->mi", whitening, x[None, :] - means)
    return jax.nn.logsumexp(jnp.asarray(log_parts, jnp.float32) - 0.5 * jnp.sum(white**2, axis=1))


def in_first_mode(draws) -> np.ndarray:
    return np.asarray(draws)[:, 0] < LINE


# The checks. `hits` says which draws are in the first mode, `share` is that mode's exact weight.


def check_weighted(hits, log_weights, share: float, log_z: float, seed: int) -> None:
    """Weighted draws have the first mode's weight and the density's normaliser.

    For draws of any normalised q, E[w (1_A - p(A))] = 0 and E[w / Z] = 1: means of independent draws, without
    the bias of a ratio.
    """
    weights = np.exp(np.asarray(log_weights, np.float64) - log_z)
    assert_mean(weights * (hits - share), 0.0, name="w (in the first mode - its weight)", key=seed)
    assert_mean(weights, 1.0, name="w / Z", key=seed)


def check_plain(hits, log_weights, share: float, seed: int) -> None:
    """Plain draws have the first mode's weight as closely as the model's effective share says.

    By Cauchy and Schwarz |q(A) - p(A)| = |Cov_q(w, 1_A)| is at most sqrt(Var_q(w) q(A) (1 - q(A))), and Var_q(w) is
    1 / ESS - 1 for w of mean 1. Within that the nearest value is taken for the expected one. A model that lost a mode
    has weights that are all alike, so that it is allowed nothing.
    """
    weights = np.exp(np.asarray(log_weights, np.float64) - np.max(log_weights))
    variance, observed = np.var(weights) / np.mean(weights) ** 2, np.mean(hits)
    bias = math.sqrt(variance * observed * (1.0 - observed))
    nearest = float(np.clip(observed, share - bias, share + bias))
    assert_fraction(hits, nearest, name=f"in the first mode ({share:.4f}, a bias of {bias:.4f} allowed)", key=seed)


def check_log_z(found: float, error: float, exact: float) -> None:
    """Log Z is within five of its own errors, which are small enough to notice a mode of one twentieth."""
    message = f"log Z: observed {found:.4f}, expected {exact:.4f}, standard error {error:.4f}"
    assert abs(found - exact) < 5.0 * error < 0.05, message


def check_account(sampler: tp.Sampler, budget: int) -> None:
    """Every evaluation is in the ledger, those of levels in their records too, and the budget holds."""
    spent = {stage: num for stage, num in sampler.ledger.points.items() if stage != "sampling"}
    assert sampler.evaluations == sum(spent.values()) <= budget
    by_level = sum(sum(record.evaluations.values()) for record in sampler.levels)
    before = sum(spent.get(stage, 0) for stage in ("atlas", "reference", "shape", "pilot"))
    assert before > 0 and before + by_level + spent["final_weights"] == sampler.evaluations


# Two modes, 30/70.


@pytest.fixture(scope="module")
def fitted() -> SimpleNamespace:
    """The one fit of this file by default settings, and its draws; for reading only."""
    sampler = tp.fit(log_density, dim=3, seed=0, budget=BUDGET, settings=SHORT, progress=False)
    plain = sampler.sample(NUM_DRAWS, seed=1)
    draws, log_weights = sampler.sample_weighted(NUM_DRAWS, seed=2)
    return SimpleNamespace(sampler=sampler, plain=plain, draws=draws, log_weights=log_weights)


def test_weighted_draws_have_the_weights_of_the_modes_and_log_z(fitted):
    hits, log_weights = in_first_mode(fitted.draws), fitted.log_weights
    assert fitted.draws.shape == (NUM_DRAWS, 3) and log_weights.shape == (NUM_DRAWS,)
    check_weighted(hits, log_weights, FIRST_SHARE, LOG_Z, seed=2)
    # The saboteurs: weights of the modes that are 40/60, a normaliser off by 5 %, weights left out, a lost mode.
    must_fail(check_weighted, hits, log_weights, 0.4, LOG_Z, seed=2)
    must_fail(check_weighted, hits, log_weights, FIRST_SHARE, LOG_Z + 0.05, seed=2)
    must_fail(check_weighted, hits, np.zeros(NUM_DRAWS), FIRST_SHARE, LOG_Z, seed=2)
    must_fail(check_weighted, hits[~hits], log_weights[~hits], FIRST_SHARE, LOG_Z, seed=2)


def test_plain_draws_have_the_weights_of_the_modes(fitted):
    hits = in_first_mode(fitted.plain)
    assert np.all(np.isfinite(fitted.plain)) and fitted.plain.shape == (NUM_DRAWS, 3)
    check_plain(hits, fitted.log_weights, FIRST_SHARE, seed=1)
    # The saboteurs: equal weights of the modes, and swapped ones; a lost mode is below.
    must_fail(check_plain, np.arange(NUM_DRAWS) % 2 == 0, fitted.log_weights, FIRST_SHARE, seed=1)
    must_fail(check_plain, ~hits, fitted.log_weights, FIRST_SHARE, seed=1)


def test_log_z_is_right_within_its_own_error(fitted):
    sampler = fitted.sampler
    check_log_z(sampler.log_z, sampler.log_z_error, LOG_Z)
    # The saboteurs: without the density's constant, without the first mode, with an error that says nothing.
    must_fail(check_log_z, sampler.log_z, sampler.log_z_error, 0.0)
    must_fail(check_log_z, sampler.log_z + math.log(0.7), sampler.log_z_error, LOG_Z)
    must_fail(check_log_z, sampler.log_z, 1.0, LOG_Z)


def test_the_verdict_and_the_account_are_those_of_a_right_sampler(fitted):
    sampler = fitted.sampler
    assert sampler.diagnose().status != "wrong", str(sampler.diagnose())
    check_account(sampler, BUDGET)
    must_fail(check_account, sampler, sampler.evaluations - 1)


def test_both_modes_are_in_the_atlas(fitted):
    modes = fitted.sampler.modes
    assert len(modes) == 2
    assert [mode.weight for mode in modes] == pytest.approx(WEIGHTS[::-1], abs=0.01)
    np.testing.assert_allclose([mode.position for mode in modes], MEANS[::-1], atol=0.05)
    assert min(mode.hits for mode in modes) > 10


def test_the_settings_are_the_defaults_with_what_became_of_them(fitted):
    sampler = fitted.sampler
    settings, default = sampler.settings, PTSDSettings()
    assert (settings.training.num_steps, settings.training.num_finetune_steps) == (250, 250)
    # Drawn from its modes at once: the sizes that the budget settled are those that were spent.
    assert sampler.checks.path == "reference" and len(sampler.levels) == 1
    assert sampler.levels[0].num_draws == settings.buffer_size != default.buffer_size
    assert sampler.ledger.points["final_weights"] == settings.num_final_draws
    for stage in ("atlas", "reference"):
        assert 0 < sampler.ledger.points[stage] <= default.atlas.share * BUDGET, stage
    assert settings.network.num_components == sampler.network.num_components == 8  # two modes, and room
    # All the rest is as without settings.
    assert settings.is_sized_by_budget and sampler.method == "PTSD, drawn from its modes"
    for group in ("atlas", "ladder", "exploration", "guidance", "resampling", "refinement"):
        assert getattr(settings, group) == getattr(default, group), group


@pytest.fixture(scope="module")
def one_mode() -> tp.Sampler:
    """A fit that starts in the second mode and is never hot enough to leave it; the network need not be a good one."""
    noise = np.random.default_rng(0).normal(size=(200, 3))
    small = {"network.width": 16, "network.depth": 2, "network.coordinate_width": 4, "sampling.num_steps": 16}
    start, short = MEANS[1] + noise @ FACTORS[1].T, {"training.num_steps": 200, "training.check_every": 50}
    return tp.fit(
        log_density,
        dim=3,
        budget=6000,
        init=start,
        ladder=(1.1, 1.0),
        settings={**small, **short, "training.batch_size": 128},
        progress=False,
    )


def test_a_fit_by_levels_has_no_mixture(one_mode):
    assert one_mode.network.num_components == 0


def test_a_fit_that_lost_a_mode_is_not_trusted(one_mode):
    sampler = one_mode
    draws, log_weights = sampler.sample_weighted(1000, seed=2)
    hits = in_first_mode(draws)
    assert not np.any(hits), "the saboteur found the mode that it was to lose"
    assert not sampler.diagnose().is_trustworthy, str(sampler.diagnose())
    must_fail(check_weighted, hits, log_weights, FIRST_SHARE, LOG_Z, seed=2)
    must_fail(check_plain, hits, log_weights, FIRST_SHARE, seed=2)
    must_fail(check_log_z, sampler.log_z, sampler.log_z_error, LOG_Z)


def test_a_lost_mode_is_found_and_added(one_mode):
    improved = one_mode.improve(budget=6000, seed=1, progress=False)
    draws, log_weights = improved.sample_weighted(2000, seed=2)
    assert improved.evaluations <= one_mode.evaluations + 6000 and len(improved.modes) == 2
    check_weighted(in_first_mode(draws), log_weights, FIRST_SHARE, LOG_Z, seed=2)
    check_log_z(improved.log_z, improved.log_z_error, LOG_Z)
    assert improved.checks.uncovered == 0.0 and improved.diagnose().status != "wrong", str(improved.diagnose())
    must_fail(check_weighted, in_first_mode(draws), np.zeros(2000), 0.4, LOG_Z, seed=2)


# The README.


README_DRAWS = 2_000


def readme_example() -> str:
    """The first Python lines of the README, as they are but for fewer draws."""
    blocks = re.findall(r"^```python\n(.*?)^```", README.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    assert blocks, "README.md has no ```python block, whose lines this test runs"
    assert blocks[0].count("10_000") == 2
    return blocks[0].replace("10_000", f"{README_DRAWS:_}")


def test_the_readme_example_runs_as_printed_and_is_right(monkeypatch, capsys):
    budget = 12_000
    monkeypatch.setattr(tp, "fit", functools.partial(tp.fit, budget=budget, settings=SHORT))
    names, all_draws = {}, []
    for statement in ast.parse(readme_example()).body:
        exec(compile(ast.Module([statement], []), str(README), "exec"), names)
        if "draws" in names and not any(names["draws"] is draws for draws in all_draws):
            all_draws.append(names["draws"])
    sampler, log_weights = names["sampler"], names["log_weights"]
    plain, weighted = all_draws
    for draws in (plain, weighted):
        assert draws.shape == (README_DRAWS, 2) and np.all(np.isfinite(draws))
    # Modes at (4, 4) and (-4, -4) of weights 1 : e, both round and of standard deviation 1.
    share, log_z = 1.0 / (1.0 + math.e), math.log((1.0 + math.e) * 2.0 * math.pi)
    hits = weighted.sum(axis=1) > 0.0
    check_weighted(hits, log_weights, share, log_z, seed=2)
    check_plain(plain.sum(axis=1) > 0.0, log_weights, share, seed=1)
    check_log_z(sampler.log_z, sampler.log_z_error, log_z)
    check_account(sampler, budget)
    # The saboteurs: the modes' weights swapped, and a constant left out.
    must_fail(check_weighted, ~hits, log_weights, share, log_z, seed=2)
    must_fail(check_plain, plain.sum(axis=1) < 0.0, log_weights, share, seed=1)
    must_fail(check_log_z, sampler.log_z, sampler.log_z_error, math.log(1.0 + math.e))
    assert sampler.ledger.points["sampling"] == README_DRAWS, "only weighted draws cost evaluations"
    printed = capsys.readouterr().out
    assert all(word in printed for word in ("verdict", "log Z", "draws", "cost", "evaluations")), printed
