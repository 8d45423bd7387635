"""Energy and gradient of a molecule for JAX's transformations: unbatched outside, batched in the fast layout inside.

Consumes a record and flat coordinates; produces the energy, differentiable. Under `vmap` the whole batch is evaluated
with the batch last (`layout`), in chunks that stay in a CPU's cache or an accelerator's memory. Every conformation is
evaluated exactly once.
"""

from collections.abc import Callable
from functools import partial

import jax
import jax.numpy as jnp
from jax.custom_batching import custom_vmap

from tempering.molecules.system.bonded import BONDED
from tempering.molecules.system.layout import Pairs
from tempering.molecules.system.pairwise import PAIRWISE
from tempering.molecules.system.record import MoleculeRecord
from tempering.types import Array, Float

__all__ = ["energy_and_gradient", "potential", "potential_energy"]

_PAIRS_ON_CPU = 60_000
"""Pairs of atoms, over all conformations of a chunk: 256 conformations of 22 atoms. With a fourth more, intermediate
results leave the cache."""
_PAIRS_ELSEWHERE = 30_000_000
"""On an accelerator: 120 MB for each of the some fifty arrays that live at once."""


def potential(record: MoleculeRecord, positions: Float[Array, "3 atom *batch"]) -> Float[Array, "*batch"]:
    """The sum of all terms, kJ/mol, of conformations in nm; not finite where atoms are too close for the precision."""
    energy = jnp.zeros(positions.shape[2:], positions.dtype)
    pairs = Pairs(positions) if any(term.kind in PAIRWISE for term in record.terms) else None
    for term in record.terms:
        if pairs is not None and term.kind in PAIRWISE:
            energy = energy + PAIRWISE[term.kind](term, positions, pairs)
        else:
            energy = energy + BONDED[term.kind](term, positions)
    return energy


@partial(jax.custom_jvp, nondiff_argnums=(0,))
def potential_energy(record: MoleculeRecord, x: Float[Array, " dim"]) -> Float[Array, ""]:
    """The potential energy, kJ/mol, of one conformation x, nm, flat, atom after atom.

    +inf where atoms are so close that energy or force is no finite number; the gradient is 0 there, never NaN. NaN
    where x itself is not finite. Second and higher derivatives are plain JAX, without the fast layout.
    """
    energy = _batched(record, is_with_gradient=False)(x)[0]
    return _judged(x, energy, jnp.isfinite(energy))


@potential_energy.defjvp
def _rule(record: MoleculeRecord, primals: tuple[Array], tangents: tuple[Array]) -> tuple[Array, Array]:
    ((x,), (direction,)) = primals, tangents
    energy, gradient = energy_and_gradient(record, x)
    return energy, jnp.sum(gradient * direction)


@partial(jax.custom_jvp, nondiff_argnums=(0,))
def energy_and_gradient(
    record: MoleculeRecord, x: Float[Array, " dim"]
) -> tuple[Float[Array, ""], Float[Array, " dim"]]:
    """`potential_energy` and its gradient, at the price of one evaluation."""
    return _both_judged(x, *_batched(record, is_with_gradient=True)(x))


@energy_and_gradient.defjvp
def _second_rule(record: MoleculeRecord, primals: tuple[Array], tangents: tuple[Array]):
    """Differentiates the plain computation: batching rules of one's own cannot be differentiated under `vmap`."""
    plain = lambda x: _both_judged(x, *_flat(record, x, is_with_gradient=True))  # noqa: E731
    return energy_and_gradient(record, *primals), jax.jvp(plain, primals, tangents)[1]


def _both_judged(x: Array, energy: Array, gradient: Array) -> tuple[Array, Array]:
    is_regular = jnp.isfinite(energy) & jnp.all(jnp.isfinite(gradient))
    return _judged(x, energy, is_regular), jnp.where(is_regular, gradient, 0.0)


def _judged(x: Array, energy: Array, is_regular: Array) -> Array:
    irregular = jnp.where(jnp.all(jnp.isfinite(x)), jnp.inf, jnp.nan).astype(energy.dtype)
    return jnp.where(is_regular, energy, irregular)


def _flat(record: MoleculeRecord, points: Array, *, is_with_gradient: bool) -> tuple[Array, ...]:
    """Energies, and gradients if asked for, of points (*batch, dim), by the layout with the batch last."""
    positions = jnp.transpose(points.reshape((*points.shape[:-1], record.num_atoms, 3)))  # xyz, atom, batch
    if not is_with_gradient:
        return (potential(record, positions),)
    energies, pull_back = jax.vjp(lambda given: potential(record, given), positions)
    (gradients,) = pull_back(jnp.ones_like(energies))
    return energies, jnp.transpose(gradients).reshape(points.shape)


def _batched(record: MoleculeRecord, *, is_with_gradient: bool) -> Callable[[Array], tuple[Array, ...]]:
    """`_flat` as a function of one x, whose batching rule is `_flat` of the whole batch."""
    flat = partial(_flat, record, is_with_gradient=is_with_gradient)
    kinds = (True,) * (1 + is_with_gradient)

    # Two rules: one for a batch, and one for batches of batches (levels of chains), which are put into one row first.
    @custom_vmap
    def many(points: Array) -> tuple[Array, ...]:
        return _in_chunks(flat, points, _chunk_size(record))

    @many.def_vmap
    def rule_for_many(size: int, is_batched: list[bool], points: Array) -> tuple[tuple[Array, ...], tuple[bool, ...]]:
        del is_batched
        out = many(points.reshape((-1, points.shape[-1])))
        return jax.tree.map(lambda part: part.reshape((size, -1, *part.shape[1:])), out), kinds

    one = custom_vmap(flat)

    @one.def_vmap
    def rule_for_one(size: int, is_batched: list[bool], points: Array) -> tuple[tuple[Array, ...], tuple[bool, ...]]:
        del size, is_batched
        return many(points), kinds

    return one


def _chunk_size(record: MoleculeRecord) -> int:
    """How many conformations at a time."""
    num_pairs = max(record.num_atoms * (record.num_atoms - 1) // 2, 1)
    most = _PAIRS_ON_CPU if jax.default_backend() == "cpu" else _PAIRS_ELSEWHERE
    return max(most // num_pairs // 8 * 8, 8)


def _in_chunks(flat: Callable[[Array], tuple[Array, ...]], points: Array, chunk: int) -> tuple[Array, ...]:
    size = points.shape[0]
    num_chunks, rest = divmod(size, chunk)
    if size <= chunk + chunk // 4:
        return flat(points)
    whole = points[: size - rest].reshape((num_chunks, chunk, points.shape[-1]))
    parts = jax.tree.map(lambda part: part.reshape((-1, *part.shape[2:])), jax.lax.map(flat, whole))
    if not rest:
        return parts
    return jax.tree.map(lambda a, b: jnp.concatenate([a, b]), parts, flat(points[size - rest :]))
