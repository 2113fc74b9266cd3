"""Layer types; `petabatch.builtins` imports every file of this folder."""

from petabatch.layers.bins import Bins
from petabatch.layers.conductance_lif import ConductanceLIF
from petabatch.layers.fista import FISTA
from petabatch.layers.heavy_ball import HeavyBall
from petabatch.layers.input import Input
from petabatch.layers.ista import ISTA
from petabatch.layers.lca import LCA
from petabatch.layers.leaky_integrator import LeakyIntegrator
from petabatch.layers.mask import Mask
from petabatch.layers.max_unpool import MaxUnpool
from petabatch.layers.momentum_lca import MomentumLCA
from petabatch.layers.neurons import Neurons
from petabatch.layers.noise import Dropout, GaussianNoise
from petabatch.layers.pointwise import (
    Constant,
    FirmCost,
    Linear,
    Product,
    Quotient,
    Rectified,
    Sigmoid,
    Squared,
)
from petabatch.layers.poisson import Poisson
from petabatch.layers.rescale import Rescale
from petabatch.layers.retina import Retina
from petabatch.layers.spike_times import SpikeTimes
from petabatch.layers.timescale import BaseTimeScale, KneeTimeScale, LogTimeScale

__all__ = [
    "FISTA",
    "ISTA",
    "LCA",
    "BaseTimeScale",
    "Bins",
    "ConductanceLIF",
    "Constant",
    "Dropout",
    "FirmCost",
    "GaussianNoise",
    "HeavyBall",
    "Input",
    "KneeTimeScale",
    "LeakyIntegrator",
    "Linear",
    "LogTimeScale",
    "Mask",
    "MaxUnpool",
    "MomentumLCA",
    "Neurons",
    "Poisson",
    "Product",
    "Quotient",
    "Rectified",
    "Rescale",
    "Retina",
    "Sigmoid",
    "SpikeTimes",
    "Squared",
]
