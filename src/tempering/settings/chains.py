"""The settings of chains: ladder, search for modes, pilot, moves and swaps, initial tempering, refinement."""

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
    """The settings of the temperatures. They go from the hottest down to T = 1.

    Args:
        temperatures: a list of your own. The other settings of this group are then ignored.
        hottest: the hottest temperature. None lets the pilot find the lowest temperature at which chains mix.
        num_levels: the number of temperatures. None chooses steps that keep the spread of log weights bounded:
            T_{k+1} = T_k / r, with r at most 1 + 2.2 / sqrt(dim / 2).
        spacing: "geometric" spaces temperatures evenly in log T, from hottest to 1. "adaptive" chooses each next
            temperature from the last buffer's log densities, so that reweighting keeps an effective share of 0.3. This
            costs no evaluation.
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
    """The search for modes, the first stage of a fit. It climbs from clouds of starting points of many widths.

    It needs a density with a gradient, and a budget that sets the sizes. It is left out for particles, whose optima are
    alike, and with a ladder of your own.

    Args:
        share: the largest share of the budget that the search takes; in a fit it takes four fifths of this at most. A
            mixture that is made of what it found, draws from that and test chains are a stage of their own
            ("reference" in the ledger). They take another such share at the most, and these draws stay in use. 0 leaves
            all of it out.
        path: how the fit goes on. "reference" draws from the modes that were found, whatever the checks say.
            "temperature" goes down from hot chains, or from the reference that was given. "automatic" uses the modes if
            searches no longer find new ones and if test chains find that the modes cover the density.
    """

    share: float = 0.25
    path: Literal["automatic", "reference", "temperature"] = "automatic"

    def __post_init__(self) -> None:
        require_number("atlas.share", self.share, lambda share: 0 <= share <= 0.9, "between 0 and 0.9")
        require_choice("atlas.path", self.path, ("automatic", "reference", "temperature"))


@dataclass(frozen=True)
class Pilot:
    """The pilot heats chains until they mix. So it finds the hottest temperature if none is given.

    When chains mix, some of them (scouts) are heated further and cooled again. If they come back to where the other
    chains are, there is probably nothing else to find. Scouts take the place of two rounds, if two are left. There are
    none with a ceiling, and none without a gradient.

    Args:
        num_chains: the number of chains.
        num_steps: the number of kernel steps at every temperature. The first half adapts the step size, the second half
            is judged.
        growth: the factor from one temperature to the next.
        max_rounds: the largest number of temperatures to try.
        max_rhat: chains count as mixed if the largest R-hat over coordinates is below this.
        ceiling: the hottest temperature to try. Rounds that are left are spent there as one long round. None sets no
            limit. Use it for a liquid: above its boiling point it becomes a gas, which takes longer to mix. With a
            ceiling the pilot also runs if a ladder is given, for starting points and units.
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
    """The settings of how chains move: the kernel at one temperature, and the swaps between temperatures.

    Args:
        kernel: "mala", "hmc", "random_walk" (which needs no gradient) or "automatic". Automatic means hmc with about
            2 dim^(1/4) - 1 leapfrog steps, mala if that is one step, and random_walk for a target without gradient.
        num_leapfrog: the number of leapfrog steps per HMC step. Each costs one evaluation. Only hmc uses it.
        swap_interval: the number of kernel steps between two rounds of swaps.
        swap_scheme: "even_odd" alternates between even and odd pairs and is not reversible. "sweep" tries all pairs in
            turn, from hot to cold, as in the paper.
        mass: where the masses of coordinates come from. Masses keep light or stiff coordinates from setting the step
            size for all. "unit": all are the same. "target": the target's own, such as those of a molecule. "adapted":
            measured in the pilot, from the spread of every coordinate, or from the mean squared force on every
            particle; the pilot then also runs if a ladder is given. "automatic": the target's own if it has any, else
            the pilot's if one runs (one mass for all particles), else unit.
        masses: your own numbers, one per particle or coordinate. `mass` is then ignored. Only their ratios matter.
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
    """The settings of the initial parallel tempering.

    Args:
        num_chains: the number of independent chains per temperature.
        num_steps: the number of kernel steps of every chain, burn-in included.
        burn_in: the number of steps at the start. They adapt the step size, and their states are not kept.
        thin: the number of steps between two states that are kept.
        scale: the standard deviation of starting points around the origin. A target with its own starting points does
            not use it.
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
        """The number of states that are kept of every chain."""
        return (self.num_steps - self.burn_in) // self.thin


@dataclass(frozen=True)
class Refinement:
    """The settings of refinement: a short parallel tempering over pairs of samples of the new and the previous level.

    Args:
        num_steps: the number of kernel steps. 0 leaves refinement out.
        num_chains: None refines every sample. A number refines only that many samples, and adds their states to the
            buffer; the other samples keep their weights.
        num_states: the number of states that are kept of every chain at the colder level, if every sample is refined.
            These are the last state and others at equal distances before it. They cost no evaluation, and they are not
            quite independent. It is for `last_refinement` only.
        thin: the number of steps between two states that are added, if `num_chains` is a number.
        adapt_fraction: the share of the steps, at the start, in which step sizes still adapt.
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
        """The number of steps at the start whose states are not kept, because step sizes still change."""
        return int(self.num_steps * self.adapt_fraction)

    @property
    def num_kept(self) -> int:
        """The number of states that are kept of every refined chain."""
        return self.num_states if self.num_chains is None else (self.num_steps - self.num_adapting) // self.thin

    @property
    def interval(self) -> int:
        """The number of steps between two states that are kept."""
        return (self.num_steps - self.num_adapting) // self.num_states if self.num_chains is None else self.thin

    @property
    def num_made(self) -> int:
        """The number of steps that are made. The last state that is kept decides it."""
        if self.num_steps == 0:
            return 0
        return self.num_steps if self.num_chains is None else self.num_adapting + self.num_kept * self.interval
