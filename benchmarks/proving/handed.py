"""What likelihoods that are written once, for `jax.numpy` and for `numpy`, share, and how they are handed over."""

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from scipy import special

__all__ = ["bins", "by_name", "lgamma", "log_expit"]


def lgamma(v: Any, xp: Any) -> Any:
    """The log of the gamma function."""
    return jax.scipy.special.gammaln(v) if xp is jnp else special.gammaln(v)


def log_expit(v: Any, xp: Any) -> Any:
    """The log of the logistic function."""
    return -xp.logaddexp(0.0, -v)


def bins(value: Any, cuts: Sequence[float], xp: Any) -> Any:
    """How many of the cuts a value is above."""
    return sum(xp.where(value > cut, 1, 0) for cut in cuts)


def by_name(names: str, prior: list, log_likelihood: Callable) -> dict[str, Any]:
    """What a density is told if it is handed over as a likelihood of a dict, with a dict of priors."""
    keys = names.split()
    return {
        "handed": lambda: lambda p: log_likelihood([p[key] for key in keys], jnp),
        "handed_as": "likelihood of a dict",
        "how": {"prior": dict(zip(keys, prior, strict=True))},
        "flat": lambda tree: np.stack([np.asarray(tree[key]) for key in keys], axis=1),
    }
