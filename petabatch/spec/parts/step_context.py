"""The context of one step of one lane, with the rows of the layer that a rank has."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from petabatch.clock import Clock
from petabatch.variable import Array


def _itself(values: Array) -> Array:
    return values


@dataclass(frozen=True)
class Tile:
    """The rows of a layer that a rank has, of several ranks with as many; by default all."""

    number: int = 0
    parts: int = 1
    total: Callable[[Array], Array] = _itself
    """Sums up values `[lanes, ...]` over all tiles, in their order."""

    def whole(self, shape: tuple[int, int, int]) -> tuple[int, int, int]:
        """Return the shape of the whole layer, of which this has `shape`."""
        return shape[0] * self.parts, *shape[1:]

    def rows(self, whole: np.ndarray) -> np.ndarray:
        """Return the rows of this tile, of an array `[ny, ...]` of all."""
        count = len(whole) // self.parts
        return whole[self.number * count : (self.number + 1) * count]


@dataclass(frozen=True)
class StepContext:
    """Context of one step of one lane, passed to `Layer.update`."""

    step: int
    """Number of the step being made, from 1."""
    dt: float
    """Time step."""
    slices: tuple[int, ...]
    """Slice numbers along the leading axis of the arrays, counted over all ranks; in a sweep, from 0 in each
    point. They need not follow each other."""
    seed: int
    """Seed of the run."""
    xp: Any = np
    """Array module of the lane's arrays, numpy or cupy."""
    display: int = 1
    """Display period, in steps."""
    layer: str = ""
    """Name of the layer that is updated."""
    tile: Tile = Tile()
    """The rows of the layer that are updated."""

    @property
    def clock(self) -> Clock:
        """What converts between steps, displays and t."""
        return Clock(self.display, self.dt)
