"""Images as samples: where patches are, their codes, and the images that codes stand for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from sklearn.utils.validation import check_array

from petabatch.arguments import whole_number
from petabatch.errors import ArgumentError, Described
from petabatch.geometry import GeometryError, make_link
from petabatch.kernels.array import ArrayKernels

FLOATS = [np.float64, np.float32]
"""Types of samples that are used as they are; all others become the first."""


def images(given: Any) -> np.ndarray:
    """Return samples as images `[n, rows, columns]` or `[n, rows, columns, channels]`."""
    found = check_array(given, dtype=FLOATS, order="C", ensure_2d=False, allow_nd=True, input_name="X")
    if found.ndim not in (3, 4):
        expected = "images [n_samples, rows, columns] or [n_samples, rows, columns, channels]"
        hint = "without `patch`, samples are vectors"
        raise ArgumentError("X", "these are not images", Described(str(list(found.shape))), expected, hint)
    return found  # type: ignore[no-any-return]


@dataclass(frozen=True)
class Grid:
    """Patches at every `stride` pixels of images."""

    shape: tuple[int, ...]
    """Of an image: `[rows, columns]`, or `[rows, columns, channels]`."""
    patch: tuple[int, int]
    stride: int

    @classmethod
    def of(cls, shape: tuple[int, ...], patch: Any, stride: Any) -> Grid:
        """Return the grid that the parameters of an estimator describe; raises ArgumentError."""
        sides = tuple(patch) if isinstance(patch, list | tuple | np.ndarray) else (patch, patch)
        if len(sides) != 2:
            raise ArgumentError("patch", "this is not a size", patch, "rows and columns, or one number")
        rows, columns = (whole_number("patch", side, 1) for side in sides)
        if stride is None and rows != columns:
            raise ArgumentError(
                "stride", "a patch that is not square needs one", stride, "a number of pixels"
            )
        step = rows if stride is None else whole_number("stride", stride, 1)
        if rows > shape[0] or columns > shape[1]:
            expected = f"at most {shape[0]} rows and {shape[1]} columns"
            raise ArgumentError("patch", "it is larger than the images", (rows, columns), expected)
        if shape[0] % step or shape[1] % step:
            expected = f"a divisor of {shape[0]} rows and {shape[1]} columns"
            hint = "crop the images, or pad them with zeros"
            raise ArgumentError("stride", "the stride does not divide the images", step, expected, hint)
        return cls(shape, (rows, columns), step)

    @property
    def channels(self) -> int:
        """Channels of an image."""
        return self.shape[2] if len(self.shape) == 3 else 1

    @property
    def atom(self) -> tuple[int, ...]:
        """Shape of an atom, with channels where images have them."""
        return (*self.patch, *self.shape[2:])

    @property
    def positions(self) -> tuple[int, int]:
        """Rows and columns of a code."""
        return self.shape[0] // self.stride, self.shape[1] // self.stride

    def stacked(self, given: np.ndarray) -> np.ndarray:
        """Return images, or atoms, with an axis of channels."""
        return given if len(self.shape) == 3 else given[..., None]

    def shown(self, code: np.ndarray, atoms: np.ndarray) -> np.ndarray:
        """Return the images that codes `[n, rows * columns * n_components]` stand for."""
        high, wide = self.positions
        count = len(atoms)
        try:
            pixels = self.shape[0], self.shape[1], self.channels
            link = make_link((high, wide, count), pixels, self.patch, shared=True)
        except GeometryError as error:
            raise ArgumentError("patch", str(error), self.patch) from None
        units = code.reshape(len(code), high, wide, count)
        patches = atoms.reshape(1, 1, count, -1)
        found: np.ndarray = ArrayKernels(np).synthesize(units, patches, link.patches)
        return found.reshape(len(code), *self.shape)


class CutOut:
    """All patches within images, every `stride` pixels from the first; vectors, made when asked for."""

    def __init__(self, given: np.ndarray, grid: Grid) -> None:
        windows = sliding_window_view(grid.stacked(given), grid.patch, axis=(1, 2))
        self._windows = windows[:, :: grid.stride, :: grid.stride]  # [n, y, x, channels, rows, columns]
        self.shape = int(np.prod(self._windows.shape[:3])), int(np.prod(self._windows.shape[3:]))
        self.dtype = given.dtype

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, numbers: np.ndarray | slice) -> np.ndarray:
        if isinstance(numbers, slice):
            numbers = np.arange(len(self))[numbers]
        places = np.unravel_index(numbers, self._windows.shape[:3])
        return np.moveaxis(self._windows[places], 1, -1).reshape(len(numbers), -1)
