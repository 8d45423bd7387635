"""Energies of pairs of atoms: Coulomb and Lennard-Jones, generalised Born, and users' own expressions.

Every function takes a term of the record, positions (3, atom, *batch) and the distances of all pairs i < j, which all
terms share, and gives the energy (*batch), kJ/mol.
"""

from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from tempering.molecules.system.bonded import Energy, Positions, scope_of
from tempering.molecules.system.expressions import evaluate
from tempering.molecules.system.layout import Pairs, column, take
from tempering.molecules.system.record import Term
from tempering.types import Array

__all__ = ["COULOMB", "PAIRWISE"]

COULOMB = 138.93545764438198
"""1 / (4 pi eps0) in kJ nm / (mol e^2), to the digits that OpenMM has."""


def _nonbonded(term: Term, positions: Positions, pairs: Pairs) -> Energy:
    """Sum over pairs of 4 eps ((sigma/r)^12 - (sigma/r)^6) + q1 q2 / (4 pi eps0 r), exceptions in their own numbers."""
    del positions
    first, second, arrays = pairs.first, pairs.second, term.arrays
    charges = arrays["charge"][first] * arrays["charge"][second]
    sigmas = 0.5 * (arrays["sigma"][first] + arrays["sigma"][second])
    epsilons = np.sqrt(arrays["epsilon"][first] * arrays["epsilon"][second])
    places = _pair_places(arrays["exceptions"], pairs.num_atoms)
    charges[places] = arrays["exception_charge"]
    sigmas[places] = arrays["exception_sigma"]
    epsilons[places] = arrays["exception_epsilon"]
    is_lively = (charges != 0) | (epsilons != 0)
    r = take(pairs.distances, np.flatnonzero(is_lively))
    charges, sigmas, epsilons = charges[is_lively], sigmas[is_lively], epsilons[is_lively]
    inverse = 1.0 / r
    ratio = column(sigmas, r) * inverse
    square = ratio * ratio
    sixth = square * square * square
    lennard_jones = column(4.0 * epsilons, r) * sixth * (sixth - 1.0)
    return jnp.sum(lennard_jones + column(COULOMB * charges, r) * inverse, axis=0)


def _pair_places(atoms: np.ndarray, num_atoms: int) -> np.ndarray:
    """Where pairs of atoms stand in the list of all pairs i < j."""
    low, high = np.min(atoms, axis=1, initial=num_atoms), np.max(atoms, axis=1, initial=0)
    return low * (2 * num_atoms - low - 1) // 2 + high - low - 1


def _custom_nonbonded(term: Term, positions: Positions, pairs: Pairs) -> Energy:
    """An expression of the distance r and of both atoms' numbers, `name1` and `name2`, over pairs not excluded."""
    del positions
    # Computed values depend on an atom's own numbers alone, and are numbers too.
    own: dict[str, np.ndarray] = {}
    parameters = term.arrays["parameters"]
    for name, text in term.settings.get("values", ()):
        with jax.ensure_compile_time_eval():
            some = jnp.zeros(len(parameters))
            scope = scope_of(term, parameters, some)
            own[name] = np.asarray(evaluate(term.parse(text), {"own": some}, scope, term.tables))
    return _sum_over_pairs(term, term.settings["energy"], own, {}, pairs, is_excluding=True)


def _generalised_born(term: Term, positions: Positions, pairs: Pairs) -> Energy:
    """A CustomGBForce: values computed for every atom, from pairs or from earlier values, then energies of them.

    `values` is a list of [name, expression, kind] and `energies` one of [expression, kind]; a kind is `single`,
    `pair` (without excluded pairs) or `all pairs`.
    """
    some = positions[0]
    values: dict[str, Array] = {}
    places = dict(zip("xyz", positions, strict=True))
    for name, text, kind in term.settings["values"]:
        if kind == "single":
            varying = {**values, **places}
            scope = scope_of(term, term.arrays["parameters"], some)
            values[name] = evaluate(term.parse(text), varying, scope, term.tables)
        else:
            values[name] = _summed_at_atoms(term, text, pairs, is_excluding=kind == "pair")
    energy = jnp.zeros(positions.shape[2:], positions.dtype)
    for text, kind in term.settings["energies"]:
        if kind == "single":
            scope = scope_of(term, term.arrays["parameters"], some)
            energy = energy + jnp.sum(evaluate(term.parse(text), {**values, **places}, scope, term.tables), axis=0)
        else:
            energy = energy + _sum_over_pairs(term, text, {}, values, pairs, is_excluding=kind == "pair")
    return energy


def _scope_of_pairs(term: Term, first: np.ndarray, second: np.ndarray, like: Array) -> dict[str, Any]:
    parameters = term.arrays["parameters"]
    return {**scope_of(term, parameters[first], like, "1"), **scope_of(term, parameters[second], like, "2")}


def _masked(term: Term, values: Array, pairs: Pairs, *, is_excluding: bool) -> Array:
    """The values of pairs, 0 for excluded ones."""
    exclusions = term.arrays["exclusions"]
    if not is_excluding or not len(exclusions):
        return values
    is_kept = np.ones(len(pairs.first), bool)
    is_kept[_pair_places(exclusions, pairs.num_atoms)] = False
    return jnp.where(jnp.asarray(is_kept.reshape((-1,) + (1,) * (values.ndim - 1))), values, 0.0)


def _summed_at_atoms(term: Term, text: str, pairs: Pairs, *, is_excluding: bool) -> Array:
    """For every atom the sum over all others; `name1` is the atom itself, so that each pair counts both ways."""
    total = None
    for own, other in ((pairs.first, pairs.second), (pairs.second, pairs.first)):
        scope = _scope_of_pairs(term, own, other, pairs.distances)
        values = evaluate(term.parse(text), {"r": pairs.distances}, scope, term.tables)
        values = _masked(term, values, pairs, is_excluding=is_excluding)
        zeros = jnp.zeros((pairs.num_atoms, *values.shape[1:]), values.dtype)
        part = zeros.at[own].add(values, mode="promise_in_bounds")
        total = part if total is None else total + part
    return total


def _sum_over_pairs(
    term: Term,
    text: str,
    own: Mapping[str, np.ndarray],
    values: Mapping[str, Array],
    pairs: Pairs,
    *,
    is_excluding: bool,
) -> Array:
    expression, r = term.parse(text), pairs.distances
    scope, varying = _scope_of_pairs(term, pairs.first, pairs.second, r), {"r": r}
    for suffix, atoms in (("1", pairs.first), ("2", pairs.second)):
        scope |= {f"{name}{suffix}": column(numbers[atoms], r) for name, numbers in own.items()}
        wanted = {name: rows for name, rows in values.items() if f"{name}{suffix}" in expression.variables}
        varying |= {f"{name}{suffix}": take(rows, atoms) for name, rows in wanted.items()}
    energies = evaluate(expression, varying, scope, term.tables)
    return jnp.sum(_masked(term, energies, pairs, is_excluding=is_excluding), axis=0)


PAIRWISE: dict[str, Callable[[Term, Positions, Pairs], Energy]] = {
    "nonbonded": _nonbonded,
    "custom_nonbonded": _custom_nonbonded,
    "generalised_born": _generalised_born,
}
"""Terms of all pairs, whose distances they share."""
