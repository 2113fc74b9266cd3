"""Sweeps of more points than are held at once: computed in waves."""
