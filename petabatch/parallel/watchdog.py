"""A rank that hangs ends all ranks: each has a thread that watches whether the next rank gets on.

A rank tells the one before it, several times within the limit, how far it is and whether it only waits for
others. One that says nothing new for the limit is stuck: it is stopped, or its steps do not go on. Ranks that
wait for it say so, and are not blamed. Slow ranks have something new to say now and then.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np

from petabatch.parallel.comm import Comm, Ring
from petabatch.parallel.failure import fail

_BEATS = 10
"""Messages within the limit."""
_LEFT = -1
"""Progress of a rank that is done, and not to be watched any more."""


@contextmanager
def watched(comm: Comm, progress: Callable[[], int], limit: float) -> Iterator[None]:
    """While the block runs, end all ranks when one makes no progress for `limit` seconds.

    `progress` returns a number (not -1) that changes whenever this rank gets on. Every rank calls this.
    Nothing is watched in a single process.
    """
    ring = comm.ring()
    if ring is None:
        yield
        return
    over = threading.Event()
    dog = threading.Thread(
        target=_watch, args=(comm, ring, progress, limit, over), name="watchdog", daemon=True
    )
    dog.start()
    try:
        yield
    finally:
        over.set()
        dog.join()


def _watch(comm: Comm, ring: Ring, progress: Callable[[], int], limit: float, over: threading.Event) -> None:
    pause = min(1.0, limit / _BEATS)
    silence, last, waiting, process = 0.0, 0, False, 0
    before = time.monotonic()
    while not over.wait(pause):
        ring.tell(np.array([progress(), comm.waiting, os.getpid()], np.int64))
        heard, now = ring.hear(), time.monotonic()
        # What stopped this process too, as a suspended job, is not the other's silence.
        silence += min(now - before, 2 * pause)
        before = now
        if heard is not None:
            moved = heard[0] != last or heard[1]
            last, waiting, process = int(heard[0]), bool(heard[1]), int(heard[2])
            silence = 0.0 if moved else silence
        if last != _LEFT and silence > limit:
            _end(comm, silence, answers=heard is not None and not waiting, process=process)
    ring.tell(np.array([_LEFT, 0, os.getpid()], np.int64))


def _end(comm: Comm, silence: float, answers: bool, process: int) -> None:
    """End all ranks with a message about the next one."""
    rank = (comm.rank + 1) % comm.size
    found = "it answers, but its steps do not go on" if answers else "it does not answer: is it stopped?"
    fail(
        f"rank {rank} is stuck: no progress for {silence:.0f} s\n"
        f"    found:    {found} (process {process or 'unknown'} on {comm.hosts[rank]})\n"
        "    hint:     petabatch resume goes on from the last checkpoint; if the rank is only slow, raise "
        "run.stuck_after",
        1,
    )
