"""The files of a run, each written under a temporary name, renamed when complete, and never modified."""

FORMAT = 2
"""Version of the layout in docs/file-format.md: the root attribute `petabatch_format` of every file."""
READABLE = (1, FORMAT)
"""Versions that can be read, resumed and merged."""
JSON_ATTRIBUTES = (
    "params",
    "overrides",
    "inputs",
    "hosts",
    "devices",
    "libraries",
    "blas",
    "compiler",
    "points",
    "times",
    "rank_times",
    "gaps",
)
"""Root attributes of `run.h5` that are JSON."""
