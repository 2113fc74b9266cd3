"""Transforms of images, from their file to the layer."""

from petabatch.sources.transforms.base import Draws, Transform
from petabatch.sources.transforms.chain import Chain, Chance
from petabatch.sources.transforms.channels import Colour, Grey
from petabatch.sources.transforms.crop import Crop
from petabatch.sources.transforms.flip import Flip
from petabatch.sources.transforms.frames import Frames
from petabatch.sources.transforms.normalize import Normalize
from petabatch.sources.transforms.pad import Pad
from petabatch.sources.transforms.pointwise import AddNoise, Invert, Region
from petabatch.sources.transforms.resize import Resize
from petabatch.sources.transforms.whitening import ZCA, Whiten

__all__ = [
    "ZCA",
    "AddNoise",
    "Chain",
    "Chance",
    "Colour",
    "Crop",
    "Draws",
    "Flip",
    "Frames",
    "Grey",
    "Invert",
    "Normalize",
    "Pad",
    "Region",
    "Resize",
    "Transform",
    "Whiten",
]
