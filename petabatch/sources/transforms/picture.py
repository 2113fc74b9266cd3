"""Images between file and layer: pixels that are computed when they are needed, and where they come from."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

Shape = tuple[int, int, int]
"""Rows, columns, channels."""


@dataclass(frozen=True)
class Axis:
    """Where the rows or columns of an image lie in the stored one: number i from `origin` + i `step` on."""

    origin: float = 0.0
    step: float = 1.0

    def shifted(self, by: int) -> Axis:
        """Return the axis that begins at number `by` of this one."""
        return Axis(self.origin + by * self.step, self.step)

    def reversed(self, size: int) -> Axis:
        """Return the axis of `size` numbers in reverse."""
        return Axis(self.origin + size * self.step, -self.step)

    def scaled(self, size: int, to: int) -> Axis:
        """Return the axis of `size` numbers divided into `to`."""
        return Axis(self.origin, self.step * size / to)

    def first(self, size: int) -> int:
        """Return the smallest row or column of the stored image among `size` numbers."""
        return math.floor(min(self.origin, self.origin + size * self.step) + 1e-9)


@dataclass(frozen=True)
class Picture:
    """An image on its way from a file to the layer."""

    shape: Shape
    read: Callable[[slice, slice], np.ndarray]
    """`read(rows, columns)` returns a part, float64; arrays may be shared and are not to be changed."""
    axes: tuple[Axis, Axis] = (Axis(), Axis())
    """Where its rows and columns lie in the stored image."""

    @cached_property
    def pixels(self) -> np.ndarray:
        """The pixels, float64 `[ny, nx, nf]`."""
        return self.read(slice(0, self.shape[0]), slice(0, self.shape[1]))

    @property
    def corner(self) -> tuple[int, int]:
        """The first row and column of the stored image that it shows."""
        y, x = (axis.first(size) for axis, size in zip(self.axes, self.shape[:2], strict=True))
        return y, x

    @property
    def outline(self) -> Picture:
        """Where it lies in the stored image, without pixels."""
        return Picture(self.shape, _without_pixels, self.axes)

    def part(self, y: int, x: int, ny: int, nx: int) -> Picture:
        """Return a part of it, of which alone pixels are read."""

        def read(rows: slice, columns: slice) -> np.ndarray:
            return self.read(slice(y + rows.start, y + rows.stop), slice(x + columns.start, x + columns.stop))

        axes = self.axes[0].shifted(y), self.axes[1].shifted(x)
        return Picture((ny, nx, self.shape[2]), read, axes)

    def mirrored(self, axis: int) -> Picture:
        """Return it with its rows (axis 0) or its columns (axis 1) in reverse."""
        size = self.shape[axis]

        def read(rows: slice, columns: slice) -> np.ndarray:
            part = [rows, columns]
            part[axis] = slice(size - part[axis].stop, size - part[axis].start)
            return np.flip(self.read(*part), axis)

        y, x = self.axes
        axes = (y.reversed(size), x) if axis == 0 else (y, x.reversed(size))
        return Picture(self.shape, read, axes)

    def each(self, change: Callable[[np.ndarray], np.ndarray], shape: Shape) -> Picture:
        """Return what `change` makes of its pixels, each by itself: of a part, no others are read."""
        return Picture(shape, lambda rows, columns: change(self.read(rows, columns)), self.axes)

    def then(
        self,
        change: Callable[[np.ndarray], np.ndarray],
        shape: Shape | None = None,
        axes: tuple[Axis, Axis] | None = None,
    ) -> Picture:
        """Return what `change` makes of all pixels, once they are needed; it then lets go of this image."""
        before: Picture | None = self
        after: np.ndarray | None = None

        def read(rows: slice, columns: slice) -> np.ndarray:
            nonlocal before, after
            picture = before  # read first: another thread sets `after` before it clears `before`
            if after is None:
                assert picture is not None
                after = change(picture.pixels)
                before = None
            return after[rows, columns]

        return Picture(shape or self.shape, read, axes or self.axes)


def _without_pixels(rows: slice, columns: slice) -> np.ndarray:
    raise ValueError("this is the outline of an image, without pixels")
