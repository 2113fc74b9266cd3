"""Patches that are added up by a kernel: the function that it calls, and where they are."""

from __future__ import annotations

from pathlib import Path

from petabatch.geometry import Patches

FOLD = Path(__file__).with_name("fold.cuh").read_text(encoding="utf-8")
"""The source of the function."""


def places(p: Patches) -> tuple[int, ...]:
    """Return the members of `Places`."""
    return (
        *(p.channels, p.y.units, p.x.units, p.y.size, p.x.size, p.y.stride, p.x.stride),
        *(p.y.offset - p.y.before, p.x.offset - p.x.before),
    )
