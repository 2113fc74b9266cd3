"""Rows at the borders of tiles, exchanged between the ranks whose tiles lie above and below."""

from __future__ import annotations

import numpy as np

from petabatch.parallel.comm import Comm


class Borders:
    """The rows of a tile that the neighbouring tiles reach, and those of theirs that it reaches.

    An array `[slices, before + rows + after, ...]` holds the rows of this rank between those of the ranks
    above and below, in the order of ranks. Arrays are of float32.
    """

    def __init__(
        self, group: Comm, slices: int, rows: int, row: tuple[int, ...], before: int, after: int
    ) -> None:
        """Make room for messages; `row` is the shape of a row, `before` and `after` are at most `rows`."""
        self._group, self._rows = group, rows
        self._before, self._after = before, after
        above, below = group.rank - 1, group.rank + 1
        self._above = above if above >= 0 else None
        self._below = below if below < group.size else None
        self._front, self._back = (
            {way: np.zeros((slices, count, *row), np.float32) for way in ("sent", "received")}
            for count in (before, after)
        )

    def fill(self, padded: np.ndarray, tag: int) -> None:
        """Set the rows before and after this rank's to those of its neighbours; collective for each `tag`.

        At the edge of the layer they stay as they are.
        """
        first, last = self._before, self._before + self._rows
        mine = padded[:, first:last]
        self._front["sent"][...] = mine[:, self._rows - self._before :]
        self._back["sent"][...] = mine[:, : self._after]
        sent = {self._above: self._back["sent"], self._below: self._front["sent"]}
        received = {self._above: self._front["received"], self._below: self._back["received"]}
        self._exchange(sent, received, tag)
        if self._above is not None:
            padded[:, :first] = received[self._above]
        if self._below is not None:
            padded[:, last:] = received[self._below]

    def add(self, wide: np.ndarray, total: np.ndarray, tag: int) -> None:
        """Set `total` to this rank's rows of `wide`, with what its neighbours have for them added.

        That of the rank above comes before that of the rank below. Collective for each `tag`.
        """
        first, last = self._before, self._before + self._rows
        self._front["sent"][...] = wide[:, :first]
        self._back["sent"][...] = wide[:, last:]
        sent = {self._above: self._front["sent"], self._below: self._back["sent"]}
        received = {self._above: self._back["received"], self._below: self._front["received"]}
        self._exchange(sent, received, tag)
        total[...] = wide[:, first:last]
        if self._above is not None:
            total[:, : self._after] += received[self._above]
        if self._below is not None:
            total[:, self._rows - self._before :] += received[self._below]

    def _exchange(
        self, sent: dict[int | None, np.ndarray], received: dict[int | None, np.ndarray], tag: int
    ) -> None:
        """Exchange what is not empty with the neighbours that there are."""
        some, others = (
            {rank: array for rank, array in arrays.items() if rank is not None and array.size}
            for arrays in (sent, received)
        )
        self._group.exchange(some, others, tag)
