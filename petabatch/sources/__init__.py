"""Image sources. Importing this package registers them for params files."""

from petabatch.sources.array import ImageArray
from petabatch.sources.images import Images
from petabatch.sources.photographs import Photographs
from petabatch.sources.video import Video

__all__ = ["ImageArray", "Images", "Photographs", "Video"]
