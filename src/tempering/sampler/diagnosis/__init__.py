"""Can the answer be trusted? Recorded numbers, or two samplers, in; a verdict in words out, with what to do next."""

from tempering.sampler.diagnosis.comparison import compare
from tempering.sampler.diagnosis.coverage import Coverage, coverage, hidden_mass
from tempering.sampler.diagnosis.findings import recorded_findings
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
    return Verdict(tuple(findings))
