"""Weight modes: whether slices have weights in common, and positions a kernel."""

from __future__ import annotations

from typing import Literal

WeightMode = Literal["extra_shared", "shared", "non_shared", "extra_non_shared"]


def over_slices(mode: str) -> bool:
    """Return whether all slices have the same weights."""
    return mode.startswith("extra_")


def over_positions(mode: str) -> bool:
    """Return whether all positions have the same kernel."""
    return not mode.endswith("non_shared")


def per(mode: str) -> Literal["network", "slice"]:
    """Return what has weights of its own."""
    return "network" if over_slices(mode) else "slice"


def for_each_slice(mode: str) -> str:
    """Return the mode in which each slice has weights of its own."""
    return mode.removeprefix("extra_")
