"""Sizes in bytes, as text."""

from __future__ import annotations


def size_text(nbytes: float) -> str:
    """Return a number of bytes in the largest unit of which it is at least one, such as `1.5 GiB`."""
    if nbytes < 1024:
        return f"{nbytes:.0f} B"
    for unit in ("KiB", "MiB", "GiB"):
        nbytes /= 1024
        if nbytes < 1024:
            return f"{nbytes:.1f} {unit}"
    return f"{nbytes / 1024:,.1f} TiB"
