"""Can the answer be trusted? Recorded numbers, or two samplers, in; a verdict in words out, with what to do next."""

from tempering.priors.chart import PriorChart
from tempering.priors.cube import CubeChart
from tempering.sampler.diagnosis.comparison import compare
from tempering.sampler.diagnosis.coverage import Coverage, coverage, hidden_mass
from tempering.sampler.diagnosis.findings import beside_prior, recorded_findings
from tempering.sampler.diagnosis.verdict import Finding, Verdict

__all__ = ["Coverage", "Finding", "Verdict", "compare", "coverage", "diagnose", "hidden_mass", "recorded_findings"]


def diagnose(sampler, other=None, *, num: int = 2000, seed: int = 0) -> Verdict:
    """The verdict on a sampler, from what its fit recorded; with `other`, also from both samplers' draws.

    Args:
        sampler: anything with a `Sampler`'s records.
        other: a second sampler of the same density, fitted with another seed; 2 `num` evaluations are spent then where
            both have their density, entered in their ledgers as sampling.
    """
    findings = recorded_findings(sampler)
    if other is not None:
        findings = [*findings, *compare(sampler, other, num=num, seed=seed)]
    if isinstance(getattr(sampler, "chart", None), PriorChart | CubeChart):
        findings = [beside_prior(finding) for finding in findings]
    return Verdict(tuple(findings))
