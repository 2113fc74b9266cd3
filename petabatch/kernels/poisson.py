"""Constants of the inversion of Poisson's distribution."""

from __future__ import annotations

PIECE = 16.0
"""The largest mean of a single inversion; larger ones are sums of several."""
LARGEST = 4096.0
"""The largest mean of a unit and step."""
SQUARINGS, TERMS = 6, 14
"""exp(-x) is the 2^SQUARINGS-th power of a Taylor polynomial of TERMS terms."""
NEGLIGIBLE = 1e-18
"""A probability at which the search ends: their sum no longer changes."""
