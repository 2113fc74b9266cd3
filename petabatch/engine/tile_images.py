"""Images of tiles: the rows of a rank, where ranks have tiles of an input layer."""

from __future__ import annotations

import threading
from collections.abc import Sequence

import numpy as np

from petabatch.spec.images import ImageStream, Shown


class TileStream(ImageStream):
    """The rows of a tile of the images of a source, which are read under a lock.

    So there is one whole image at a time where a source has no rows alone, however many are read ahead.
    """

    def __init__(self, whole: ImageStream, rows: slice, lock: threading.Lock) -> None:
        self._whole, self._rows, self._lock = whole, rows, lock
        self.displays, self.forward, self.files = whole.displays, whole.forward, whole.files

    def __call__(self, slice_: int, display: int) -> np.ndarray:
        """Return the rows."""
        with self._lock:
            return self._whole.rows(slice_, display, self._rows)

    @property
    def notes(self) -> Sequence[str]:
        """Those of the whole."""
        return self._whole.notes

    @property
    def found(self) -> str:
        """That of the whole."""
        return self._whole.found

    def expect(self, slices: int) -> None:
        """Prepare for the number of slices for which it is read."""
        self._whole.expect(slices)

    def shown(self, slice_: int, display: int, margin: tuple[int, int] = (0, 0)) -> Shown:
        """Return what a slice shows of the whole."""
        return self._whole.shown(slice_, display, margin)

    def begins(self, slice_: int, display: int) -> bool:
        """Return whether a film begins."""
        return self._whole.begins(slice_, display)
