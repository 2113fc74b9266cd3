"""Same as `petabatch plot sweep DIR -o FILE.png`, with the same options."""

from petabatch.plotting.command import script

script("sweep")
