"""What every method gives back: a trained diffusion model with its target, its account and its quality."""

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np

from tempering.diffusion import DiffusionModel
from tempering.errors import DensityError, RunFolderError, SettingsError
from tempering.runs.ledger import Ledger
from tempering.runs.records import Checks, LevelRecord, Mode, Weighed, finite_or_none
from tempering.runs.storage import arrays_of, as_path, write_arrays, write_json
from tempering.runs.watching import write_seconds
from tempering.sampler.answer import answer_of
from tempering.sampler.diagnosis import Finding, Verdict, diagnose
from tempering.sampler.folder import has_sampler
from tempering.sampler.paid import FIT, Paid
from tempering.sampler.showing import Shown
from tempering.settings import MethodSettings, Network, Sampling, require_count, require_flag, require_seed
from tempering.transforms import Chart, embed_rows, restrict_rows
from tempering.transforms.centred import Centred
from tempering.types import Array, Float
from tempering.weights.metropolis import equally_weighted
from tempering.weights.resample import resample
from tempering.weights.weigh import Weighted, weigh

__all__ = ["Sampler"]

_DRAWS_PER_POINT = 2
"""Of `sample_even`."""
_MOST_DRAWS = 2**31 - 1
"""Of one call: draws are numbered by 32 bits, and XLA ends the whole process over an array that it cannot index."""


@dataclasses.dataclass(repr=False)
class Sampler(Shown):
    """A trained sampler.

    Args:
        model: the diffusion model at T = 1.
        target: the density, or None after loading without one; all draws but those of `sample` need it.
        method: name of the method that made it.
        network, sampling: the settings that rebuild and run the model.
        settings: those that the fit was made with, everything settled; None where they are not known.
        levels: one record a level, hottest first.
        ledger: every evaluation made, by stage.
        log_z: estimate of log Z at T = 1; `log_z_error` its standard error.
        ess_fraction: of the final model's raw weights on `num_final_draws` draws.
        pareto_k: shape of those weights' upper tail (`pareto.pareto_k`); above 0.7 they are not to be relied on. None
            where it was not measured or has no finite value.
        checks: more numbers that findings are made of: of the pilot, of the final draws, of what the model covers.
        chart: from the coordinates that the model works in to those of the user: of constrained supports, or of centred
            particles; None where they are the same.
        structure: what makes of a row of the user's coordinates the user's own tree of arrays; None for plain rows.
        modes: optima that searches found before the fit, the heaviest first; empty where none were made.
        folder: where it was saved or loaded from; `plot` looks there for the samples of the levels.

    Attributes:
        paid: samples and weights that were paid for: what `improve` goes on from, and what the verdict rests on.
        seconds: wall time of the fit by stage, over all processes that worked on it; empty where it is not known.
    """

    model: DiffusionModel
    target: Any
    method: str
    network: Network
    sampling: Sampling
    levels: list[LevelRecord]
    ledger: Ledger
    log_z: float | None = None
    log_z_error: float | None = None
    ess_fraction: float | None = None
    pareto_k: float | None = None
    checks: Checks = Checks()
    chart: Chart | None = None
    structure: Any = None
    settings: MethodSettings | None = None
    modes: tuple[Mode, ...] = ()
    folder: Path | None = None
    paid: Paid = dataclasses.field(default_factory=Paid, init=False, repr=False, compare=False)  # of this model alone
    seconds: dict[str, float] = dataclasses.field(default_factory=dict, init=False, compare=False)
    improver: ClassVar[Callable[..., "Sampler"] | None] = None
    """What `improve` calls. `methods/improve.py` puts it here: a room imports only rooms below it."""

    @property
    def dim(self) -> int:
        """Dimension of a draw."""
        return self.model.prior.location.shape[0] if self.chart is None else self.chart.full_dim

    @property
    def geometry(self) -> Centred | None:
        """Of particles, where these are what is sampled."""
        return self.chart if isinstance(self.chart, Centred) else None

    def outer(self, points: Float[Array, "particle dim"]) -> np.ndarray:
        """Points in the model's coordinates as rows of the user's: within the supports, or centred configurations."""
        return np.asarray(points if self.chart is None else embed_rows(self.chart, points))

    def _seen(self, points: Float[Array, "particle dim"]) -> Any:
        """Points in the model's coordinates as a user sees them: rows, or a tree of arrays with that axis first."""
        rows = self.outer(points)
        return rows if self.structure is None else self.structure.restore(rows)

    @property
    def evaluations(self) -> int:
        """Target evaluations that fitting spent; `ledger.points` has them by stage."""
        return self.ledger.total

    def _key(self, seed: int) -> Array:
        require_seed("seed", seed)
        return jax.random.key(int(seed))

    def sample(self, num: int, *, seed: int = 0, solver: str | None = None, num_steps: int | None = None) -> Any:
        """Independent draws at no target evaluation.

        Args:
            num: how many.
            seed: the same seed gives the same draws; draw i does not depend on `num`.
            solver: heun, euler, churn or sde (the reverse SDE, by ancestral steps); None takes that of the fit for
                draws that nobody weighs (`sampling.raw_solver`), which may be another than the one whose draws
                `sample_weighted` weighs.
            num_steps: steps of the solver; None takes those of the fit. The reverse SDE is of first order, and needs
                some hundreds where Heun's solver needs 32.

        Returns:
            An array of axes (num, dim); a tree of arrays with `num` as their first axis where the density takes a tree.
        """
        require_count("num", num, most=_MOST_DRAWS)
        sampling = self.sampling.raw
        if solver is not None and not (isinstance(solver, str) and solver == sampling.solver):
            # Whatever tracks the volume belongs to the fit's solver; nothing is tracked here.
            plain = {"divergence": "automatic", "raw_solver": None, "raw_num_steps": None}
            sampling = dataclasses.replace(self.sampling, solver=solver, **plain)
        if num_steps is not None:
            sampling = dataclasses.replace(sampling, num_steps=num_steps)
        draws, _ = self.model.draw(self._key(seed), int(num), sampling, with_density=False)
        return self._seen(draws)

    def sample_weighted(self, num: int, *, seed: int = 0, is_quasi_random: bool = False) -> tuple[Any, np.ndarray]:
        """Draws and log weights that correct expectations: num evaluations, entered in the ledger as sampling.

        The weights are not normalised: the log of their mean estimates log Z, and
        `w = exp(log_weights - logsumexp(log_weights))` are the self-normalised ones. Means with those are consistent:
        their bias vanishes as 1 / num, and for a finite number they are not unbiased. Where the volume of the flow is
        tracked by probes (`sampling.divergence`: beyond 16 dimensions, unless set; a fit weighs by determinants up to
        64), the weights carry the noise of the probes, and a bias that more draws do not remove (docs/decisions/0005).

        Args:
            num, seed: as for `sample`.
            is_quasi_random: start from scrambled Sobol points, which cover the space of noise evenly, and the draws the
                target. Means over all of them are as unbiased as before and, in few dimensions, may be much closer;
                they gain most where `num` is a power of two. The draws are not independent: the usual errors do not
                hold, a subset is no better than an independent sample of its size, and draw i depends on `num`.
        """
        require_flag("is_quasi_random", is_quasi_random)
        weighted = self._weighted(num, seed, is_quasi_random=is_quasi_random)
        return self._seen(weighted.states.position), np.asarray(weighted.log_weights)

    def sample_exact(self, num: int, *, seed: int = 0) -> Any:
        """Equally weighted draws of the target: num evaluations, entered in the ledger as sampling.

        The draws of `sample_weighted` become the proposals of independent Metropolis chains
        (`weights.metropolis`), which leave the target invariant; each starts from a draw taken by weight,
        whose bias vanishes as 1 / num. For expectations the weights are the better choice: they use every draw,
        whereas here the repeats that a low ESS brings are noise.

        Returns:
            Draws as those of `sample`, in the chains' order: neighbours are correlated and a draw may repeat.

        Raises:
            DensityError: if the density is not there, or if no draw has a positive weight.
        """
        weighted = self._weighted(num, seed)
        if not bool(jnp.any(weighted.log_weights > -jnp.inf)):
            raise DensityError(
                f"none of the {num} draws has a usable density, so that no chain can start; draw more, or train longer"
            )
        return self._seen(weighted.states.position[equally_weighted(self._key(seed), weighted.log_weights)])

    def sample_even(self, num: int, *, seed: int = 0, num_draws: int | None = None) -> Any:
        """Equally weighted points that cover the target evenly: `num_draws` evaluations, entered as sampling.

        Quasi-random draws with weights (`sample_weighted`), resampled along a Hilbert curve (`tp.resample`). Means over
        all points are nearly as close as over the weighted draws. The points are not independent, and a subset is no
        better than an independent sample of its size. With a low effective share points repeat: use `sample_exact`.

        Args:
            num, seed: as for `sample`.
            num_draws: that the points are made of; None takes two per point.

        Raises:
            DensityError: if the density is not there, or if no draw has a positive weight.
        """
        require_count("num", num, most=_MOST_DRAWS)
        num_draws = min(_DRAWS_PER_POINT * int(num), _MOST_DRAWS) if num_draws is None else num_draws
        require_count("num_draws", num_draws, most=_MOST_DRAWS)
        draws, log_weights = self.sample_weighted(num_draws, seed=seed, is_quasi_random=True)
        return resample(draws, log_weights, int(num), seed=int(seed))

    def _weighted(self, num: int, seed: int, *, is_quasi_random: bool = False) -> Weighted:
        require_count("num", num, most=_MOST_DRAWS)
        if self.target is None:
            raise DensityError("weights need the density, which is not stored: load with tp.load(folder, log_density)")
        draws, log_q = self.model.draw(
            self._key(seed), int(num), self.sampling, with_density=True, is_quasi_random=is_quasi_random
        )
        weighted = weigh(self.target, draws, log_q, jnp.ones(()), ledger=self.ledger, stage="sampling")
        self.paid.note_seed(int(seed), weighted, is_quasi_random=is_quasi_random)
        return weighted

    def log_prob(self, x: Any, *, seed: int = 0) -> np.ndarray:
        """Normalised log density of the sampler at one point or at many. No target evaluation.

        For churn it is that of Heun's solver, without the kicks: a given point has no path.
        `seed` matters only where the divergence is estimated with random probes. The density is one of the user's
        coordinates: log q(y) - log |det dx/dy| within the support (of the first K - 1 entries on a simplex), -inf
        outside. That of a configuration of particles is that of the centred one, by the volume of their subspace.

        Args:
            x: (dim,) or (n, dim); a tree of one point or of many, where draws are trees.
        """
        points = self._rows_of(x)
        if points.shape[0] == 0:
            return np.zeros(points.shape[:-1], np.float32)
        rows = points.reshape((-1, self.dim))
        if self.chart is None:
            values = self.model.log_prob(self._key(seed), rows, self.sampling)
        else:
            inner, log_volume, is_inside = restrict_rows(self.chart, rows)
            values = self.model.log_prob(self._key(seed), inner, self.sampling) - log_volume
            values = jnp.where(is_inside, values, -jnp.inf)
        return np.asarray(values.reshape(points.shape[:-1]))

    def _rows_of(self, x: Any) -> Float[Array, "*batch dim"]:
        if self.structure is not None:
            return jnp.asarray(self.structure.flatten(x, "x"))
        try:
            given = np.asarray(x)
        except (TypeError, ValueError) as error:
            raise SettingsError(f"x is a {type(x).__name__} that is no array; give numbers") from error
        if not (jnp.issubdtype(given.dtype, jnp.floating) or jnp.issubdtype(given.dtype, jnp.integer)):
            raise SettingsError(f"x has dtype {given.dtype}; log_prob takes real numbers")
        points = jnp.asarray(given, jnp.float32)
        if points.ndim not in (1, 2) or points.shape[-1] != self.dim:
            raise SettingsError(f"x has shape {points.shape}; log_prob takes ({self.dim},) or (n, {self.dim})")
        return points

    @property
    def weighed(self) -> Weighed | None:
        """What all weighted draws ever made of this model say together: the verdict rests on them."""
        checks = self.checks
        if self.ess_fraction is None or checks.num_final_draws is None or FIT in self.paid.weights:
            return self.paid.weighed()
        log_z = (checks.log_z_final, checks.log_z_final_error)
        k = None if self.pareto_k is None else finite_or_none(self.pareto_k)
        return self.paid.weighed(Weighed(checks.num_final_draws, self.ess_fraction, k, *log_z))

    @property
    def findings(self) -> tuple[Finding, ...]:
        """All that was checked, from recorded numbers: what was measured, what it means, what to do."""
        return self.diagnose().findings

    def diagnose(self, other: "Sampler | None" = None, *, num: int = 2000, seed: int = 0) -> Verdict:
        """Whether the draws can be trusted: a verdict in words, to be printed, with what to do next.

        Alone it rests on recorded numbers, and on the weights of all draws that were ever weighed: `sample_weighted`
        can withdraw a verdict. It costs nothing. With `other`, a fit of the same density with another seed,
        both samplers' draws are compared as well: `num` evaluations each, entered in their ledgers as sampling.
        """
        return diagnose(self, other, num=num, seed=seed)

    def improve(self, budget: int, *, seed: int = 0, progress: bool = True) -> "Sampler":
        """Go on instead of starting over: `budget` evaluations more, and all that were paid for before stay in use.

        A quarter of them at the most goes into searches for modes that the model does not cover, most of the rest into
        weighted draws of the model and of what was found; the network is trained on all of it from where it is. This
        sampler stays as it is (docs/going-on.md).

        Args:
            budget: evaluations to spend, at the most.
            seed: everything random follows from it, and from the evaluations that were made before.
            progress: show a live display, or plain lines where there is no terminal.

        Returns:
            A new sampler, whose ledger holds everything.

        Raises:
            DensityError: if the density is not there.
            BudgetError: if the budget is too small, with the least.
        """
        improver = type(self).improver
        assert improver is not None, "tempering.methods.improve puts it there"
        return improver(self, budget, seed=seed, progress=progress)

    def save(self, folder: str | Path) -> Path:
        """Write `sampler.npz`, `samples.npz` and `sampler.json`; `tp.load` reads them. The density is not stored.

        `samples.npz` holds what `improve` goes on from, and the weights that the verdict rests on; draws need it not.
        `sampler.json` is written last and marks a complete sampler: a folder that has it is not overwritten.
        """
        folder = as_path(folder)
        if has_sampler(folder):
            raise RunFolderError(f"{folder} already holds a sampler; choose a new folder, nothing is overwritten")
        write_arrays(folder / "sampler.npz", arrays_of(self.model))
        answer = answer_of(self)
        self.paid.save(folder, None if answer is None else answer.as_arrays())
        write_seconds(folder, self.seconds)
        write_json(folder / "sampler.json", self.facts())
        self.folder = folder
        return folder
