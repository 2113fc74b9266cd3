"""Numbers in which slices that share a launch differ: those of their units, and which of them move."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import numpy as np

from petabatch.kernels.cuda.cell import CELL_NUMBERS, cell_row
from petabatch.kernels.rules import Cell
from petabatch.variable import Array


class SliceNumbers:
    """The tables that kernels read where slices differ; where they do not, nothing reads them."""

    def __init__(self, xp: Any, lanes: int, varies: bool) -> None:
        self.varies = varies
        rows = lanes if varies else 1
        self._host, self._moving = np.zeros((rows, CELL_NUMBERS), np.float32), np.ones(rows, np.int32)
        self.cells: Array = xp.asarray(self._host)
        """float32 `[lanes, CELL_NUMBERS]`."""
        self.moves: Array = xp.asarray(self._moving)
        """int32 `[lanes]`: 0 where a slice stands still."""
        self._xp = xp

    def set(self, lanes: slice, cell: Cell, factor: float) -> None:
        """Set the numbers of some lanes, which kernels read after `send`."""
        self._host[lanes] = cell_row(cell, factor)

    def send(self) -> None:
        """Copy the numbers of all lanes to the device."""
        self._send(self.cells, self._host)

    def move(self, lanes: Collection[slice]) -> None:
        """Let these lanes move, and no others."""
        moving = np.zeros_like(self._moving)
        for one in lanes:
            moving[one] = 1
        if not np.array_equal(moving, self._moving):
            self._moving = moving
            self._send(self.moves, moving)

    def _send(self, into: Array, values: np.ndarray) -> None:
        into[...] = self._xp.asarray(values)
