"""A prior as users write it, made into normal coordinates, and with a log likelihood into a target.

Consumes distributions for all coordinates, one by one, or by name, or a transform of the unit cube; produces the chart,
the structure of the parameters where they have names, and the posterior. Nothing is evaluated.
"""

import math
from collections.abc import Mapping
from typing import Any

import jax
import numpy as np

from tempering.adapters.function import as_target
from tempering.adapters.structure import Structure, StructuredTarget, leaves_of_prefix, structure_of
from tempering.errors import DensityError, SettingsError, what_is
from tempering.priors import Distribution, Entry, PriorChart, prior_chart
from tempering.priors.cube import CubeChart, cube_chart
from tempering.priors.numpyro import is_numpyro, numpyro_entry, numpyro_shape
from tempering.settings import require_count
from tempering.targets.posterior import Posterior
from tempering.types import TargetLike

__all__ = ["posterior_of", "read_prior"]

_EXAMPLE = "tp.Uniform(0.0, 1.0)"


def posterior_of(log_likelihood: Any, dim: int | None, like: Any, prior: Any, prior_transform: Any) -> Posterior:
    """The target of a log likelihood with a prior.

    Raises:
        SettingsError: if the prior is not one, does not fit the parameters, or the likelihood has coordinates or a
            reference of its own.
        DensityError: if the likelihood does not take what the prior describes.
    """
    what = "prior" if prior_transform is None else "prior_transform"
    if any(getattr(log_likelihood, name, None) is not None for name in ("chart", "geometry", "reference")):
        raise SettingsError(
            f"{what} is not for {what_is(log_likelihood)}, which has coordinates or a reference of its own; "
            "leave it out"
        )
    own = getattr(log_likelihood, "dim", None)
    chart, structure = read_prior(prior, prior_transform, own if dim is None else dim, like)
    if structure is None:
        return Posterior(as_target(log_likelihood, None if own is not None else chart.full_dim), chart)
    if isinstance(log_likelihood, TargetLike):
        raise SettingsError(
            f"{what} has names, and the log likelihood is {what_is(log_likelihood)} of a plain vector; give a "
            "list with one distribution for each coordinate"
        )
    if not callable(log_likelihood):
        raise DensityError(f"the log likelihood is {what_is(log_likelihood)}; it must be a function of the parameters")
    return Posterior(as_target(StructuredTarget(log_likelihood, structure)), chart)


def read_prior(
    prior: Any, prior_transform: Any, dim: int | None, like: Any
) -> tuple[PriorChart | CubeChart, Structure | None]:
    """The coordinates in which a prior is normal, and the structure of parameters that have names.

    Args:
        prior: a distribution, a list of them, or a tree of them.
        prior_transform: in its place, a function of the unit cube.
        dim: where it is known.
        like: a tree of the parameters, where they have names and more than the prior tells.
    """
    if prior is not None and prior_transform is not None:
        raise SettingsError("prior and prior_transform both say what the prior is; give one of them")
    if dim is not None:
        require_count("dim", dim)
    if prior_transform is not None:
        if like is not None:
            raise SettingsError("like is not for prior_transform, which itself returns the parameters; leave it out")
        if dim is None:
            raise SettingsError("dim is missing: with prior_transform it is the dimension of the unit cube")
        chart, tree = cube_chart(prior_transform, dim)
        return chart, None if tree is None else structure_of(tree)
    if like is None and not (isinstance(prior, Mapping) or _is_nested(prior)):
        return _flat(prior, dim), None
    _require_kind(prior)
    like = _own_tree(prior) if like is None else like
    structure = structure_of(like)
    if dim is not None and dim != structure.size:
        raise SettingsError(
            f"dim = {dim} contradicts the parameters, which have {structure.size} numbers: leave it out"
        )
    entries = []
    for name, shape, given in leaves_of_prefix(like, prior, "prior", _is_distribution, _EXAMPLE):
        if given is None:
            raise SettingsError(f"prior has no distribution for {name!r}; every parameter needs one, as {_EXAMPLE}")
        if math.prod(shape):
            entries.append(_entry(given, shape, f"the prior of {name!r}"))
    return prior_chart(entries), structure


def _flat(prior: Any, dim: int | None) -> PriorChart:
    """Of a plain vector: one for all coordinates, or a list with one for each."""
    if isinstance(prior, list | tuple):
        if dim is not None and len(prior) != dim:
            raise SettingsError(f"prior has {len(prior)} entries for {dim} coordinates; give one for each")
        if not prior:
            raise SettingsError("prior is an empty list; give one distribution for each coordinate")
        for index, each in enumerate(prior):
            _require_distribution(each, f"prior[{index}]")
        return prior_chart([_entry(each, (), f"prior[{index}]") for index, each in enumerate(prior)])
    _require_distribution(prior, "prior")
    shape = _shape(prior)
    if dim is None and len(shape) != 1:
        raise SettingsError("dim is missing: one distribution does not say for how many coordinates it is")
    return prior_chart([_entry(prior, shape if dim is None else (dim,), "prior")])


def _entry(given: Any, shape: tuple[int, ...], where: str) -> Entry:
    """A distribution as one for an array of `shape`."""
    own = _shape(given)
    fits = own == shape if isinstance(given, Distribution) and given.is_joint else _spreads(own, shape)
    if not fits:
        raise SettingsError(
            f"{where} is of {_counted(own)}, for parameters of {_counted(shape)}; give one of a single number for all "
            "of them, or of the same shape"
        )
    if not isinstance(given, Distribution):
        return numpyro_entry(given, shape, where)
    numbers = {name: np.broadcast_to(value, shape).reshape(-1) for name, value in given.parameters.items()}
    return Entry(type(given), math.prod(shape), numbers, given.is_joint)


def _spreads(own: tuple[int, ...], shape: tuple[int, ...]) -> bool:
    try:
        return np.broadcast_shapes(own, shape) == shape
    except ValueError:
        return False


def _counted(shape: tuple[int, ...]) -> str:
    return f"shape {shape}" if shape else "one number"


def _is_distribution(given: Any) -> bool:
    return isinstance(given, Distribution) or is_numpyro(given)


def _shape(given: Any) -> tuple[int, ...]:
    return given.shape if isinstance(given, Distribution) else numpyro_shape(given)


def _require_distribution(given: Any, where: str) -> None:
    if isinstance(given, type):
        raise SettingsError(f"{where} is the class {given.__name__}; give its numbers too, as in {_EXAMPLE}")
    if not _is_distribution(given):
        advice = "; a function of the unit cube is `prior_transform=`" if callable(given) else ""
        raise SettingsError(
            f"{where} is {what_is(given)}; give a distribution such as {_EXAMPLE}, one of NumPyro, a list with "
            f"one for each coordinate, or a dict of them by name{advice}"
        )


def _require_kind(prior: Any) -> None:
    if not isinstance(prior, Mapping | list | tuple):
        _require_distribution(prior, "prior")


def _is_nested(prior: Any) -> bool:
    """A list of dicts or lists is a tree, as a dict is."""
    return isinstance(prior, list | tuple) and any(isinstance(each, Mapping | list | tuple) for each in prior)


def _own_tree(prior: Any) -> Any:
    """A tree of zeros shaped like draws of the prior."""
    is_leaf = lambda node: _is_distribution(node) or node is None  # noqa: E731
    for path, leaf in jax.tree_util.tree_leaves_with_path(prior, is_leaf=is_leaf):
        _require_distribution(leaf, f"prior{jax.tree_util.keystr(path)}")
    return jax.tree.map(lambda each: np.zeros(_shape(each), np.float32), prior, is_leaf=is_leaf)
