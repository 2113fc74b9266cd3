"""How fast this machine runs a network, against the arithmetic it cannot do without; see `report.bench`."""

from pathlib import Path

EXAMPLE = Path(__file__).parent / "example.py"
"""The params file that is measured when none is given."""
