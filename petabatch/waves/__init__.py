"""Sweeps and pools: points computed in waves or in the slots of a pool, and kept by their values."""
