"""Hang detection by heartbeat: a rank that hangs ends the whole run instead of blocking it for ever.

Each rank watches the next one. Every second it sends the rank before it a heartbeat: its progress counter,
whether it only waits for other ranks, and whether it is inside a blocking operation (file access, image
decoding, compilation). How long a rank may make no progress depends on its state, in terms of one limit:

- no heartbeat arrives (the process is stopped, or its host hangs): a twentieth of the limit;
- heartbeats arrive, but the progress counter stands still: ten times the longest interval between two
  advances so far, and at least a twentieth of the limit. During warm-up no interval is known: the limit;
- it is inside a blocking operation, which may also keep heartbeats from being sent: the limit, unless the
  operating system reports the process as stopped;
- it waits for other ranks: for ever, since it is not the one that hangs.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol, Self

import numpy as np

from petabatch.parallel.blocking_io import BlockingIO
from petabatch.parallel.comm import Comm, Ring
from petabatch.parallel.compilation import while_compiling
from petabatch.parallel.failure import fail

_SHORT = 20
"""The short limit, for a rank in a known state, is the limit divided by this."""
_TIMES = 10
"""How many times the longest interval so far a rank may take to advance its progress counter."""
_BEATS = 10
"""Heartbeats within the short limit; at most one a second."""
_DONE = -1
"""Progress of a rank that has finished, or is not watched for now."""
_WAITING, _BLOCKED, _WARMING_UP = 1, 2, 4


class Worker(Protocol):
    """What is watched."""

    @property
    def blocking_io(self) -> BlockingIO:
        """The blocking operations that it is inside of."""

    @property
    def progress(self) -> int:
        """A counter from 0 that changes whenever a unit of work is done."""

    @property
    def warming_up(self) -> bool:
        """Whether some kind of work has not been done yet, so that its duration is unknown."""


class Watch:
    """Hang detection of this process among the others of `comm`; nothing in a single process.

    A context manager, entered by all ranks, within which `on` says what is being done. Outside of `on`, the
    process reads or writes, which may take the whole limit, or, within `preparing`, plans, which may take any
    time; or a program of the user's has control, and nothing is known of it.
    """

    def __init__(self, comm: Comm, limit: float, user: bool = False) -> None:
        """`limit` in seconds is explained above; `user` says whose the program is outside of `on`."""
        self._comm, self._limit, self._user = comm, limit, user
        self._worker: Worker | None = None
        self._made = 0
        """Progress of earlier workers, and of preparations."""
        self._prepares = False
        self._over = threading.Event()
        self._ring: Ring | None = None

    def __enter__(self) -> Self:
        self._ring = self._comm.ring()
        if self._ring is not None:
            self._thread = threading.Thread(target=self._watch, name="watchdog", daemon=True)
            self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        if self._ring is not None:
            self._over.set()
            self._thread.join()
            self._ring.send(np.array([_DONE, 0, os.getpid()], np.int64))

    @contextmanager
    def on(self, worker: Worker) -> Iterator[None]:
        """Watch a worker while the block runs."""
        if self._ring is None:
            yield
            return
        blocking = worker.blocking_io  # as compilation is
        self._worker = worker
        try:
            with (
                blocking.announced(self._beat),
                while_compiling(blocking.__enter__, blocking.__exit__),
            ):
                self._beat()
                yield
        finally:
            self._made += worker.progress + 1
            self._worker = None
            self._beat()

    @contextmanager
    def preparing(self) -> Iterator[None]:
        """Outside of `on`, take each heartbeat for progress while the block plans or makes an engine.

        How long that takes depends on the network, and nothing counts it. A process that is stopped sends no
        heartbeats, and is found as always.
        """
        self._prepares = True
        try:
            yield
        finally:
            self._prepares = False

    @contextmanager
    def off(self) -> Iterator[None]:
        """Within `on`, watch nothing while the block runs, in which the user's program has control."""
        worker, self._worker = self._worker, None
        if self._ring is not None:
            self._beat()
        try:
            yield
        finally:
            self._worker = worker

    def _beat(self) -> None:
        """Send the next heartbeat."""
        assert self._ring is not None
        worker = self._worker
        if worker is None and self._prepares:
            self._made += 1
        made = self._made
        if worker is None and self._user:
            state = _DONE, 0
        elif worker is None:
            state = made, _WAITING * self._comm.waiting | _BLOCKED
        else:
            busy = _BLOCKED * (worker.blocking_io.busy > 0)
            flags = _WAITING * self._comm.waiting | busy | _WARMING_UP * worker.warming_up
            state = made + worker.progress, flags
        self._ring.send(np.array([*state, os.getpid()], np.int64))

    def _watch(self) -> None:
        assert self._ring is not None
        comm = self._comm
        same_host = comm.hosts[comm.rank] == comm.hosts[(comm.rank + 1) % comm.size]
        monitor, pause = Monitor(self._limit), min(1.0, self._limit / _SHORT / _BEATS)
        before = time.monotonic()
        while not self._over.wait(pause):
            self._beat()
            now = time.monotonic()
            # Time in which this process was stopped as well, as in a suspended job, does not count.
            monitor.note(min(now - before, 2 * pause), self._ring.receive())
            before = now
            if monitor.stuck or (monitor.silent and same_host and _stopped(monitor.process)):
                _end(comm, monitor)


class Monitor:
    """The state of the next rank, as its heartbeats tell it."""

    def __init__(self, limit: float) -> None:
        self._limit, self._short = limit, limit / _SHORT
        self._progress, self._flags, self._longest = 0, _WARMING_UP, 0.0
        self.silence = 0.0
        """Seconds since the last heartbeat."""
        self.idle = 0.0
        """Seconds since the last sign of progress."""
        self.process = 0

    def note(self, seconds: float, heartbeat: np.ndarray | None) -> None:
        """Take in the heartbeat, if any, that arrived in the `seconds` since the last call."""
        self.silence += seconds
        self.idle += seconds
        if heartbeat is None:
            return
        self.silence = 0.0
        before, self._flags = self._flags, int(heartbeat[1])
        if heartbeat[0] != self._progress:
            if self._progress != _DONE:
                self._longest = max(self._longest, self.idle)
            self.idle = 0.0
        elif self._flags & _WAITING or (self._flags ^ before) & _BLOCKED:
            self.idle = 0.0
        self._progress, self.process = int(heartbeat[0]), int(heartbeat[2])

    @property
    def stuck(self) -> bool:
        """Whether the rank has exceeded its limit."""
        if self._progress == _DONE:
            return False
        if self.silence > (self._limit if self.blocked else self._short):
            return True
        known = not self._flags & (_BLOCKED | _WARMING_UP)
        usual = min(self._limit, max(self._short, _TIMES * self._longest))
        return self.idle > (usual if known else self._limit)

    @property
    def silent(self) -> bool:
        """Whether heartbeats are overdue, and not because the rank has finished."""
        return self._progress != _DONE and self.silence > self._short

    @property
    def blocked(self) -> bool:
        """Whether it was inside a blocking operation at its last heartbeat."""
        return bool(self._flags & _BLOCKED)

    @property
    def answers(self) -> bool:
        """Whether heartbeats keep arriving, without progress."""
        return self.silence < self.idle / 2


def _stopped(process: int) -> bool:
    """Return whether a process on this host is stopped, by a signal or a debugger; known on Linux only."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] in "Tt"
    except OSError:
        return False


def _end(comm: Comm, monitor: Monitor) -> None:
    """End all ranks with a message about the next one."""
    rank = (comm.rank + 1) % comm.size
    where = " while reading, writing or compiling" if monitor.blocked else ""
    if monitor.answers:
        found = f"heartbeats arrive, but its steps make no progress{where}"
    else:
        found = f"no heartbeat: is the process stopped{where}?"
    fail(
        f"rank {rank} is stuck: no progress for {monitor.idle:.0f} s\n"
        f"    found:    {found} (process {monitor.process or 'unknown'} on {comm.hosts[rank]})\n"
        "    hint:     `petabatch resume` continues from the last checkpoint; if the rank is only slow, "
        "raise run.stuck_after",
        1,
    )
