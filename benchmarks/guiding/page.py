"""The tables of docs/guidance.md, between marks, from the rows of `where_guidance_pays.py`."""

from collections.abc import Callable
from typing import Any

import numpy as np

from guiding.picture import WORDS, chosen, exact_share, rows_in
from guiding.steps import ratio_for

__all__ = ["rewritten"]

BEGIN, END = "<!-- guidance {}: begin -->", "<!-- guidance {}: end -->"
DIMS = (2, 8, 32, 64)
Content = dict[str, Any]


def _table(header: list[str], rows: list[list[str]]) -> str:
    lines = ["| " + " | ".join(row) + " |" for row in ([*header], ["---"] * len(header), *rows)]
    return "\n".join(lines)


def _mean(values: list[float], digits: int = 2) -> str:
    """Mean ± standard error over seeds; the number alone where there is one seed."""
    if not values:
        return "–"
    mean = f"{np.mean(values):.{digits}f}"
    return mean if len(values) == 1 else f"{mean} ± {np.std(values, ddof=1) / np.sqrt(len(values)):.{digits}f}"


def ratios(content: Content) -> str:
    """The largest ratio that keeps a share of 0.2."""
    exact, rows = [*rows_in(content, "gaussian"), *rows_in(content, "line")], []
    for density in ("gaussian", "double well", "narrow and wide"):
        for way in ("none", "T", "log_T", "second order"):
            own = chosen(exact, density=density, temperature=1.0, way=way)
            largest, cells = max(row["ratio"] for row in own), []
            for dim in DIMS:
                found = ratio_for(own, dim)
                cells.append("–" if found is None else f"over {largest:g}" if np.isinf(found) else f"{found:.2f}")
            rows.append([density, WORDS[way], *cells])
    return _table(["density of a coordinate", "way", *(f"{dim} coordinates" for dim in DIMS)], rows)


def steps(content: Content) -> str:
    """Shares of eight coordinates, and the weight of the right-hand mode in draws that nobody weighs."""
    exact, rows = rows_in(content, "line"), []
    for density in ("double well", "narrow and wide"):
        for way in ("none", "T", "log_T", "second order", "own"):
            cells = []
            for ratio in (1.2, 1.5, 2.0, 3.0, 4.0):
                found = chosen(exact, density=density, temperature=1.0, way=way, ratio=ratio)
                cells.append(f"{found[0]['share'] ** 8:.2f}, {found[0]['right']:.2f}" if found else "–")
            rows.append([density, WORDS[way], *cells])
    return _table(["density of a coordinate", "way", "r = 1.2", "1.5", "2", "3", "4"], rows)


def plane(content: Content) -> str:
    """MoG-40: shares, and total variation of mode weights among draws without weights."""
    exact, rows = rows_in(content, "plane"), []
    for way in ("none", "T", "log_T", "own"):
        own = chosen(exact, way=way)
        rows.append([WORDS[way], *(f"{row['share']:.2f}, {row['mode_tv']:.2f}" for row in own)])
    found = sorted({row["ratio"] for row in exact})
    return _table(["way", *(f"r = {ratio:g}" for ratio in found)], rows)


def learned(content: Content) -> str:
    """Learned models, beside exact ones."""
    exact = [*rows_in(content, "gaussian"), *rows_in(content, "line")]
    own, rows = rows_in(content, "learned"), []
    for ratio in sorted({row["ratio"] for row in own if row["way"] != "own"}):
        for way in ("none", "T", "log_T"):
            cells = [
                _mean([row["share"] for row in chosen(own, way=way, ratio=ratio, num=num)])
                for num in sorted({row["num"] for row in own})
            ]
            rows.append([f"{ratio:g}", WORDS[way], *cells, f"{exact_share(exact, ratio, way):.2f}"])
    sizes = sorted({row["num"] for row in own})
    last = [_mean([row["share"] for row in chosen(own, way="own", num=num)]) for num in sizes]
    rows.append(["–", WORDS["own"], *last, f"{exact_share(exact, 2.0, 'own'):.2f}"])
    return _table(["r", "way", *(f"{num:,} samples" for num in sizes), "exact denoisers"], rows)


def continuum(content: Content) -> str:
    """Temperatures between levels, by what the network is asked and whether it saw the next level anticipated."""
    own, rows = rows_in(content, "continuum"), []
    words = {
        "conditioned": "the network, asked for T",
        "autodiff": "a Taylor step of it",
        "finite_difference": "guidance, linear in log T",
    }
    for is_anticipating in (False, True):
        for way, title in words.items():
            found = [
                [
                    row["share"]
                    for row in own
                    if (row["way"], row["is_anticipating"], row["num_between"]) == (way, is_anticipating, number)
                ]
                for number in (0, 3)
            ]
            rows.append(["yes" if is_anticipating else "no", title, *map(_mean, found)])
    return _table(["next level anticipated", "way", "levels alone", "3 temperatures between"], rows)


TABLES: dict[str, Callable[[Content], str]] = {
    "ratios": ratios,
    "steps": steps,
    "plane": plane,
    "learned": learned,
    "continuum": continuum,
}


def rewritten(text: str, content: Content) -> str:
    """The page with its tables made anew."""
    for name, make in TABLES.items():
        begin, end = BEGIN.format(name), END.format(name)
        if begin in text:
            before, rest = text.split(begin)
            text = f"{before}{begin}\n{make(content)}\n{end}{rest.split(end)[1]}"
    return text
