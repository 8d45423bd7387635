"""Methods without learning, to be compared with: each file has `samples(target, key, budget, ...) -> Drawn`."""

from baselines.drawn import Drawn

__all__ = ["Drawn"]
