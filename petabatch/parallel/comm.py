"""Communication between ranks: the interface, and its single-process implementation without MPI."""

from __future__ import annotations

import itertools
import platform
from collections.abc import Mapping
from typing import Any, Protocol

import numpy as np

from petabatch.errors import ResourceError
from petabatch.kernels.messages import PLACES
from petabatch.sizes import counted
from petabatch.variable import Array

FOR_RANKS, COMMUNICATION = "waiting for ranks", "communication"
"""Activities in which a rank is inside a collective operation: until all ranks have come, in operations that
carry a few bytes; and while arrays are exchanged."""


class Pending(Protocol):
    """A non-blocking collective operation; its array must not be touched until it is done."""

    def test(self) -> bool:
        """Advance the operation without blocking; return whether it is done.

        MPI libraries make progress on non-blocking operations only while they are called: poll regularly.
        """

    def wait(self) -> None:
        """Wait until it is done."""


class Messages(Protocol):
    """Messages between arrays that stay where they are, which compiled code sends and receives."""

    table: np.ndarray
    """What it does that with; see `petabatch.kernels.messages`."""

    def check(self) -> None:
        """Raise the error that has ended them."""


class Ring(Protocol):
    """Messages from each rank to the one before it; neither end ever blocks."""

    def send(self, message: np.ndarray) -> None:
        """Send int64 `[3]`, from any thread; dropped if the receiver has not read for long."""

    def receive(self) -> np.ndarray | None:
        """Return the latest message from the next rank, None if there is no new one."""


NO_MORE = 2**62
"""A number beyond all that there are to take."""


class Counter(Protocol):
    """Numbers from 0, each of which one rank takes when it is free."""

    def take(self) -> int:
        """Return the next number; what other ranks do meanwhile is not waited for."""

    def end(self) -> None:
        """Let all further numbers be `NO_MORE`; on rank 0."""

    def close(self) -> None:
        """Take no more; collective."""


class Sums(Protocol):
    """In-place reductions of arrays over ranks, in the memory of the host or of a GPU."""

    def start_sum(self, array: Array) -> Pending:
        """Start replacing an array by its sum over ranks."""

    def start_max(self, array: Array) -> Pending:
        """Start replacing an array by its maximum over ranks."""


class Comm(Sums, Protocol):
    """A group of ranks; every method is collective: all ranks call it, in the same order.

    The `start_` methods are ordered among themselves only: others may be called while they are in progress.
    Arrays are contiguous numpy arrays of the same length and dtype on all ranks.
    """

    rank: int
    size: int
    local_rank: int
    """Rank among those on the same host, from 0: the GPU it should use."""
    hosts: tuple[str, ...]
    """Host name of every rank."""
    threaded: bool
    """Several threads may be inside of it at once, as with MPI_THREAD_MULTIPLE."""

    @property
    def waiting(self) -> bool:
        """True while this rank waits for others inside a collective operation."""

    @property
    def waited(self) -> dict[str, float]:
        """Seconds that this rank has waited so far, by activity; nothing for a single rank."""

    def barrier(self) -> None:
        """Wait for all ranks."""

    def broadcast(self, value: Any) -> Any:
        """Return rank 0's value (any object that pickles) on every rank."""

    def gather(self, value: Any) -> list[Any] | None:
        """Return all ranks' values in rank order on rank 0, None elsewhere."""

    def any(self, flags: int) -> int:
        """Return the bitwise OR of all ranks' flags."""

    def agree(self, number: int, patience: float) -> bool:
        """Return whether all ranks give the same number, and do so within `patience` seconds.

        Unlike other methods, it may be called while other ranks are inside of another one. Where it returns
        False since some did not come, communication is at an end.
        """

    def sum_in_order(self, array: np.ndarray) -> np.ndarray:
        """Return the sum over ranks, added in rank order: its bits depend only on the number of ranks."""

    def add_parts(self, part: np.ndarray, total: np.ndarray, tag: int) -> None:
        """Set `total` to the sum over ranks, added in rank order.

        Its bits depend only on the number of ranks. Unlike other methods, several threads may be inside of it
        at once, each with a `tag` of its own.
        """

    def exchange(self, sent: Mapping[int, np.ndarray], received: Mapping[int, np.ndarray], tag: int) -> None:
        """Send arrays to ranks, and receive others from ranks, which send as many numbers.

        As in `add_parts`, several threads may be inside of it at once, each with a `tag` of its own.
        """

    def messages(
        self, sent: Mapping[int, np.ndarray], received: Mapping[int, np.ndarray], tag: int
    ) -> Messages:
        """Return the messages of such an exchange, for compiled code to make them again and again.

        Their tags are others than those of `exchange`.
        """

    def split(self, group: int) -> Comm:
        """Return the communicator of the ranks that passed the same `group`, in the same order."""

    def ring(self) -> Ring | None:
        """Return a ring of all ranks; None for a single rank, or one that is not `threaded`."""

    def counter(self) -> Counter:
        """Return a new counter; where it is not `threaded`, its numbers are dealt to ranks in turns."""


def shares(batch: int, size: int) -> list[tuple[int, int]]:
    """Return, for each rank, the range `(lo, hi)` of global slices lo <= slice < hi that it owns.

    Ranges are contiguous, in rank order, and differ in length by at most one. Raises ResourceError when there
    are more ranks than slices.
    """
    if size > batch:
        raise ResourceError(
            f"there are more ranks than slices\n"
            f"    found:    {size} ranks, {counted(batch, 'slice')}\n"
            f"    hint:     start at most {counted(batch, 'rank')}, or raise run.batch"
        )
    return [(batch * rank // size, batch * (rank + 1) // size) for rank in range(size)]


def share(batch: int, rank: int, size: int) -> tuple[int, int]:
    """Return the range of global slices that one rank owns; see `shares`."""
    return shares(batch, size)[rank]


class Done:
    """A pending operation that is already done."""

    def test(self) -> bool:
        """Return True."""
        return True

    def wait(self) -> None:
        """Return at once."""


class NoMessages:
    """The messages of a single process."""

    def __init__(self) -> None:
        self.table = np.zeros(PLACES, np.int64)

    def check(self) -> None:
        """Nothing goes wrong."""


class Counted:
    """The counter of a single process."""

    def __init__(self, first: int = 0, step: int = 1) -> None:
        self._numbers, self._ended = itertools.count(first, step), False

    def take(self) -> int:
        """Return the next number."""
        return NO_MORE if self._ended else next(self._numbers)

    def end(self) -> None:
        """Let all further numbers be `NO_MORE`."""
        self._ended = True

    def close(self) -> None:
        """Nothing is held."""


class Serial:
    """A single process without MPI."""

    def __init__(self) -> None:
        self.rank = 0
        self.size = 1
        self.local_rank = 0
        self.hosts: tuple[str, ...] = (platform.node(),)
        self.threaded = True
        self.waiting = False
        self.waited: dict[str, float] = {}

    def barrier(self) -> None:
        """Return at once."""

    def broadcast(self, value: Any) -> Any:
        """Return the value."""
        return value

    def gather(self, value: Any) -> list[Any] | None:
        """Return the one value."""
        return [value]

    def any(self, flags: int) -> int:
        """Return the flags."""
        return flags

    def agree(self, number: int, patience: float) -> bool:
        """Return True."""
        return True

    def sum_in_order(self, array: np.ndarray) -> np.ndarray:
        """Return the array."""
        return array

    def add_parts(self, part: np.ndarray, total: np.ndarray, tag: int) -> None:
        """Copy the one part."""
        total[...] = part

    def exchange(self, sent: Mapping[int, np.ndarray], received: Mapping[int, np.ndarray], tag: int) -> None:
        """There is no other rank."""

    def messages(
        self, sent: Mapping[int, np.ndarray], received: Mapping[int, np.ndarray], tag: int
    ) -> Messages:
        """Return none: there is no other rank."""
        return NoMessages()

    def start_sum(self, array: np.ndarray) -> Pending:
        """Leave the array as it is."""
        return Done()

    def start_max(self, array: np.ndarray) -> Pending:
        """Leave the array as it is."""
        return Done()

    def split(self, group: int) -> Comm:
        """Return itself."""
        return self

    def ring(self) -> Ring | None:
        """Return None: there is no other rank."""
        return None

    def counter(self) -> Counter:
        """Return a counter of this process."""
        return Counted()
