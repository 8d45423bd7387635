"""What a verdict is: findings, each with what was measured, what it means and what to do; the worst decides."""

from dataclasses import asdict, dataclass

__all__ = ["Finding", "Verdict"]

_MARKS = {"good": "ok", "unchecked": "??", "doubtful": "!!", "wrong": "XX"}
_ADVICE = {
    "trustworthy": "Nothing that was checked speaks against these draws.",
    "doubtful": "Do not rely on these draws before the points marked !! or ?? are settled.",
    "wrong": "Do not use these draws: the points marked XX say that they are not the density's.",
}


@dataclass(frozen=True)
class Finding:
    """One check.

    Args:
        name: what was checked.
        status: good, doubtful, wrong, or unchecked where a check that matters was not made.
        measured: the numbers.
        meaning: what follows from them.
        advice: what to do; empty where there is nothing to do.
    """

    name: str
    status: str
    measured: str
    meaning: str
    advice: str = ""


@dataclass(frozen=True)
class Verdict:
    """All findings, and what they come to.

    A verdict is trustworthy only if every check that matters was made and passed. It rests on what the chains and the
    model have seen: a mode that nothing ever came near leaves no trace in any number.
    """

    findings: tuple[Finding, ...]

    @property
    def status(self) -> str:
        """trustworthy, doubtful or wrong: the worst finding's; a check that was not made leaves a doubt."""
        found = {finding.status for finding in self.findings}
        if "wrong" in found:
            return "wrong"
        return "doubtful" if found & {"doubtful", "unchecked"} else "trustworthy"

    @property
    def is_trustworthy(self) -> bool:
        """Whether nothing speaks against the draws."""
        return self.status == "trustworthy"

    def troubles(self) -> tuple[Finding, ...]:
        """The findings that are not good, the worst first."""
        order = ("wrong", "doubtful", "unchecked")
        return tuple(f for status in order for f in self.findings if f.status == status)

    def line(self) -> str:
        """The verdict in one line."""
        names = [finding.name for finding in self.troubles()]
        return f"verdict: {self.status}" + (f" ({'; '.join(names)})" if names else "")

    def as_dict(self) -> dict:
        """JSON-ready."""
        return {"status": self.status, "findings": [asdict(finding) for finding in self.findings]}

    def __str__(self) -> str:
        lines = [f"Verdict: {self.status}. {_ADVICE[self.status]}"]
        for finding in (*self.troubles(), *(f for f in self.findings if f.status == "good")):
            lines.append(f"[{_MARKS[finding.status]}] {finding.name}: {finding.measured}")
            if finding.status != "good":
                lines.append(f"     {finding.meaning}")
                if finding.advice:
                    lines.append(f"     What to do: {finding.advice}")
        return "\n".join(lines)
