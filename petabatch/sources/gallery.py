"""Numbered images of known shape that can be read in part, the data of a source of still images."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Gallery:
    """Numbered images; `read` is thread-safe."""

    shapes: Sequence[tuple[int, int, int]]
    """`[ny, nx, nf]` of each image."""
    read: Callable[[int, slice, slice], np.ndarray]
    """`read(number, rows, columns)` returns that part of an image, `[ny, nx, nf]`, as stored."""
    name: Callable[[int], str]
    """`name(number)` returns the name of an image in error messages: its file, or its index in a file."""
