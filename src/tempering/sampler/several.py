"""Several samplers of one density, fitted from different seeds: drawn from together, compared and pooled."""

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import jax
import numpy as np

from tempering.compilation import methods_in_plain_jax
from tempering.errors import RunFolderError, SettingsError
from tempering.runs.storage import as_path, read_json, write_json
from tempering.runs.words import with_error
from tempering.sampler.diagnosis import Finding, Verdict
from tempering.sampler.diagnosis.comparison import compare_draws, drawn_to_compare, log_z_agreement
from tempering.sampler.html import html_of
from tempering.sampler.sampler import Sampler
from tempering.settings import require_count, require_seed
from tempering.weights.log_z import pooled_log_z

__all__ = ["Samplers", "folder_of", "seeds_in", "seeds_of"]

FILE, FORMAT = "samplers.json", "tempering samplers 1"
_STATUS = {"trustworthy": "good"}
_APART = "compare them with fits of other seeds and a larger `budget`: at least one of them is wrong"


def seeds_of(given: Any) -> tuple[int, ...] | None:
    """The seeds of a list of them; None for anything else, such as one seed.

    Raises:
        SettingsError: for an empty list, seeds that repeat, or anything that is no seed.
    """
    if isinstance(given, str | bytes) or not isinstance(given, Sequence | np.ndarray):
        return None
    seeds = list(given)
    if not seeds:
        raise SettingsError("seed = [] is not allowed: give one seed or more, such as seed=[0, 1, 2]")
    for seed in seeds:
        require_seed("seed", seed)
    repeated = next((seed for seed in seeds if seeds.count(seed) > 1), None)
    if repeated is not None:
        raise SettingsError(f"seed has {repeated} more than once: the same seed gives the same fit; give each once")
    return tuple(int(seed) for seed in seeds)


def folder_of(folder: str | Path, seed: int) -> Path:
    """Where the sampler of a seed is kept."""
    return as_path(folder, "out") / f"seed-{seed}"


@methods_in_plain_jax
@dataclass(repr=False)
class Samplers:
    """Several samplers of one density, each fitted with its own seed. They take turns to draw.

    Args:
        members: the samplers, one for each seed.
        seeds: the seeds of the members.
    """

    members: tuple[Sampler, ...]
    seeds: tuple[int, ...]

    def __post_init__(self) -> None:
        if not self.members or len(self.members) != len(self.seeds):
            raise SettingsError(f"{len(self.members)} samplers for {len(self.seeds)} seeds; give one for each seed")
        dims = sorted({sampler.dim for sampler in self.members})
        if len(dims) > 1:
            raise SettingsError(f"the samplers have {dims} dimensions; give samplers of one density")

    def __repr__(self) -> str:
        verdicts = ", ".join(
            f"{seed}: {own.diagnose().status}" for seed, own in zip(self.seeds, self.members, strict=True)
        )
        rows = [("verdicts", f"by seed, {verdicts}"), ("log Z", _shown(self.log_z, self.log_z_error))]
        rows.append(("cost", f"{self.evaluations:,} evaluations"))
        return "\n".join([f"{len(self)} samplers of {self.dim} dimensions", *(f"  {a:<9} {b}" for a, b in rows)])

    def _repr_html_(self) -> str:
        """What a notebook shows: every member in turn."""
        return "".join(f"<p>seed {s}</p>{html_of(own)}" for s, own in zip(self.seeds, self.members, strict=True))

    def __len__(self) -> int:
        return len(self.members)

    def __iter__(self) -> Iterator[Sampler]:
        return iter(self.members)

    def __getitem__(self, index: int) -> Sampler:
        return self.members[index]

    @property
    def dim(self) -> int:
        """The dimension of a draw."""
        return self.members[0].dim

    @property
    def evaluations(self) -> int:
        """The evaluations that all fits spent together."""
        return sum(sampler.evaluations for sampler in self.members)

    @property
    def log_z(self) -> float | None:
        """The mean of the members' estimates, weighted by their errors; the plain mean where they contradict them."""
        return self._pooled_log_z()[0]

    @property
    def log_z_error(self) -> float | None:
        """The standard error of `log_z`. It is at least what the spread between seeds says.

        Where estimates contradict each other it reaches from the mean to the farthest of them.
        """
        return self._pooled_log_z()[1]

    def _pooled_log_z(self) -> tuple[float | None, float | None]:
        pairs = [(sampler.log_z, sampler.log_z_error) for sampler in self.members]
        log_z, error = pooled_log_z(pairs)
        if not np.isfinite(log_z):
            return None, None
        values = np.array([value for value, own in pairs if value is not None and own is not None])
        if not all(_agree(first, second) for first, second in itertools.combinations(pairs, 2)):
            # A member that lacks a mode is as sure as the others, or surer: its error must not give it the word.
            log_z = float(np.mean(values))
            return log_z, max(error, float(np.max(np.abs(values - log_z))))
        apart = float(np.std(values, ddof=1) / np.sqrt(len(values))) if len(values) > 1 else 0.0
        return log_z, max(error, apart)

    def sample(self, num: int, *, seed: int = 0, solver: str | None = None, num_steps: int | None = None) -> Any:
        """Independent draws. The members take turns. They cost no evaluation, as in `Sampler.sample`.

        Draw i does not depend on `num`.
        """
        require_count("num", num)
        parts = [
            own.sample(n, seed=s, solver=solver, num_steps=num_steps) for own, n, s in self._shares(int(num), seed)
        ]
        return _interleaved(parts)

    def sample_weighted(self, num: int, *, seed: int = 0, is_quasi_random: bool = False) -> tuple[Any, np.ndarray]:
        """Weighted draws. The members take turns, and each weighs its own draws, as in `Sampler.sample_weighted`.

        The logarithm of the mean weight estimates log Z. If a member lacks a mode, that mode has too little weight:
        `diagnose` finds this.
        """
        require_count("num", num)
        parts = [
            own.sample_weighted(n, seed=s, is_quasi_random=is_quasi_random)
            for own, n, s in self._shares(int(num), seed)
        ]
        draws, log_weights = zip(*parts, strict=True)
        return _interleaved(list(draws)), _interleaved(list(log_weights))

    def _shares(self, num: int, seed: int) -> list[tuple[Sampler, int, int]]:
        """The members that draw, how many each, and a seed of its own: models that are alike must not draw alike."""
        require_seed("seed", seed)
        total = len(self.members)
        counts = [num // total + int(index < num % total) for index in range(total)]
        own_seeds = [int(np.random.SeedSequence([int(seed), index]).generate_state(1)[0]) for index in range(total)]
        return [share for share in zip(self.members, counts, own_seeds, strict=True) if share[1] > 0]

    def diagnose(self, *, num: int = 2000, seed: int = 0) -> Verdict:
        """The verdict of each member, and a comparison of every two. The worst finding decides, and names its seeds.

        If the density is there, `num` draws of each member are weighed. Each costs one evaluation, which the ledgers
        have as `sampling`.
        """
        is_weighted = all(sampler.target is not None for sampler in self.members)
        sets = {}
        if len(self.members) > 1:
            for index, own in enumerate(self.members):
                sets[index] = drawn_to_compare(own, num, seed + index, is_weighted=is_weighted)
        findings = self._own_findings()
        for i, j in itertools.combinations(range(len(self.members)), 2):
            found = compare_draws(self.members[i], self.members[j], [sets[i], sets[j]], num=num, seed=seed)
            findings += [self._named(finding, i, j) for finding in found]
        return Verdict(tuple(findings))

    def _own_findings(self) -> list[Finding]:
        """One finding for each member: its own verdict."""
        findings = []
        for seed, sampler in zip(self.seeds, self.members, strict=True):
            verdict = sampler.diagnose()
            names = "; ".join(finding.name for finding in verdict.troubles()) or "nothing speaks against it"
            advice = "" if verdict.is_trustworthy else "its own `diagnose()` says what to do"
            status = _STATUS.get(verdict.status, verdict.status)
            findings.append(Finding(f"seed {seed}", status, verdict.status, f"by its own checks: {names}", advice))
        return findings

    def _named(self, finding: Finding, i: int, j: int) -> Finding:
        return replace(finding, name=f"seeds {self.seeds[i]} and {self.seeds[j]}: {finding.name}")

    def summary(self) -> str:
        """A text with a line for each member, the pooled log Z, and what disagrees. It costs no evaluation."""
        lines = [f"{len(self)} samplers in {self.dim} dimensions", f"evaluations  {self.evaluations:,}"]
        for seed, own in zip(self.seeds, self.members, strict=True):
            share = "-" if own.ess_fraction is None else f"{own.ess_fraction:.3f}"
            lines.append(
                f"  seed {seed:<6} {own.evaluations:>12,} evaluations  ESS {share}  "
                f"log Z {_shown(own.log_z, own.log_z_error)}  {own.diagnose().status}"
            )
        lines.append(f"log Z  {_shown(self.log_z, self.log_z_error)}")
        findings = self._own_findings()
        for i, j in itertools.combinations(range(len(self)), 2):
            pairs = [(own.log_z, own.log_z_error) for own in (self.members[i], self.members[j])]
            if all(value is not None for pair in pairs for value in pair):
                found = log_z_agreement("log Z of two fits", pairs[0], pairs[1], "wrong", _APART)
                findings.append(self._named(found, i, j))
        verdict = Verdict(tuple(findings))
        lines += ["", *map(str, verdict.troubles())]
        lines.append(f"{verdict.line()}; `diagnose()` compares draws as well")
        return "\n".join(lines)

    def improve(self, budget: int, *, seed: int = 0, progress: bool = True) -> "Samplers":
        """Spend `budget` more evaluations on each member, as `Sampler.improve` does."""
        improved = tuple(sampler.improve(budget, seed=seed, progress=progress) for sampler in self.members)
        return replace(self, members=improved)

    def save(self, folder: str | Path) -> Path:
        """Write each member into a folder of its own: `seed-0`, `seed-1`, ... `tp.load` reads all of them."""
        folder = as_path(folder)
        if (folder / FILE).exists():
            raise RunFolderError(f"{folder} already holds samplers; choose a new folder, nothing is overwritten")
        for seed, sampler in zip(self.seeds, self.members, strict=True):
            sampler.save(folder_of(folder, seed))
        self.note_seeds(folder)
        return folder

    def note_seeds(self, folder: str | Path) -> None:
        """Write a list of the seeds in a folder, so that `tp.load` finds them."""
        write_json(as_path(folder) / FILE, {"format": FORMAT, "seeds": list(self.seeds)})


def seeds_in(folder: Path) -> tuple[int, ...] | None:
    """The seeds of the samplers that a folder holds; None where it holds no such list.

    Raises:
        RunFolderError: if the list is damaged, or was made by another version.
    """
    if not (folder / FILE).exists():
        return None
    content = read_json(folder / FILE)
    if content.get("format") != FORMAT:
        raise RunFolderError(f"{folder / FILE} was made by another version; fit again, or use that version")
    return tuple(content["seeds"])


def _agree(first: tuple, second: tuple) -> bool:
    """Whether two estimates of log Z may both be right; one that is missing contradicts nothing."""
    if any(value is None for pair in (first, second) for value in pair):
        return True
    return log_z_agreement("log Z of two fits", first, second, "wrong", _APART).status == "good"


def _shown(log_z: float | None, error: float | None) -> str:
    return "-" if log_z is None else with_error(log_z, error)


def _interleaved(parts: list[Any]) -> Any:
    """Rows of all parts in turn: the first of each, the second of each, ..."""
    order = np.argsort(np.concatenate([np.arange(_length(part)) * len(parts) + k for k, part in enumerate(parts)]))
    return jax.tree.map(lambda *leaves: np.concatenate(leaves)[order], *parts)


def _length(part: Any) -> int:
    return len(jax.tree.leaves(part)[0])
