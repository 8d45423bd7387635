"""A PyMC model as a target: its free variables, unconstrained and flat, compiled to JAX by PyTensor.

Consumes a model; produces the log joint density in PyMC's own unconstrained coordinates, with a chart to the
constrained values, a structure that names them, and the prior as a normalised reference. Only draws of the prior are
made by PyTensor on the host.
"""

import os
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from tempering.adapters.named import CLOSE, ModelChart, NamedStructure
from tempering.adapters.structure import structure_of
from tempering.compilation import plain_jax
from tempering.errors import DensityError, SettingsError, first_line, require_extra, what_is
from tempering.targets.base import Target
from tempering.types import Array, Float, Key

__all__ = ["PyMCTarget", "from_pymc"]

_NUM_TRIED = 32
"""Draws of the prior that must come back from the unconstrained space, before it is taken as a reference."""


class _Model:
    """A model with the functions that PyTensor makes of it, compared by identity."""

    kind, parts = "pymc", "variables"

    def __init__(self, model: Any):
        free = sorted(model.free_RVs, key=lambda rv: rv.name)  # the order of JAX's dicts
        _refuse(model, free)
        values = [model.rvs_to_values[rv] for rv in free]
        self.model, self.free = model, free
        self.has_data = bool(model.observed_RVs or model.potentials)
        transforms = [model.rvs_to_transforms[rv] for rv in free]
        start = model.initial_point()
        self.inner = structure_of({rv.name: _blank(start[value.name]) for rv, value in zip(free, values, strict=True)})
        self.dim = self.inner.size
        self.log_joint = _in_jax(values, [model.logp()])
        self.log_prior = _in_jax(values, [model.logp(vars=free)])
        self.constrained = _in_jax(values, model.replace_rvs_by_values(free))
        volumes = [
            transform.log_jac_det(value, *rv.owner.inputs).sum()
            for rv, value, transform in zip(free, values, transforms, strict=True)
            if transform is not None
        ]
        self.volumes = _in_jax(values, model.replace_rvs_by_values(volumes))
        shapes = jax.eval_shape(self._constrained, jnp.zeros(self.inner.size))
        self.outer = structure_of({rv.name: _blank(shape) for rv, shape in zip(free, shapes, strict=True)})
        self.unconstrained = _backwards(free, transforms)
        derived = {each.name: each for each in model.deterministics}
        self.derived = tuple(derived)
        self.computed = _in_jax(values, model.replace_rvs_by_values(list(derived.values())))
        shapes = dict(zip(self.outer.names, self.outer.shapes, strict=True))
        if derived:
            found = jax.eval_shape(lambda y: self.at(self.computed, y), jnp.zeros(self.inner.size))
            shapes |= {name: value.shape for name, value in zip(derived, found, strict=True)}
        named = model.named_vars_to_dims
        self.dims = {name: _axes(name, shape, named.get(name)) for name, shape in shapes.items()}
        self.has_prior = _has_prior(self)

    def at(self, function: Callable[..., Any], y: Float[Array, " dim"]) -> list[Array]:
        """What a function of the value variables gives at one unconstrained point."""
        parts = self.inner.unflatten(y)
        with _as_pytensor_expects():
            return [jnp.asarray(out, jnp.float32) for out in function(*(parts[name] for name in self.inner.names))]

    def _constrained(self, y: Float[Array, " dim"]) -> list[Array]:
        return self.at(self.constrained, y)

    def embed(self, y: Float[Array, " dim"]) -> Float[Array, " full_dim"]:
        """The constrained values of an unconstrained point."""
        return _flat(self._constrained(y))

    def log_volume(self, y: Float[Array, " dim"]) -> Float[Array, ""]:
        """log |det dx/dy|."""
        return sum(self.at(self.volumes, y), start=jnp.zeros(()))

    def restrict(self, x: Float[Array, " full_dim"]) -> Float[Array, " dim"]:
        """The unconstrained point of constrained values."""
        parts = self.outer.unflatten(x)
        with _as_pytensor_expects():
            return _flat(self.unconstrained(*(parts[name] for name in self.outer.names)))

    def derived_of(self, rows: np.ndarray) -> dict[str, np.ndarray]:
        """The deterministic variables at many points of constrained values."""
        values = _derived(self, jnp.asarray(rows, jnp.float32))
        return {name: np.asarray(value) for name, value in zip(self.derived, values, strict=True)}

    def prior_draws(self, seed: int, num: int) -> tuple[np.ndarray, np.ndarray]:
        """Draws of the prior on the host: unconstrained, and constrained."""
        import pymc  # pyright: ignore[reportMissingImports]

        transforms = [self.model.rvs_to_transforms[rv] for rv in self.free]
        inner = [
            rv if transform is None else transform.forward(rv, *rv.owner.inputs)
            for rv, transform in zip(self.free, transforms, strict=True)
        ]
        # Compiling for so few draws takes longer than drawing them.
        drawn = pymc.draw([*inner, *self.free], draws=num, random_seed=seed, mode="FAST_COMPILE")  # pyright: ignore[reportAttributeAccessIssue]
        rows = [np.asarray(each, np.float32).reshape((num, -1)) for each in drawn]
        return np.concatenate(rows[: len(inner)], axis=1), np.concatenate(rows[len(inner) :], axis=1)


class PriorReference(eqx.Module):
    """The prior in unconstrained coordinates: normalised, and drawn from by PyMC on the host."""

    model: _Model = eqx.field(static=True)

    def log_density(self, x: Float[Array, " dim"]) -> Float[Array, ""]:
        """Normalised log prior of one unconstrained point, Jacobians included."""
        return self.model.at(self.model.log_prior, x)[0]

    def sample(self, key: Key, num: int) -> Float[Array, "num dim"]:
        """Independent draws of the prior, unconstrained."""
        seed = jax.random.bits(key, dtype=jnp.uint32)
        shape = jax.ShapeDtypeStruct((num, self.model.inner.size), jnp.float32)
        return jax.pure_callback(lambda seed: self.model.prior_draws(int(seed), num)[0], shape, seed)


class PyMCTarget(Target):
    """The posterior of a model's free variables, unconstrained and flat.

    `chart` leads to the constrained values and `structure` names them. `reference` is the prior, or None where it is
    not normalised (a flat one) or cannot be drawn from in these coordinates.
    """

    dim: int = eqx.field(static=True)
    model: _Model = eqx.field(static=True)

    def log_density(self, x: Float[Array, " dim"]) -> Float[Array, ""]:
        """Log joint density of variables and data, Jacobians included."""
        return self.model.at(self.model.log_joint, x)[0]

    @property
    def chart(self) -> ModelChart:
        """To the constrained values."""
        return ModelChart(self.model)

    @property
    def structure(self) -> NamedStructure:
        """The names."""
        return NamedStructure(self.model)

    @property
    def reference(self) -> PriorReference | None:
        """The prior."""
        return PriorReference(self.model) if self.model.has_prior else None


@plain_jax()
def from_pymc(model: Any) -> PyMCTarget:
    """Make the posterior of a PyMC model a target for `tp.fit`. Draws are dicts of named parameters.

    Args:
        model: a `pymc.Model`, as `with pymc.Model() as model:` makes it.

    Warns:
        UserWarning: if nothing is observed. The density is then the prior.

    Raises:
        SettingsError: if PyMC is not installed, if `model` is no PyMC model, or if it has no free variable or a
            discrete one.
        DensityError: if PyTensor cannot compile the model to JAX.

    Examples:
        >>> target = tp.from_pymc(model)  # doctest: +SKIP
        >>> tp.fit(target).sample(1000)["slope"]  # doctest: +SKIP
    """
    require_extra("pymc", "PyMC models")
    import pymc  # pyright: ignore[reportMissingImports]

    if not isinstance(model, pymc.Model):  # pyright: ignore[reportAttributeAccessIssue]
        raise SettingsError(f"model is {what_is(model)}; give a pymc.Model (`with pymc.Model() as model:`)")
    try:
        held = _Model(model)
    except SettingsError:
        raise
    except Exception as error:
        raise DensityError(
            f"PyTensor does not compile the model to JAX: {type(error).__name__}: {first_line(error)}; replace the "
            "part that it names, or write the model in NumPyro"
        ) from error
    if not held.has_data:
        warnings.warn(
            "the model has no observed variable, so that its density is the prior; hand over the data by observed= if "
            "you want a posterior",
            stacklevel=2,
        )
    return PyMCTarget(held.inner.size, held)


def _refuse(model: Any, free: Sequence[Any]) -> None:
    if not free:
        raise SettingsError("the model has no free variable: every one is observed, so that nothing is unknown")
    discrete = [rv.name for rv in free if rv in model.discrete_value_vars or "int" in rv.dtype or rv.dtype == "bool"]
    if discrete:
        raise SettingsError(
            f"the model's variables {', '.join(map(repr, discrete))} are discrete; sum them out (pymc.Mixture, for "
            "example) or observe them: the sampler works on real numbers"
        )


@contextmanager
def _as_pytensor_expects() -> Iterator[None]:
    """PyTensor's functions mix dtypes and ranks and ask for float64, which JAX answers with float32 and a warning."""
    with (
        warnings.catch_warnings(),
        jax.numpy_dtype_promotion("standard"),
        jax.numpy_rank_promotion("allow"),
    ):
        warnings.simplefilter("ignore")
        yield


def _in_jax(inputs: Sequence[Any], outputs: Sequence[Any]) -> Callable[..., Any]:
    """A graph of PyTensor as a function on JAX arrays."""
    flags, is_double = os.environ.get("XLA_FLAGS"), jax.config.read("jax_enable_x64")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from pymc.sampling.jax import get_jaxified_graph  # pyright: ignore[reportMissingImports]
    # The first import asks XLA for a hundred CPU devices, and JAX for double precision in everything that follows.
    if flags is None:
        os.environ.pop("XLA_FLAGS", None)
    else:
        os.environ["XLA_FLAGS"] = flags
    jax.config.update("jax_enable_x64", is_double)
    if not outputs:
        return lambda *_: []
    return get_jaxified_graph(inputs=list(inputs), outputs=list(outputs))


def _backwards(free: Sequence[Any], transforms: Sequence[Any]) -> Callable[..., Any]:
    """From constrained to unconstrained values; a transform may depend on other variables."""
    from pytensor.graph.replace import clone_replace  # pyright: ignore[reportMissingImports]

    places = [rv.type(name=f"{rv.name} given") for rv in free]
    forward = [
        place if transform is None else transform.forward(place, *rv.owner.inputs)
        for rv, place, transform in zip(free, places, transforms, strict=True)
    ]
    return _in_jax(places, clone_replace(forward, replace=dict(zip(free, places, strict=True))))


@eqx.filter_jit
def _derived(model: _Model, rows: Float[Array, "particle full_dim"]) -> list[Array]:
    return jax.vmap(lambda x: model.at(model.computed, model.restrict(x)))(rows)


def _has_prior(model: _Model) -> bool:
    """Whether draws of the prior can be made, and come back from the unconstrained space.

    A flat prior has no draws. One whose transform holds only on a part of its support, such as an order imposed on
    independent variables, is not normalised on that part, and its draws do not come back.
    """
    try:
        inner, outer = model.prior_draws(0, _NUM_TRIED)
    except Exception:  # whatever a distribution without draws raises
        return False
    back = np.asarray(jax.vmap(model.embed)(jnp.asarray(inner)))
    gap = np.abs(back - outer) <= CLOSE * np.maximum(np.abs(outer), 1e-2 * np.max(np.abs(outer)))
    return bool(np.all(np.isfinite(inner)) and np.all(gap))


def _axes(name: str, shape: Sequence[int], dims: Sequence[str | None] | None) -> list[str]:
    """Names of the axes of a variable: PyMC's where it has any, ArviZ's own elsewhere."""
    given = dims or (None,) * len(shape)
    return [dim or f"{name}_dim_{axis}" for axis, dim in enumerate(given)]


def _blank(value: Any) -> np.ndarray:
    return np.zeros(np.shape(value), np.float32)


def _flat(values: Sequence[Any]) -> Float[Array, " size"]:
    return jnp.concatenate([jnp.reshape(jnp.asarray(value, jnp.float32), (-1,)) for value in values])
