"""Same as `petabatch plot raster DIR -o FILE.png`, with the same options."""

from petabatch.plotting.command import script

script("raster")
