"""Rows at the borders of tiles, exchanged between the ranks whose tiles lie above and below."""

from __future__ import annotations

import numpy as np

from petabatch.parallel.comm import Comm


def next_to(group: Comm) -> tuple[int | None, int | None]:
    """Return the ranks with the tiles above and below, in the order of ranks; None at the edge."""
    above, below = group.rank - 1, group.rank + 1
    return above if above >= 0 else None, below if below < group.size else None


def surrounded(group: Comm, tile: np.ndarray, before: int, after: int, tag: int) -> np.ndarray:
    """Return a tile `[slices, rows, ...]` with `before` rows of the one above, and `after` of the one below.

    At the edge of the layer there are none. `before` and `after` are at most `rows`.
    Collective for each `tag`.
    """
    above, below = _exchanged(group, tile[:, :after], tile[:, tile.shape[1] - before :], tag)
    return np.concatenate([above, tile, below], axis=1)


def renewed(group: Comm, wide: np.ndarray, before: int, after: int, tag: int) -> np.ndarray:
    """Return a tile `[slices, before + rows + after, ...]` with the rows of those above and below in place.

    At the edge of the layer it stays. Collective for each `tag`.
    """
    found = surrounded(group, wide[:, before : wide.shape[1] - after], before, after, tag)
    first, made = before if group.rank == 0 else 0, wide.copy()
    made[:, first : first + found.shape[1]] = found
    return made


def added(group: Comm, wide: np.ndarray, before: int, after: int, tag: int) -> np.ndarray:
    """Return the rows of a tile `[slices, before + rows + after, ...]`, with what others have for them added.

    That of the tile above comes before that of the one below. Collective for each `tag`.
    """
    last = wide.shape[1] - after
    total = wide[:, before:last].copy()
    above, below = _exchanged(group, wide[:, :before], wide[:, last:], tag)
    total[:, : above.shape[1]] += above
    total[:, total.shape[1] - below.shape[1] :] += below
    return total


def _exchanged(group: Comm, up: np.ndarray, down: np.ndarray, tag: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the rows that the tiles above and below send `down` and `up`; none at the edge of the layer."""
    found: list[np.ndarray] = []
    sent, received = dict[int, np.ndarray](), dict[int, np.ndarray]()
    for rank, given, like in zip(next_to(group), (up, down), (down, up), strict=True):
        count = 0 if rank is None else like.shape[1]
        found.append(np.zeros((len(like), count, *like.shape[2:]), like.dtype))
        if rank is not None and given.size:
            sent[rank] = np.ascontiguousarray(given)
        if rank is not None and count:
            received[rank] = found[-1]
    group.exchange(sent, received, tag)
    return found[0], found[1]
