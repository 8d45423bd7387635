"""A sampler read back from its folder: arrays and JSON in, a `Sampler` out. Nothing in the folder is executed."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp

from tempering.adapters.structure import Structure, read_structure
from tempering.diffusion import Denoiser, DiffusionModel, NoiseLevels, Prior, VariancePreserving
from tempering.diffusion.networks import make_network
from tempering.errors import RunFolderError
from tempering.host.use import HostUse
from tempering.registry import chart_from
from tempering.runs.ledger import Ledger
from tempering.runs.records import Checks, LevelRecord, Mode
from tempering.runs.storage import read_arrays, read_json, tree_from
from tempering.runs.watching import read_seconds
from tempering.sampler import FORMAT, Sampler
from tempering.sampler.paid import Paid
from tempering.settings import MethodSettings, Network, PTDMSettings, PTSDSettings, ReweightedSettings, Sampling
from tempering.settings.changes import build
from tempering.targets.base import Target
from tempering.targets.shaped import as_saved
from tempering.transforms import Chart
from tempering.transforms.centred import Centred

__all__ = ["READERS", "load_sampler", "model_like", "stored_dim"]


Reader = Callable[[Path, dict[str, Any], Target | None, Structure | None, Chart | None], Sampler]

READERS: dict[str, Reader] = {}
"""Of samplers in other formats. `methods/registry.py` puts them here: a room imports only rooms below it."""


def model_like(dim: int, network: Network, process: dict[str, float] | None = None) -> DiffusionModel:
    """A model of the right structure whose leaves, shapes and dtypes only, are to be replaced.

    Args:
        process: beta_min and beta_max, where the process is variance preserving.
    """

    def build() -> DiffusionModel:
        vector, number = jnp.zeros((dim,)), jnp.zeros(())
        denoiser = Denoiser(make_network(jax.random.key(0), dim, network), vector, vector, number)
        levels = NoiseLevels(number, number, None if process is None else VariancePreserving(number, **process))
        return DiffusionModel(denoiser, Prior.diagonal(vector, vector), levels)

    return eqx.filter_eval_shape(build)  # initialising weights that are thrown away would take seconds


def load_sampler(
    folder: str | Path,
    target: Target | None = None,
    structure: Structure | None = None,
    chart: Chart | None = None,
) -> Sampler:
    """The sampler that `save` wrote. Loads arrays and JSON only; nothing in the folder is executed.

    Args:
        target: the density in the model's coordinates; its `chart` and `structure` count where the folder does not
            hold them, which it cannot for a NumPyro model.
        structure: of the tree of parameters, where the folder does not hold it.
        chart: of a prior, where the folder does not hold it and there is no target.

    Raises:
        RunFolderError: if the folder is not a sampler's, or is damaged.
        SettingsError: if the chart or structure is missing, or another one than was saved.
    """
    folder = Path(folder)
    facts = read_json(folder / "sampler.json")
    reader = READERS.get(str(facts.get("format")), _restored)
    if facts.get("format") != FORMAT and reader is _restored:
        raise RunFolderError(
            f"{folder} was made by another version: it has format {facts.get('format')!r}, and this version reads "
            f"{FORMAT!r}; fit it again, or use that version"
        )
    try:
        return reader(folder, facts, target, structure, chart)
    except (KeyError, TypeError, AttributeError) as error:  # whole, but not as this version writes it
        raise RunFolderError(
            f"{folder / 'sampler.json'} lacks what this version reads, or has it otherwise ({error!r}); it belongs to "
            "another version: fit again"
        ) from error


def stored_dim(folder: Path) -> int:
    """The dimension that a prior of the sampler in the folder is of: that of the unit cube for a prior transform."""
    facts = read_json(folder / "sampler.json")
    return (facts.get("chart") or {}).get("dim", facts["dim"])


def _restored(
    folder: Path,
    facts: dict[str, Any],
    target: Target | None,
    structure: Structure | None,
    given: Chart | None,
) -> Sampler:
    network = Network(**{name: _tupled(value) for name, value in facts["network"].items()})
    geometry, dim = facts["geometry"], facts["dim"]
    chart = chart_from(facts["chart"], dim, target, given) if geometry is None else Centred(**geometry)
    dim = dim if chart is None else chart.dim
    if target is not None and target.dim != dim:
        raise RunFolderError(f"{folder} holds a sampler in {dim} dimensions for a density of {target.dim}; fit again")
    target = as_saved(target, chart)
    own = None if target is None else target.structure
    model = tree_from(model_like(dim, network, facts.get("process")), read_arrays(folder / "sampler.npz"))
    sampler = Sampler(
        model=model,
        target=target,
        method=facts["method"],
        network=network,
        sampling=Sampling(**facts["sampling"]),
        levels=[LevelRecord.from_dict(record) for record in facts["levels"]],
        ledger=Ledger.from_dict(facts["ledger"]),
        log_z=facts["log_z"],
        log_z_error=facts["log_z_error"],
        ess_fraction=facts["ess_fraction"],
        pareto_k=facts["pareto_k"],
        checks=Checks.from_dict(facts["checks"]),
        settings=_settings(facts.get("settings")),
        modes=tuple(Mode(tuple(mode.pop("position")), **mode) for mode in map(dict, facts.get("modes", ()))),
        chart=chart,
        structure=read_structure(facts["structure"], structure or own),
        folder=folder,
    )
    sampler.paid = Paid.load(folder, dim)
    sampler.seconds = read_seconds(folder)
    sampler.host = None if facts.get("host") is None else HostUse.from_dict(facts["host"])
    return sampler


def _settings(stored: dict[str, Any] | None) -> MethodSettings | None:
    """The settings that the fit was made with; None where the folder does not hold them."""
    if stored is None:
        return None
    kinds = {kind.__name__: kind for kind in (PTSDSettings, PTDMSettings, ReweightedSettings)}
    return build(kinds[stored["kind"]], {name: value for name, value in stored.items() if name != "kind"})


def _tupled(value: Any) -> Any:
    """Lists, which JSON makes of tuples, as tuples again."""
    return tuple(map(_tupled, value)) if isinstance(value, list) else value
