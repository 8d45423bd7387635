"""The verdict: every check can pass and can fail, the worst finding decides, and green means that all was checked."""

import dataclasses
import json
import math
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tempering.buffer import Buffer
from tempering.errors import SettingsError
from tempering.runs.records import Checks, LevelRecord, Weighed
from tempering.sampler.diagnosis import Coverage, Finding, Verdict, compare, coverage, diagnose
from tempering.targets import GaussianMixture

CHECKS = {
    "determinants": "exact",
    "pilot_temperature": 64.0,
    "pilot_rhat": 1.1,
    "pilot_is_mixed": True,
    "scout_rhat": 1.1,
    "scout_reach": 256.0,
    "is_running_away": False,
    "num_starts": 200,
    "num_final_draws": 2000,
    "log_z_final": 1.0,
    "log_z_final_error": 0.02,
    "num_evidence": 300.0,
    "hidden_share": 0.002,
    "hidden_error": 0.002,
    "num_hidden": 1,
    "predicted_ess_fraction": 0.7,
}
HOTTEST = LevelRecord(
    0,
    64.0,
    rhat=1.05,
    drift=2.0,
    spread_growth=1.05,
    virial=0.98,
    virial_error=0.03,
    swap_rate=None,
    round_trips=40,
    acceptance=0.6,
)
NEXT = LevelRecord(1, 16.0, swap_rate=0.5, round_trips=40)
LAST = LevelRecord(
    2,
    1.0,
    ess_fraction=0.5,
    predicted_ess_fraction=0.6,
    pareto_k=0.3,
    num_draws=3000,
    log_z=1.03,
    log_z_error=0.02,
)


def sampler_of(checks=None, hottest=None, after=None, last=None, **changes) -> SimpleNamespace:
    """A sampler's records, all well but for what is given."""
    levels = [
        dataclasses.replace(record, **(new or {})) for record, new in ((HOTTEST, hottest), (NEXT, after), (LAST, last))
    ]
    numbers = {
        "ess_fraction": 0.8,
        "pareto_k": 0.2,
        "log_z": 1.0,
        "log_z_error": 0.02,
        "evaluations": 50_000,
        "dim": 165,
        "host": None,
        "modes": (),
    }
    return SimpleNamespace(levels=levels, checks=Checks(**{**CHECKS, **(checks or {})}), **{**numbers, **changes})


def test_a_run_without_trouble_is_trustworthy():
    verdict = diagnose(sampler_of())
    assert verdict.status == "trustworthy" and verdict.is_trustworthy and verdict.troubles() == ()
    assert len(verdict.findings) >= 7 and "!!" not in str(verdict)
    assert verdict.line() == "verdict: trustworthy"


TROUBLES = {
    "not mixed": ({"checks": {"pilot_is_mixed": False, "pilot_rhat": 2.2}}, "doubtful", "the hottest level", "init="),
    "no scouts": ({"checks": {"scout_rhat": None, "scout_reach": None}}, "unchecked", "modes beyond", "scale="),
    "no pilot": ({"checks": {"pilot_temperature": None}}, "unchecked", "modes beyond", "ladder="),
    "runs away": (
        {"checks": {"is_running_away": True, "scout_rhat": None, "pilot_temperature": 2000.0}},
        "doubtful",
        "heavy tails",
        "reference=",
    ),
    "high R-hat": ({"hottest": {"rhat": 1.9}}, "doubtful", "the initial parallel", "budget"),
    "no R-hat": ({"hottest": {"rhat": math.nan}}, "doubtful", "the initial parallel", "budget"),
    "drift": ({"hottest": {"drift": 9.0}}, "doubtful", "the initial parallel", "budget"),
    "spreading": ({"hottest": {"spread_growth": 1.6}}, "doubtful", "the initial parallel", "budget"),
    "no swaps": ({"after": {"swap_rate": 0.01}}, "doubtful", "the initial parallel", "levels"),
    "no round trips": ({"hottest": {"round_trips": 0}}, "doubtful", "the initial parallel", "levels"),
    "improper": (
        {"hottest": {"virial": 0.4, "virial_error": 0.02, "spread_growth": 1.2}},
        "doubtful",
        "the hottest level is proper",
        "reference=",
    ),
    "collapsed level": ({"last": {"ess_fraction": 0.005}}, "doubtful", "levels on the way", "budget"),
    "collapsed share": (
        {"last": {"ess_fraction": 0.005, "num_draws": None}},
        "doubtful",
        "levels on the way",
        "budget",
    ),
    "tail of a level": ({"last": {"pareto_k": 1.3}}, "doubtful", "levels on the way", "budget"),
    "mode lost on the way": (
        {"last": {"hidden_share": 0.1, "hidden_error": 0.01, "num_hidden": 40}},
        "doubtful",
        "levels on the way",
        "budget",
    ),
    "few draws of a level": ({"last": {"num_draws": 50}}, "unknown", "levels on the way", "`budget=` 75,000"),
    "few final draws": ({"checks": {"num_final_draws": 40}}, "unknown", "final weights", "`budget=` 160,000"),
    "level without a model": (
        {"last": {"rescue": "none of 50 draws was finite", "is_rescued": True}},
        "doubtful",
        "levels that went wrong",
        "reference=",
    ),
    "not weighed": ({"ess_fraction": None}, "unchecked", "final weights", "num_final_draws"),
    "final tail": ({"pareto_k": 0.8}, "doubtful", "final weights", "budget"),
    "no final mean": ({"pareto_k": 1.2, "ess_fraction": 0.4}, "wrong", "final weights", "budget"),
    "final tail of few": ({"pareto_k": 0.8, "ess_fraction": 0.4}, "doubtful", "final weights", "budget"),
    "final tail beyond most": ({"pareto_k": 1.2, "ess_fraction": 0.6}, "doubtful", "final weights", "budget"),
    "final share": ({"ess_fraction": 0.04}, "doubtful", "final weights", "budget"),
    "final number": ({"ess_fraction": 0.002}, "wrong", "final weights", "budget"),
    "log Z": ({"checks": {"log_z_final": 1.8}}, "doubtful", "log Z of the last level", "budget"),
    "no evidence": ({"checks": {"num_evidence": 3.0}}, "unknown", "modes that the model dropped", "budget"),
    "small mode lost": (
        {"checks": {"hidden_share": 0.05, "hidden_error": 0.01, "num_hidden": 20}},
        "doubtful",
        "modes that the model dropped",
        "train longer",
    ),
    "large mode lost": (
        {"checks": {"hidden_share": 0.5, "hidden_error": 0.03, "num_hidden": 150}},
        "wrong",
        "modes that the model dropped",
        "train longer",
    ),
    "not finite": ({"last": {"num_nonfinite": 900}}, "doubtful", "usable values", "-inf outside"),
    "bad starts": ({"hottest": {"num_replaced": 90}}, "doubtful", "usable values", "init="),
}


def test_a_small_budget_does_not_hide_a_doubt():
    few = {"num_final_draws": 40}
    assert diagnose(sampler_of(checks=few)).status == "unknown"
    assert diagnose(sampler_of(checks=few, hottest={"rhat": 1.9})).status == "doubtful"
    assert diagnose(sampler_of(checks=few, ess_fraction=0.04)).status == "wrong"  # 1.6 effective draws
    assert diagnose(sampler_of(checks=few, pareto_k=0.8)).status == "doubtful"
    assert "budget was too small" in str(diagnose(sampler_of(checks=few)))


def test_training_that_was_mended_is_a_note():
    verdict = diagnose(sampler_of(last={"rescue": "training went wrong, and was repeated"}))
    assert verdict.is_trustworthy and [finding.name for finding in verdict.notes()] == ["levels that went wrong"]


@pytest.mark.parametrize(("changes", "status", "name", "advice"), TROUBLES.values(), ids=TROUBLES.keys())
def test_each_trouble_is_found_and_told(changes, status, name, advice):
    verdict = diagnose(sampler_of(**changes))
    (found,) = (finding for finding in verdict.findings if finding.name.startswith(name))
    assert found.status == status, found
    assert advice in found.advice, found
    expected = {"unchecked": "doubtful"}.get(status, status)
    assert verdict.status == expected and not verdict.is_trustworthy
    text = str(verdict)
    assert found.measured in text and found.meaning in text and f"What to do: {found.advice}" in text
    assert found.name in verdict.line()
    assert json.loads(json.dumps(verdict.as_dict()))["status"] == verdict.status


HARMLESS = {
    "a hard wall has a low virial and does not spread": {"hottest": {"virial": 0.0, "spread_growth": 1.0}},
    "one hidden point may be chance": {"checks": {"hidden_share": 0.04, "hidden_error": 0.005, "num_hidden": 2}},
    "no scouts above the far temperature": {
        "checks": {"scout_rhat": None, "scout_reach": None, "pilot_temperature": 4096.0}
    },
    "scouts that found more, and a ladder hot enough for it": {"checks": {"scout_rhat": 3.0}},
    "a promise that was not kept": {"last": {"predicted_ess_fraction": 1e-6}},
    "a tail that one level hides": {"last": {"hidden_share": 0.01, "hidden_error": 0.003, "num_hidden": 5}},
    "no Pareto k": {"pareto_k": None},
    "log Z within its errors": {"checks": {"log_z_final": 1.3, "log_z_final_error": 0.1}},
}


@pytest.mark.parametrize("changes", HARMLESS.values(), ids=HARMLESS.keys())
def test_what_is_no_trouble_is_not_told(changes):
    verdict = diagnose(sampler_of(**changes))
    assert verdict.is_trustworthy and verdict.notes() == (), str(verdict)


NOTES = {
    "a few values are not finite": (
        {"last": {"num_nonfinite": 3}},
        "usable values",
        ["3 values of 50,000", "NaN or +inf", "none was accepted", "return -inf outside its support"],
    ),
    "a few starting points are replaced": (
        {"hottest": {"num_replaced": 7}},
        "usable values",
        ["7 starting points", "could not start a chain", "init="],
    ),
    "determinants that nobody checked": (
        {"checks": {"determinants": "unchecked"}},
        "determinants behind log Z",
        ["165 dimensions", "random probes", "more than its standard error", "divergence=exact"],
    ),
}


@pytest.mark.parametrize(("changes", "name", "words"), NOTES.values(), ids=NOTES.keys())
def test_a_note_is_shown_and_leaves_the_verdict_as_it_is(changes, name, words):
    verdict = diagnose(sampler_of(**changes))
    (note,) = verdict.notes()
    assert note.name == name and all(word in note.line() for word in words), note
    assert verdict.is_trustworthy and verdict.troubles() == () and name not in verdict.line()
    assert f"[--] {name}" in str(verdict) and f"What to do: {note.advice}" in str(verdict)


def test_how_determinants_are_known_is_a_finding():
    for how in ("exact", "checked"):
        verdict = diagnose(sampler_of(checks={"determinants": how}))
        (found,) = (finding for finding in verdict.findings if finding.name == "determinants behind log Z")
        assert found.status == "good" and how in found.measured
    assert not any("determinants" in f.name for f in diagnose(sampler_of(checks={"determinants": None})).findings)


def test_a_heavy_tail_is_told_to_be_compared_over_seeds():
    (found,) = diagnose(sampler_of(pareto_k=0.834)).troubles()
    for words in ("Pareto k 0.83", "above 0.7", "not to be relied on", "budget", "several seeds"):
        assert words in found.line()
    (found,) = diagnose(sampler_of(ess_fraction=0.04)).troubles()
    assert "differ from the target" in found.meaning and "several seeds" not in found.advice


def test_a_tail_is_judged_by_what_it_may_hold():
    # A k above 1 with nothing beyond is no doubt; a k of 0.5 with a tenth of the mass beyond is one.
    weighed = lambda **own: Weighed(**{"num": 2000, "ess_fraction": 0.8, "pareto_k": 0.2, "unseen": 0.002} | own)  # noqa: E731
    assert diagnose(sampler_of(weighed=weighed(pareto_k=1.2, unseen=0.01))).is_trustworthy
    (found,) = diagnose(sampler_of(weighed=weighed(pareto_k=0.5, unseen=0.1))).troubles()
    assert found.status == "doubtful" and "10% of the mass may lie beyond" in found.meaning
    (found,) = diagnose(sampler_of(weighed=weighed(pareto_k=1.2, ess_fraction=0.4, unseen=0.1))).troubles()
    assert found.status == "wrong"
    # Where draws are few, each of them is a large share.
    few = diagnose(sampler_of(weighed=weighed(num=200, unseen=0.05)))
    assert few.is_trustworthy
    assert diagnose(sampler_of(last={"pareto_k": 1.3, "unseen": 0.01})).is_trustworthy
    assert diagnose(sampler_of(last={"pareto_k": 1.3, "unseen": 0.1})).status == "doubtful"


def test_old_records_leave_a_doubt_and_no_error():
    old = sampler_of()
    old.checks = Checks()
    old.levels = [LevelRecord(0, 8.0), LevelRecord(1, 1.0)]
    assert diagnose(old).status == "doubtful"
    old.levels = []
    assert diagnose(old).status == "doubtful"


def test_the_worst_finding_decides_and_comes_first():
    kinds = ("good", "note", "doubtful", "wrong")
    good, note, doubt, wrong = (Finding(status, status, "1", "so") for status in kinds)
    verdict = Verdict((good, note, doubt, wrong))
    assert verdict.status == "wrong" and verdict.troubles() == (wrong, doubt)
    lines = str(verdict).splitlines()
    assert [line[:4] for line in lines if line.startswith("[")] == ["[XX]", "[!!]", "[--]", "[ok]"]


class Exact:
    """A model that is a mixture of normals: it draws and knows its density."""

    def __init__(self, mixture: GaussianMixture):
        self.mixture = mixture

    def draw(self, key, num, sampling, *, with_density, **_):
        x = self.mixture.sample(key, num)
        return x, self.log_prob(key, x, sampling) if with_density else None

    def log_prob(self, key, x, sampling):
        del key, sampling
        return jax.vmap(self.mixture.log_density)(jnp.asarray(x))


MEANS, STDS = [[-4.0, 1.0], [6.0, -2.0]], [1.0, 0.6]


def mixture(second: float) -> GaussianMixture:
    return GaussianMixture(MEANS, STDS, [1.0 - second, second])


def evidence_of(target: GaussianMixture, origin: int = 0) -> tuple:
    """Samples of T = 1.5, the mixture of widened modes being close enough when weighted."""
    wide = GaussianMixture(MEANS, [1.3 * std for std in STDS], np.asarray(target.weights))
    x = wide.sample(jax.random.key(3), 2000)
    log_p, log_q = jax.vmap(target.log_density)(x), jax.vmap(wide.log_density)(x)
    beta = jnp.asarray(0.7)
    own = beta * log_p - log_q
    code = jnp.full((2000,), origin, jnp.int32)
    return ((Buffer(x, log_p, jnp.zeros_like(x), code, own), beta),)


@pytest.mark.parametrize("origin", [0, 4])
def test_coverage_sees_the_mode_that_a_model_dropped(origin):
    target = mixture(0.3)
    for second, lost in ((0.3, 0.0), (0.1, 0.0), (1e-9, 0.3)):
        model = Exact(mixture(second))
        draws, log_q = model.draw(jax.random.key(5), 1000, None, with_density=True)
        own = jax.vmap(target.log_density)(draws) - log_q
        log_prob = lambda key, x: model.log_prob(key, x, None)  # noqa: B023, E731
        found = coverage(jax.random.key(6), log_prob, evidence_of(target, origin), own, jnp.ones(()))
        assert abs(found.hidden_share - lost) <= 4.0 * found.hidden_error + 1e-6, found
        assert found.num_evidence > 200
        # The draws' own weights see nothing of it.
        weights = np.exp(np.asarray(own, np.float64) - np.max(own))
        assert (weights.sum() ** 2 / np.sum(weights**2)) / 1000 > 0.5
        assert (found.predicted_ess_fraction < 0.01) == (lost > 0)


def test_coverage_without_evidence_says_so():
    ((buffer, _),) = evidence_of(mixture(0.3))
    sharp = dataclasses.replace(buffer, log_weight=100.0 * buffer.log_density)
    one = jnp.ones(())
    for evidence, own in (
        (((sharp, one),), jnp.zeros(3)),
        ((), jnp.zeros(3)),
        (((buffer, one),), -jnp.inf * jnp.ones(3)),
    ):
        found = coverage(jax.random.key(0), lambda key, x: x[:, 0], evidence, own, one)
        assert found == Coverage(0.0)


def fitted(second: float, target: GaussianMixture | None = None, **changes) -> SimpleNamespace:
    """A sampler whose model is a mixture; with a target its draws are weighted."""
    model = Exact(mixture(second))

    def weighted(num, seed):
        x, log_q = model.draw(jax.random.key(seed), num, None, with_density=True)
        log_p = jax.vmap(target.log_density)(x)
        return SimpleNamespace(states=SimpleNamespace(position=x, log_density=log_p), log_weights=log_p - log_q)

    numbers = {"dim": 2, "log_z": 0.0, "log_z_error": 0.02, "sampling": None, "target": target}
    return SimpleNamespace(model=model, _weighted=weighted, **{**numbers, **changes})


def statuses(first, second) -> dict[str, str]:
    return {finding.name: finding.status for finding in compare(first, second, num=2000, seed=0)}


@pytest.mark.parametrize("has_target", [True, False])
def test_two_fits_of_one_density_agree(has_target):
    target = mixture(0.3) if has_target else None
    # With weights the models need not be equal.
    found = statuses(fitted(0.3, target), fitted(0.25 if has_target else 0.3, target))
    assert set(found.values()) == {"good"} and len(found) == 3


@pytest.mark.parametrize("has_target", [True, False])
@pytest.mark.parametrize("order", [1, -1])
def test_a_mode_that_one_fit_misses_is_seen(has_target, order):
    target = mixture(0.02) if has_target else None
    pair = [fitted(0.02, target), fitted(1e-9, target)][::order]
    assert statuses(*pair)["modes that one of two fits has"] == "wrong"
    whole = mixture(0.3) if has_target else None
    pair = [fitted(0.3, whole), fitted(1e-9, whole)][::order]
    assert statuses(*pair)["draws of two fits"] == "wrong"


def test_two_log_z_that_disagree_are_told():
    found = statuses(fitted(0.3), fitted(0.3, log_z=0.5))
    assert found["log Z of two fits"] == "wrong"
    assert "log Z of two fits" not in statuses(fitted(0.3), fitted(0.3, log_z=None))


def test_too_few_effective_draws_cannot_be_compared():
    elsewhere = GaussianMixture([[30.0, 30.0]], 1.0)
    found = statuses(fitted(0.3, elsewhere), fitted(0.3, elsewhere))
    assert found["draws of two fits"] == "doubtful"


def test_two_dimensions_are_refused():
    with pytest.raises(SettingsError, match="2 and 3 dimensions"):
        compare(fitted(0.3), fitted(0.3, dim=3), num=100, seed=0)
