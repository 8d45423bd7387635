"""Several devices: rows of large arrays are shared out over a mesh, with the same result for any number of devices."""

from tempering.devices.mesh import LANES, active_mesh, check_devices, chosen, use
from tempering.devices.programs import Program, on_devices, resident
from tempering.devices.rows import by_row, mean_and_grad
from tempering.devices.unrolled import on_one

__all__ = [
    "LANES",
    "Program",
    "active_mesh",
    "by_row",
    "check_devices",
    "chosen",
    "mean_and_grad",
    "resident",
    "on_devices",
    "on_one",
    "use",
]
