"""Images with their margins, in the places of the history from which a program reads them."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from petabatch.engine.steppers.base import Binding


class Margins:
    """The images of a slice whose margins are read, by layer."""

    def __init__(self, bound: Binding, shapes: Mapping[str, tuple[int, int, int]]) -> None:
        self._bound = bound
        depth = bound.plan.graph.depth
        real = bound.plan.graph.network.run.precision
        self.arrays = {name: np.zeros((1, depth[name], *shape), real) for name, shape in shapes.items()}
        """The places of each layer, `[1, depth, y, x, channel]`."""
        self.reached = -1
        """The step whose images are in the places."""

    def begin(self, first: int) -> None:
        """Have the images that step first + 1 sees in their places."""
        for name, (places,) in self.arrays.items():
            depth, margin = len(places), self._bound.deliveries.margins[name]
            begin = first + 1 if self.reached == first else first + 2 - depth
            for step in range(begin, first + 2):
                places[step % depth] = margin.at(step)[0] if step >= 0 else 0
