"""Warm-up: the time in which kernels are loaded or compiled, and the notice that they are being compiled."""

from __future__ import annotations

import threading
import time
from concurrent.futures import Future, wait
from contextlib import AbstractContextManager

from petabatch.logs import PATIENCE, log
from petabatch.parallel.compilation import while_compiling


class WarmUp:
    """Adds up the seconds in which any thread loads or compiles kernels; a context manager, for loading.

    When compilation takes long, a notice says so, and `report` how long it took.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._busy = 0
        self._spent: tuple[float, float | None] = 0.0, None
        """Seconds so far, and since when further ones are spent; read without the lock, by each call."""
        self._noticed = self._reported = False

    @property
    def seconds(self) -> float:
        """Seconds so far."""
        spent, since = self._spent
        return spent if since is None else spent + time.monotonic() - since

    def __enter__(self) -> None:
        with self._lock:
            if not self._busy:
                self._spent = self._spent[0], time.monotonic()
            self._busy += 1

    def __exit__(self, *error: object) -> None:
        with self._lock:
            self._busy -= 1
            if not self._busy:
                self._spent = self.seconds, None

    def watched(self) -> AbstractContextManager[None]:
        """Count what numba compiles, on any thread, while the block runs."""
        return while_compiling(self._compile, self.__exit__)

    def _compile(self) -> None:
        self.__enter__()
        self.notice()

    def wait_for(self, task: Future[None]) -> None:
        """Wait for a task that loads or compiles kernels, or for another process that compiles them."""
        if wait([task], PATIENCE).not_done:
            self.notice()
        task.result()

    def notice(self) -> None:
        """Log, once, that kernels are being compiled, if that takes long."""
        if not self._noticed and self.seconds > PATIENCE:
            self._noticed = True
            log.info("compiling kernels, for up to a minute, once for each installation and kind of network")

    def report(self) -> None:
        """Log, once, how long it took, if there was a notice."""
        if self._noticed and not self._reported:
            self._reported = True
            log.info("compiled kernels in %.0f s", self.seconds)
