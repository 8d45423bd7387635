"""Random keys as plain numbers and back: collectives and copies between devices take numbers."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp

from tempering.types import Array

__all__ = ["bare", "keyed"]


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
