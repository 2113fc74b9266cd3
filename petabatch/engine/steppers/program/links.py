"""What ranks that share slices send each other within the steps of a program: buffers, and their messages."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from petabatch.engine.features import Features
from petabatch.engine.steppers.program.compiled import Section
from petabatch.engine.steppers.program.workspace import Workspace
from petabatch.network.operations import Exchange, Join
from petabatch.parallel.comm import Comm, Messages
from petabatch.parallel.neighbours import next_to


class Link:
    """The messages of an operation, of slices that are advanced together.

    They lie in the same arrays in all steps; see `kernels/cpu/program/messages.py`.
    """

    def __init__(self, messages: Messages, arrays: Sequence[np.ndarray | None]) -> None:
        """Take what is sent and received, in the places of a link."""
        self._messages, self._arrays = messages, arrays
        addresses = (0 if array is None else array.ctypes.data for array in arrays)
        self._table = np.array([messages.table.ctypes.data, *addresses], np.int64)

    def place(self, sections: Sequence[Section], number: int) -> None:
        """Let the program find the link by the number of its array."""
        for section in sections:
            section.arrays[:, number] = self._table.ctypes.data, self._table.size, 1

    def check(self) -> None:
        """Raise the error that has ended the messages."""
        self._messages.check()


def link(one: Exchange | Join, features: Features, tag: int, slices: int, space: Workspace) -> Link:
    """Return the link of an operation; steps of different slices at the same time have different tags."""
    if isinstance(one, Exchange):
        return _of_rows(one, features.tiles, tag, slices)
    part = space.own.get(one.source.key)
    return _of_sum(one, features.adders, tag, slices, None if part is None else part[:slices, : one.size])


def _of_rows(one: Exchange, group: Comm, tag: int, slices: int) -> Link:
    up, down = (one.before, one.after) if one.adds else (one.after, one.before)
    neighbours = next_to(group)

    def room(*rows: int) -> list[np.ndarray | None]:
        """Return buffers for rows of the tiles above and below, None where there are none."""
        sizes = zip(neighbours, rows, strict=True)
        return [
            np.zeros((slices, count, one.row), np.float32) if rank is not None and count else None
            for rank, count in sizes
        ]

    sent, received = room(up, down), room(down, up)
    given, taken = (
        {
            rank: array
            for rank, array in zip(neighbours, arrays, strict=True)
            if rank is not None and array is not None
        }
        for arrays in (sent, received)
    )
    return Link(group.messages(given, taken, tag), [*sent, *received])


def _of_sum(one: Join, group: Comm, tag: int, slices: int, part: np.ndarray | None) -> Link:
    """Return the link of a sum; what lies in one piece is sent from where it is."""
    direct = part is not None and part.flags.c_contiguous
    parts = [
        part if direct and rank == group.rank else np.zeros((slices, one.size), np.float32)
        for rank in range(group.size)
    ]
    mine = parts[group.rank]
    assert mine is not None
    received = {rank: array for rank, array in enumerate(parts) if rank != group.rank and array is not None}
    messages = group.messages(dict.fromkeys(received, mine), received, tag)
    return Link(messages, [None if direct else mine, *parts])
