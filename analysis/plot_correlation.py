"""Same as `petabatch plot correlation DIR -o FILE.png`, with the same options."""

from petabatch.plotting.command import script

script("correlation")
