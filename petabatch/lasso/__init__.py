"""Sparse codes of vectors with a dictionary, on arrays alone: the LASSO, solved item by item."""

from petabatch.lasso.solver import Lasso, Solution, fits

__all__ = ["Lasso", "Solution", "fits"]
