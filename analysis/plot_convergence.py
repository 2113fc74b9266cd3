"""Same as `petabatch plot convergence DIR -o FILE.png`, with the same options."""

from petabatch.plotting.command import script

script("convergence")
