"""The folder that `tp.fit(out=...)` keeps its parts in: new, to be resumed, or refused as another fit's."""

import hashlib
import json
from contextlib import nullcontext
from typing import Any

import jax
import numpy as np

from tempering.adapters import FunctionTarget, fingerprint
from tempering.errors import RunFolderError
from tempering.methods.start import rows_of
from tempering.parallel_tempering.initial import StartFn
from tempering.runs.checkpoint import Nowhere
from tempering.runs.config import OWN_DENSITY, RunConfig, TargetConfig
from tempering.runs.folder import RunFolder
from tempering.runs.storage import as_path
from tempering.transforms.centred import Centred

__all__ = ["identity_of", "own_folder"]


def own_folder(out, target, init, start_fn, method, settings, seed, budget, is_automatic):
    """The folder to keep parts in, new or to be resumed; or nowhere."""
    if out is None:
        return nullcontext(Nowhere())
    own = TargetConfig(OWN_DENSITY, dict(identity_of(target, init, start_fn)))
    how = "settings chosen from the density" if is_automatic else "settings by hand"
    config = RunConfig("fit", f"a density of one's own, {how}", own, method, settings, seed=seed, budget=budget)
    if not (as_path(out, "out") / "config.json").exists():
        return RunFolder.create(out, config)
    folder = RunFolder.open(out)
    if folder.config != config:
        folder.close()
        raise RunFolderError(
            f"{out} holds a fit of another density, with other arguments, or by a version with other defaults; choose "
            "another folder, or repeat the call that made it; `tp.load` reads a finished fit of any of them"
        )
    try:
        folder.mend()
    except BaseException:
        folder.close()
        raise
    return folder


def identity_of(target: Any, init: Any, start_fn: StartFn | None) -> dict[str, int]:
    """Numbers that tell one density and one `init` from another; a function `init` is told by the points it gives."""
    identity = {"dim": target.dim, "density": fingerprint(target)}
    for part, held in (("chart", target.chart), ("structure", target.structure)):
        if held is not None and not isinstance(held, Centred):
            identity[part] = _number(json.dumps(held.as_dict(), sort_keys=True).encode())
    reference = target.reference
    if reference is not None:
        identity["reference"] = fingerprint(FunctionTarget(target.dim, reference.log_density))
    if init is not None:
        rows = start_fn(jax.random.key(0), 8) if callable(init) and start_fn else rows_of(init, target)
        identity["init"] = _number(np.asarray(rows).tobytes())
    return identity


def _number(content: bytes) -> int:
    return int.from_bytes(hashlib.sha256(content).digest()[:6])
