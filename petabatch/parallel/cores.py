"""The threads of a rank."""

from __future__ import annotations

import os

from petabatch.spec.network import Run


def lane_threads(run: Run, threads: int | None = None) -> int:
    """Return the number of threads of a rank: as asked for, or one for each core available to the process."""
    return threads or run.threads or len(os.sched_getaffinity(0))
