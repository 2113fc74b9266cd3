"""Same as `petabatch plot weights-over-time DIR -o FILE.png`, with the same options."""

from petabatch.plotting.command import script

script("weights-over-time")
