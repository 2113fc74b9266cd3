"""Weight initialisers and normalisers, one to a file. Importing this package makes them known."""

from petabatch.weights.array import WeightArray
from petabatch.weights.contrast import ContrastZeroMean
from petabatch.weights.file import WeightFile
from petabatch.weights.gabor import Gabor
from petabatch.weights.gaussian import Gaussian
from petabatch.weights.gaussian_2d import Gaussian2D
from petabatch.weights.identity import IdentityWeights
from petabatch.weights.l2 import L2
from petabatch.weights.l2_ball import L2Ball
from petabatch.weights.max import Max
from petabatch.weights.patches import ImagePatches
from petabatch.weights.sum import Sum
from petabatch.weights.unchanged import Unchanged
from petabatch.weights.uniform import Uniform

__all__ = [
    "L2",
    "ContrastZeroMean",
    "Gabor",
    "Gaussian",
    "Gaussian2D",
    "IdentityWeights",
    "ImagePatches",
    "L2Ball",
    "Max",
    "Sum",
    "Unchanged",
    "Uniform",
    "WeightArray",
    "WeightFile",
]
