"""Reference samples of particle systems at T = 1, by long parallel tempering, with the evidence that it converged.

Consumes a target of particles; produces positions in full, centred coordinates with their log densities, and evidence
(`reference_evidence`): split R-hat, the virial identity, energies over time, swaps. Samples that the
evidence does not support are kept and marked, never hidden. The cache holds one set for each target and number.
"""

import os
import time
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from tempering.errors import RunFolderError, SettingsError
from tempering.experiments.config import TargetConfig
from tempering.experiments.presets import PRESETS
from tempering.experiments.reference_evidence import NUM_BLOCKS, evidence_of
from tempering.kernels import HMC
from tempering.ledger import Ledger
from tempering.parallel_tempering import Rules, TemperingState, betas_of, heat, run, start, temperatures_of
from tempering.parallel_tempering.initial import normal_start
from tempering.parallel_tempering.relax import NUM_STEPS, climb
from tempering.settings import Ladder, Pilot, require, require_count, require_positive, require_seed
from tempering.storage import read_arrays, read_json, write_arrays, write_json
from tempering.targets import Inner, Scaled, in_inner_coordinates, make_target
from tempering.types import Event, Float, Key, OnEvent, ignore_event

__all__ = [
    "Reference",
    "ReferenceSettings",
    "cached_reference",
    "default_reference_settings",
    "load_reference",
    "make_reference",
    "reference_folder",
    "reference_target",
]

_LEAST_DRAWS = 2 * NUM_BLOCKS
_LEAST_CHAINS = 16  # standard errors are taken over chains
_FORMAT = "tempering reference 1"
_ARRAYS, _RECORD = "reference.npz", "reference.json"
_PILOT = Pilot(num_chains=64, num_steps=400, growth=1.5, max_rounds=12, max_rhat=1.1, num_scout_legs=0)


@dataclass(frozen=True)
class ReferenceSettings:
    """How a reference is made.

    Args:
        temperatures: hottest first, ending at 1; None lets a pilot find the coolest at which chains mix.
        num_chains: independent ladders of chains; standard errors are taken over them.
        num_steps: HMC steps of every chain; at least the first quarter adapts and is thrown away.
        num_leapfrog: leapfrog steps of an HMC step, each one evaluation.
        swap_interval: HMC steps between swap rounds.
        scale: standard deviation of the starting points, before overlapping particles are moved apart.
    """

    temperatures: tuple[float, ...] | None = None
    num_chains: int = 128
    num_steps: int = 4000
    num_leapfrog: int = 8
    swap_interval: int = 2
    scale: float = 1.0

    def __post_init__(self) -> None:
        if self.temperatures is not None:
            Ladder(temperatures=self.temperatures)
        require_count("chains", self.num_chains, _LEAST_CHAINS)
        require_count("steps", self.num_steps)
        require_count("num_leapfrog", self.num_leapfrog)
        require_count("swap_interval", self.swap_interval)
        require_positive("scale", self.scale)


@dataclass(frozen=True)
class Reference:
    """Samples at T = 1: centred configurations, flat, particle after particle; what speaks for them; what they cost."""

    positions: Float[np.ndarray, "num full_dim"]
    log_density: Float[np.ndarray, " num"]
    evidence: dict[str, Any]
    evaluations: int

    @property
    def is_converged(self) -> bool:
        """Whether every check of the evidence passed; `evidence["problems"]` says in words what did not."""
        return bool(self.evidence["is_converged"])


def default_reference_settings(config: TargetConfig) -> ReferenceSettings:
    """Sizes for about a minute (DW-4), four (LJ-13) and fifteen (LJ-55) on two cores; others find their ladder."""
    if config.name == "dw4":
        ladder = temperatures_of(Ladder(hottest=16.0, num_levels=5), dim=6)
        return ReferenceSettings(ladder, num_chains=200, num_steps=3000, scale=2.0)
    if config.name == "lj":
        num_particles = config.arguments.get("num_particles", 13)
        # The energy's standard deviation grows like sqrt(n), 7 for LJ-13 and 14 for LJ-55, so that neighbours this far
        # apart swap about every third time. At T = 1 the clusters are liquid: no hotter level is needed to cross.
        hottest = (1.0 + 0.8 / num_particles**0.5) ** 4
        ladder = temperatures_of(Ladder(hottest=hottest, num_levels=5), dim=3 * num_particles - 3)
        num_chains, num_steps = (128, 4000) if num_particles < 30 else (64, 6000)
        return ReferenceSettings(ladder, num_chains=num_chains, num_steps=num_steps)
    return ReferenceSettings()


def make_reference(
    target: Any,
    key: Key,
    num: int,
    settings: ReferenceSettings | None = None,
    *,
    on_event: OnEvent = ignore_event,
) -> Reference:
    """Samples of exp(-U) by parallel tempering with HMC from normal starting points, and the evidence for them.

    Args:
        target: a target of particles, such as a `PairPotential`, in full or inner coordinates.
        num: how many samples; a chain gives at least twenty draws, of which as many as asked for are returned.
        settings: None takes those of a pair potential of which nothing is known.

    Returns:
        The samples. Whether they can be relied on stands in `is_converged`; nothing is raised if not.

    Raises:
        SettingsError: if the target has no geometry of particles, or the steps are too few for `num`.
    """
    settings = settings or ReferenceSettings()
    require_count("n", num)
    target = in_inner_coordinates(target)
    if not isinstance(target, Inner):
        raise SettingsError(f"{type(target).__name__} is no system of particles; give one with a `geometry`")
    num_draws, thin = _draws(num, settings)
    key_start, key_pilot, key_replace, key_run = jax.random.split(key, 4)
    ledger, kernel = Ledger(), HMC(num_leapfrog=settings.num_leapfrog)  # pyright: ignore[reportCallIssue]
    temperatures = settings.temperatures or _found_temperatures(key_pilot, target, kernel, settings, ledger)
    betas = betas_of(temperatures)
    num_points = len(temperatures) * settings.num_chains
    steps, burn_in = settings.num_steps, settings.num_steps - num_draws * thin
    planned = ledger.total + num_points * (1 + NUM_STEPS + steps * kernel.evaluations_per_step)

    def tell(done: int, state: TemperingState) -> None:
        acceptance = float(state.tally.acceptance_rate[-1])
        on_event(Event("reference", 0, 0, done, steps, ledger.total, planned, acceptance=acceptance))

    on_event(Event("reference", 0, 0, 0, steps, ledger.total, planned))
    # Normal points overlap: uphill first, in units of their own spread.
    unit = jnp.full((target.dim,), settings.scale)
    positions = climb(Scaled(target, unit), normal_start(target.dim, 1.0)(key_start, num_points), ledger, "pilot")
    positions = settings.scale * positions.reshape((len(temperatures), settings.num_chains, -1))
    state, num_replaced = start(key_replace, target, kernel, positions, betas, ledger, "initial_pt")
    rules = Rules.of(kernel.optimal_acceptance, settings.swap_interval, burn_in, "even_odd")
    state, draws = run(
        key_run,
        target,
        kernel,
        state,
        betas,
        rules,
        burn_in=burn_in,
        num_draws=num_draws,
        thin=thin,
        ledger=ledger,
        stage="initial_pt",
        on_block=tell,
    )
    cold = jax.tree.map(lambda leaf: leaf[-1], draws)
    evidence = evidence_of(target, cold, state.tally) | {
        "temperatures": list(temperatures),
        "step_sizes": [float(size) for size in jnp.exp(state.step_sizes.log_step_size)],
        "num_replaced_starts": num_replaced,
        "evaluations_by_stage": dict(ledger.points),
    }
    # Evenly over (draw, chain), draws slowest: every chain and every part of the run has its share.
    rows = np.linspace(0, num_draws * settings.num_chains - 1, num).round().astype(int)
    inner = cold.position.reshape((-1, target.dim))[rows]
    embedded = np.asarray(jax.vmap(target.chart.embed)(inner), np.float32)
    log_density = np.asarray(cold.log_density.reshape(-1)[rows], np.float32)
    return Reference(embedded, log_density, evidence, ledger.total)


def _draws(num: int, settings: ReferenceSettings) -> tuple[int, int]:
    """Draws of a chain, a multiple of the number of blocks, and the steps between them."""
    num_draws = max(_LEAST_DRAWS, NUM_BLOCKS * -(-num // (NUM_BLOCKS * settings.num_chains)))
    thin = (settings.num_steps - settings.num_steps // 4) // num_draws
    least = -(-4 * num_draws // 3)
    remedy = f"{num:,} samples of {settings.num_chains} chains are {num_draws} draws a chain; or take more chains"
    require(thin >= 1, "steps", settings.num_steps, f"at least {least:,} here", remedy)
    return num_draws, thin


def _found_temperatures(
    key: Key, target: Inner, kernel: HMC, settings: ReferenceSettings, ledger: Ledger
) -> tuple[float, ...]:
    """The ladder below the coolest temperature at which a pilot's chains mix."""
    key_start, key_heat = jax.random.split(key)
    points = normal_start(target.dim, settings.scale)(key_start, _PILOT.num_chains)
    found = heat(key_heat, target, kernel, points, _PILOT, kernel.optimal_acceptance, ledger, is_isotropic=True)
    return temperatures_of(Ladder(hottest=found.hottest), dim=target.dim)


# The cache.


def reference_target(name: str | TargetConfig) -> TargetConfig:
    """The system of particles that a preset is about.

    Raises:
        SettingsError: for an unknown name, or a preset of another kind; the message lists the names that will do.
    """
    if isinstance(name, TargetConfig):
        return name
    if name not in PRESETS or not _is_of_particles(PRESETS[name].target):
        known = [preset for preset, config in PRESETS.items() if _is_of_particles(config.target)]
        what = "is not about particles" if name in PRESETS else "is unknown"
        raise SettingsError(f"reference: {name!r} {what}; known: {', '.join(known)}")
    return PRESETS[name].target


def _is_of_particles(config: TargetConfig) -> bool:
    return getattr(make_target(config.name, **config.arguments), "geometry", None) is not None


def reference_folder(name: str | TargetConfig) -> Path:
    """Where the references of a target are kept, one folder for each number of samples.

    In $TEMPERING_CACHE/reference, or else in the user's cache folder. Presets of the same target share it.
    """
    config = reference_target(name)
    user = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "tempering"
    arguments = (f"{key}-{value}" for key, value in sorted(config.arguments.items()))
    return Path(os.environ.get("TEMPERING_CACHE", user)) / "reference" / "-".join((config.name, *arguments))


def load_reference(name: str | TargetConfig, num: int) -> Reference | None:
    """`num` samples of the cache, or None where neither that many nor more are kept. Look at `is_converged`.

    Of a larger set every k-th sample is taken, and its evidence stands.

    Raises:
        SettingsError: for an unknown name.
        RunFolderError: for a damaged set, or one of another density.
    """
    require_count("num", num)
    place, config = reference_folder(name), reference_target(name)
    kept = sorted(int(path.parent.name) for path in place.glob(f"*/{_RECORD}") if path.parent.name.isdecimal())
    enough = [size for size in kept if size >= num]
    if not enough:
        return None
    found, _ = _read(place / str(enough[0]), config)
    rows = np.linspace(0, len(found.positions) - 1, num).round().astype(int)
    return Reference(found.positions[rows], found.log_density[rows], found.evidence, found.evaluations)


def cached_reference(
    name: str | TargetConfig,
    num: int = 10_000,
    *,
    out: Path | None = None,
    seed: int | None = None,
    num_chains: int | None = None,
    num_steps: int | None = None,
    force: bool = False,
    on_event: OnEvent = ignore_event,
) -> tuple[Reference, Path, bool]:
    """The reference in its folder, made and written there if there is none.

    Args:
        out: the folder; None takes the cache's.
        seed: None takes 0, or that of the set that is found; likewise for chains and steps.
        force: make it anew whatever lies there.

    Returns:
        The reference, its folder, and whether it was found there.

    Raises:
        SettingsError: for an unknown name, or options that are not those of the set that is found.
        RunFolderError: for a damaged set, or a folder that cannot be written.
    """
    config = reference_target(name)
    require_count("n", num)
    require_seed("seed", 0 if seed is None else seed)
    given = {"num_chains": num_chains, "num_steps": num_steps}
    given = {option: value for option, value in given.items() if value is not None}
    settings = replace(default_reference_settings(config), **given)  # pyright: ignore[reportArgumentType]
    _draws(num, settings)
    folder = reference_folder(config) / str(num) if out is None else Path(out)
    if not force and any((folder / file).exists() for file in (_ARRAYS, _RECORD)):
        found, record = _read(folder, config)
        asked = {"n": num, "seed": seed, **given}
        made = {"n": record["num"], "seed": record["seed"], **record["settings"]}
        other = [option for option, value in asked.items() if value is not None and made[option] != value]
        if other:
            was = ", ".join(f"{option} = {made[option]} (asked for {asked[option]})" for option in other)
            raise SettingsError(f"the reference in {folder} has {was}; --force replaces it, --out puts one elsewhere")
        return found, folder, True
    _claim(folder)
    began = time.monotonic()
    target = make_target(config.name, **config.arguments)
    reference = make_reference(target, jax.random.key(seed or 0), num, settings, on_event=on_event)
    record = {
        "format": _FORMAT,
        "target": asdict(config),
        "num": num,
        "seed": seed or 0,
        "settings": asdict(settings),
        "evaluations": reference.evaluations,
        "is_converged": reference.is_converged,
        "evidence": reference.evidence,
        "wall_seconds": round(time.monotonic() - began, 1),
        "jax": jax.__version__,
        "device": jax.devices()[0].device_kind,
    }
    (folder / _RECORD).unlink(missing_ok=True)  # a kill between the two writes must not join old and new
    write_arrays(folder / _ARRAYS, {"positions": reference.positions, "log_density": reference.log_density})
    write_json(folder / _RECORD, record)
    return reference, folder, False


def _claim(folder: Path) -> None:
    """Refuse a folder that cannot be written before an hour is spent, not after it."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise RunFolderError(f"cannot make {folder}: {error.strerror or error}; choose another --out") from error
    if not os.access(folder, os.W_OK):
        raise RunFolderError(f"{folder} cannot be written; choose another --out")


def _read(folder: Path, config: TargetConfig) -> tuple[Reference, dict[str, Any]]:
    try:
        record, arrays = read_json(folder / _RECORD), read_arrays(folder / _ARRAYS)
    except RunFolderError as error:
        raise RunFolderError(f"{error}; `tempering reference` with --force makes it anew") from error
    if record.get("format") != _FORMAT or record["num"] != len(arrays["positions"]):
        raise RunFolderError(f"{folder} holds no reference of this version; --force makes it anew")
    reference = Reference(arrays["positions"], arrays["log_density"], record["evidence"], record["evaluations"])
    # Names outlive densities: a few stored values against the density of today.
    target, few = make_target(config.name, **config.arguments), reference.positions[:8]
    is_same = few.shape[1] == target.dim and np.allclose(
        jax.vmap(target.log_density)(jnp.asarray(few)), reference.log_density[:8], rtol=1e-3, atol=1e-2
    )
    if not is_same:
        raise RunFolderError(f"the reference in {folder} belongs to another density; --force makes it anew")
    return reference, record
