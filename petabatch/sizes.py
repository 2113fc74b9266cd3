"""Sizes in bytes, and counts, as text."""

from __future__ import annotations


def counted(count: int, noun: str) -> str:
    """Return a count with its noun, such as `1 slice` or `1,000 slices`."""
    return f"{count:,} {noun}{'s' * (count != 1)}"


def size_text(nbytes: float) -> str:
    """Format a number of bytes in the largest unit that does not exceed it, such as `1.5 GiB`."""
    if nbytes < 1024:
        return f"{nbytes:.0f} B"
    for unit in ("KiB", "MiB", "GiB"):
        nbytes /= 1024
        if nbytes < 1024:
            return f"{nbytes:.1f} {unit}"
    return f"{nbytes / 1024:,.1f} TiB"
