"""What ranks that share slices send each other within the steps of a program: buffers, and their messages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from petabatch.engine.features import Features
from petabatch.engine.steppers.program.compiled import Section
from petabatch.engine.steppers.program.workspace import Workspace
from petabatch.kernels.operations.transport import Exchange, Join
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
        """Let the program find the link by the number of its array, on whichever thread."""
        for section in sections:
            for arrays in (section.arrays, section.addresses):
                arrays[:, number] = self._table.ctypes.data, self._table.size, 1

    def check(self) -> None:
        """Raise the error that has ended the messages."""
        self._messages.check()


def links(
    program: Mapping[str, Exchange | Join], features: Features, tags: range, slices: int, space: Workspace
) -> dict[str, Link]:
    """Return the links of a program, by their arrays, for slices that are advanced together on a thread.

    `tags` are those of the first of these slices, see `tags_of`: one for each operation. Links last as long
    as the thread, which has what they send and receive in its workspace, also where a slice gets another
    stepper in each step; those of different slices share their buffers.
    """
    return {
        key: _link(key, one, features, tag, slices, space)
        for (key, one), tag in zip(program.items(), tags, strict=True)
    }


def tags_of(place: int, places: int, operations: int) -> range:
    """Return the tags of the operations of a slice, by its place of all that a rank has.

    Threads may make other slices at the same time, also by other programs, and other operations of this one:
    no two have the same tag.
    """
    assert 0 <= place < places
    return range(place, place + operations * places, places)


def _link(
    key: str, one: Exchange | Join, features: Features, tag: int, slices: int, space: Workspace
) -> Link:
    group = features.tiles if isinstance(one, Exchange) or one.tiles else features.adders
    found = space.links.get((key, group, tag, slices))
    if found is None:
        if (key, slices) not in space.buffers:
            space.buffers[key, slices] = _buffers(one, group, slices, space)
        messages = group.messages(*_messages(one, group, space.buffers[key, slices]), tag)
        found = space.links[key, group, tag, slices] = Link(messages, space.buffers[key, slices])
    return found


def _buffers(one: Exchange | Join, group: Comm, slices: int, space: Workspace) -> list[np.ndarray | None]:
    """Return what is sent and received, in the places of a link; None where there is nothing."""
    if isinstance(one, Exchange):
        up, down = (one.before, one.after) if one.adds else (one.after, one.before)
        sizes = zip(2 * next_to(group), (up, down, down, up), strict=True)
        return [
            np.zeros((slices, rows, one.row), space.real) if rank is not None and rows else None
            for rank, rows in sizes
        ]
    part = space.own.get(one.source.key)
    mine = None if part is None else part[:slices, : one.size]
    if mine is not None and not mine.flags.c_contiguous:  # only one piece is sent from where it is
        mine = None
    parts = [
        np.zeros((slices, one.size), space.real) if mine is None or rank != group.rank else mine
        for rank in range(group.size)
    ]
    return [parts[group.rank] if mine is None else None, *parts]


def _messages(
    one: Exchange | Join, group: Comm, buffers: Sequence[np.ndarray | None]
) -> tuple[dict[int, np.ndarray], dict[int, np.ndarray]]:
    """Return what is sent to each rank, and received from it."""
    ranks: Sequence[int | None]
    if isinstance(one, Exchange):
        ranks, there = next_to(group), [buffers[:2], buffers[2:]]
    else:
        ranks, there = range(group.size), [[buffers[1 + group.rank]] * group.size, buffers[1:]]
    sent, received = (
        {
            rank: array
            for rank, array in zip(ranks, arrays, strict=True)
            if rank is not None and rank != group.rank and array is not None
        }
        for arrays in there
    )
    return sent, received
