"""What every method gives back: a trained diffusion model with its target, its account and its quality."""

import dataclasses
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from tempering.diffusion import Denoiser, DiffusionModel, NoiseLevels, Prior
from tempering.diffusion.networks import make_network
from tempering.errors import DensityError, RunFolderError, SettingsError
from tempering.geometry import Centred
from tempering.importance import Weighted, weigh
from tempering.ledger import Ledger
from tempering.polish import independent_metropolis
from tempering.records import LevelRecord, finite_or_none, level_table
from tempering.resampling import resample
from tempering.settings import Network, Sampling, require_count, require_seed
from tempering.storage import arrays_of, read_arrays, read_json, tree_from, write_arrays, write_json
from tempering.types import Array, Float

__all__ = ["Sampler", "load_sampler", "model_like"]

_FORMAT = "tempering sampler 2"

_POLISH_KEY = 2**32 - 1
"""Folded into the seed's key for the polish: the draws' own keys are those of their index, which never gets here."""

_CHAIN_LENGTH = 10_000
"""Of one polishing chain at most. Each chain has a start to forget; on a GPU a step takes tens of microseconds."""


@dataclasses.dataclass
class Sampler:
    """A trained sampler.

    Args:
        model: the diffusion model at T = 1.
        target: the density, or None after loading without one; `sample_weighted` and `sample_exact` need it.
        method: name of the method that made it.
        network, sampling: the settings that rebuild and run the model.
        levels: one record a level, hottest first.
        ledger: every evaluation made, by stage.
        log_z: estimate of log Z at T = 1; `log_z_error` its standard error.
        ess_fraction: of the final model's raw weights on `num_final_draws` draws.
        pareto_k: shape of those weights' upper tail (`pareto.pareto_k`); above 0.7 they are not to be relied on. None
            where it was not measured or has no finite value.
        warnings: what a user should know before trusting the draws.
        geometry: of particles; the model then works in inner coordinates, and what a user sees are configurations.
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
    warnings: tuple[str, ...] = ()
    geometry: Centred | None = None

    @property
    def dim(self) -> int:
        """Dimension of a draw."""
        return self.model.prior.location.shape[0] if self.geometry is None else self.geometry.full_dim

    def outer(self, points: Float[Array, "particle dim"]) -> np.ndarray:
        """Points in the model's coordinates as a user sees them: as they are, or as centred configurations."""
        return np.asarray(points if self.geometry is None else _embed(self.geometry, points))

    @property
    def evaluations(self) -> int:
        """Target evaluations that fitting spent; `ledger.points` has them by stage."""
        return self.ledger.total

    def _key(self, seed: int) -> Array:
        require_seed("seed", seed)
        return jax.random.key(int(seed))

    def sample(self, num: int, *, seed: int = 0, solver: str | None = None) -> np.ndarray:
        """Independent draws at no target evaluation.

        Args:
            num: how many.
            seed: the same seed gives the same draws; draw i does not depend on `num`.
            solver: heun, euler, adaptive, churn or sde; None takes that of the fit.

        Returns:
            An array of axes (num, dim).
        """
        require_count("num", num)
        sampling = self.sampling if solver is None else dataclasses.replace(self.sampling, solver=solver)
        draws, _ = self.model.draw(self._key(seed), int(num), sampling, with_density=False)
        return self.outer(draws)

    def sample_weighted(self, num: int, *, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
        """Draws and log weights that make expectations exact: num evaluations, entered in the ledger as sampling.

        The weights are not normalised: the log of their mean estimates log Z, and
        `w = exp(log_weights - logsumexp(log_weights))` are the self-normalised ones.
        """
        weighted = self._weighted(num, seed)
        return self.outer(weighted.states.position), np.asarray(weighted.log_weights)

    def sample_exact(self, num: int, *, seed: int = 0) -> np.ndarray:
        """Equally weighted draws of the target: num evaluations, entered in the ledger as sampling.

        The draws of `sample_weighted` become the proposals of independent Metropolis chains
        (`polish.independent_metropolis`), which leave the target invariant; each starts from a draw taken by weight,
        whose bias vanishes as 1 / num. Resampling all of them would be biased as a whole. A method of its own, not an
        option of `sample_weighted`: there are no weights to hand back. For expectations the weights are the better
        choice: they use every draw, whereas here the repeats that a low ESS brings are noise.

        Returns:
            An array of axes (num, dim), in the chains' order: neighbours are correlated and a draw may repeat.

        Raises:
            DensityError: if the density is not there, or if no draw has a positive weight.
        """
        weighted = self._weighted(num, seed)
        if not bool(jnp.any(weighted.log_weights > -jnp.inf)):
            raise DensityError(
                f"none of the {num} draws has a usable density, so that no chain can start; draw more, or train longer"
            )
        key_start, key_chains = jax.random.split(jax.random.fold_in(self._key(seed), _POLISH_KEY))
        num_chains = -(-int(num) // _CHAIN_LENGTH)
        start = resample(key_start, weighted.log_weights, num_chains, "multinomial")
        indices, _ = independent_metropolis(key_chains, weighted.log_weights, num_chains, start)
        return self.outer(weighted.states.position[indices])

    def _weighted(self, num: int, seed: int) -> Weighted:
        require_count("num", num)
        if self.target is None:
            raise DensityError("weights need the density, which is not stored: load with tp.load(folder, log_density)")
        draws, log_q = self.model.draw(self._key(seed), int(num), self.sampling, with_density=True)
        return weigh(self.target, draws, log_q, jnp.ones(()), ledger=self.ledger, stage="sampling")

    def log_prob(self, x: Float[Array, "*batch dim"] | np.ndarray, *, seed: int = 0) -> np.ndarray:
        """Normalised log density of the sampler at one point or at many. No target evaluation.

        For churn it is that of Heun's solver, without the kicks: a given point has no path.
        `seed` matters only where the divergence is estimated with random probes. The density of a configuration is that
        of the centred one, by the volume of the centred subspace.
        """
        points = jnp.asarray(x, jnp.float32)
        if points.ndim not in (1, 2) or points.shape[-1] != self.dim:
            raise SettingsError(f"x has shape {points.shape}; log_prob takes ({self.dim},) or (n, {self.dim})")
        if points.shape[0] == 0:
            return np.zeros(points.shape[:-1], np.float32)
        rows = points.reshape((-1, self.dim))
        rows = rows if self.geometry is None else _restrict(self.geometry, rows)
        values = self.model.log_prob(self._key(seed), rows, self.sampling)
        return np.asarray(values.reshape(points.shape[:-1]))

    def summary(self) -> str:
        """Evaluations, ESS, log Z and the per-level table, as text."""
        lines = [f"{self.method} sampler in {self.dim} dimensions", f"evaluations  {self.evaluations:,}"]
        lines += [f"  {stage:<18} {count:>12,}" for stage, count in self.ledger.points.items()]
        if self.ess_fraction is not None:
            lines.append(f"ESS of the final model's raw weights  {self.ess_fraction:.3f}")
        if self.pareto_k is not None:
            lines.append(f"Pareto k of the final model's raw weights  {self.pareto_k:.2f}")
        if self.log_z is not None:
            error = "" if self.log_z_error is None else f" ± {self.log_z_error:.3f}"
            lines.append(f"log Z  {self.log_z:.3f}{error}")
        for record in self.levels:
            if record.log_z_ratio is not None:
                error = "" if record.log_z_ratio_error is None else f" ± {record.log_z_ratio_error:.3f}"
                hottest = self.levels[0].temperature
                lines.append(
                    f"log Z(T = {record.temperature:.4g}) - log Z(T = {hottest:.4g})  {record.log_z_ratio:.3f}{error}"
                    "  by stepping stones"
                )
        table = level_table(self.levels)
        widths = [max(len(row[column]) for row in table) for column in range(len(table[0]))]
        lines += ["", *("  ".join(c.rjust(w) for c, w in zip(row, widths, strict=True)) for row in table)]
        lines += [f"warning: {warning}" for warning in self.warnings]
        return "\n".join(lines)

    def to_arviz(self, num: int = 2000, *, seed: int = 0):
        """Draws as ArviZ inference data, with one chain and the variable x."""
        import arviz

        return arviz.from_dict(posterior={"x": self.sample(num, seed=seed)[None]})

    def facts(self) -> dict[str, Any]:
        """Everything but the arrays, JSON-ready."""
        return {
            "format": _FORMAT,
            "method": self.method,
            "dim": self.dim,
            "geometry": None if self.geometry is None else dataclasses.asdict(self.geometry),
            "network": dataclasses.asdict(self.network),
            "sampling": dataclasses.asdict(self.sampling),
            "noise_distribution": self.model.levels.distribution,
            "levels": [record.as_dict() for record in self.levels],
            "ledger": self.ledger.as_dict(),
            "log_z": None if self.log_z is None else finite_or_none(self.log_z),
            "log_z_error": None if self.log_z_error is None else finite_or_none(self.log_z_error),
            "ess_fraction": self.ess_fraction,
            "pareto_k": None if self.pareto_k is None else finite_or_none(self.pareto_k),
            "warnings": list(self.warnings),
        }

    def save(self, folder: str | Path) -> Path:
        """Write `sampler.npz` and `sampler.json`; `tp.load` reads them. The density itself is not stored.

        `sampler.json` is written last and marks a complete sampler: a folder that has it is not overwritten.
        """
        folder = Path(folder)
        if (folder / "sampler.json").exists():
            raise RunFolderError(f"{folder} already holds a sampler; choose a new folder, nothing is overwritten")
        write_arrays(folder / "sampler.npz", arrays_of(self.model))
        write_json(folder / "sampler.json", self.facts())
        return folder


@eqx.filter_jit
def _embed(geometry: Centred, points: Float[Array, "particle dim"]) -> Float[Array, "particle full_dim"]:
    return jax.vmap(geometry.embed)(points)


@eqx.filter_jit
def _restrict(geometry: Centred, points: Float[Array, "particle full_dim"]) -> Float[Array, "particle dim"]:
    return jax.vmap(geometry.restrict)(points)


def model_like(dim: int, network: Network, distribution: str) -> DiffusionModel:
    """A model of the right structure whose leaves, shapes and dtypes only, are to be replaced."""

    def build() -> DiffusionModel:
        vector, number = jnp.zeros((dim,)), jnp.zeros(())
        denoiser = Denoiser(make_network(jax.random.key(0), dim, network), vector, vector, number)
        levels = NoiseLevels(number, number, number, number, number, distribution)
        return DiffusionModel(denoiser, Prior.diagonal(vector, vector), levels)

    return eqx.filter_eval_shape(build)  # initialising weights that are thrown away would take seconds


def load_sampler(folder: str | Path, target: Any = None) -> Sampler:
    """The sampler that `save` wrote. Loads arrays and JSON only; nothing in the folder is executed.

    Raises:
        RunFolderError: if the folder is not a sampler's, or is damaged.
    """
    folder = Path(folder)
    facts = read_json(folder / "sampler.json")
    if facts.get("format") != _FORMAT:
        raise RunFolderError(f"{folder} holds format {facts.get('format')!r}; this version reads {_FORMAT!r}")
    network, geometry = Network(**facts["network"]), facts.get("geometry")  # older files have none
    geometry = None if geometry is None else Centred(**geometry)
    dim = facts["dim"] if geometry is None else geometry.dim
    model = tree_from(model_like(dim, network, facts["noise_distribution"]), read_arrays(folder / "sampler.npz"))
    return Sampler(
        model=model,
        target=target,
        method=facts["method"],
        network=network,
        sampling=Sampling(**facts["sampling"]),
        levels=[LevelRecord.from_dict(record) for record in facts["levels"]],
        ledger=Ledger.from_dict(facts["ledger"]),
        log_z=facts["log_z"],
        log_z_error=facts["log_z_error"],
        ess_fraction=facts["ess_fraction"],
        pareto_k=facts.get("pareto_k"),  # older files have none
        warnings=tuple(facts["warnings"]),
        geometry=geometry,
    )
