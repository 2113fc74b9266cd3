"""What ranks say to each other, and the stand-in for a single process, which needs no MPI."""

from __future__ import annotations

import platform
from typing import Any, Protocol

import numpy as np

from petabatch.errors import ResourceError
from petabatch.variable import Array


class Pending(Protocol):
    """A collective operation on its way; its array belongs to it until it is done."""

    def test(self) -> bool:
        """Push the operation on without waiting, and say whether it is done.

        MPI libraries move a non-blocking operation only while they are called: test now and then.
        """

    def wait(self) -> None:
        """Wait until it is done."""


class Ring(Protocol):
    """Messages from each rank to the one before it; neither end ever waits."""

    def tell(self, message: np.ndarray) -> None:
        """Send three numbers, int64, on any thread; lost if the other has not listened for long."""

    def hear(self) -> np.ndarray | None:
        """Return the newest message of the next rank, None if there is no new one."""


class Sums(Protocol):
    """What sums arrays over ranks, in place, from where they lie: in the memory of the host, or of a GPU."""

    def sum(self, array: Array) -> None:
        """Replace an array by its sum over ranks; of floats the last bits depend on the number of ranks."""

    def start_sum(self, array: Array) -> Pending:
        """Begin to replace an array by its sum over ranks."""

    def start_max(self, array: Array) -> Pending:
        """Begin to replace an array by its maximum over ranks."""


class Comm(Sums, Protocol):
    """A group of ranks; every method but `abort` is collective: all ranks call it, in the same order.

    The `start_` methods have an order of their own: others may be called before what they started is done.
    Arrays are contiguous numpy arrays of the same length and dtype on all ranks.
    """

    rank: int
    size: int
    local_rank: int
    """Number of this rank among those on the same host, from 0: which GPU it should take."""
    hosts: tuple[str, ...]
    """Host name of every rank."""
    waiting: bool
    """This rank is inside a collective operation: it waits for others."""

    def barrier(self) -> None:
        """Wait for all ranks."""

    def broadcast(self, value: Any) -> Any:
        """Return rank 0's value (any object that pickles) on every rank."""

    def gather(self, value: Any) -> list[Any] | None:
        """Return all ranks' values in rank order on rank 0, None elsewhere."""

    def any(self, flags: int) -> int:
        """Return the bitwise or of all ranks' flags."""

    def sum_in_order(self, array: np.ndarray) -> np.ndarray:
        """Return the sum over ranks, added in the order of ranks: its bits depend on their number alone."""

    def split(self, group: int) -> Comm:
        """Return the communicator of the ranks that gave the same group, in the same order."""

    def ring(self) -> Ring | None:
        """Return a ring of all ranks; None with a single one, or if the MPI library bears one thread only."""

    def abort(self, code: int) -> None:
        """End all ranks at once; returns only when there is one rank, which ends by itself."""


def shares(batch: int, size: int) -> list[tuple[int, int]]:
    """Return for each rank the global slices lo <= slice < hi that it owns.

    Shares are contiguous, in rank order, and differ by one slice at most. Raises ResourceError when there are
    more ranks than slices.
    """
    if size > batch:
        raise ResourceError(
            f"{size} ranks are more than the batch of {batch} slices\n"
            f"    hint:     start at most {batch} ranks, or raise run.batch"
        )
    return [(batch * rank // size, batch * (rank + 1) // size) for rank in range(size)]


def share(batch: int, rank: int, size: int) -> tuple[int, int]:
    """Return the global slices lo <= slice < hi that one rank owns; see `shares`."""
    return shares(batch, size)[rank]


class Done:
    """An operation that needed nobody else."""

    def test(self) -> bool:
        """Say that it is done."""
        return True

    def wait(self) -> None:
        """Return at once."""


class Serial:
    """One process, alone."""

    def __init__(self) -> None:
        self.rank = 0
        self.size = 1
        self.local_rank = 0
        self.hosts: tuple[str, ...] = (platform.node(),)
        self.waiting = False

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

    def sum(self, array: np.ndarray) -> None:
        """Leave the array as it is."""

    def sum_in_order(self, array: np.ndarray) -> np.ndarray:
        """Return the array."""
        return array

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
        """Return nothing: there is nobody else."""
        return None

    def abort(self, code: int) -> None:
        """Do nothing."""
