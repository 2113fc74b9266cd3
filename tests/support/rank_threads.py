"""Ranks that are threads of one process, and an NCCL between their emulated GPUs."""

from __future__ import annotations

import ctypes
import queue
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

from petabatch.kernels.messages import COUNT, ERROR, PLACES, START, WAIT, WAITING
from petabatch.parallel.comm import Counted, Serial
from support.processes import PATIENCE
from support.streams import ALL, current

_TYPES = {2: np.int32, 4: np.int64, 7: np.float32, 8: np.float64}
_OPERATIONS = {0: np.add, 2: np.maximum}


class Meeting:
    """One collective operation: what each rank gave, and the result for all."""

    def __init__(self, size: int) -> None:
        self.given: list[Any] = [None] * size
        self.here, self.missing = threading.Event(), size
        self._lock = threading.Lock()

    def give(self, rank: int, value: Any, finish: Callable[[list[Any]], None] = lambda given: None) -> None:
        with self._lock:
            self.given[rank] = value
            self.missing -= 1
            if self.missing == 0:
                finish(self.given)
                self.here.set()

    def wait(self) -> None:
        assert self.here.wait(PATIENCE), "a rank waits for ever"
        if self.missing:
            raise RuntimeError("another rank has failed")

    def test(self) -> bool:
        return self.here.is_set()


class Meetings:
    """The operations of a group in their order, which must be that of each rank."""

    def __init__(self, size: int) -> None:
        self.size, self._lock = size, threading.Lock()
        self._all: list[tuple[Any, Meeting]] = []
        self._failed = False
        self._mail: dict[tuple[int, int, int], queue.SimpleQueue[np.ndarray]] = {}

    def mail(self, sender: int, receiver: int, tag: int) -> queue.SimpleQueue[np.ndarray]:
        """Return the queue of pending messages; both ranks get the same one."""
        return self._mail.setdefault((sender, receiver, tag), queue.SimpleQueue())

    def fail(self) -> None:
        """Let no rank wait for one that has failed."""
        with self._lock:
            self._failed = True
            for _, meeting in self._all:
                meeting.here.set()

    def join(self, number: int, kind: Any) -> Meeting:
        with self._lock:
            if self._failed:
                raise RuntimeError("another rank has failed")
            if number == len(self._all):
                self._all.append((kind, Meeting(self.size)))
            assert self._all[number][0] == kind, "ranks call different operations"
            return self._all[number][1]


_Start = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int, ctypes.c_void_p)
_Wait = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)


class ThreadMessages:
    """Messages that compiled code makes by calling functions of Python."""

    def __init__(self, exchange: Callable[[], None], count: int) -> None:
        self._exchange, self._error = exchange, list[BaseException]()
        self._functions = _Start(lambda count, requests: 0), _Wait(self._wait)
        self._waiting = np.zeros(2, np.int64)
        self.table = np.zeros(PLACES, np.int64)
        self.table[[START, WAIT]] = [ctypes.cast(one, ctypes.c_void_p).value for one in self._functions]
        self.table[[COUNT, WAITING]] = count, self._waiting.ctypes.data

    def _wait(self, count: int, requests: int, statuses: int) -> int:
        assert self._waiting[0] == 1
        try:
            self._exchange()
        except BaseException as error:
            self._error.append(error)
            return 1
        return 0

    def check(self) -> None:
        if self.table[ERROR]:
            raise self._error[0]


def _reduce(operation: np.ufunc) -> Callable[[list[Any]], None]:
    def finish(given: list[Any]) -> None:
        result = operation.reduce([array.copy() for array in given])
        for array in given:
            array[...] = result

    return finish


class Thread(Serial):
    """One of the ranks."""

    def __init__(self, rank: int, size: int, world: Meetings, side_stream: Meetings) -> None:
        super().__init__()
        self.rank, self.size = rank, size
        self.hosts = ("here",) * size
        self._world, self._beside = world, side_stream
        self._met = self._begun = 0

    def _meet(
        self, kind: str, value: Any, finish: Callable[[list[Any]], None] = lambda given: None
    ) -> Meeting:
        self._met += 1
        meeting = self._world.join(self._met - 1, kind)
        meeting.give(self.rank, value, finish)
        meeting.wait()
        return meeting

    def barrier(self) -> None:
        self._meet("barrier", None)

    def broadcast(self, value: Any) -> Any:
        return self._meet("broadcast", value).given[0]

    def gather(self, value: Any) -> list[Any] | None:
        given = self._meet("gather", value).given
        return given if self.rank == 0 else None

    def any(self, flags: int) -> int:
        return int(np.bitwise_or.reduce(self._meet("any", flags).given))

    def split(self, group: int) -> Thread:
        mine = [rank for rank, other in enumerate(self._meet("split", group).given) if other == group]
        first = mine[0] == self.rank
        made = self._meet("groups", (Meetings(len(mine)), Meetings(len(mine))) if first else None)
        return Thread(mine.index(self.rank), len(mine), *made.given[mine[0]])

    def sum_in_order(self, array: np.ndarray) -> np.ndarray:
        assert type(array) is np.ndarray, "MPI is given what is on a GPU"
        first, *others = self._meet("sum in order", array).given
        return sum(others, start=first)

    def add_parts(self, part: np.ndarray, total: np.ndarray, tag: int) -> None:
        parts = {rank: np.empty_like(part) for rank in range(self.size) if rank != self.rank}
        self.exchange(dict.fromkeys(parts, part), parts, tag)
        first, *others = (part if rank == self.rank else parts[rank] for rank in range(self.size))
        total[...] = sum(others, start=first)

    def exchange(self, sent: Mapping[int, np.ndarray], received: Mapping[int, np.ndarray], tag: int) -> None:
        mail = self._world.mail
        for rank, array in sent.items():
            mail(self.rank, rank, tag).put(array.copy())
        for rank, array in received.items():
            array[...] = mail(rank, self.rank, tag).get(timeout=PATIENCE)

    def messages(
        self, sent: Mapping[int, np.ndarray], received: Mapping[int, np.ndarray], tag: int
    ) -> ThreadMessages:
        own = -1 - tag  # others than those of `exchange`
        return ThreadMessages(lambda: self.exchange(sent, received, own), len(sent) + len(received))

    def counter(self) -> Counted:
        self._met += 1
        meeting = self._world.join(self._met - 1, "counter")
        meeting.give(self.rank, Counted() if self.rank == 0 else None)
        meeting.wait()
        return meeting.given[0]

    def _start(self, array: np.ndarray, operation: np.ufunc) -> Meeting:
        assert type(array) is np.ndarray, "MPI is given what is on a GPU"
        self._begun += 1
        meeting = self._beside.join(self._begun - 1, operation)
        meeting.give(self.rank, array, _reduce(operation))
        return meeting

    def start_sum(self, array: np.ndarray) -> Meeting:
        return self._start(array, np.add)

    def start_max(self, array: np.ndarray) -> Meeting:
        return self._start(array, np.maximum)


def on_threads(size: int, work: Callable[[Thread], Any]) -> list[Any]:
    """Return what each rank returns; raises the first error of one."""
    world, side_stream, errors = Meetings(size), Meetings(size), list[BaseException]()

    def one(rank: int) -> Any:
        try:
            return work(Thread(rank, size, world, side_stream))
        except BaseException as error:
            errors.append(error)
            for group in (world, side_stream):
                group.fail()
            raise

    with ThreadPoolExecutor(size) as pool:
        ranks = [pool.submit(one, rank) for rank in range(size)]
    if errors:
        raise errors[0]
    return [rank.result() for rank in ranks]


class Nccl:
    """What `cupy.cuda.nccl` is, for the emulated GPUs of threads of this process."""

    NCCL_INT32, NCCL_INT64, NCCL_FLOAT32, NCCL_FLOAT64, NCCL_SUM, NCCL_MAX = 2, 4, 7, 8, 0, 2

    def __init__(self, version: int = 23203, fails: int | None = None) -> None:
        self.version, self.fails = version, fails
        self.groups: dict[bytes, Meetings] = {}
        self.messages: list[tuple[int, int]] = []

    def get_version(self) -> int:
        return self.version

    def get_unique_id(self) -> bytes:
        return len(self.groups).to_bytes(128, "little")

    def NcclCommunicator(self, size: int, number: bytes, rank: int) -> Group:
        if rank == self.fails:
            raise RuntimeError("NCCL_ERROR_SYSTEM_ERROR")
        return Group(self, self.groups.setdefault(number, Meetings(size)), rank)


class Group:
    """One rank of a communicator."""

    def __init__(self, library: Nccl, meetings: Meetings, rank: int) -> None:
        self._library, self._meetings, self._rank, self._begun = library, meetings, rank, 0

    def allReduce(self, source: int, target: int, count: int, kind: int, operation: int, stream: int) -> None:
        theirs = ALL[stream]
        assert theirs is not current(), "it would hold up the steps"
        behind = [known for known, number in current().known.items() if theirs.known.get(known, -1) < number]
        assert not behind, "it does not wait for what it sums"
        room = (ctypes.c_byte * (count * np.dtype(_TYPES[kind]).itemsize)).from_address(source)
        array = np.frombuffer(room, _TYPES[kind])
        assert source == target
        self._library.messages.append((kind, operation))
        self._begun += 1
        meeting = self._meetings.join(self._begun - 1, (count, kind, operation))
        meeting.give(self._rank, array, _reduce(_OPERATIONS[operation]))
        theirs.later(meeting.wait, meeting.test)
