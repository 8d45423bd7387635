"""What the paper prints: every number of its tables and figures that can be read, by reproduction. Plain data.

All are of Rissanen, OuYang and others, *Progressive Tempering Sampler with Diffusion*, ICML 2025. A pair is a mean and
its standard deviation over seeds. Its "W2" is a W1 by its code (docs/decisions/0003-paper-presets.md).
"""

from typing import Any

__all__ = ["METHODS", "PAPER", "TARGETS", "published"]

PAPER = "Rissanen, OuYang et al., Progressive Tempering Sampler with Diffusion, ICML 2025"

TARGETS = {"mog40": "MoG-40", "mw32": "MW-32", "lj55": "LJ-55"}
METHODS = {
    "fab": "FAB",
    "cmcd": "CMCD",
    "dds": "DDS",
    "idem": "iDEM",
    "bnem": "BNEM",
    "dikl": "DiKL",
    "paper-pt-dm": "PT+DM",
    "paper": "PTSD",
}
"""Rows of the paper's tables: the end of a preset's name, such as mog40-fab, and the paper's name."""

_NONE = None
_QUALITY = {
    "mog40": {
        "fab": ((0.23, 0.01), (0.30, 0.02), (2.50, 0.19)),
        "cmcd": ((0.14, 0.01), (0.08, 0.01), (3.36, 0.22)),
        "dds": ((0.22, 0.01), (0.10, 0.03), (4.52, 0.30)),
        "idem": ((0.09, 0.01), (0.01, 0.01), (3.26, 0.42)),
        "bnem": ((0.12, 0.00), (0.07, 0.00), (2.16, 0.16)),
        "dikl": ((0.10, 0.01), (0.03, 0.01), (3.23, 0.24)),
        "paper-pt-dm": ((0.13, 0.05), (0.06, 0.06), (3.01, 0.66)),
        "paper": ((0.08, 0.02), (0.02, 0.01), (1.93, 0.41)),
    },
    "mw32": {
        "fab": ((0.32, 0.01), (0.16, 0.02), (5.70, 0.01)),
        "cmcd": ((0.69, 0.01), (0.62, 0.01), (7.44, 0.03)),
        "dds": ((0.77, 0.00), (0.70, 0.02), (7.60, 0.02)),
        "idem": ((0.87, 0.01), (0.87, 0.01), (8.30, 0.02)),
        "bnem": ((0.31, 0.01), (0.05, 0.01), (8.41, 0.09)),
        "dikl": ((0.34, 0.00), (0.16, 0.02), (6.59, 0.03)),
        "paper-pt-dm": ((0.13, 0.03), (0.03, 0.02), (5.04, 0.02)),
        "paper": ((0.14, 0.05), (0.04, 0.03), (4.99, 0.07)),
    },
    "lj55": {
        "fab": (_NONE, _NONE, _NONE),
        "cmcd": (_NONE, _NONE, _NONE),
        "dds": (_NONE, _NONE, _NONE),
        "idem": (_NONE, (0.49, 0.01), (1.95, 0.00)),
        "bnem": ((0.18, 0.01), (0.01, 0.00), (1.76, 0.00)),
        "dikl": (_NONE, _NONE, _NONE),
        "paper-pt-dm": ((0.64, 0.02), (0.22, 0.01), (1.82, 0.00)),
        "paper": ((0.79, 0.01), (0.19, 0.00), (1.81, 0.00)),
    },
}
_CALLS = {
    "fab": (6.6e6, 7.2e9, None),
    "cmcd": (4.4e9, 1.6e9, None),
    "dds": (2.6e9, 1.1e9, None),
    "idem": (5.0e10, 1.8e10, 1.3e10),
    "bnem": (7.5e9, 1.8e10, 6.4e9),
    "dikl": (1.2e10, 8.0e9, None),
    "paper-pt-dm": (1.2e6, 8.0e6, 1.65e5),
    "paper": (1.0e6, 5.3e6, 1.5e5),
}
_OBSERVABLES = {
    "fab": ((1.91, 0.98), (4.09, 0.14), None),
    "cmcd": ((7.03, 0.83), (3.76, 0.12), None),
    "dds": ((6.85, 1.36), (9.89, 0.13), None),
    "idem": ((6.5, 0.75), (9.28, 0.06), (28.72, 0.02)),
    "bnem": ((7.42, 0.63), (11.09, 0.18), (9.48, 0.01)),
    "dikl": ((7.59, 0.76), (3.24, 0.17), None),
    "paper-pt-dm": ((12.09, 0.81), (4.31, 0.10), (0.34, 0.03)),
    "paper": ((1.35, 0.69), (1.49, 0.16), (1.86, 0.04)),
}
_PUBLISHED: dict[str, Any] = {
    "table-quality": {"where": "Table 1", "columns": ("TVD", "MMD", "W"), "rows": _QUALITY},
    "table-calls": {"where": "Table 2", "columns": tuple(TARGETS), "rows": _CALLS},
    "figure-front": {
        "where": "Figure 1",
        "columns": ("evaluations", "W"),
        "rows": {
            "idem": (1.8e10, 8.2),
            "bnem": (1.8e10, 8.3),
            "dds": (1.1e9, 7.5),
            "cmcd": (1.6e9, 7.4),
            "paper-pt-dm": (8.0e6, 5.0298),
            "paper": (5.28e6, 4.93534),
        },
    },
    "figure-pareto": {
        "where": "Figure 6",
        "rows": {"mog40": (1.0e6, (1.93, 0.41), (3.01, 0.66)), "mw32": (5.3e6, (4.99, 0.07), (5.04, 0.02))},
        "claim": "PTSD lies below PT+DM at every number of evaluations; the curves themselves are a picture only",
    },
    "table-ablation": {
        "where": "Table 3",
        "columns": ("TVD", "W"),
        "rows": {
            "mw32-paper-no-guidance": (0.34, 24.59),
            "mw32-paper-no-weights": (0.23, 5.84),
            "mw32-paper": (0.14, 4.99),
        },
    },
    "figure-lj55-extrapolation": {
        "where": "Figure 5",
        "claim": "temperature guidance is nearer to T = 1 than ME, AD, RS and the models of T = 2 and 1.5",
    },
    "figure-extrapolation": {
        "where": "Appendix D.1",
        "columns": ("Langevin steps from finite differences to the truth",),
        "rows": {"mog40": (2,), "dw4": (10,), "lj13": (200,), "lj55": (200,)},
        "claim": "finite differences are nearer to T = 0.1 than NN generalisation and autodiff",
    },
    "table-observables": {"where": "Appendix D.2", "columns": tuple(TARGETS), "rows": _OBSERVABLES},
    "figure-likelihood": {
        "where": "Appendix D.3",
        "claim": "PTSD is on the front of evaluations against log likelihood for every target; a picture only",
    },
    "table-aldp": {
        "where": "Table 4",
        "columns": ("log likelihood", "Ramachandran KL"),
        "rows": {"aldp-paper": ((213.32, 0.06), 6.9e-2), "aldp-paper-pt-dm": ((212.38, 0.05), 3.2e-2)},
    },
    "figure-ramachandran": {
        "where": "Figure 7",
        "claim": "PTSD has the small state at positive phi, which PT+DM has less of",
    },
    "figure-aldp-marginals": {
        "where": "Appendix D.4",
        "claim": "PT+DM has the low phi more exactly, PTSD the small mode on the right",
    },
    "figure-aldp-energy": {
        "where": "Appendix D.4",
        "claim": "energies of PTSD are slightly above the true ones",
    },
    "panels-mog40": {"where": "Appendix D.5", "claim": "PTSD covers all forty modes"},
    "panels-mw32": {"where": "Appendix D.5", "claim": "PTSD covers all wells, with their weights"},
    "table-lj55-langevin": {
        "where": "Appendix D.6",
        "columns": ("TVD", "MMD", "W"),
        "rows": {
            "idem": ((0.42, 0.006), (0.10, 0.001), (1.83, 0.001)),
            "bnem": ((0.09, 0.004), (0.00, 0.000), (1.81, 0.000)),
            "paper-pt-dm": ((0.15, 0.004), (0.01, 0.001), (1.82, 0.001)),
            "paper": ((0.29, 0.001), (0.05, 0.001), (1.86, 0.001)),
        },
    },
}


def published(name: str) -> dict[str, Any]:
    """What the paper has for a reproduction: `where`, and `rows` of numbers or a `claim` where it has a picture."""
    return _PUBLISHED[name]
