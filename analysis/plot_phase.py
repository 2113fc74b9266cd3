"""Same as `petabatch plot phase DIR -o FILE.png`, with the same options."""

from petabatch.plotting.command import script

script("phase")
