"""Stop requests: signals set a flag, which the run checks between blocks of steps."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

WATCHED = (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1)


class StopFlag:
    """A signal handler that stores the number of the signal received, 0 for none."""

    def __init__(self) -> None:
        self.received = 0

    def __call__(self, number: int, frame: FrameType | None) -> None:
        """Store the signal; a second Ctrl-C raises KeyboardInterrupt."""
        if self.received and number == signal.SIGINT:
            raise KeyboardInterrupt
        self.received = number


@contextmanager
def watch() -> Iterator[StopFlag]:
    """While the block runs, let SIGINT, SIGTERM and SIGUSR1 set a flag."""
    flag = StopFlag()
    before = {number: signal.signal(number, flag) for number in WATCHED}
    try:
        yield flag
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
