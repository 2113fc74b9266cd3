"""Ranks of an MPI program. Imported only when a run is launched under MPI."""

from __future__ import annotations

import platform
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from petabatch.errors import ResourceError
from petabatch.parallel.comm import Comm, Pending, Ring

_ON_THEIR_WAY = 64
"""Messages that a rank which does not listen is sent."""


_SPIN, _NAP = 0.0005, 0.0001
"""Seconds that a rank which waits for slower ones keeps its core busy; then it sleeps, so long at a time."""


class Request:
    """A non-blocking collective of MPI."""

    def __init__(self, request: Any, group: MPI) -> None:
        self._request, self._group = request, group

    def test(self) -> bool:
        """Push the operation on without waiting, and say whether it is done."""
        return bool(self._request.Test())

    def wait(self) -> None:
        """Wait until it is done."""
        with self._group.among():
            self._request.Wait()


class Meeting(Request):
    """One with a small message, in which a rank may wait long for others: it leaves them its core meanwhile.

    A large message would suffer: MPI moves it only while it is called.
    """

    def wait(self) -> None:
        """Wait until it is done."""
        with self._group.among():
            end = time.monotonic() + _SPIN
            while not self.test():
                if time.monotonic() > end:
                    time.sleep(_NAP)


class Neighbours:
    """A ring of ranks, for several threads, through messages small enough to leave at once."""

    def __init__(self, library: Any, group: Any) -> None:
        self._group = group
        self._before, self._next = (group.rank - 1) % group.size, (group.rank + 1) % group.size
        self._lock = threading.Lock()
        self._on_their_way: list[tuple[Any, np.ndarray]] = []

    def tell(self, message: np.ndarray) -> None:
        """Send three numbers, unless many messages are still on their way."""
        with self._lock:
            self._on_their_way = [sent for sent in self._on_their_way if not sent[0].Test()]
            if len(self._on_their_way) < _ON_THEIR_WAY:
                self._on_their_way.append((self._group.Isend(message, self._before), message))

    def hear(self) -> np.ndarray | None:
        """Return the newest message of the next rank, None if there is no new one."""
        newest = None
        while self._group.Iprobe(self._next):
            newest = np.zeros(3, np.int64)
            self._group.Recv(newest, self._next)
        return newest


class MPI:
    """A group of ranks, through mpi4py; by default all of them."""

    def __init__(self, group: Any = None, parent: MPI | None = None) -> None:
        """Start MPI; raises ResourceError when mpi4py or the MPI library behind it is missing."""
        self._mpi = _library()
        self._world = self._mpi.COMM_WORLD if group is None else group
        # MPI matches collectives of one communicator by their order. What is on its way has a communicator
        # of its own, so that ranks may begin it before or after a barrier without being taken for it.
        self._background = self._world.Dup()
        self.rank: int = self._world.rank
        self.size: int = self._world.size
        self.local_rank: int = self._world.Split_type(self._mpi.COMM_TYPE_SHARED).rank
        self.hosts: tuple[str, ...] = tuple(self._world.allgather(platform.node()))
        self.waiting = False
        self._all: MPI = self if parent is None else parent._all

    @property
    def implementation(self) -> str:
        """Name and version of the MPI library."""
        return str(self._mpi.Get_library_version()).splitlines()[0].strip("\0 ")

    @contextmanager
    def among(self) -> Iterator[None]:
        """Say that this rank waits for others."""
        self._all.waiting = True
        try:
            yield
        finally:
            self._all.waiting = False

    def barrier(self) -> None:
        """Wait for all ranks."""
        with self.among():
            self._world.Barrier()

    def broadcast(self, value: Any) -> Any:
        """Return rank 0's value on every rank."""
        with self.among():
            return self._world.bcast(value)

    def gather(self, value: Any) -> list[Any] | None:
        """Return all ranks' values in rank order on rank 0, None elsewhere."""
        with self.among():
            found: list[Any] | None = self._world.gather(value)
        return found

    def any(self, flags: int) -> int:
        """Return the bitwise or of all ranks' flags."""
        both = np.array([flags], np.int64)
        with self.among():
            self._world.Allreduce(self._mpi.IN_PLACE, both, self._mpi.BOR)
        return int(both[0])

    def sum(self, array: np.ndarray) -> None:
        """Replace an array by its sum over ranks."""
        with self.among():
            self._world.Allreduce(self._mpi.IN_PLACE, array, self._mpi.SUM)

    def sum_in_order(self, array: np.ndarray) -> np.ndarray:
        """Return the sum over ranks, added in the order of ranks."""
        parts = np.empty((self.size, *array.shape), array.dtype)
        with self.among():
            self._world.Allgather(array, parts)
        for part in parts[1:]:
            parts[0] += part
        total: np.ndarray = parts[0]
        return total

    def start_sum(self, array: np.ndarray) -> Pending:
        """Begin to replace an array by its sum over ranks."""
        return Request(self._background.Iallreduce(self._mpi.IN_PLACE, array, self._mpi.SUM), self)

    def start_max(self, array: np.ndarray) -> Pending:
        """Begin to replace an array by its maximum over ranks."""
        return Meeting(self._background.Iallreduce(self._mpi.IN_PLACE, array, self._mpi.MAX), self)

    def split(self, group: int) -> Comm:
        """Return the communicator of the ranks that gave the same group."""
        return MPI(self._world.Split(group, self.rank), self)

    def ring(self) -> Ring | None:
        """Return a ring of these ranks; None if there is one, or the library bears one thread only."""
        if self.size == 1 or self._mpi.Query_thread() < self._mpi.THREAD_MULTIPLE:
            return None
        return Neighbours(self._mpi, self._world.Dup())

    def abort(self, code: int) -> None:
        """End all ranks at once."""
        if self.size > 1:
            sys.stdout.flush()
            sys.stderr.flush()
            self._mpi.COMM_WORLD.Abort(code)


def _library() -> Any:
    try:
        from mpi4py import MPI as library
    # mpi4py without an MPI library raises RuntimeError, not ImportError.
    except (ImportError, RuntimeError) as error:
        looked_for = " ".join(str(error).split())
        raise ResourceError(
            "MPI is asked for, and cannot be used\n"
            f"    found:    {looked_for}\n"
            f"    expected: mpi4py, and a libmpi in {sys.prefix}/lib, on the loader's path, or named by "
            "MPI4PY_LIBMPI\n"
            "    hint:     pip install 'petabatch[mpi]', or load your cluster's MPI module"
        ) from error
    return library
