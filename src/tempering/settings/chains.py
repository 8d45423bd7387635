"""What chains can be told: ladder, pilot, moves and swaps, the initial tempering, the refinement."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from tempering.settings.checks import (
    require,
    require_choice,
    require_count,
    require_number,
    require_positive,
)

__all__ = ["Atlas", "Exploration", "Initial", "Ladder", "Pilot", "Refinement"]


@dataclass(frozen=True)
class Ladder:
    """The temperatures, hottest first, ending at T = 1.

    Args:
        temperatures: given by hand; everything else here is ignored then.
        hottest: the hottest temperature; None lets the pilot find the coolest one at which chains mix.
        num_levels: how many temperatures; None takes steps that keep the spread of log weights bounded:
            T_{k+1} = T_k / r with r = 1 + 2.2 / sqrt(dim / 2) at the most.
        spacing: geometric between hottest and 1; or adaptive: every next temperature from the last buffer's log
            densities, so that reweighting it there keeps an effective share of 0.3. No evaluation is spent.
    """

    temperatures: tuple[float, ...] | None = None
    hottest: float | None = None
    num_levels: int | None = None
    spacing: Literal["geometric", "adaptive"] = "adaptive"

    def __post_init__(self) -> None:
        require_choice("ladder.spacing", self.spacing, ("geometric", "adaptive"))
        if self.hottest is not None:
            above = "a finite number above 1, the target's own temperature"
            require_number("ladder.hottest", self.hottest, lambda hottest: hottest > 1, above)
        if self.num_levels is not None:
            require_count("ladder.num_levels", self.num_levels, 2)
        if self.temperatures is not None:
            self._check_temperatures(self.temperatures)

    @staticmethod
    def _check_temperatures(temperatures: tuple[float, ...]) -> None:
        name, allowed = "ladder", "at least two temperatures"
        is_list = isinstance(temperatures, Iterable) and not isinstance(temperatures, str)
        require(is_list, name, temperatures, allowed, "give the hottest first and end at 1.0")
        given = tuple(temperatures)
        require(len(given) >= 2, name, given, allowed, "give the hottest first and end at 1.0")
        for temperature in given:
            require_positive("ladder temperature", temperature)
        falling = all(hot > cold for hot, cold in zip(given, given[1:], strict=False))
        require(falling, name, given, "strictly decreasing, hottest first", "sort it and drop repeated values")
        require(given[-1] == 1, name, given, "a ladder that ends at T = 1 exactly", "append 1.0")


@dataclass(frozen=True)
class Atlas:
    """The search for modes before anything else, by uphill searches from clouds of many widths.

    It is made where the density has a gradient and the budget sets the sizes; not for particles, whose optima are
    alike, nor where a ladder is given.

    Args:
        share: of the budget that it may spend at the most; 0 leaves it out.
        path: reference draws from the modes that were found, whatever speaks against it. temperature goes the way of
            hot chains, or of the reference that was given. automatic takes the modes where searches have closed in on
            them and a referee finds that they cover the density.
    """

    share: float = 0.25
    path: Literal["automatic", "reference", "temperature"] = "automatic"

    def __post_init__(self) -> None:
        require_number("atlas.share", self.share, lambda share: 0 <= share <= 0.9, "between 0 and 0.9")
        require_choice("atlas.path", self.path, ("automatic", "reference", "temperature"))


@dataclass(frozen=True)
class Pilot:
    """Heating until chains mix: how the hottest temperature is found when none is given.

    Once chains mix, scouts are heated further and cooled again, to see whether they come back to where the chains are.
    They take the place of two rounds, where so many are left. None are sent with a ceiling, nor without a gradient.

    Args:
        num_chains: chains of the pilot.
        num_steps: kernel steps at every temperature tried; half adapt, half are judged.
        growth: factor from one temperature tried to the next.
        max_rounds: temperatures tried at most.
        max_rhat: chains count as mixed when the largest R-hat over coordinates is below this.
        ceiling: the hottest temperature to try; what rounds are left are spent there as one long round. None has none.
            For a liquid, which hotter is only larger: a gas in its trap takes longer to mix than the liquid. With a
            ceiling the pilot also runs below a given ladder, for starting points and units.
    """

    num_chains: int = 32
    num_steps: int = 60
    growth: float = 4.0
    max_rounds: int = 8
    max_rhat: float = 1.4
    ceiling: float | None = None

    def __post_init__(self) -> None:
        require_count("pilot.num_chains", self.num_chains, 4)
        require_count("pilot.num_steps", self.num_steps, 16)  # fewer leave R-hat less than two draws of a half chain
        require_number("pilot.growth", self.growth, lambda growth: growth > 1, "a finite number above 1")
        require_count("pilot.max_rounds", self.max_rounds)
        require_number("pilot.max_rhat", self.max_rhat, lambda rhat: rhat > 1, "a finite number above 1")
        if self.ceiling is not None:
            require_number("pilot.ceiling", self.ceiling, lambda ceiling: ceiling > 1, "a finite number above 1")


@dataclass(frozen=True)
class Exploration:
    """How chains move: the kernel at one temperature and the swaps between temperatures.

    Args:
        kernel: mala, hmc, random_walk (which needs no gradient), or automatic: hmc, with leapfrog steps in number about
            2 dim^(1/4) - 1, and mala where that is one; random_walk for a target without gradient.
        num_leapfrog: leapfrog steps of one HMC step, each an evaluation; used by hmc alone.
        swap_interval: kernel steps between swap rounds.
        swap_scheme: even_odd (non-reversible alternation) or sweep (all pairs in turn, hot to cold, as in the paper).
        mass: the masses that chains move with, so that light or stiff coordinates do not set the step for all.
            unit: the same for all. target: those that the target brings, such as a molecule's. adapted: measured in the
            pilot, which then also runs below a given ladder: the spread of every coordinate, or of particles the mean
            squared force on each. automatic: the target's if it brings any, else the pilot's spreads where one runs
            (one for all particles), else unit.
        masses: by hand, one for each particle or coordinate; `mass` is ignored then. Only their ratios matter.
    """

    kernel: Literal["automatic", "mala", "hmc", "random_walk"] = "automatic"
    num_leapfrog: int = 8
    swap_interval: int = 5
    swap_scheme: Literal["even_odd", "sweep"] = "even_odd"
    mass: Literal["automatic", "unit", "target", "adapted"] = "automatic"
    masses: tuple[float, ...] | None = None

    def __post_init__(self) -> None:
        require_choice("exploration.kernel", self.kernel, ("automatic", "mala", "hmc", "random_walk"))
        require_count("exploration.num_leapfrog", self.num_leapfrog)
        require_count("exploration.swap_interval", self.swap_interval)
        require_choice("exploration.swap_scheme", self.swap_scheme, ("even_odd", "sweep"))
        require_choice("exploration.mass", self.mass, ("automatic", "unit", "target", "adapted"))
        if self.masses is not None:
            is_list = isinstance(self.masses, Iterable) and not isinstance(self.masses, str)
            require(is_list, "exploration.masses", self.masses, "a list of numbers, or None")
            for mass in self.masses:
                require_positive("exploration.masses", mass)


@dataclass(frozen=True)
class Initial:
    """The initial parallel tempering.

    Args:
        num_chains: independent ladders of chains side by side.
        num_steps: kernel steps of every chain, burn-in included.
        burn_in: steps that adapt and are thrown away.
        thin: steps between kept states.
        scale: standard deviation of the starting points around the origin, where the target brings no start of its own.
    """

    num_chains: int = 100
    num_steps: int = 400
    burn_in: int = 100
    thin: int = 10
    scale: float = 1.0

    def __post_init__(self) -> None:
        require_count("initial.num_chains", self.num_chains)
        require_count("initial.num_steps", self.num_steps)
        require_count("initial.burn_in", self.burn_in, 0)
        require_count("initial.thin", self.thin)
        require_positive("initial.scale", self.scale)
        enough = self.num_steps - self.burn_in >= self.thin
        require(enough, "initial.num_steps", self.num_steps, "at least burn_in + thin, so that a state is kept")

    @property
    def num_draws(self) -> int:
        """States kept of every chain."""
        return (self.num_steps - self.burn_in) // self.thin


@dataclass(frozen=True)
class Refinement:
    """A short parallel tempering over pairs of samples of the new and the previous level.

    Args:
        num_steps: kernel steps; 0 switches refinement off.
        num_chains: None refines every sample and keeps the last states, or `num_states`; a number refines that many and
            joins their thinned states to the buffer, where the other samples keep their weights.
        num_states: of every chain of the colder level that are kept where every sample is refined: the last one, and
            others evenly before it. More samples at no evaluation, not quite independent. In `last_refinement` only.
        thin: steps between joined states, with num_chains.
        adapt_fraction: share of the steps, at the start, during which step sizes still adapt.
    """

    num_steps: int = 0
    num_chains: int | None = None
    num_states: int = 1
    thin: int = 10
    adapt_fraction: float = 0.5

    def __post_init__(self) -> None:
        require_count("refinement.num_steps", self.num_steps, 0)
        require_count("refinement.num_states", self.num_states)
        require_count("refinement.thin", self.thin)
        require_number("refinement.adapt_fraction", self.adapt_fraction, lambda share: 0 <= share < 1, "in [0, 1)")
        if self.num_chains is not None:
            require_count("refinement.num_chains", self.num_chains)
            enough = self.num_steps == 0 or self.num_kept >= 1
            require(enough, "refinement.thin", self.thin, "small enough that a frozen state is kept")
            require(self.num_states == 1, "refinement.num_states", self.num_states, "1 with num_chains; use thin there")
        else:
            frozen = max(1, self.num_steps - self.num_adapting)
            allowed = f"at most the {frozen} steps after adaptation (num_steps, adapt_fraction)"
            require(self.num_states <= frozen, "refinement.num_states", self.num_states, allowed)

    @property
    def num_adapting(self) -> int:
        """Steps at the start whose states are never kept, because step sizes still move."""
        return int(self.num_steps * self.adapt_fraction)

    @property
    def num_kept(self) -> int:
        """States of every refined chain that are kept."""
        return self.num_states if self.num_chains is None else (self.num_steps - self.num_adapting) // self.thin

    @property
    def interval(self) -> int:
        """Steps between states that are kept."""
        return (self.num_steps - self.num_adapting) // self.num_states if self.num_chains is None else self.thin

    @property
    def num_made(self) -> int:
        """Steps that are made: no more than the last state needs that is kept."""
        if self.num_steps == 0:
            return 0
        return self.num_steps if self.num_chains is None else self.num_adapting + self.num_kept * self.interval
