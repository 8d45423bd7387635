"""A Stan model as a target, through BridgeStan: values and gradients come from Stan's compiled code on the host.

Consumes a model that BridgeStan has compiled; produces its log density in Stan's unconstrained coordinates, with a
chart to the constrained parameters and a structure that names them. Normalising constants are kept, so that log Z is
the evidence where the model's statements are normalised densities. Stan has no draws of a prior: there is no reference.
"""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from tempering.adapters.black_box import BlackBox
from tempering.adapters.callback import CallbackTarget, checked_host
from tempering.adapters.named import ModelChart, NamedStructure
from tempering.adapters.structure import structure_of
from tempering.compilation import plain_jax
from tempering.errors import DensityError, SettingsError, first_line, require_extra, what_is
from tempering.types import Array, Float

__all__ = ["StanTarget", "from_stan"]


class _Density:
    """Value and gradient of a Stan model for `BlackBox`; what its fingerprint sees is the identity alone."""

    __slots__ = ("__dict__", "_source", "_stan")

    def __init__(self, stan: Any, identity: str, source: tuple[str, Any, dict[str, Any]] | None = None):
        self._stan, self.identity, self._source = stan, identity, source

    def __reduce__(self) -> tuple[Any, ...]:
        """What travels to a worker: where the model is. Compiled code stays where it is."""
        if self._source is None:
            raise TypeError("a compiled StanModel cannot travel to workers; give from_stan the path of the model")
        return _reread, (*self._source, self.identity)

    def __call__(self, x: np.ndarray) -> tuple[float, np.ndarray]:
        try:
            value, gradient = self._stan.log_density_gradient(np.ascontiguousarray(x), propto=False, jacobian=True)
        except RuntimeError:  # Stan rejects a point by raising, and its own samplers take that as density zero
            return -np.inf, np.zeros_like(x)
        return value, np.array(gradient)


def _reread(path: str, data: Any, options: dict[str, Any], identity: str) -> _Density:
    return _Density(_compiled(Path(path), data, options)[0], identity, (path, data, options))


class _Model:
    """A model with its parameters by name, compared by identity."""

    kind, parts = "stan", "parameters"

    def __init__(self, stan: Any, identity: str):
        self.stan, self.identity = stan, identity
        self.dim = int(stan.param_unc_num())
        if self.dim == 0:
            raise SettingsError("the Stan model has no parameters, so that nothing is unknown")
        shapes, self._order = _arranged(stan.param_names())
        self.outer = structure_of({name: np.zeros(shape, np.float32) for name, shape in shapes.items()})
        everything, self._whole_order = _arranged(stan.param_names(include_tp=True))
        self.whole = structure_of({name: np.zeros(shape, np.float32) for name, shape in everything.items()})
        self.derived = tuple(name for name in everything if name not in shapes)
        self.dims: dict[str, list[str]] = {}

    def embed(self, y: Float[Array, " dim"]) -> Float[Array, " full_dim"]:
        """Constrained values of an unconstrained point."""
        return _called(self._constrained, y, (self.outer.size,))

    def restrict(self, x: Float[Array, " full_dim"]) -> Float[Array, " dim"]:
        """The unconstrained point of constrained values."""
        return _called(self._unconstrained, x, (self.dim,))

    def log_volume(self, y: Float[Array, " dim"]) -> Float[Array, ""]:
        """log |det dx/dy|, as Stan adds it to its densities."""
        return _called(self._log_volume, y, ())

    def _constrained(self, y: np.ndarray) -> np.ndarray:
        """Parameters of one unconstrained point, in the order of `outer`."""
        return np.asarray(self.stan.param_constrain(_row(y)))[self._order]

    def _unconstrained(self, x: np.ndarray) -> np.ndarray:
        """The unconstrained point of parameters in the order of `outer`; NaN where they are outside their bounds."""
        theta = np.empty(len(x))
        theta[self._order] = x
        try:
            return np.asarray(self.stan.param_unconstrain(theta))
        except RuntimeError:
            return np.full(self.dim, np.nan)

    def _log_volume(self, y: np.ndarray) -> float:
        both = [self.stan.log_density(_row(y), propto=False, jacobian=with_it) for with_it in (True, False)]
        return both[0] - both[1]

    def derived_of(self, rows: np.ndarray) -> dict[str, np.ndarray]:
        """Transformed parameters at many points of constrained values."""
        points = [self.stan.param_constrain(_row(self._unconstrained(x)), include_tp=True) for x in rows]
        whole = np.asarray(points, np.float32).reshape((len(rows), -1))[:, self._whole_order]
        return {name: value for name, value in self.whole.restore(whole).items() if name in self.derived}


def _row(y: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(y, np.float64)


def _arranged(names: Sequence[str]) -> tuple[dict[str, tuple[int, ...]], np.ndarray]:
    """Shapes by name, and where in Stan's vector every entry is, names in order and entries row by row.

    Stan writes `theta.2.1` for an entry of an array, and lets the first index run fastest.
    """
    entries: dict[str, dict[tuple[int, ...], int]] = {}
    for place, name in enumerate(names):
        base, *indices = name.split(".")
        # An array of tuples has more after its indices, as in `t.1:2`: every such entry stands alone.
        is_plain = all(index.isdigit() for index in indices)
        key = tuple(int(index) - 1 for index in indices) if is_plain else ()
        entries.setdefault(base if is_plain else name, {})[key] = place
    shapes, order = {}, []
    for name in sorted(entries):
        places = entries[name]
        shapes[name] = tuple(int(most) + 1 for most in np.max(np.array(list(places), int).reshape(len(places), -1), 0))
        order += [places[index] for index in np.ndindex(shapes[name])]
    return shapes, np.array(order, int)


def _called(function: Callable[[np.ndarray], Any], x: Array, shape: tuple[int, ...]) -> Array:
    """A function of one point on the host, from a compiled program: one visit for a whole batch."""

    def visit(points: Any) -> np.ndarray:
        points = np.asarray(points, np.float64)
        rows = [function(row) for row in points.reshape((-1, points.shape[-1]))]
        return np.asarray(rows, np.float32).reshape((*points.shape[:-1], *shape))

    return jax.pure_callback(visit, jax.ShapeDtypeStruct(shape, jnp.float32), x, vmap_method="expand_dims")


class StanTarget(CallbackTarget):
    """The posterior of a Stan model, unconstrained; `chart` leads to the parameters and `structure` names them."""

    model: _Model = eqx.field(static=True)

    @property
    def chart(self) -> ModelChart:
        """To the constrained values."""
        return ModelChart(self.model)

    @property
    def structure(self) -> NamedStructure:
        """The names."""
        return NamedStructure(self.model)


@plain_jax()
def from_stan(model: Any, data: Any = None, *, host: Mapping[str, Any] | None = None, **options: Any) -> StanTarget:
    """Make the posterior of a Stan model a target for `tp.fit`. Draws are dicts of named parameters.

    Args:
        model: a `bridgestan.StanModel`, the path of a .stan file, or the path of a library that BridgeStan compiled
            before. BridgeStan compiles a .stan file. This needs a C++ compiler, and takes a minute the first time.
        data: a dict, the path of a .json file, or a string of JSON. Leave it out for a `StanModel`, which has its own.
        host: `pool`, `timeout`, `on_failure` and `store` of `tp.from_callable`, as a dict. If `model` is a path, each
            worker compiles it for itself, or loads the library that was compiled before.
        options: options of `bridgestan.StanModel`.

    Returns:
        A target. Draws have parameters and transformed parameters by name, as arrays. A point that the model rejects
        has density zero.

    Raises:
        SettingsError: if BridgeStan is not installed, if there is no such file, or if the model has no parameters.
        DensityError: if the model cannot be compiled or does not take the data.

    Examples:
        >>> target = tp.from_stan("eight_schools.stan", "eight_schools.json")  # doctest: +SKIP
        >>> tp.fit(target).sample(1000)["theta"]  # doctest: +SKIP
    """
    source = None
    if isinstance(model, str | Path):
        stan, identity = _compiled(Path(model), data, options)
        source = (str(Path(model).resolve()), str(data) if isinstance(data, Path) else data, options)
    else:
        if data is not None or options:
            raise SettingsError("data and options are for the path of a model; a StanModel has its own: leave them out")
        lacking = [name for name in _NEEDED if not callable(getattr(model, name, None))]
        if lacking:
            raise SettingsError(
                f"model is {what_is(model)} without {', '.join(lacking)}; give a bridgestan.StanModel, or the "
                "path of a .stan file"
            )
        stan, identity = model, _told(model)
    held = _Model(stan, identity)
    box = BlackBox(_Density(stan, identity, source), held.dim, "returned", **checked_host(**(host or {})))
    return StanTarget(held.dim, box, held)


_NEEDED = (
    "log_density",
    "log_density_gradient",
    "param_constrain",
    "param_unconstrain",
    "param_names",
    "param_unc_num",
)


def _compiled(path: Path, data: Any, options: Mapping[str, Any]) -> tuple[Any, str]:
    require_extra("bridgestan", "Stan models")
    import bridgestan  # pyright: ignore[reportMissingImports]

    if not path.is_file():
        raise SettingsError(f"{path} is not a file; give the path of a .stan file or of a library made of one")
    data = str(data) if isinstance(data, Path) else data
    try:
        stan = bridgestan.StanModel(str(path), data, **options)
    except Exception as error:  # of the compiler, of the data, of a download that is not possible
        raise DensityError(
            f"BridgeStan could not compile {path}: {type(error).__name__}: {first_line(error)}; it needs a C++ "
            "compiler, its own sources (the variable BRIDGESTAN, or a download), and data with the model's names"
        ) from error
    text = Path(data).read_text(encoding="utf-8") if str(data).endswith(".json") else repr(data)
    digest = hashlib.sha256(path.read_bytes() + text.encode())
    return stan, digest.hexdigest()


def _told(stan: Any) -> str:
    """What tells one model from another, as far as the object says, and its density at a point."""
    words = [stan.name() if callable(getattr(stan, "name", None)) else type(stan).__name__, *stan.param_names()]
    point = np.linspace(-0.4, 0.6, int(stan.param_unc_num()))
    try:
        words.append(repr(float(stan.log_density(point, propto=False, jacobian=True))))
    except RuntimeError:  # rejected there
        words.append("rejected")
    return "\n".join(words)
