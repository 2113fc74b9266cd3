"""The files of a run: written under a temporary name, sealed, renamed when complete, never modified."""

FORMAT = 3
"""Version of the layout in docs/file-format.md: the root attribute `petabatch_format` of every file."""
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
