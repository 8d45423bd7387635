"""Where the chains of a reference start: normal points, or conformations on opposite sides of what separates modes.

Consumes a target of particles; produces inner coordinates and, for opposite starts, which of them a chain comes from.
"""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np

from tempering.lab.metrics.populations import RARE_MODE
from tempering.molecules import MoleculeTarget, backbone, dihedrals, reflect
from tempering.molecules.coordinates.turning import opposite_starts
from tempering.parallel_tempering.initial import normal_start
from tempering.parallel_tempering.pilot.relax import climb
from tempering.runs.ledger import Ledger
from tempering.targets import Inner, Scaled, Units
from tempering.types import Array, Bool, Float, Int, Key

__all__ = ["landmark_of", "one_handed", "starting_points"]

_NOISE = 0.1
"""Of the scale, around starts that a target brings: chains of a group are not copies."""


def one_handed(target: Inner) -> Inner:
    """A molecule with chiral centres kept to its L-form, which serves the density of both hands as well."""
    molecule = target.target
    if not isinstance(molecule, MoleculeTarget) or molecule.walls or not len(molecule.chiral_centres):
        return target
    walls = tuple(tuple(int(atom) for atom in centre) for centre in molecule.chiral_centres)
    kept = MoleculeTarget(molecule.record, molecule.temperature, name=molecule.name, walls=walls)
    return Inner(target.dim, kept, target.chart)


def starting_points(
    key: Key, target: Inner, shape: tuple[int, int], scale: float, ledger: Ledger
) -> tuple[Float[Array, "level chain dim"], Int[np.ndarray, " chain"] | None]:
    """Points out of walls: uphill from where they are put, in units of `scale`, for a hundred evaluations each.

    Args:
        shape: levels and chains.

    Returns:
        The points, and from which of the opposite starts a chain comes, in turn; None where there are none.
    """
    num_levels, num_chains = shape
    noise = normal_start(target.dim, 1.0)(key, num_levels * num_chains)
    units, starts = Units(jnp.full((target.dim,), scale)), _opposite_starts(target)
    group = None
    if starts is not None:
        group = np.arange(num_chains) % len(starts)
        rows = jnp.asarray(np.tile(group, num_levels))
        noise = units.inward(jax.vmap(target.chart.restrict)(starts))[rows] + _NOISE * noise
    positions = units.outward(climb(Scaled(target, units), noise, ledger, "pilot"))
    return positions.reshape((num_levels, num_chains, target.dim)), group


def _opposite_starts(target: Inner) -> Float[Array, "start dim"] | None:
    """In full coordinates: what the target brings; of a molecule both sides of phi, L-forms where it has any."""
    outer = target.target
    if not isinstance(outer, MoleculeTarget):
        starts = getattr(outer, "opposite_starts", None)  # only reference samples ask for it, and few targets have any
        return None if starts is None else jnp.asarray(starts)
    starts = opposite_starts(outer)
    if starts is None:
        return None
    centres = outer.chiral_centres
    return reflect(jnp.asarray(starts), centres)[0] if len(centres) else jnp.asarray(starts)


def landmark_of(target: Inner) -> tuple[str, Callable[[Float[Array, " dim"]], Bool[Array, ""]]] | None:
    """A mode and whether a point, in inner coordinates, is in it: 0 < phi < 120 degrees of a molecule's first residue.

    None where the target has no such mode.
    """
    outer = target.target
    own = getattr(outer, "landmark", None)  # only reference samples ask for it, and few targets have any
    if own is not None:
        return "the landmark", lambda y: own(target.chart.embed(y))
    if not isinstance(outer, MoleculeTarget) or not backbone(outer):
        return None
    low, high = np.radians(RARE_MODE)
    atoms = np.asarray([backbone(outer)[0].phi])

    def is_rare(y: Float[Array, " dim"]) -> Bool[Array, ""]:
        phi = dihedrals(target.chart.embed(y), atoms)[0]
        return (phi > low) & (phi < high)

    return f"{RARE_MODE[0]:g} < phi < {RARE_MODE[1]:g} degrees", is_rare
