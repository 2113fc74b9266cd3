"""Sums over the ranks that share the features of a layer, between the compiled operations of a step."""

from __future__ import annotations

import numpy as np

from petabatch.engine.steppers.base import Binding
from petabatch.network.operations import When


class JoinedSum:
    """The sum of the partial sums of all ranks, of slices that are advanced together."""

    def __init__(self, when: When, bound: Binding, part: np.ndarray, total: np.ndarray) -> None:
        """Take the binding of the first slice; `part` and `total` are arrays `[slices, numbers]`."""
        self._when, self._features, self._tag = when, bound.signals.features, bound.lanes.start
        self._part, self._total = part, total
        self._contiguous = part.flags.c_contiguous and total.flags.c_contiguous

    def advance(self, step: int) -> None:
        """Set the total of a step; waits for the parts of other ranks."""
        if not self._when.due(step):
            return
        if self._contiguous:
            self._features.add_parts(self._part, self._total, self._tag)
            return
        total = np.empty(self._total.shape, self._total.dtype)
        self._features.add_parts(np.ascontiguousarray(self._part), total, self._tag)
        self._total[...] = total
