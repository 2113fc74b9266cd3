"""Benchmarks of a network on this machine, relative to dense matrix products; see `report.bench`."""

from pathlib import Path

EXAMPLE = Path(__file__).parent / "example.py"
"""The params file that is measured by default."""
