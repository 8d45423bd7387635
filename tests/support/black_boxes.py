"""Callables that a worker process can import, and one that counts what it receives."""

import os

import numpy as np

__all__ = ["CENTRE", "Counted", "dying", "gaussian", "gaussian_gradient", "leaving", "picky", "unsendable", "whose"]

CENTRE = np.asarray([1.0, -2.0])
WIDTH = np.asarray([0.5, 2.0])


def gaussian(x: np.ndarray) -> float:
    """Log density of one point, off-centre and anisotropic."""
    return -0.5 * float(np.sum(((x - CENTRE) / WIDTH) ** 2))


def gaussian_gradient(x: np.ndarray) -> np.ndarray:
    """Its gradient."""
    return -(x - CENTRE) / WIDTH**2


class Counted:
    """A callable that counts the points and the calls it receives.

    Args:
        gives: value, pair (value and gradient), or batch (values of many).
    """

    def __init__(self, gives: str = "value"):
        self.gives, self.points, self.calls = gives, 0, 0

    def __call__(self, x: np.ndarray):
        """What `gives` says."""
        self.calls += 1
        self.points += x.size // CENTRE.size
        if self.gives == "batch":
            return -0.5 * np.sum(((x - CENTRE) / WIDTH) ** 2, axis=1)
        return (gaussian(x), gaussian_gradient(x)) if self.gives == "pair" else gaussian(x)


class PickyError(Exception):
    """An exception with a constructor of its own, which unpickling cannot call."""

    def __init__(self, point, reason):
        super().__init__(f"{reason} at {point}")


def picky(x: np.ndarray) -> float:
    """Refuses everything."""
    raise LookupError(f"no table for {x[0]:g}")


def unsendable(x: np.ndarray) -> float:
    """Raises what does not survive the journey between processes."""
    raise PickyError(list(x), "no value")


def dying(x: np.ndarray) -> float:
    """Ends its process."""
    os._exit(7)


def leaving(x: np.ndarray) -> float:
    """Asks its interpreter to end."""
    raise SystemExit(3)


def whose(x: np.ndarray) -> float:
    """The process that works."""
    return float(os.getpid())
