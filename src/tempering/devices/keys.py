"""Random keys as plain numbers and back, and keys of keys on the host, by one program for any number of them."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from tempering.compilation import host, quick
from tempering.types import Array, Int, Key

__all__ = ["bare", "folded", "from_seed", "generator", "keyed", "split"]

_MOST_SPLIT = 8
"""Keys that `split` makes at once: the first of so many are those of fewer."""


class _Bare(eqx.Module):
    """The numbers of keys."""

    data: Array
    kind: Any = eqx.field(static=True)


def bare(tree: Any) -> Any:
    """The tree with the numbers of its keys in their place."""

    def one(leaf: Any) -> Any:
        if isinstance(leaf, jax.Array) and jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key):
            return _Bare(jax.random.key_data(leaf), jax.random.key_impl(leaf))
        return leaf

    return jax.tree.map(one, tree)


def keyed(tree: Any) -> Any:
    """The tree with its keys again."""
    is_bare = lambda leaf: isinstance(leaf, _Bare)  # noqa: E731
    whole = lambda leaf: jax.random.wrap_key_data(leaf.data, impl=leaf.kind) if is_bare(leaf) else leaf  # noqa: E731
    return jax.tree.map(whole, tree, is_leaf=is_bare)


def from_seed(seed: int) -> Key:
    """`jax.random.key` by the host, whatever JAX's default device is."""
    with jax.default_device(host()):
        return jax.random.key(seed)


def split(key: Key, num: int = 2) -> tuple[Key, ...]:
    """`jax.random.split` for the host, without a program for each number of keys."""
    return _split(key)[:num] if num <= _MOST_SPLIT else tuple(jax.random.split(key, num))


@quick
def _split(key: Key) -> tuple[Key, ...]:
    keys = jax.random.split(key, _MOST_SPLIT)
    return tuple(keys[index] for index in range(_MOST_SPLIT))


def folded(key: Key, number: int) -> Key:
    """`jax.random.fold_in` for the host."""
    return _folded(key, jax.device_put(np.asarray(number, np.int32)))


@quick
def _folded(key: Key, number: Int[Array, ""]) -> Key:
    return jax.random.fold_in(key, number)


def generator(key: Key) -> np.random.Generator:
    """A NumPy generator that follows from the key: for numbers that the host needs, without a program."""
    return np.random.default_rng(np.asarray(jax.random.key_data(key), np.uint32).reshape(-1))
