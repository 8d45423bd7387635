"""Where the documentation explains a finding: one heading of docs/doubtful.md for each."""

import re
from importlib import metadata

__all__ = ["EXPLAINED", "address_of", "page_of"]

EXPLAINED = (
    "the search for modes",
    "the referee's chains",
    "optima that the model dropped",
    "modes that the model dropped",
    "modes beyond the starting points",
    "the hottest level",
    "the initial parallel tempering",
    "heavy tails",
    "the hottest level is proper",
    "levels on the way",
    "levels that went wrong",
    "final weights",
    "log Z of the last level and the final draws",
    "determinants behind log Z",
    "the end of the prior's cube",
    "digits of the log density",
    "usable values",
    "points that failed",
    "time",
    "log Z of two fits",
    "draws of two fits",
    "modes that one of two fits has",
    "density of the draws",
    "modes beyond those of training",
    "steps of training",
)
"""Names of findings that have a heading; tests/docs/test_findings.py compares them with the code and the page."""
_PAGE = "doubtful"


def page_of(name: str) -> str | None:
    """The place of a finding in the documentation's sources, such as `docs/doubtful.md#final-weights`."""
    return None if name not in EXPLAINED else f"docs/{_PAGE}.md#{_anchor(name)}"


def address_of(name: str) -> str | None:
    """The same place on the web; None for a version whose metadata names no site."""
    if name not in EXPLAINED:
        return None
    try:
        entries = metadata.metadata("tempering").get_all("Project-URL") or []
    except metadata.PackageNotFoundError:  # run from its sources
        return None
    sites = [entry.partition(",")[2].strip() for entry in entries if entry.lower().startswith("documentation,")]
    return f"{sites[0].rstrip('/')}/{_PAGE}.html#{_anchor(name)}" if sites else None


def _anchor(name: str) -> str:
    """What MkDocs and GitHub make of a heading."""
    return re.sub(r"\s+", "-", re.sub(r"[^\w\s-]", "", name.lower()).strip())
