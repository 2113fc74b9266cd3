"""Same as `petabatch plot reconstructions DIR -o FILE.png`, with the same options."""

from petabatch.plotting.command import script

script("reconstructions")
