"""Image sources; `petabatch.builtins` imports every file of this folder."""

from petabatch.sources.array import ImageArray
from petabatch.sources.images import Images
from petabatch.sources.photographs import Photographs
from petabatch.sources.video import Video

__all__ = ["ImageArray", "Images", "Photographs", "Video"]
