"""The extra `molecules`: OpenMM and MDTraj, asked for where they are needed."""

import importlib.util

from tempering.errors import SettingsError

__all__ = ["require_mdtraj", "require_openmm"]


def _require(package: str, name: str, purpose: str) -> None:
    if importlib.util.find_spec(package) is None:
        raise SettingsError(
            f"{name} is not installed, and {purpose} needs it: pip install 'tempering[molecules]'. Exported molecules "
            "(tempering.molecules.load_molecule) and make_target('aldp') work without it"
        )


def require_openmm() -> None:
    """Refuse to go on without OpenMM.

    Raises:
        SettingsError: naming the extra to install.
    """
    _require("openmm", "OpenMM", "reading a System")


def require_mdtraj() -> None:
    """Refuse to go on without MDTraj.

    Raises:
        SettingsError: naming the extra to install.
    """
    _require("mdtraj", "MDTraj", "making a trajectory")
