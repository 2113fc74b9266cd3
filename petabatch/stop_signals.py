"""Requests to stop: a signal sets a flag that the run reads between blocks of steps."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

WATCHED = (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1)


class StopFlag:
    """Number of the signal that asked to stop, 0 for none."""

    def __init__(self) -> None:
        self.received = 0

    def __call__(self, number: int, frame: FrameType | None) -> None:
        """Note a signal; a second Ctrl-C stops at once."""
        if self.received and number == signal.SIGINT:
            raise KeyboardInterrupt
        self.received = number


@contextmanager
def watch() -> Iterator[StopFlag]:
    """Turn SIGINT, SIGTERM and SIGUSR1 into a flag while the block runs."""
    flag = StopFlag()
    before = {number: signal.signal(number, flag) for number in WATCHED}
    try:
        yield flag
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
