"""Runs as Zarr stores, format 3: chunks that ranks write, commits that say what they hold, and metadata."""
