"""The files of a run. Each is written under a temporary name, closed, renamed, and never modified."""

FORMAT = 1
"""Version of the layout in docs/file-format.md: the root attribute `petabatch_format` of every file."""
