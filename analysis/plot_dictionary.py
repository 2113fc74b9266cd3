"""Same as `petabatch plot dictionary DIR -o FILE.png`, with the same options."""

from petabatch.plotting.command import script

script("dictionary")
