"""Image streams: what a source shows in the slices of a batch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np


class Shown(NamedTuple):
    """What a slice shows in one display."""

    item: int
    """Number of the image or film, in the order of `Source.paths`, or its index in an array."""
    frame: int
    """Frame of the film; 0 for still images."""
    crop: tuple[int, int]
    """First row and column of the part that is shown."""


class ImageStream:
    """The images of a source as the slices of a batch show them; thread-safe.

    This class serves sources that only read: it knows nothing of items and films.
    """

    displays: int | None = None
    """Number of displays after which the source has nothing to show; None if it goes on for ever."""
    forward: bool = False
    """Whether the displays of a slice are best read one after the other, as films are decoded."""
    files: Sequence[tuple[str, int]] = ()
    """The files of the items, in order, each with its number of items; for the run file."""

    def __init__(self, read: Callable[[int, int], np.ndarray]) -> None:
        self._read = read

    def __call__(self, slice_: int, display: int) -> np.ndarray:
        """Return what a slice shows, float32 `[ny, nx, nf]`."""
        return self._read(slice_, display)

    def rows(self, slice_: int, display: int, rows: slice) -> np.ndarray:
        """Return some rows of what a slice shows, in memory of their own, without a step and in range."""
        return self(slice_, display)[rows].copy()

    @property
    def notes(self) -> Sequence[str]:
        """What can hardly be meant, or will make reading slow, as far as is open now."""
        return ()

    @property
    def found(self) -> str:
        """How many images of which sizes there are, "" where that is not known."""
        return ""

    def expect(self, slices: int) -> None:
        """Prepare for the number of slices for which it is read."""

    def shown(self, slice_: int, display: int, margin: tuple[int, int] = (0, 0)) -> Shown:
        """Return what a slice shows within a margin; the number of the display stands for the item."""
        return Shown(display, 0, margin)

    def begins(self, slice_: int, display: int) -> bool:
        """Return whether the layers of a slice are reset when this display begins, since a film does."""
        return False
