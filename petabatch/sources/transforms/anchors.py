"""Anchors: positions of a part in an image, or of an image in a frame."""

from __future__ import annotations

from typing import Literal

Anchor = Literal[
    "top_left", "top", "top_right", "left", "center", "right", "bottom_left", "bottom", "bottom_right"
]

Position = Literal[
    "random", "top_left", "top", "top_right", "left", "center", "right", "bottom_left", "bottom",
    "bottom_right",
]  # fmt: skip


def anchored(anchor: str, rows: int, columns: int) -> tuple[int, int]:
    """Return the first row and column at an anchor, of `rows` and `columns` by which one is larger."""
    y = 0 if anchor.startswith("top") else rows if anchor.startswith("bottom") else rows // 2
    x = 0 if anchor.endswith("left") else columns if anchor.endswith("right") else columns // 2
    return y, x
