"""Advice and numbers of findings that a user could not follow otherwise."""

from support.verdicts import sampler_of
from tempering.adapters.prior import read_prior
from tempering.priors import Normal
from tempering.runs.records import Weighed
from tempering.sampler.diagnosis import diagnose


def test_advice_beside_a_prior_can_be_followed():
    """`tp.fit` refuses `scale=`, `support=` and `reference=` beside a prior."""
    chart, _ = read_prior(Normal(0.0, 1.0), None, 2, None)
    cube, _ = read_prior(None, lambda u: 2.0 * u, 2, None)
    bad = {"pilot_is_mixed": False, "pilot_rhat": 3.0, "scout_rhat": None}
    last = {"rescue": "the last model was taken", "is_rescued": True}
    without = [found.advice for found in diagnose(sampler_of(checks=bad, last=last)).troubles()]
    assert any("`scale=` or `init=`" in advice for advice in without) and any("`reference=`" in a for a in without)
    for own in (chart, cube):
        found = [found.advice for found in diagnose(sampler_of(checks=bad, last=last, chart=own)).troubles()]
        assert any("`init=`" in advice for advice in found)
        assert not any(word in advice for advice in found for word in ("scale=", "support=", "reference="))


def test_mass_beyond_the_draws_is_no_share_above_one():
    lost = Weighed(2000, 0.4, 1.5, 1.0, 0.02, unseen=10.087)
    (found,) = (f for f in diagnose(sampler_of(weighed=lost)).findings if f.name == "final weights")
    assert "more mass than all draws have beyond the largest weight" in found.measured and "1008" not in str(found)
