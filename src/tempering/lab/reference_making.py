"""Long parallel tempering of a particle system or a molecule at T = 1, with the evidence that it converged.

Consumes a target of particles; produces positions in full, centred coordinates with their log densities, and evidence
(`reference_evidence`). Ladders of chains start from normal points, or half of them from either of the opposite starts
that the target brings, which must then agree. A molecule with chiral centres is kept to its L-form.
"""

from dataclasses import dataclass
from typing import Any, Literal

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from tempering.errors import SettingsError
from tempering.kernels import HMC
from tempering.lab.reference_evidence import NUM_BLOCKS, evidence_of
from tempering.lab.reference_starts import one_handed, starting_points
from tempering.parallel_tempering import Rules, TemperingState, advance, betas_of, heat, run, start, temperatures_of
from tempering.parallel_tempering.initial import normal_start
from tempering.parallel_tempering.pilot.relax import NUM_STEPS
from tempering.runs.config import TargetConfig
from tempering.runs.ledger import Ledger
from tempering.settings import Ladder, Pilot, require, require_choice, require_count, require_positive
from tempering.targets import Inner, Scaled, Units, in_inner_coordinates
from tempering.targets.base import Target
from tempering.targets.cost import spend
from tempering.targets.units import chosen_units, force_masses, units_of_masses
from tempering.types import Event, Float, Key, OnEvent, ignore_event

__all__ = ["Reference", "ReferenceSettings", "default_reference_settings", "draws_and_thin", "make_reference"]

_LEAST_CHAINS = 16  # standard errors are taken over chains
_PILOT = Pilot(num_chains=64, num_steps=400, growth=1.5, max_rounds=12, max_rhat=1.1)


@dataclass(frozen=True)
class ReferenceSettings:
    """How a reference is made.

    Args:
        temperatures: hottest first, ending at 1; None lets a pilot find the coolest at which chains mix.
        num_chains: independent ladders of chains; standard errors are taken over them.
        num_steps: HMC steps of every chain; at least the first quarter adapts and is thrown away.
        num_leapfrog: leapfrog steps of an HMC step, each one evaluation.
        swap_interval: HMC steps between swap rounds.
        scale: standard deviation of the starting points, before overlapping particles are moved apart; a tenth of it
            around starts that the target brings.
        mass: the masses of HMC, as in `settings.Exploration`; adapted takes mean squared forces, once, after half of
            what is thrown away.
        least_draws: of every chain, for the evidence; more than the samples asked for may need.
    """

    temperatures: tuple[float, ...] | None = None
    num_chains: int = 128
    num_steps: int = 4000
    num_leapfrog: int = 8
    swap_interval: int = 2
    scale: float = 1.0
    mass: Literal["automatic", "unit", "target", "adapted"] = "automatic"
    least_draws: int = 2 * NUM_BLOCKS

    def __post_init__(self) -> None:
        if self.temperatures is not None:
            Ladder(temperatures=self.temperatures)
        require_count("chains", self.num_chains, _LEAST_CHAINS)
        require_count("steps", self.num_steps)
        require_count("num_leapfrog", self.num_leapfrog)
        require_count("swap_interval", self.swap_interval)
        require_positive("scale", self.scale)
        require_choice("mass", self.mass, ("automatic", "unit", "target", "adapted"))
        require_count("least_draws", self.least_draws, 2 * NUM_BLOCKS)


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
    """Sizes for about a minute (DW-4), four (LJ-13) and fifteen (LJ-55, alanine dipeptide) on two cores; others find
    their ladder."""
    if config.name == "dw4":
        ladder = temperatures_of(Ladder(hottest=16.0, num_levels=5), dim=6)
        return ReferenceSettings(ladder, num_chains=200, num_steps=3000, scale=2.0)
    if config.name == "lj":
        num_particles = int(config.arguments.get("num_particles", 13))
        # The energy's standard deviation grows like sqrt(n), 7 for LJ-13 and 14 for LJ-55, so that neighbours this far
        # apart swap about every third time. At T = 1 the clusters are liquid: no hotter level is needed to cross.
        hottest = (1.0 + 0.8 / num_particles**0.5) ** 4
        ladder = temperatures_of(Ladder(hottest=hottest, num_levels=5), dim=3 * num_particles - 3)
        num_chains, num_steps = (128, 4000) if num_particles < 30 else (64, 6000)
        return ReferenceSettings(ladder, num_chains=num_chains, num_steps=num_steps)
    if config.name == "aldp":
        # 300 to 1500 K, at which phi turns freely; neighbours swap about every third time. Trajectories of 20 steps are
        # 30 to 40 fs. A mode of 0.2 % needs many draws to be counted: 200,000 of chains that stay there for some.
        ladder = temperatures_of(Ladder(hottest=5.0, num_levels=8), dim=63)
        return ReferenceSettings(
            ladder, num_chains=64, num_steps=8000, num_leapfrog=20, swap_interval=1, scale=0.02, mass="adapted",
            least_draws=1000,
        )  # fmt: skip
    return ReferenceSettings()


def make_reference(
    target: Target,
    key: Key,
    num: int,
    settings: ReferenceSettings | None = None,
    *,
    on_event: OnEvent = ignore_event,
) -> Reference:
    """Samples of exp(-U) by parallel tempering with HMC, and the evidence for them.

    Args:
        target: a target of particles, such as a `PairPotential` or a molecule, in full or inner coordinates. It may
            bring `opposite_starts`, conformations on either side of what separates its modes, and `landmark(x)`,
            whether a conformation is in the mode whose population has to be the same from all of them.
        num: how many samples; a chain gives at least twenty draws, of which as many as asked for are returned.
        settings: None takes those of a system of which nothing is known.

    Returns:
        The samples. Whether they can be relied on stands in `is_converged`; nothing is raised if not.

    Raises:
        SettingsError: if the target has no geometry of particles, or the steps are too few for `num`.
    """
    settings = settings or ReferenceSettings()
    require_count("n", num)
    target = in_inner_coordinates(target)
    if not isinstance(target, Inner):
        raise SettingsError(f"{type(target).__name__} is not a system of particles; give one with a `geometry`")
    target = one_handed(target)
    num_draws, thin = draws_and_thin(num, settings)
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
    shape = (len(temperatures), settings.num_chains)
    positions, group = starting_points(key_start, target, shape, settings.scale, ledger)
    units = chosen_units(target, "automatic" if settings.mass == "adapted" else settings.mass)
    state, num_replaced = start(
        key_replace, Scaled(target, units), kernel, units.inward(positions), betas, ledger, "initial_pt"
    )
    rules = Rules.of(kernel.optimal_acceptance, settings.swap_interval, burn_in, "even_odd")
    num_before = burn_in // 2 if settings.mass == "adapted" else 0
    if num_before:
        spend(ledger, "initial_pt", target, num_points * num_before * kernel.evaluations_per_step)
        state = advance(key_run, Scaled(target, units), kernel, state, betas, rules, num_before)
        state, units = _with_measured_masses(target, state, units)
        tell(num_before, state)
    state, draws = run(
        key_run,
        Scaled(target, units),
        kernel,
        state,
        betas,
        rules,
        burn_in=burn_in - num_before,
        num_draws=num_draws,
        thin=thin,
        ledger=ledger,
        stage="initial_pt",
        on_block=lambda done, state: tell(num_before + done, state),
    )
    cold = jax.tree.map(lambda leaf: leaf[-1], draws).out_of_units(units)
    evidence = evidence_of(target, cold, state.tally, group) | {
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


def _with_measured_masses(target: Inner, state: TemperingState, units: Units) -> tuple[TemperingState, Units]:
    """Chains in the units of masses by the forces on them; step sizes go on adapting from where they were."""
    assert target.geometry is not None, "only systems of particles are asked"
    chain = state.chain.out_of_units(units)
    # In units of every level's own temperature, so that hot levels do not outvote cold ones.
    forces = chain.log_density_grad / jnp.std(chain.log_density_grad, axis=(1, 2), keepdims=True)
    masses = force_masses(target.geometry, forces.reshape((-1, target.dim)))
    units = units_of_masses(masses, target.dim, target.geometry)
    return eqx.tree_at(lambda state: state.chain, state, chain.in_units(units)), units


def draws_and_thin(num: int, settings: ReferenceSettings) -> tuple[int, int]:
    """Draws of a chain, a multiple of the number of blocks, and the steps between them."""
    num_draws = max(settings.least_draws, NUM_BLOCKS * -(-num // (NUM_BLOCKS * settings.num_chains)))
    thin = (settings.num_steps - settings.num_steps // 4) // num_draws
    least = -(-4 * num_draws // 3)
    remedy = f"{num:,} samples of {settings.num_chains} chains are {num_draws} draws per chain; or take more chains"
    require(thin >= 1, "steps", settings.num_steps, f"at least {least:,} here", remedy)
    return num_draws, thin


def _found_temperatures(
    key: Key, target: Inner, kernel: HMC, settings: ReferenceSettings, ledger: Ledger
) -> tuple[float, ...]:
    """The ladder below the coolest temperature at which a pilot's chains mix."""
    key_start, key_heat = jax.random.split(key)
    points = normal_start(target.dim, settings.scale)(key_start, _PILOT.num_chains)
    found = heat(
        key_heat, target, kernel, points, _PILOT, kernel.optimal_acceptance, ledger, measure="together", can_scout=False
    )
    return temperatures_of(Ladder(hottest=found.hottest), dim=target.dim)
