"""Ctrl-C between steps: an interrupt waits until all slices have made the same steps."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from petabatch.parallel.comm import Comm


@contextmanager
def interrupts_after(comm: Comm) -> Iterator[None]:
    """Raise KeyboardInterrupt at the end of the block if Ctrl-C was pressed in it; a second one at once.

    It is raised on all ranks if it was pressed on any: collective.
    """
    main = threading.current_thread() is threading.main_thread()
    if not main or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield
        if comm.any(0):
            raise KeyboardInterrupt
        return
    pressed = False

    def note(number: int, frame: Any) -> None:
        nonlocal pressed
        pressed = True
        signal.signal(signal.SIGINT, signal.default_int_handler)

    signal.signal(signal.SIGINT, note)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if comm.any(int(pressed)):
        raise KeyboardInterrupt
