"""Same as `petabatch plot sparsity DIR -o FILE.png`, with the same options."""

from petabatch.plotting.command import script

script("sparsity")
