"""Where images come from, one type of source to a file. Importing this package makes them known."""

from petabatch.sources.array import ImageArray
from petabatch.sources.images import Images
from petabatch.sources.photographs import Photographs
from petabatch.sources.video import Video

__all__ = ["ImageArray", "Images", "Photographs", "Video"]
