"""Which devices work on a fit: a user's word made into a mesh, and the context in which programs find it."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from contextvars import ContextVar
from typing import Any

import jax
import numpy as np
from jax.sharding import Mesh

from tempering.errors import SettingsError

__all__ = ["AXIS", "LANES", "active_mesh", "check_devices", "chosen", "is_in_turn", "num_lanes", "use"]

AXIS = "device"
"""The one axis of the mesh."""
LANES = 8
"""Parts that rows are cut into. A part has one shape and one program, whichever device it runs on, so that the number
of devices does not change a bit. With more devices it is the next multiple."""

_MESH: ContextVar[Mesh | None] = ContextVar("tempering_mesh", default=None)


def active_mesh() -> Mesh | None:
    """The mesh that programs run on now; None for JAX's own default, one device."""
    return _MESH.get()


def num_lanes(mesh: Mesh) -> int:
    """Parts that rows are cut into on this mesh."""
    return LANES * -(-mesh.size // LANES)


def is_in_turn(mesh: Mesh) -> bool:
    """Whether a device takes its parts one after another, so that no bit depends on how many it has.

    CPUs do. On a GPU a small program is mostly launches, and eight turns take seven times as long as one: it takes its
    parts side by side. What is added up within a part may then round in another way.
    """
    return mesh.local_devices[0].platform == "cpu"


def check_devices(devices: Any) -> None:
    """Refuse what can never be a number or a list of devices. JAX is not started for it.

    Raises:
        SettingsError: says what is allowed.
    """
    if devices is None:
        return
    allowed = "give a number from 1 on, a list such as jax.devices()[:2], or None for one device"
    is_number = isinstance(devices, int | np.integer) and not isinstance(devices, bool)
    if is_number and devices >= 1:
        return
    if is_number or isinstance(devices, bool | str | bytes) or not isinstance(devices, Sequence | np.ndarray):
        raise SettingsError(f"devices = {devices!r} is not allowed; {allowed}")
    if len(devices) == 0:
        raise SettingsError(f"devices is empty; {allowed}")
    for device in devices:
        if not isinstance(device, jax.Device):
            raise SettingsError(f"devices holds {device!r}, which is not a device of JAX; {allowed}")
    if len(set(devices)) < len(devices):
        raise SettingsError("devices names a device twice; name each once")


def chosen(devices: Any) -> tuple[Any, ...] | None:
    """The devices that are meant; None where programs stay as they are, on JAX's default device.

    Where several processes have joined (`jax.distributed`), all devices of all processes take part.

    Raises:
        SettingsError: if there are fewer than were asked for, or a process would be left without one.
    """
    check_devices(devices)
    everything = tuple(jax.devices())
    if devices is None:
        return everything if jax.process_count() > 1 else None
    if isinstance(devices, int | np.integer):
        if devices > len(everything):
            raise SettingsError(
                f"devices = {devices} are more than the {len(everything)} that JAX has here "
                f"({_kinds(everything)}); give at most that many, or None"
            )
        wanted = everything[: int(devices)]
    else:
        wanted = tuple(devices)
    if len({device.platform for device in wanted}) > 1:
        raise SettingsError(f"devices are of several kinds ({_kinds(wanted)}); give devices of one kind")
    if jax.process_count() > 1 and set(wanted) != set(everything):
        raise SettingsError(
            f"{len(wanted)} devices were asked for, and the {jax.process_count()} processes that joined have "
            f"{len(everything)}; all of them take part: leave `devices` out, or start fewer processes"
        )
    return wanted


def _kinds(devices: Sequence[Any]) -> str:
    return ", ".join(sorted({device.device_kind for device in devices}))


@contextmanager
def use(devices: Any) -> Iterator[Mesh | None]:
    """Programs of `on_devices` run on these devices inside. None leaves everything as it is.

    One GPU runs plain programs: there is no mesh then.

    Args:
        devices: as `tp.fit` takes them.
    """
    wanted = chosen(devices)
    if wanted is None:
        yield active_mesh()
        return
    mesh: Mesh | None = Mesh(np.asarray(wanted), (AXIS,))
    first = mesh.local_devices[0]
    if mesh.size == 1 and not is_in_turn(mesh):
        mesh = None  # results of several agree with it but for rounding, as with a plain program, which copies nothing
    # Programs that are not spread run on one of these devices, not on one that may be another user's.
    elsewhere = nullcontext() if first == jax.local_devices()[0] else jax.default_device(first)
    token = _MESH.set(mesh)
    try:
        with elsewhere:
            yield mesh
    finally:
        _MESH.reset(token)
