"""Compilation by numba, which is a blocking operation."""

from __future__ import annotations

from contextlib import AbstractContextManager

from numba.core import event

from petabatch.parallel.blocking_io import BlockingIO


def compilation_blocks(blocking_io: BlockingIO) -> AbstractContextManager[None]:
    """While the block runs, compilation on any thread counts as a blocking operation."""
    listener: AbstractContextManager[None] = event.install_listener("numba:compile", _Compiling(blocking_io))
    return listener


class _Compiling(event.Listener):  # type: ignore[misc]  # numba has no types
    def __init__(self, blocking_io: BlockingIO) -> None:
        self._blocking_io = blocking_io

    def on_start(self, event: event.Event) -> None:
        self._blocking_io.__enter__()

    def on_end(self, event: event.Event) -> None:
        self._blocking_io.__exit__()
