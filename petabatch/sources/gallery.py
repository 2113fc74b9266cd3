"""What every source of still images has: numbered images of known shape that can be read in part."""

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
    """`read(number, rows, columns)` returns that part of an image, `[ny, nx, nf]`, as it is stored."""
    name: Callable[[int], str]
    """What to call an image in a message: its file, or its place in one."""
