"""Programs whose rows need not wait for each other: where workers of the host evaluate them, they do not."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
from jax.core import Tracer

from tempering.adapters.callback import boxes_of
from tempering.devices import active_mesh
from tempering.host.paces import Paces
from tempering.targets.base import Target

__all__ = ["at_own_pace", "may_run_ahead"]


def may_run_ahead(target: Target) -> bool:
    """Whether rows of a program may go on at their own pace: one density on the host, with workers that suit."""
    if active_mesh() is not None or jax.default_backend() != "cpu":
        return False
    boxes = boxes_of(target)
    return len(boxes) == 1 and boxes[0].may_run_ahead()


def at_own_pace(
    program: Callable[..., Any],
    args: tuple[Any, ...],
    *,
    target: Target,
    num_rows: int,
    num_visits: int,
    mixed: Callable[[int], int] = lambda visit: 1,
) -> Any:
    """`program(*args)`; where that pays, rows do not wait for each other. The result has the same bits.

    Args:
        program: it evaluates `target` at one point of each row, and does so `num_visits` times. A row depends on its
            own past alone.
        mixed: of a visit: how many neighbouring rows have become dependent on each other since the visit before, such
            as the levels of a ladder by a swap; 1 where none have.
    """
    arrays = [leaf for leaf in jax.tree.leaves(args) if eqx.is_array(leaf)]
    if num_visits < 2 or any(isinstance(leaf, Tracer) for leaf in arrays) or not may_run_ahead(target):
        return program(*args)
    (box,) = boxes_of(target)
    paces = Paces(num_rows, num_visits, box.dim, mixed)
    if not paces.is_small:
        return program(*args)
    jax.block_until_ready(arrays)  # what an earlier program still asks for is not this one's
    return box.at_own_pace(paces, lambda: jax.block_until_ready(program(*args)))
