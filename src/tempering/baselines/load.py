"""A baseline read back from its folder. Nothing in the folder is executed."""

from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp

from tempering.adapters.structure import Structure, read_structure
from tempering.baselines.registry import baseline_of
from tempering.baselines.sampler import BaselineSampler
from tempering.baselines.units import in_units
from tempering.errors import RunFolderError
from tempering.registry import chart_from
from tempering.runs.config import SETTINGS_OF
from tempering.runs.ledger import Ledger
from tempering.runs.records import Checks, LevelRecord
from tempering.runs.storage import read_arrays, tree_from
from tempering.runs.watching import read_seconds
from tempering.sampler.paid import Paid
from tempering.settings import BaselineSettings
from tempering.settings.changes import build
from tempering.targets.base import Target
from tempering.transforms import Chart
from tempering.transforms.centred import Centred
from tempering.types import Array, Float

__all__ = ["load_baseline"]


class _StandIn(Target):
    """A density of the right shape, in place of one that is not there: only shapes are taken from it."""

    dim: int = eqx.field(static=True)
    geometry: Centred | None
    atom_kinds: tuple[int, ...] = eqx.field(static=True)
    bonds: tuple[tuple[int, int], ...] = eqx.field(static=True)

    def log_density(self, x: Float[Array, " dim"]) -> Float[Array, ""]:
        return -0.5 * jnp.sum(x**2)


def load_baseline(
    folder: Path, facts: dict[str, Any], target: Target | None, structure: Structure | None, given: Chart | None
) -> BaselineSampler:
    """The sampler that `save` wrote; arguments as of `sampler.load.load_sampler`."""
    geometry, dim = facts["geometry"], facts["inner_dim"]
    chart = chart_from(facts["chart"], facts["dim"], target, given) if geometry is None else Centred(**geometry)
    if target is not None and target.dim != dim:
        raise RunFolderError(f"{folder} holds a sampler in {dim} dimensions for a density of {target.dim}; fit again")
    settings = read_settings(facts["settings"])
    atoms, bonds = tuple(facts.get("atoms", ())), tuple((a, b) for a, b in facts.get("bonds", ()))
    stand_in = _StandIn(dim, chart if isinstance(chart, Centred) else None, atoms, bonds)
    like = target if target is not None else stand_in
    method, inner = baseline_of(settings.method), in_units(like, settings.scale)
    model = eqx.filter_eval_shape(method.init, jax.random.key(0), inner, settings).model
    sampler = BaselineSampler(
        model=tree_from(model, read_arrays(folder / "sampler.npz")),
        target=target,
        method=facts["method"],
        network=None,
        sampling=None,
        levels=[LevelRecord.from_dict(record) for record in facts["levels"]],
        ledger=Ledger.from_dict(facts["ledger"]),
        log_z=facts["log_z"],
        log_z_error=facts["log_z_error"],
        ess_fraction=facts["ess_fraction"],
        pareto_k=facts["pareto_k"],
        checks=Checks.from_dict(facts["checks"]),
        settings=settings,
        chart=chart,
        structure=read_structure(facts["structure"], structure or (None if target is None else target.structure)),
        folder=folder,
        inner_dim=dim,
        atoms=atoms,
        bonds=bonds,
    )
    sampler.paid = Paid.load(folder, dim)
    sampler.seconds = read_seconds(folder)
    return sampler


def read_settings(stored: dict[str, Any]) -> BaselineSettings:
    """The settings that the fit was made with."""
    kinds = {kind.__name__: kind for kind in SETTINGS_OF.values()}
    return build(kinds[stored["kind"]], {name: value for name, value in stored.items() if name != "kind"})
