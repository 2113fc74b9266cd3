"""Same as `petabatch plot movie DIR -o movie.gif`, with the same options."""

from petabatch.plotting.command import script

script("movie")
