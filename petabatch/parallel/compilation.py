"""Notice of what numba compiles."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager

from numba.core import event


def while_compiling(begin: Callable[[], object], end: Callable[[], object]) -> AbstractContextManager[None]:
    """Call `begin` and `end` around each compilation of a function, on any thread, while the block runs.

    Functions that a kernel calls are compiled inside of it: several times a second, and nested.
    """
    listener: AbstractContextManager[None] = event.install_listener("numba:compile", _Listener(begin, end))
    return listener


class _Listener(event.Listener):  # type: ignore[misc]  # numba has no types
    def __init__(self, begin: Callable[[], object], end: Callable[[], object]) -> None:
        self._begin, self._end = begin, end

    def on_start(self, event: event.Event) -> None:
        self._begin()

    def on_end(self, event: event.Event) -> None:
        self._end()
