"""Same as `petabatch plot weights DIR -o FILE.png`, with the same options."""

from petabatch.plotting.command import script

script("weights")
