"""Ranks of an MPI program. Imported only when a run is launched under MPI."""

from __future__ import annotations

import platform
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from petabatch.errors import ResourceError, install
from petabatch.parallel.comm import (
    COMMUNICATION,
    FOR_RANKS,
    NO_MORE,
    Comm,
    Counted,
    Counter,
    Messages,
    Pending,
    Ring,
)
from petabatch.parallel.persistent import PersistentMessages

_MOST_IN_FLIGHT = 64
"""Unreceived messages after which further ones are dropped."""


_SPIN, _SLEEP = 0.0005, 0.0001
"""Seconds of busy waiting for slower ranks, and then of each sleep between polls."""
_ANSWER = 0.002
"""Seconds between two looks for ranks that ask for a number."""
_ASKS, _LEAVES = 1, 2
"""Messages about numbers."""


class Request:
    """A non-blocking MPI collective."""

    def __init__(self, request: Any, group: MPI) -> None:
        self._request, self._group = request, group

    def test(self) -> bool:
        """Advance the operation without blocking; return whether it is done."""
        return bool(self._request.Test())

    def wait(self) -> None:
        """Wait until it is done."""
        with self._group.marked_waiting(COMMUNICATION):
            self._request.Wait()


class YieldingRequest(Request):
    """A request with a small message, for which a rank may wait long: it yields its core meanwhile.

    Not for large messages: MPI transfers them only while it is called.
    """

    def wait(self) -> None:
        """Wait until it is done."""
        with self._group.marked_waiting():
            end = time.monotonic() + _SPIN
            while not self.test():
                if time.monotonic() > end:
                    time.sleep(_SLEEP)


class MPIRing:
    """A thread-safe ring of ranks, with messages small enough to be sent eagerly."""

    def __init__(self, group: Any) -> None:
        self._group = group
        self._before, self._next = (group.rank - 1) % group.size, (group.rank + 1) % group.size
        self._lock = threading.Lock()
        self._in_flight: list[tuple[Any, np.ndarray]] = []

    def send(self, message: np.ndarray) -> None:
        """Send int64 `[3]`, unless too many messages are still in flight."""
        with self._lock:
            self._in_flight = [sent for sent in self._in_flight if not sent[0].Test()]
            if len(self._in_flight) < _MOST_IN_FLIGHT:
                self._in_flight.append((self._group.Isend(message, self._before), message))

    def receive(self) -> np.ndarray | None:
        """Return the latest message from the next rank, None if there is no new one."""
        latest = None
        while self._group.Iprobe(self._next):
            latest = np.zeros(3, np.int64)
            self._group.Recv(latest, self._next)
        return latest


class MPICounter:
    """Numbers that a thread of rank 0 gives to ranks that ask for one."""

    def __init__(self, group: Any) -> None:
        self._group, self._lock, self._next = group, threading.Lock(), 0
        self._gives = threading.Thread(target=self._give, name="counter", daemon=True)
        if group.rank == 0:
            self._gives.start()

    def take(self) -> int:
        """Return the next number."""
        if self._group.rank == 0:
            with self._lock:
                number, self._next = self._next, min(self._next + 1, NO_MORE)
            return number
        answer = np.empty(1, np.int64)
        self._group.Send(answer[:0], 0, _ASKS)
        while not self._group.Iprobe(0, _ASKS):
            time.sleep(_SLEEP)
        self._group.Recv(answer, 0, _ASKS)
        return int(answer[0])

    def end(self) -> None:
        """Let all further numbers be `NO_MORE`."""
        with self._lock:
            self._next = NO_MORE

    def close(self) -> None:
        """Take no more; on rank 0, wait until the others do so."""
        if self._group.rank == 0:
            self._gives.join()
        else:
            self._group.Send(np.empty(0, np.int64), 0, _LEAVES)

    def _give(self) -> None:
        """Answer until all other ranks have left; the ranks sleep between the questions of a thread."""
        here, about = self._group.size - 1, _library().Status()
        while here:
            if not self._group.Iprobe(tag=_library().ANY_TAG, status=about):
                time.sleep(_ANSWER)
                continue
            rank, tag = about.Get_source(), about.Get_tag()
            self._group.Recv(np.empty(0, np.int64), rank, tag)
            if tag == _LEAVES:
                here -= 1
            else:
                self._group.Send(np.array([self.take()], np.int64), rank, _ASKS)


class MPI:
    """A communicator through mpi4py; by default of all ranks."""

    def __init__(self, group: Any = None, parent: MPI | None = None) -> None:
        """Start MPI; raises ResourceError when mpi4py or the MPI library behind it is missing."""
        self._mpi = _library()
        self._world = self._mpi.COMM_WORLD if group is None else group
        # MPI matches the collectives of a communicator by their order. Non-blocking ones get a communicator
        # of their own, so that ranks may start them on either side of a barrier.
        self._background = self._world.Dup()
        self._exchange = self._world.Dup()
        # All ranks share no slices: steps send messages in groups of them.
        self._steps = self._exchange if parent is None else self._world.Dup()
        self._buffers = threading.local()
        self.rank: int = self._world.rank
        self.size: int = self._world.size
        self.local_rank: int = self._world.Split_type(self._mpi.COMM_TYPE_SHARED).rank
        self.hosts: tuple[str, ...] = tuple(self._world.allgather(platform.node()))
        self.threaded: bool = self._mpi.Query_thread() >= self._mpi.THREAD_MULTIPLE
        self._lock, self._threads_waiting = threading.Lock(), 0
        self._given_up: list[tuple[Any, np.ndarray, np.ndarray]] = []
        self._all: MPI = self if parent is None else parent._all
        self._waited: dict[str, float] = (
            {FOR_RANKS: 0.0, COMMUNICATION: 0.0} if parent is None else parent._waited
        )
        self._in_steps: np.ndarray = np.zeros(2, np.int64) if parent is None else parent._in_steps
        """Threads that wait in compiled steps, and nanoseconds that they have waited there."""

    @property
    def implementation(self) -> str:
        """Name and version of the MPI library."""
        return str(self._mpi.Get_library_version()).splitlines()[0].strip("\0 ")

    @contextmanager
    def marked_waiting(self, activity: str = FOR_RANKS) -> Iterator[None]:
        """Set `waiting` while the block runs, and count its time to an activity."""
        begin = time.monotonic()
        self._all._count_waiting(1)
        try:
            yield
        finally:
            self._all._count_waiting(-1)
            self._waited[activity] += time.monotonic() - begin

    def _count_waiting(self, threads: int) -> None:
        """Count threads that wait for other ranks."""
        with self._lock:
            self._threads_waiting += threads

    @property
    def waiting(self) -> bool:
        """True while a thread waits for other ranks."""
        return self._all._threads_waiting + int(self._in_steps[0]) > 0

    @property
    def waited(self) -> dict[str, float]:
        """Seconds that this rank has waited so far, by activity."""
        in_steps = float(self._in_steps[1]) / 1e9
        return {**self._waited, COMMUNICATION: self._waited[COMMUNICATION] + in_steps}

    def barrier(self) -> None:
        """Wait for all ranks."""
        with self.marked_waiting():
            self._world.Barrier()

    def broadcast(self, value: Any) -> Any:
        """Return rank 0's value on every rank."""
        with self.marked_waiting():
            return self._world.bcast(value)

    def gather(self, value: Any) -> list[Any] | None:
        """Return all ranks' values in rank order on rank 0, None elsewhere."""
        with self.marked_waiting():
            found: list[Any] | None = self._world.gather(value)
        return found

    def any(self, flags: int) -> int:
        """Return the bitwise OR of all ranks' flags."""
        both = np.array([flags], np.int64)
        with self.marked_waiting():
            self._world.Allreduce(self._mpi.IN_PLACE, both, self._mpi.BOR)
        return int(both[0])

    def agree(self, number: int, patience: float) -> bool:
        """Return whether all ranks give the same number, and do so within `patience` seconds."""
        mine, everyone = np.array([number], np.int64), np.empty(self.size, np.int64)
        request = self._background.Iallgather(mine, everyone)
        with self.marked_waiting():
            end = time.monotonic() + patience
            while not request.Test():
                if time.monotonic() > end:
                    self._given_up.append((request, mine, everyone))  # MPI may still write there
                    return False
                time.sleep(_SLEEP)
        return bool((everyone == number).all())

    def sum_in_order(self, array: np.ndarray) -> np.ndarray:
        """Return the sum over ranks, added in rank order."""
        parts = np.empty((self.size, *array.shape), array.dtype)
        with self.marked_waiting(COMMUNICATION):
            self._world.Allgather(array, parts)
        for part in parts[1:]:
            parts[0] += part
        total: np.ndarray = parts[0]
        return total

    def add_parts(self, part: np.ndarray, total: np.ndarray, tag: int) -> None:
        """Set `total` to the sum over ranks, added in rank order; see `Comm`."""
        others = [rank for rank in range(self.size) if rank != self.rank]
        parts = self._received(part, others)
        self.exchange(dict.fromkeys(others, part), parts, tag)
        parts[self.rank] = part
        np.add(parts[0], parts[1], out=total)
        for rank in range(2, self.size):
            total += parts[rank]

    def exchange(self, sent: Mapping[int, np.ndarray], received: Mapping[int, np.ndarray], tag: int) -> None:
        """Send arrays to ranks, and receive others from ranks; see `Comm`."""
        with self.marked_waiting(COMMUNICATION):
            requests = [self._exchange.Irecv(array, rank, tag) for rank, array in received.items()]
            requests += [self._exchange.Isend(array, rank, tag) for rank, array in sent.items()]
            self._mpi.Request.Waitall(requests)

    def messages(
        self, sent: Mapping[int, np.ndarray], received: Mapping[int, np.ndarray], tag: int
    ) -> Messages:
        """Return messages that compiled code makes; see `Comm`."""
        return PersistentMessages(self._mpi, self._steps, sent, received, tag, self._in_steps)

    def _received(self, part: np.ndarray, ranks: Sequence[int]) -> dict[int, np.ndarray]:
        """Return this thread's buffers for the parts of other ranks."""
        known = self._buffers.__dict__.setdefault("parts", {})
        key = part.shape, part.dtype
        if key not in known:
            known[key] = {rank: np.empty_like(part) for rank in ranks}
        return dict(known[key])

    def start_sum(self, array: np.ndarray) -> Pending:
        """Start replacing an array by its sum over ranks."""
        return Request(self._background.Iallreduce(self._mpi.IN_PLACE, array, self._mpi.SUM), self)

    def start_max(self, array: np.ndarray) -> Pending:
        """Start replacing an array by its maximum over ranks."""
        return YieldingRequest(self._background.Iallreduce(self._mpi.IN_PLACE, array, self._mpi.MAX), self)

    def split(self, group: int) -> Comm:
        """Return the communicator of the ranks that passed the same `group`."""
        return MPI(self._world.Split(group, self.rank), self)

    def ring(self) -> Ring | None:
        """Return a ring of these ranks; None for a single rank, or without MPI_THREAD_MULTIPLE."""
        if self.size == 1 or not self.threaded:
            return None
        return MPIRing(self._world.Dup())

    def counter(self) -> Counter:
        """Return a new counter; without MPI_THREAD_MULTIPLE, its numbers are dealt to ranks in turns."""
        if self.size > 1 and not self.threaded:
            return Counted(self.rank, self.size)
        return MPICounter(self._world.Dup())


def _library() -> Any:
    try:
        from mpi4py import MPI as library
    # mpi4py without an MPI library raises RuntimeError, not ImportError.
    except (ImportError, RuntimeError) as error:
        reason = " ".join(str(error).split())
        raise ResourceError(
            "MPI was requested but is not available\n"
            f"    found:    {reason}\n"
            f"    expected: mpi4py, and a libmpi in {sys.prefix}/lib, on the loader's path, or set by "
            "MPI4PY_LIBMPI\n"
            f"    hint:     {install('mpi')}, or load your cluster's MPI module"
        ) from error
    return library
