"""Standard normal points that cover space evenly: scrambled Sobol numbers through the normal quantile."""

import contextlib
import importlib
import threading
from functools import cache

import jax
import numpy as np

from tempering.compilation import quick
from tempering.types import Array, Float, Key

__all__ = ["begin_loading", "quasi_normal"]


@cache
def begin_loading() -> None:
    """Load what `quasi_normal` needs while Python waits for the device: it takes a second."""
    threading.Thread(target=_load, daemon=True).start()


def _load() -> None:
    with contextlib.suppress(Exception):  # `quasi_normal` raises it again, where somebody sees it
        importlib.import_module("scipy.stats")


def quasi_normal(key: Key, num: int, dim: int) -> Float[Array, "num dim"]:
    """`num` points, each N(0, I), together more even than independent ones: means over them keep their expectation.

    The first `num` of a scrambled Sobol sequence (Owen scrambling), made on the host by SciPy, in random order: every
    second point of the sequence lies in one half of space, and so would all that are held out of a buffer in its order.
    The flow carries them to samples, so the shares of modes among the samples have a smaller variance.
    """
    from scipy import stats

    rng = np.random.default_rng(np.asarray(_seed(key)))
    sobol = stats.qmc.Sobol(dim, scramble=True, rng=rng)
    # A power of two is drawn at once, without SciPy's warning; the first `num` are as even as any.
    uniform = sobol.random_base2(max(1, (num - 1).bit_length()))[:num]
    normal = rng.permutation(stats.norm.ppf(np.clip(uniform, 1e-9, 1.0 - 1e-9)))
    return jax.device_put(normal.astype(np.float32))


@quick
def _seed(key: Key) -> Array:
    """Random bits for NumPy's generator."""
    return jax.random.bits(key, (4,), np.uint32)
