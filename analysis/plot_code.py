"""Same as `petabatch plot code DIR -o FILE.png`, with the same options."""

from petabatch.plotting.command import script

script("code")
