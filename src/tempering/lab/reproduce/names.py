"""The tables and figures of the paper by name, in a sentence each. No JAX, so that a list and a typo answer at once."""

from tempering.errors import SettingsError, nearest
from tempering.lab.reproduce.published import published

__all__ = ["NAMES", "require_name", "where"]

NAMES = {
    "table-quality": "sample quality of all methods on MoG-40, MW-32 and LJ-55",
    "table-calls": "evaluations of all methods, counted exactly",
    "figure-front": "error against evaluations on MW-32, all methods",
    "figure-pareto": "PTSD against PT+DM with 4 and 10 levels at several budgets",
    "table-ablation": "MW-32 without guidance, without weights, other truncations, other start",
    "figure-lj55-extrapolation": "LJ-55 at T = 1 from models of T = 2 and 1.5, six ways",
    "figure-extrapolation": "T = 0.1 from models of T = 1 and 1.3, and the Langevin steps to the truth",
    "table-observables": "error of E|x|^2, all methods",
    "figure-likelihood": "a diffusion model refitted to 10,000 draws of every method, and its likelihood",
    "table-aldp": "alanine dipeptide: log likelihood and Ramachandran KL",
    "figure-ramachandran": "alanine dipeptide: Ramachandran plots",
    "figure-aldp-marginals": "alanine dipeptide: marginals of phi and psi",
    "figure-aldp-energy": "alanine dipeptide: energies",
    "panels-mog40": "draws of all methods on MoG-40",
    "panels-mw32": "draws of all methods on MW-32, two wells",
    "table-lj55-langevin": "LJ-55 after 1,000 Langevin steps on the draws",
}


def require_name(name: str) -> None:
    """Refuse a name that is none.

    Raises:
        SettingsError: with the nearest name, and all of them.
    """
    if name not in NAMES:
        known = ", ".join(NAMES)
        raise SettingsError(f"unknown table or figure {name!r}{nearest(name, NAMES)}; known: {known}")


def where(name: str) -> str:
    """Its place in the paper."""
    return published(name)["where"]
