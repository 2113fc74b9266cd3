"""A rank that hangs ends all ranks: each has a thread that watches whether the next rank gets on.

A rank tells the one before it, every second, how far it is, whether it only waits for others, and whether it
is away on errands: files, images, compiling. How long it may say nothing new depends on what it does:

- it says nothing at all (it is stopped, or its host hangs): a twentieth of the limit;
- it answers, but its steps do not go on: ten times the longest it took so far from one sign of progress to
  the next, and no less than a twentieth of the limit. While it is new there is nothing to go by: the limit;
- it is away on errands, which take what file systems and compilers take, and may keep it from answering: the
  limit, unless the operating system says that it is stopped;
- it waits for others: for ever. It is not to blame.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

import numpy as np

from petabatch.parallel.blocking_io import BlockingIO
from petabatch.parallel.comm import Comm
from petabatch.parallel.failure import fail

_SHORT = 20
"""The part of the limit that is enough for a rank of which more is known."""
_TIMES = 10
"""How many times as long as ever before a rank may take from one sign of progress to the next."""
_BEATS = 10
"""Messages within the shortest limit; no more than one a second."""
_LEFT = -1
"""Progress of a rank that is done, and not to be watched any more."""
_WAITS, _AWAY, _NEW = 1, 2, 4


class Worker(Protocol):
    """What is watched."""

    blocking_io: BlockingIO

    @property
    def progress(self) -> int:
        """A number from 0 that changes whenever a piece of work is done."""

    @property
    def warming_up(self) -> bool:
        """Say whether there is a kind of work that it has not done yet."""


@contextmanager
def watched(comm: Comm, worker: Worker, limit: float) -> Iterator[None]:
    """While the block runs, end all ranks when one is stuck: see above for what `limit`, seconds, means.

    Every rank calls this. Nothing is watched in a single process.
    """
    ring = comm.ring()
    if ring is None:
        yield
        return

    def tell() -> None:
        flags = _WAITS * comm.waiting | _AWAY * (worker.blocking_io.busy > 0) | _NEW * worker.warming_up
        ring.tell(np.array([worker.progress, flags, os.getpid()], np.int64))

    over = threading.Event()
    here = comm.hosts[comm.rank] == comm.hosts[(comm.rank + 1) % comm.size]

    def watch() -> None:
        seen, pause = Seen(limit), min(1.0, limit / _SHORT / _BEATS)
        before = time.monotonic()
        while not over.wait(pause):
            tell()
            now = time.monotonic()
            # What stopped this process too, as a suspended job, is not the other's silence.
            seen.note(min(now - before, 2 * pause), ring.hear())
            before = now
            if seen.stuck or (seen.silent and here and _stopped(seen.process)):
                _end(comm, seen)

    dog = threading.Thread(target=watch, name="watchdog", daemon=True)
    dog.start()
    try:
        with worker.blocking_io.announced(tell):
            yield
    finally:
        over.set()
        dog.join()
        ring.tell(np.array([_LEFT, 0, os.getpid()], np.int64))


class Seen:
    """What a rank knows of the next one."""

    def __init__(self, limit: float) -> None:
        self._limit, self._short = limit, limit / _SHORT
        self._progress, self._flags, self._longest = 0, _NEW, 0.0
        self.silence = 0.0
        """Seconds since it was heard."""
        self.quiet = 0.0
        """Seconds since there was anything new in what it says."""
        self.process = 0

    def note(self, seconds: float, heard: np.ndarray | None) -> None:
        """Take in what was heard, if anything, in the `seconds` since the last call."""
        self.silence += seconds
        self.quiet += seconds
        if heard is None:
            return
        self.silence = 0.0
        before, self._flags = self._flags, int(heard[1])
        if heard[0] != self._progress:
            self._longest = max(self._longest, self.quiet)
            self.quiet = 0.0
        elif self._flags & _WAITS or (self._flags ^ before) & _AWAY:
            self.quiet = 0.0
        self._progress, self.process = int(heard[0]), int(heard[2])

    @property
    def stuck(self) -> bool:
        """Say whether it is given up."""
        if self._progress == _LEFT:
            return False
        if self.silence > (self._limit if self.busy else self._short):
            return True
        known = not self._flags & (_AWAY | _NEW)
        usual = min(self._limit, max(self._short, _TIMES * self._longest))
        return self.quiet > (usual if known else self._limit)

    @property
    def silent(self) -> bool:
        """Say whether it is not heard, for longer than is usual, and not because it is done."""
        return self._progress != _LEFT and self.silence > self._short

    @property
    def busy(self) -> bool:
        """Say whether it went on errands, by what it said last, and is not yet back."""
        return bool(self._flags & _AWAY)

    @property
    def answers(self) -> bool:
        """Say whether it goes on saying that there is nothing new."""
        return self.silence < self.quiet / 2


def _stopped(process: int) -> bool:
    """Say whether a process of this host is stopped, by a signal or a debugger; known on Linux only."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] in "Tt"
    except OSError:
        return False


def _end(comm: Comm, seen: Seen) -> None:
    """End all ranks with a message about the next one."""
    rank = (comm.rank + 1) % comm.size
    where = " in reading, writing or compiling" if seen.busy else ""
    found = f"it answers, but its steps do not go on{where}" if seen.answers else _silent(where)
    fail(
        f"rank {rank} is stuck: no progress for {seen.quiet:.0f} s\n"
        f"    found:    {found} (process {seen.process or 'unknown'} on {comm.hosts[rank]})\n"
        "    hint:     petabatch resume goes on from the last checkpoint; if the rank is only slow, raise "
        "run.stuck_after",
        1,
    )


def _silent(where: str) -> str:
    return f"it does not answer: is it stopped{where}?"
