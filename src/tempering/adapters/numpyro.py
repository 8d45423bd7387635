"""A NumPyro model as a target: its latent sites, unconstrained and flat, and the way back to named parameters.

Consumes a model and its arguments; produces the log joint density of the latent sites given the data, in the
unconstrained coordinates of NumPyro's own bijections, with a chart to the constrained values, a structure that names
them, and the prior as a normalised reference. The model is only traced until it is sampled. Data are constants of the
compiled programs, so that a model may read them with NumPy.
"""

import warnings
from collections.abc import Callable, Iterable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from tempering.adapters.named import ModelChart, NamedStructure
from tempering.adapters.structure import Structure, structure_of
from tempering.compilation import plain_jax
from tempering.errors import DensityError, SettingsError, first_line, require_extra, what_is
from tempering.targets.base import Target
from tempering.types import Array, Float, Key

__all__ = ["NumPyroTarget", "PriorReference", "from_numpyro"]


class _Model:
    """A model with its arguments, compared by identity; every method is one trace of it."""

    kind, parts = "numpyro", "sites"

    def __init__(self, model: Callable, args: tuple, kwargs: dict[str, Any]):
        self.model, self.args, self.kwargs = model, args, kwargs
        try:
            inner, outer = jax.eval_shape(self._look)  # nothing is computed
        except SettingsError:
            raise
        except Exception as error:
            raise DensityError(
                f"the model raised {type(error).__name__}: {first_line(error)}; it must run with the arguments given "
                "to tp.from_numpyro, and be traceable by JAX"
            ) from error
        self.inner: Structure = structure_of(inner)
        self.outer: Structure = structure_of(outer)
        self.dim = self.inner.size

    def _look(self) -> tuple[dict[str, Array], dict[str, Array]]:
        """Note what the model consists of; returns unconstrained and constrained values."""
        import numpyro.distributions as dist
        from numpyro.infer import init_to_uniform

        trace = self.trace(substitute_fn=init_to_uniform)  # an improper prior has no draws
        sites = {name: site for name, site in trace.items() if site["type"] == "sample" and not site["is_observed"]}
        _refuse(trace, sites)
        improper = (dist.ImproperUniform, dist.MaskedDistribution)
        derived = {name: site for name, site in trace.items() if site["type"] == "deterministic"}
        self.has_data = any(site["type"] == "sample" and site["is_observed"] for site in trace.values())
        self.latent = tuple(sorted(sites))  # the order of JAX's dicts
        self.derived = tuple(derived)
        self.has_prior = all(site["scale"] is None and not isinstance(site["fn"], improper) for site in sites.values())
        self.dims = {name: _plates(site) for name, site in (sites | derived).items()}
        outer = {name: trace[name]["value"] for name in self.latent}
        return {name: _bijection(trace[name]).inv(value) for name, value in outer.items()}, outer

    def trace(self, key: Any = 0, **how: Any) -> dict[str, Any]:
        """One run of the model; `how` goes to NumPyro's substitute."""
        from numpyro import handlers

        model = handlers.seed(self.model, rng_seed=key)
        if how:
            model = handlers.substitute(model, **how)
        return handlers.trace(model).get_trace(*self.args, **self.kwargs)

    def at_inner(self, y: Float[Array, " dim"]) -> dict[str, Any]:
        """The trace with the latent sites at unconstrained values y."""
        values = self.inner.unflatten(y)

        def substitute_fn(site: dict[str, Any]) -> Array | None:
            if site["type"] != "sample" or site["name"] not in values:
                return None
            value, index = values[site["name"]], site["infer"].get("_scan_current_index")
            # Inside NumPyro's scan a site stands for one step of its series.
            return _bijection(site)(value if index is None else value[index])

        return self.trace(substitute_fn=substitute_fn)

    def at_outer(self, x: Float[Array, " full_dim"]) -> dict[str, Any]:
        """The trace with the latent sites at constrained values x."""
        return self.trace(data=self.outer.unflatten(x))

    def inner_values(self, trace: dict[str, Any]) -> Float[Array, " dim"]:
        """The unconstrained coordinates of a trace's latent values."""
        return _flat(_bijection(trace[name]).inv(trace[name]["value"]) for name in self.latent)

    def embed(self, y: Float[Array, " dim"]) -> Float[Array, " full_dim"]:
        """The constrained coordinates of an unconstrained point."""
        trace = self.at_inner(y)
        return _flat(trace[name]["value"] for name in self.latent)

    def restrict(self, x: Float[Array, " full_dim"]) -> Float[Array, " dim"]:
        """The unconstrained coordinates of constrained values."""
        return self.inner_values(self.at_outer(x))

    def log_volume(self, y: Float[Array, " dim"], trace: dict[str, Any] | None = None) -> Float[Array, ""]:
        """log |det dx/dy|; `trace` is what `at_inner` made of y, if it is at hand."""
        trace = self.at_inner(y) if trace is None else trace
        total = jnp.zeros(())
        for name, value in self.inner.unflatten(y).items():
            total += jnp.sum(_bijection(trace[name]).log_abs_det_jacobian(value, trace[name]["value"]))
        return total

    def derived_of(self, rows: np.ndarray) -> dict[str, np.ndarray]:
        """What `numpyro.deterministic` names, at many points of constrained values."""
        return {name: np.asarray(value) for name, value in _derived(self, jnp.asarray(rows)).items()}

    def log_prob(self, trace: dict[str, Any], names: Iterable[str]) -> Float[Array, ""]:
        """Sum of the log densities of sites at their values in the trace."""
        total = jnp.zeros(())
        for name in names:
            site = trace[name]
            hint = (site["intermediates"],) if site["intermediates"] else ()
            value = jnp.sum(site["fn"].log_prob(site["value"], *hint))
            total += value if site["scale"] is None else site["scale"] * value
        return total


@eqx.filter_jit
def _derived(model: _Model, rows: Float[Array, "particle full_dim"]) -> dict[str, Array]:
    def one(x: Array) -> dict[str, Array]:
        trace = model.at_outer(x)
        return {name: jnp.asarray(trace[name]["value"]) for name in model.derived}

    return jax.vmap(one)(rows)


class PriorReference(eqx.Module):
    """The prior of a model in unconstrained coordinates: normalised, and drawn from by running the model."""

    model: _Model = eqx.field(static=True)

    def log_density(self, x: Float[Array, " dim"]) -> Float[Array, ""]:
        """Normalised log prior of one unconstrained point, Jacobians included."""
        trace = self.model.at_inner(x)
        return self.model.log_prob(trace, self.model.latent) + self.model.log_volume(x, trace)

    def sample(self, key: Key, num: int) -> Float[Array, "num dim"]:
        """Independent draws of the prior, unconstrained."""
        return jax.vmap(lambda key: self.model.inner_values(self.model.trace(key)))(jax.random.split(key, num))


class NumPyroTarget(Target):
    """The posterior of a model's latent sites, unconstrained and flat.

    `chart` leads to the constrained values and `structure` names them. `reference` is the prior, or None where it is
    not normalised (an improper, masked or rescaled site).
    """

    dim: int = eqx.field(static=True)
    model: _Model = eqx.field(static=True)

    def log_density(self, x: Float[Array, " dim"]) -> Float[Array, ""]:
        """Log joint density of latent sites and data, Jacobians included."""
        trace = self.model.at_inner(x)
        sites = [name for name, site in trace.items() if site["type"] == "sample"]
        return self.model.log_prob(trace, sites) + self.model.log_volume(x, trace)

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
def from_numpyro(model: Callable, *args: Any, **kwargs: Any) -> NumPyroTarget:
    """Make the posterior of a NumPyro model a target for `tp.fit`. Draws are dicts of named parameters.

    Args:
        model: a NumPyro model, with its data observed by `obs=` or by conditioning.
        args, kwargs: the arguments of the model.

    Warns:
        UserWarning: if nothing is observed. The density is then the prior.

    Raises:
        SettingsError: if NumPyro is not installed, or if the model has no latent site, a discrete site, a subsampled
            plate or a `numpyro.param`.
        DensityError: if the model raises.

    Examples:
        >>> import numpyro, numpyro.distributions as dist, tempering as tp
        >>> def model(y=None):
        ...     mean = numpyro.sample("mean", dist.Normal(0.0, 1.0))
        ...     numpyro.sample("y", dist.Normal(mean, 1.0), obs=y)
        >>> target = tp.from_numpyro(model, y=0.5)
        >>> target.dim
        1
        >>> tp.fit(target).sample(1000)["mean"]  # doctest: +SKIP
    """
    require_extra("numpyro", "NumPyro models")
    if not callable(model):
        raise SettingsError(f"model is {what_is(model)}; give a function that calls numpyro.sample")
    held = _Model(model, args, kwargs)
    if not held.has_data:
        warnings.warn(
            "the model has no observed site, so that its density is the prior; hand over the data (obs= in the model, "
            "or arguments of tp.from_numpyro) if you want a posterior",
            stacklevel=2,
        )
    return NumPyroTarget(held.inner.size, held)


def _refuse(trace: dict[str, Any], sites: dict[str, Any]) -> None:
    import numpyro.distributions as dist

    def named(names: list[str]) -> str:
        return ", ".join(map(repr, names))

    if not sites:
        raise SettingsError(
            "the model has no latent site: every numpyro.sample is observed, so that nothing is unknown"
        )
    discrete = [name for name, site in sites.items() if site["fn"].support.is_discrete]
    if discrete:
        raise SettingsError(
            f"the model's latent sites {named(discrete)} are discrete; sum them out (a mixture by "
            "dist.MixtureSameFamily, for example) or observe them: the sampler works on real numbers"
        )
    fixed = [name for name, site in sites.items() if isinstance(site["fn"], dist.Delta)]
    if fixed:
        raise SettingsError(f"the sites {named(fixed)} have a Delta distribution; use numpyro.deterministic for them")
    params = [name for name, site in trace.items() if site["type"] == "param"]
    if params:
        raise SettingsError(
            f"the model has numpyro.param {named(params)}; give them a prior by numpyro.sample, or values"
        )
    plates = {name: site["args"] for name, site in trace.items() if site["type"] == "plate"}
    partial = [name for name, (size, subsample, *_) in plates.items() if subsample not in (None, size)]
    if partial:
        raise SettingsError(
            f"the plates {named(partial)} take subsamples of the data, so that the density changes at every call; "
            "leave subsample_size out"
        )


def _plates(site: dict[str, Any]) -> list[str]:
    """Names of the axes of a site: plates where there are, ArviZ's own names elsewhere."""
    shape = jnp.shape(site["value"])
    num_event = len(site["fn"].event_shape) if site["type"] == "sample" else 0
    names = [f"{site['name']}_dim_{axis}" for axis in range(len(shape))]
    for frame in site["cond_indep_stack"]:
        axis = len(shape) - num_event + frame.dim
        if axis >= 0 and shape[axis] == frame.size:
            names[axis] = frame.name
    return names


def _bijection(site: dict[str, Any]) -> Any:
    from numpyro.distributions import biject_to

    return biject_to(site["fn"].support)


def _flat(values: Any) -> Float[Array, " size"]:
    return jnp.concatenate([jnp.reshape(value, (-1,)) for value in values])
