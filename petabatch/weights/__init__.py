"""Weight initialisers and normalisers, one to a file. Importing this package makes them known."""

from petabatch.weights.gaussian import Gaussian
from petabatch.weights.l2 import L2

__all__ = ["L2", "Gaussian"]
