"""Bytes and seconds in words."""

from __future__ import annotations


def size(nbytes: float) -> str:
    """Return a number of bytes, such as `0.26 MB`."""
    if nbytes < 1e3:
        return f"{nbytes:.0f} B"
    unit, factor = next((u, f) for u, f in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)) if nbytes >= f / 5)
    return f"{nbytes / factor:,.{2 if nbytes < 10 * factor else 1 if nbytes < 100 * factor else 0}f} {unit}"


def duration(seconds: float) -> str:
    """Return a time, such as `57.0 ms`."""
    unit, factor = next(
        (u, f) for u, f in (("s", 1.0), ("ms", 1e-3), ("us", 1e-6)) if seconds >= f or u == "us"
    )
    return f"{seconds / factor:,.{2 if seconds < 10 * factor else 1}f} {unit}"
