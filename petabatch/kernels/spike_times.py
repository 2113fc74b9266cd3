"""Rounding of spike times to steps."""

EARLY = 1e-3
"""Part of a step by which a spike may come before the step in which it is made."""
