"""Layer types, one to a file. Importing this package makes them known to params files."""

from petabatch.layers.constant import Constant
from petabatch.layers.fista import FISTA
from petabatch.layers.heavy_ball import HeavyBall
from petabatch.layers.input import Input
from petabatch.layers.ista import ISTA
from petabatch.layers.lca import LCA
from petabatch.layers.linear import Linear
from petabatch.layers.momentum_lca import MomentumLCA
from petabatch.layers.timescale import BaseTimeScale, KneeTimeScale, LogTimeScale

__all__ = [
    "FISTA",
    "ISTA",
    "LCA",
    "BaseTimeScale",
    "Constant",
    "HeavyBall",
    "Input",
    "KneeTimeScale",
    "Linear",
    "LogTimeScale",
    "MomentumLCA",
]
