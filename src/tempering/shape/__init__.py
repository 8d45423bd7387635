"""Shape: a chart learned from a density's own draws, in which it is nearly a standard normal.

`learn.learned_shape` is the stage; `fit.fit_triangular` the pure function inside it.
"""

from tempering.shape.fit import fit_triangular
from tempering.shape.learn import LearnedShape, learned_shape
from tempering.shape.spread import Spread

__all__ = ["LearnedShape", "Spread", "fit_triangular", "learned_shape"]
