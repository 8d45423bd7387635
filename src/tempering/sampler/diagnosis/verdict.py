"""What a verdict is: findings, each with what was measured, what it means and what to do; the worst decides."""

from dataclasses import asdict, dataclass, fields

from tempering.sampler.diagnosis.pages import page_of

__all__ = ["UNKNOWABLE", "Finding", "Verdict"]

_MARKS = {"wrong": "XX", "doubtful": "!!", "unchecked": "??", "unknown": "..", "note": "--", "good": "ok"}
"""Of every status, the worst first."""
_TROUBLES = ("wrong", "doubtful", "unchecked", "unknown")
"""What moves a verdict."""
_ADVICE = {
    "trustworthy": "Nothing that was checked speaks against these draws.",
    "unknown": "The budget was too small to say. The points marked .. name the budget to give.",
    "doubtful": "Do not rely on these draws before the points marked !! or ?? are settled.",
    "wrong": "Do not use these draws. The points marked XX say that they do not follow the density.",
}

UNKNOWABLE = (
    "No check can see a mode that no search, chain or draw came near: a spike in many dimensions leaves no trace."
)
"""What every verdict ends with."""


@dataclass(frozen=True)
class Finding:
    """One check.

    Args:
        name: what was checked.
        status: good, doubtful or wrong; unchecked if a check that matters was not made; unknown if there were too few
            draws for it; note if a user should know it and the verdict does not depend on it.
        measured: the numbers.
        meaning: what follows from them.
        advice: what to do. Empty if there is nothing to do.
    """

    name: str
    status: str
    measured: str
    meaning: str
    advice: str = ""

    @classmethod
    def from_dict(cls, entry: dict) -> "Finding":
        """A finding as a file has it; words that are not there are empty."""
        return cls(**{field.name: str(entry.get(field.name) or "") for field in fields(cls)})

    @property
    def page(self) -> str | None:
        """Where the documentation explains it, such as `docs/doubtful.md#final-weights`."""
        return page_of(self.name)

    def line(self) -> str:
        """All of it in one line."""
        return "; ".join(words for words in (f"{self.name}: {self.measured}", self.meaning, self.advice) if words)

    def __str__(self) -> str:
        lines = [f"[{_MARKS.get(self.status, '??')}] {self.name}: {self.measured}"]
        if self.status != "good":
            lines.append(f"     {self.meaning}")
            lines += [f"     What to do: {self.advice}"] if self.advice else []
            lines += [f"     More: {self.page}"] if self.page else []
        return "\n".join(lines)


@dataclass(frozen=True)
class Verdict:
    """All findings, and what they come to.

    A verdict is trustworthy only if every check that matters was made and passed. It rests on what the chains and the
    model have seen: a mode that nothing ever came near leaves no trace in any number.
    """

    findings: tuple[Finding, ...]

    @property
    def status(self) -> str:
        """trustworthy, unknown, doubtful or wrong: the worst finding's; a check that was not made leaves a doubt.

        It is unknown where nothing speaks against the draws but that there are too few of them to say.
        """
        found = {finding.status for finding in self.findings}
        if "wrong" in found:
            return "wrong"
        if found & {"doubtful", "unchecked"}:
            return "doubtful"
        return "unknown" if "unknown" in found else "trustworthy"

    @property
    def is_trustworthy(self) -> bool:
        """Whether nothing speaks against the draws."""
        return self.status == "trustworthy"

    def troubles(self) -> tuple[Finding, ...]:
        """The findings that speak against the draws, the worst first."""
        return tuple(f for status in _TROUBLES for f in self.findings if f.status == status)

    def notes(self) -> tuple[Finding, ...]:
        """The findings that a user should know of and that leave the verdict as it is."""
        return tuple(f for f in self.findings if f.status == "note")

    def line(self) -> str:
        """The verdict in one line."""
        names = [finding.name for finding in self.troubles()]
        return f"verdict: {self.status}" + (f" ({'; '.join(names)})" if names else "")

    def as_dict(self) -> dict:
        """JSON-ready."""
        return {"status": self.status, "findings": [asdict(finding) for finding in self.findings]}

    def __str__(self) -> str:
        good = (f for f in self.findings if f.status == "good")
        findings = (*self.troubles(), *self.notes(), *good)
        return "\n".join([f"Verdict: {self.status}. {_ADVICE[self.status]}", *map(str, findings), UNKNOWABLE])
