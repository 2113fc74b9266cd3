"""Same as `petabatch plot compare DIR DIR -o FILE.png`, with the same options."""

from petabatch.plotting.command import script

script("compare")
