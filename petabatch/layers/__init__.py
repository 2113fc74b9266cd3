"""Layer types, one to a file. Importing this package makes them known to params files."""

from petabatch.layers.constant import Constant
from petabatch.layers.input import Input
from petabatch.layers.lca import LCA
from petabatch.layers.linear import Linear

__all__ = ["LCA", "Constant", "Input", "Linear"]
