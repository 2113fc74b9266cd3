"""Same as `petabatch plot receptive-fields DIR -o FILE.png`, with the same options."""

from petabatch.plotting.command import script

script("receptive-fields")
