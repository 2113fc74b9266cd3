"""Same as `petabatch plot features DIR -o FILE.png`, with the same options."""

from petabatch.plotting.command import script

script("features")
