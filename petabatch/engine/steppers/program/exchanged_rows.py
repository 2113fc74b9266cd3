"""Rows that tiles on several ranks reach, exchanged between the compiled operations of a step."""

from __future__ import annotations

import numpy as np

from petabatch.engine.steppers.base import Binding
from petabatch.network.operations import Exchange
from petabatch.parallel.neighbours import Borders


class ExchangedRows:
    """The exchange of rows at the borders of a tile, of slices that are advanced together."""

    def __init__(self, one: Exchange, bound: Binding, wide: np.ndarray, out: np.ndarray) -> None:
        """Take the binding of the first slice; arrays are `[slices, numbers]`, of `source` and of `out`."""
        self._one, self._tag = one, bound.lanes.start
        slices = len(wide)
        self._wide, self._out = (array.reshape(slices, -1, one.row) for array in (wide, out))
        group = bound.signals.features.tiles
        self._borders = Borders(group, slices, one.rows, (one.row,), one.before, one.after)

    def advance(self, step: int) -> None:
        """Exchange the rows of a step; waits for the neighbours."""
        if not self._one.when.due(step):
            return
        if self._one.adds:
            self._borders.add(self._wide, self._out, self._tag)
        else:
            self._borders.fill(self._wide, self._tag)
