"""Weight initialisers and normalisers; `petabatch.builtins` imports every file of this folder."""

from petabatch.weights.given import WeightArray, WeightFile
from petabatch.weights.normalisers import L2, ContrastZeroMean, L2Ball, Max, Sum, Unchanged
from petabatch.weights.patches import ImagePatches
from petabatch.weights.patterns import Gabor, Gaussian2D, IdentityWeights
from petabatch.weights.random import Constant, Gaussian, TruncatedNormal, Uniform

__all__ = [
    "L2",
    "Constant",
    "ContrastZeroMean",
    "Gabor",
    "Gaussian",
    "Gaussian2D",
    "IdentityWeights",
    "ImagePatches",
    "L2Ball",
    "Max",
    "Sum",
    "TruncatedNormal",
    "Unchanged",
    "Uniform",
    "WeightArray",
    "WeightFile",
]
