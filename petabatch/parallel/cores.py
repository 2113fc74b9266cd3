"""The threads of a rank."""

from __future__ import annotations

import os

from petabatch.arguments import whole_number
from petabatch.parallel.comm import Comm
from petabatch.spec.network import Run


def lane_threads(run: Run, threads: int | None = None) -> int:
    """Return the number of threads of a rank: as asked for, or one for each core available to the process.

    Raises ArgumentError where fewer than one are asked for.
    """
    if threads is not None:
        return whole_number("threads", threads, 1)
    return run.threads or len(os.sched_getaffinity(0))


def fewest(threads: int, group: Comm) -> int:
    """Return the least number of threads of any rank of a group; collective."""
    every = group.gather(threads)
    return int(group.broadcast(None if every is None else min(every)))
