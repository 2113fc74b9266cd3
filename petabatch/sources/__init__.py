"""Image sources; `petabatch.builtins` imports every file of this folder."""

from petabatch.sources.array import ImageArray
from petabatch.sources.cifar import Cifar10, Cifar100
from petabatch.sources.function import Function
from petabatch.sources.idx import Idx
from petabatch.sources.images import Images
from petabatch.sources.in_python import Dataset
from petabatch.sources.iterable import Iterable
from petabatch.sources.labels import Labels
from petabatch.sources.photographs import Photographs
from petabatch.sources.sound import Sound
from petabatch.sources.synthetic import Bars, DeadLeaves, Gratings, Noise
from petabatch.sources.video import Video

__all__ = [
    "Bars",
    "Cifar10",
    "Cifar100",
    "Dataset",
    "DeadLeaves",
    "Function",
    "Gratings",
    "Idx",
    "ImageArray",
    "Images",
    "Iterable",
    "Labels",
    "Noise",
    "Photographs",
    "Sound",
    "Video",
]
