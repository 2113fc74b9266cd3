"""Same as `petabatch plot energy DIR -o FILE.png`, with the same options."""

from petabatch.plotting.command import script

script("energy")
