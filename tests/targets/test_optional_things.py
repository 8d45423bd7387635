"""The contract of targets about optional things: every target, wrapper and adapter has all nine, of the right kind."""

from types import SimpleNamespace

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tempering as tp
from tempering.adapters import FunctionTarget, as_target, from_callable
from tempering.adapters.structure import StructuredTarget, structure_of
from tempering.errors import SettingsError
from tempering.molecules import alanine_dipeptide, alanine_in_internal_coordinates
from tempering.molecules.callback import OpenMMTarget
from tempering.targets import (
    Inner,
    ManyWell,
    Referenced,
    Scaled,
    Target,
    Units,
    Wrapper,
    anisotropic_gaussian,
    dw4,
    in_inner_coordinates,
    mog40,
)
from tempering.targets.base import OPTIONAL
from tempering.targets.references import Normal, ReferenceLike, check_reference
from tempering.transforms import Chart, flat_chart
from tempering.transforms.centred import Centred


def _normal(x):
    return -0.5 * jnp.sum(x**2)


def _model():
    import numpyro
    import numpyro.distributions as dist

    numpyro.sample("width", dist.HalfNormal(1.0))
    numpyro.sample("place", dist.Normal(jnp.zeros(2), 1.0).to_event(1))


def _posterior():
    pytest.importorskip("numpyro")
    return tp.from_numpyro(_model)


class _Own(eqx.Module):
    """An object of a user's own class, with arrays in it."""

    masses: jax.Array
    dim: int = 2
    init = np.ones((3, 2), np.float32)
    reference = Normal([0.0, 0.0], 3.0)

    def log_density(self, x):
        return _normal(x * self.masses)

    def invariants(self, x):
        return x**2


class _Everything(Target):
    """A target that has everything, each in one of the ways that a subclass may choose."""

    dim: int = eqx.field(static=True)
    reference: ReferenceLike  # a field without a default: it must be given
    masses: np.ndarray = eqx.field(default_factory=lambda: np.arange(1.0, 4.0))
    chart: None = None  # a field with a default
    structure = structure_of(jnp.zeros(6))  # an attribute of the class
    atom_kinds = (0, 1, 1)
    bonds = ((0, 1), (1, 2))

    @property
    def geometry(self):
        return Centred(3, 2)

    @property
    def init(self):
        return np.zeros((2, 6), np.float32)

    def invariants(self, x):
        return x[:2]

    def log_density(self, x):
        return _normal(x)


EVERYTHING = _Everything(6, Normal(np.zeros(6)))


def _openmm() -> OpenMMTarget:
    return OpenMMTarget(6, from_callable(lambda x: 0.0, 6), (), 300.0, True, "two atoms")


WITH_OPTIONAL_THINGS = {
    "a Gaussian": anisotropic_gaussian,
    "a mixture": mog40,
    "many wells": lambda: ManyWell(2),
    "particles": dw4,
    "a molecule": alanine_dipeptide,
    "a molecule by OpenMM": _openmm,
    "a molecule in internal coordinates": alanine_in_internal_coordinates,
    "a function": lambda: as_target(_normal, 2),
    "an object": lambda: as_target(SimpleNamespace(dim=2, log_density=_normal, masses=[1.0, 2.0])),
    "a module": lambda: as_target(_Own(jnp.ones(2))),
    "a callable": lambda: from_callable(lambda x: 0.0, 2),
    "a tree": lambda: StructuredTarget(lambda tree: _normal(tree["a"]), structure_of({"a": jnp.zeros(2)})),
    "a model": _posterior,
    "everything": lambda: EVERYTHING,
    "everything, in inner coordinates": lambda: in_inner_coordinates(EVERYTHING),
    "everything, in a chart": lambda: Inner(6, EVERYTHING, flat_chart(tp.positive, 6)),
    "everything, without reference": lambda: Referenced(6, EVERYTHING, None),
    "everything, in other units": lambda: Scaled(EVERYTHING, Units.plain(6)),
    "a molecule in other units": lambda: Scaled(in_inner_coordinates(alanine_dipeptide()), Units.plain(63)),
    "a function with a reference": lambda: Referenced(2, FunctionTarget(2, _normal), Normal([0.0, 0.0])),
}


def check_optional(target: Target) -> None:
    """All nine are there and of the right kind."""
    found = {name: getattr(target, name) for name in OPTIONAL}
    geometry, chart, structure = found["geometry"], found["chart"], found["structure"]
    assert geometry is None or isinstance(geometry, Centred)
    assert geometry is None or target.dim == (geometry.full_dim if chart is None else geometry.dim)
    assert chart is None or isinstance(chart, Chart) and chart.dim == target.dim
    assert structure is None or all(hasattr(structure, name) for name in ("restore", "flatten", "dims", "as_dict"))
    if found["reference"] is not None:
        check_reference(found["reference"], target.dim)
    assert found["init"] is None or np.shape(found["init"])[1:] == (target.dim,)
    assert found["masses"] is None or np.ndim(found["masses"]) == 1 and np.all(np.asarray(found["masses"]) > 0)
    assert isinstance(found["atom_kinds"], tuple) and all(isinstance(kind, int) for kind in found["atom_kinds"])
    assert isinstance(found["bonds"], tuple) and all(len(pair) == 2 for pair in found["bonds"])
    if found["invariants"] is not None:
        assert len(jax.eval_shape(found["invariants"], jax.ShapeDtypeStruct((target.dim,), jnp.float32)).shape) == 1


@pytest.mark.parametrize("make", WITH_OPTIONAL_THINGS.values(), ids=WITH_OPTIONAL_THINGS.keys())
def test_every_target_has_all_optional_things(make):
    assert len(OPTIONAL) == 9
    target = make()
    assert isinstance(target, Target)
    check_optional(target)


class _Wrong(Target):
    """A target that brings one thing of the wrong kind."""

    name: str = eqx.field(static=True)
    value: object = eqx.field(static=True)
    dim: int = eqx.field(static=True, default=2)

    def log_density(self, x):
        return _normal(x)

    def _inherited(self, name, default):
        return self.value if name == self.name else default


WRONG = {
    "geometry": Centred(3, 2),
    "chart": "positive",
    "structure": {"a": 2},
    "reference": "prior",
    "init": ((1.0,),),
    "masses": (1.0, -1.0),
    "atom_kinds": None,
    "bonds": ((0, 1, 2),),
    "invariants": jnp.sum,
}


@pytest.mark.parametrize("name", OPTIONAL)
def test_a_thing_of_the_wrong_kind_is_caught(name):
    check_optional(_Wrong("none", None))
    with pytest.raises((AssertionError, SettingsError)):
        check_optional(_Wrong(name, WRONG[name]))


def test_without_a_word_a_target_brings_nothing():
    target = mog40()
    brought = {name: getattr(target, name) for name in OPTIONAL}
    assert brought == {name: () if name in ("atom_kinds", "bonds") else None for name in OPTIONAL}


def test_a_field_of_the_name_of_an_optional_thing_has_no_hidden_default():
    with pytest.raises(TypeError, match="reference"):
        _Everything(6)
    assert EVERYTHING.reference.std.shape == (6,)


class _Same(Wrapper):
    dim: int = eqx.field(static=True)
    target: Target


@pytest.mark.parametrize("make", [lambda: EVERYTHING, alanine_dipeptide, _posterior])
def test_a_wrapper_brings_all_that_its_target_brings(make):
    target, x = make(), jnp.ones((make().dim,))
    for wrapper in (_Same(target.dim, target), Referenced(target.dim, _Same(target.dim, target), None)):
        for name in OPTIONAL:
            own, forwarded = getattr(target, name), getattr(wrapper, name)
            if isinstance(wrapper, Referenced) and name == "reference":
                assert forwarded is None
            elif name == "invariants" and own is not None:
                np.testing.assert_array_equal(forwarded(x), own(x))
            else:
                assert bool(np.all(eqx.tree_equal(own, forwarded))), name


def test_other_coordinates_bring_what_they_can_say():
    scaled = Scaled(in_inner_coordinates(alanine_dipeptide()), Units.plain(63))
    assert not any(getattr(scaled, name) for name in OPTIONAL)
    scaled = Scaled(EVERYTHING, Units(jnp.full((6,), 2.0)))
    x = jnp.arange(6.0)
    assert scaled.reference.log_density(x) == EVERYTHING.reference.log_density(2.0 * x)
    draws = EVERYTHING.reference.sample(jax.random.key(0), 3)
    np.testing.assert_allclose(2.0 * scaled.reference.sample(jax.random.key(0), 3), draws, rtol=1e-6)
    centred, charted = in_inner_coordinates(EVERYTHING), Inner(6, EVERYTHING, flat_chart(tp.positive, 6))
    assert {name for name in OPTIONAL if getattr(centred, name) is None} == {"reference"}
    lost = {name for name in OPTIONAL if getattr(charted, name) in (None, ())}
    assert lost == {"geometry", "init", "masses", "atom_kinds", "bonds"}


def test_a_users_object_keeps_what_it_brings():
    for own in (_Own(jnp.ones(2)), SimpleNamespace(dim=2, log_density=_normal, masses=[1.0, 2.0], bonds=((0, 1),))):
        target = as_target(own)
        for name in OPTIONAL:
            if name != "invariants":
                assert getattr(target, name) is getattr(own, name, getattr(mog40(), name)), name
    assert as_target(_Own(jnp.ones(2))).invariants(jnp.full(2, 3.0)).tolist() == [9.0, 9.0]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("geometry", "centred"),
        ("chart", tp.positive),
        ("reference", "prior"),
        ("init", lambda: 0),
        ("init", np.zeros((4, 3))),
        ("masses", {"a": 1.0}),
        ("atom_kinds", 3),
        ("bonds", [[0, 1]]),
        ("invariants", 2.0),
    ],
)
def test_an_attribute_of_another_kind_is_refused(name, value):
    with pytest.raises(SettingsError, match=name):
        as_target(SimpleNamespace(dim=2, log_density=_normal, **{name: value}))


def test_a_point_that_is_infinite_for_the_user_has_no_mass():
    """exp(200) is beyond single precision, and inf - inf is NaN; a density that is NaN at finite points stays so."""

    def log_density(x):
        return jnp.sum(jnp.log(x) - x)

    inner = Inner(2, as_target(log_density, 2), flat_chart(tp.positive, 2))
    assert jnp.isnan(log_density(jnp.full(2, jnp.inf)))
    assert inner.log_density(jnp.asarray([200.0, 0.0])) == -jnp.inf
    assert jnp.isfinite(inner.log_density(jnp.asarray([1.0, 0.0])))
    broken = Inner(2, as_target(lambda x: jnp.sum(jnp.where(x > 2.0, jnp.nan, -x)), 2), flat_chart(tp.positive, 2))
    assert jnp.isnan(broken.log_density(jnp.asarray([1.0, 0.0])))
