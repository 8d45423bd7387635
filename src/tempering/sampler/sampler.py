"""What every method gives back: a trained diffusion model with its target, its account and its quality."""

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np

from tempering.compilation import methods_in_plain_jax
from tempering.devices import use
from tempering.diffusion import DiffusionModel, in_chunks
from tempering.errors import DensityError, RunFolderError, SettingsError, what_is
from tempering.host.use import HostUse
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
_ROWS = 16_384
"""That are carried between coordinates at a time."""
_MOST_DRAWS = 2**31 - 1
"""Of one call: draws are numbered by 32 bits, and XLA ends the whole process over an array that it cannot index."""


@methods_in_plain_jax
@dataclasses.dataclass(repr=False)
class Sampler(Shown):
    """A trained sampler.

    Args:
        model: the diffusion model at T = 1.
        target: the density. It is None after loading without one; only `sample` works then.
        method: the name of the method that made it.
        network, sampling: the settings that rebuild and run the model.
        settings: all settings of the fit, with every choice made. None if they are not known.
        levels: one record per level, the hottest first.
        ledger: the number of evaluations, by stage.
        log_z: the estimate of log Z at T = 1. `log_z_error` is its standard error.
        ess_fraction: the effective share of the final model's weights, over `num_final_draws` draws.
        pareto_k: the shape of the upper tail of those weights. Above 0.7 they are not reliable. None if it was not
            measured or is not finite.
        checks: more numbers for the findings: from the pilot, from the final draws, and about what the model covers.
        chart: the map from the model's coordinates to the user's, for supports, priors or centred particles. None if
            the coordinates are the same.
        structure: makes the user's own tree of arrays from a row of coordinates. None for plain rows.
        modes: modes that searches found before the fit, the heaviest first. Empty if there was no search.
        folder: the folder of the sampler, if it was saved or loaded. `plot` and `report` look there for the samples of
            the levels.

    Attributes:
        paid: samples and weights that were paid for. `improve` starts from them, and the verdict uses them.
        seconds: the wall time of the fit by stage, over all processes that worked on it. Empty if it is not known.
        devices: the devices of the fit, as `tp.fit` takes them. Draws and densities run on them. They are not saved.
        host: what workers did, if they evaluated the density, or None. Points, seconds and utilisation are of the
            process that ended the fit and of every `improve`. Failures are of all processes.
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
    devices: Any = dataclasses.field(default=None, init=False, repr=False, compare=False)
    host: HostUse | None = dataclasses.field(default=None, init=False, compare=False)
    improver: ClassVar[Callable[..., "Sampler"] | None] = None
    """What `improve` calls. `methods/improve.py` puts it here: a room imports only rooms below it."""

    @property
    def dim(self) -> int:
        """The dimension of a draw."""
        return self.model.prior.location.shape[0] if self.chart is None else self.chart.full_dim

    @property
    def geometry(self) -> Centred | None:
        """The map of centred particles; None for a density of something else."""
        return self.chart if isinstance(self.chart, Centred) else None

    def outer(self, points: Float[Array, "particle dim"]) -> np.ndarray:
        """Points in the model's coordinates, as rows in the user's coordinates."""
        if self.chart is None:
            return np.asarray(points)
        chart = self.chart
        return np.asarray(in_chunks(lambda part: embed_rows(chart, part), points, _ROWS))

    def _seen(self, points: Float[Array, "particle dim"]) -> Any:
        """Points in the model's coordinates as the user sees them: rows, or a tree of arrays with that first axis."""
        rows = self.outer(points)
        return rows if self.structure is None else self.structure.restore(rows)

    @property
    def evaluations(self) -> int:
        """The evaluations that the fit spent. `ledger.points` has them by stage."""
        return self.ledger.total

    def _key(self, seed: int) -> Array:
        require_seed("seed", seed)
        return jax.random.key(int(seed))

    def sample(self, num: int, *, seed: int = 0, solver: str | None = None, num_steps: int | None = None) -> Any:
        """Independent draws. They cost no evaluation.

        Args:
            num: the number of draws.
            seed: the same seed gives the same draws. Draw i does not depend on `num`.
            solver: heun, euler, churn or sde (the reverse SDE). None takes the setting `sampling.raw_solver`, which may
                differ from the solver of `sample_weighted`.
            num_steps: the number of steps of the solver. None takes the number of the fit. The reverse SDE is of first
                order and needs some hundreds; Heun's solver needs 32.

        Returns:
            An array of shape (num, dim). If the density takes a tree of parameters, it is a tree of arrays with `num`
            as their first axis.
        """
        require_count("num", num, most=_MOST_DRAWS)
        sampling = self.sampling.raw
        if solver is not None and not (isinstance(solver, str) and solver == sampling.solver):
            # Whatever tracks the volume belongs to the fit's solver; nothing is tracked here.
            plain = {"divergence": "automatic", "raw_solver": None, "raw_num_steps": None}
            sampling = dataclasses.replace(self.sampling, solver=solver, **plain)
        if num_steps is not None:
            sampling = dataclasses.replace(sampling, num_steps=num_steps)
        with use(self.devices):
            draws, _ = self.model.draw(self._key(seed), int(num), sampling, with_density=False)
        return self._seen(draws)

    def inner_draws(self, key: Array, num: int, stage: str) -> Float[Array, "particle dim"]:
        """Draws as those of `sample`, in the model's coordinates. `stage` is for methods whose draws cost something."""
        del stage
        return self.model.draw(key, num, self.sampling.raw, with_density=False)[0]

    def sample_weighted(self, num: int, *, seed: int = 0, is_quasi_random: bool = False) -> tuple[Any, np.ndarray]:
        """Draws with log weights that correct expectations. It costs `num` evaluations.

        The weights are not normalised. The logarithm of their mean estimates log Z. Normalised weights are
        `w = exp(log_weights - logsumexp(log_weights))`. Means with them are consistent: their bias falls as 1 / num.
        Beyond 16 dimensions the volume of the flow may be estimated by random probes (`sampling.divergence`; a fit
        weighs by determinants up to 64). Such weights carry the noise of the probes, and a bias that more draws do not
        remove (docs/decisions/0005). The ledger has the evaluations as `sampling`.

        Args:
            num, seed: as for `sample`.
            is_quasi_random: start from scrambled Sobol points, which are spread more evenly than random ones. Means
                over all draws stay unbiased. In few dimensions their errors may be much smaller, most of all if `num`
                is a power of two. But the draws are not independent: the usual errors do not hold, draw i depends on
                `num`, and a subset is no better than an independent sample of its size.
        """
        require_flag("is_quasi_random", is_quasi_random)
        weighted = self._weighted(num, seed, is_quasi_random=is_quasi_random)
        return self._seen(weighted.states.position), np.asarray(weighted.log_weights)

    def sample_exact(self, num: int, *, seed: int = 0) -> Any:
        """Draws of the target with equal weights. It costs `num` evaluations.

        The draws of `sample_weighted` become proposals of independent Metropolis chains, which leave the target
        invariant. Each chain starts from a draw picked by weight; the bias of this start vanishes as 1 / num. For means
        the weights are the better choice: they use every draw, while here draws repeat if the ESS is low. The ledger
        has the evaluations as `sampling`.

        Returns:
            Draws like those of `sample`, in the order of the chains. Neighbours are correlated, and a draw may repeat.

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
        """Points with equal weights that cover the target evenly. It costs `num_draws` evaluations.

        Quasi-random draws with weights (`sample_weighted`) are resampled along a Hilbert curve (`tp.resample`). Means
        over all points are nearly as exact as means over the weighted draws. The points are not independent, and a
        subset is no better than an independent sample of its size. If the effective share is low, points repeat: use
        `sample_exact` then. The ledger has the evaluations as `sampling`.

        Args:
            num, seed: as for `sample`.
            num_draws: the number of draws to pick from. None takes two per point.

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
        with use(self.devices):
            proposal = self.proposed(self._key(seed), int(num), is_quasi_random=is_quasi_random)
            weighted = self.weigh_proposed(proposal, "sampling")
        self.paid.note_seed(int(seed), weighted, is_quasi_random=is_quasi_random)
        return weighted

    @property
    def has_weights(self) -> bool:
        """Whether draws can be weighed: always, but for some baselines."""
        return True

    def proposed(self, key: Array, num: int, *, is_quasi_random: bool = False) -> Any:
        """Draws that `weigh_proposed` is to weigh, in the model's coordinates. No target evaluation."""
        even: dict[str, Any] = {"is_quasi_random": True} if is_quasi_random else {}
        return self.model.draw(key, num, self.sampling, with_density=True, **even)

    def weigh_proposed(self, proposal: Any, stage: str) -> Weighted:
        """These draws with their weights; evaluations are entered under `stage`."""
        draws, log_q = proposal
        return weigh(self.target, draws, log_q, jnp.ones(()), ledger=self.ledger, stage=stage)

    def inner_log_prob(self, key: Array, points: Float[Array, "particle dim"]) -> Float[Array, " particle"] | None:
        """Normalised log density in the model's coordinates; None for a baseline that has none."""
        return self.model.log_prob(key, points, self.sampling)

    def log_prob(self, x: Any, *, seed: int = 0) -> np.ndarray:
        """The normalised log density of the sampler, at one point or many. It costs no evaluation of the target.

        It is a density in the user's coordinates: log q(y) - log |det dx/dy| within the support, and -inf outside. On a
        simplex it is the density of the first K - 1 entries. For particles it is the density of the centred
        configuration in its subspace. For the solver churn it is the density of Heun's solver, without the kicks.

        Args:
            x: an array of shape (dim,) or (n, dim); a tree of one point or many, if draws are trees.
            seed: the seed of random probes. It matters only if the divergence is estimated.
        """
        points = self._rows_of(x)
        if points.shape[0] == 0:
            return np.zeros(points.shape[:-1], np.float32)
        rows = jax.device_put(points.reshape((-1, self.dim)))
        inner, log_volume, is_inside = (rows, 0.0, True)
        if self.chart is not None:
            chart = self.chart
            inner, log_volume, is_inside = in_chunks(lambda part: restrict_rows(chart, part), rows, _ROWS)
        with use(self.devices):
            values = self.inner_log_prob(self._key(seed), inner)
        if values is None:
            raise DensityError(f"{self.method} has no density of its draws; fit by 'ptsd' or 'fab' for one")
        with np.errstate(invalid="ignore"):
            values = np.asarray(values) - np.asarray(log_volume, np.float32)
        values = np.where(is_inside, values, np.float32(-np.inf))
        return values.reshape(points.shape[:-1])

    def _rows_of(self, x: Any) -> Float[np.ndarray, "*batch dim"]:
        if self.structure is not None:
            return np.asarray(self.structure.flatten(x, "x"), np.float32)
        try:
            given = np.asarray(x)
        except (TypeError, ValueError) as error:
            raise SettingsError(f"x is {what_is(x)} that is not an array; give numbers") from error
        if not (jnp.issubdtype(given.dtype, jnp.floating) or jnp.issubdtype(given.dtype, jnp.integer)):
            raise SettingsError(f"x has dtype {given.dtype}; log_prob takes real numbers")
        with np.errstate(over="ignore"):
            points = given.astype(np.float32)
        if points.ndim not in (1, 2) or points.shape[-1] != self.dim:
            raise SettingsError(f"x has shape {points.shape}; log_prob takes ({self.dim},) or (n, {self.dim})")
        return points

    @property
    def weighed(self) -> Weighed | None:
        """What all weighted draws of this model say together. The verdict uses it."""
        checks = self.checks
        if self.ess_fraction is None or checks.num_final_draws is None or FIT in self.paid.weights:
            return self.paid.weighed()
        log_z = (checks.log_z_final, checks.log_z_final_error)
        k = None if self.pareto_k is None else finite_or_none(self.pareto_k)
        return self.paid.weighed(Weighed(checks.num_final_draws, self.ess_fraction, k, *log_z))

    @property
    def findings(self) -> tuple[Finding, ...]:
        """All checks: what was measured, what it means, and what to do. They cost nothing."""
        return self.diagnose().findings

    def diagnose(self, other: "Sampler | None" = None, *, num: int = 2000, seed: int = 0) -> Verdict:
        """Can the draws be trusted? Print the verdict: it says what was checked, and what to do next.

        Without `other` it costs nothing. It uses numbers that the fit recorded, and the weights of all draws so far. So
        a verdict can change after `sample_weighted`.

        Args:
            other: a fit of the same density with another seed. The draws of both are then compared.
            num, seed: the number of draws of each fit to compare, and their seed. Each draw costs one evaluation, which
                the ledgers have as `sampling`.
        """
        return diagnose(self, other, num=num, seed=seed)

    def improve(self, budget: int, *, seed: int = 0, progress: bool = True) -> "Sampler":
        """Spend more evaluations on this sampler. Everything that was paid for before stays in use.

        At most a quarter of the budget goes into searches for modes that the model does not cover. Most of the rest
        goes into weighted draws, from the model and from modes that were found. Then training goes on with all of it.
        This sampler does not change (docs/going-on.md).

        Args:
            budget: the largest number of evaluations to spend.
            seed: it decides everything random, together with the number of evaluations made before.
            progress: show a live display, or plain lines if there is no terminal.

        Returns:
            A new sampler. Its ledger has all evaluations, old and new.

        Raises:
            DensityError: if the density is not there.
            BudgetError: if the budget is too small. The message names the smallest one.
        """
        improver = type(self).improver
        assert improver is not None, "tempering.methods.improve puts it there"
        with use(self.devices):
            improved = improver(self, budget, seed=seed, progress=progress)
        improved.devices = self.devices
        return improved

    def save(self, folder: str | Path) -> Path:
        """Write `sampler.npz`, `samples.npz` and `sampler.json`. `tp.load` reads them. The density is not stored.

        `samples.npz` has what `improve` starts from, and the weights for the verdict. Draws do not need it.
        `sampler.json` is written last and marks a complete sampler. A folder that has one is not overwritten.
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
