"""Same as `petabatch plot traces DIR -o FILE.png`, with the same options."""

from petabatch.plotting.command import script

script("traces")
