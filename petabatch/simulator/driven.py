"""A simulator as a driver advances it: with its callbacks, and each advance as one of its own steps."""

from __future__ import annotations

from collections.abc import Callable

from petabatch.parallel.blocking_io import BlockingIO
from petabatch.simulator.opened import Opened


class SteppedNetwork:
    """The network of a simulator, from sync event to sync event."""

    def __init__(self, opened: Opened, advance: Callable[[int], None]) -> None:
        """`advance` makes the steps of the simulator up to one."""
        self._opened, self._advance = opened, advance

    @property
    def step(self) -> int:
        """Number of steps made."""
        return self._opened.step

    @property
    def blocking_io(self) -> BlockingIO:
        """The blocking operations that this process is inside of."""
        return self._opened.blocking_io

    @property
    def progress(self) -> int:
        """A number that grows with the progress of any slice, and of an evaluation."""
        return self._opened.progress

    @property
    def warming_up(self) -> bool:
        """Whether the engine has not yet reached its first sync event."""
        return self._opened.warming_up

    def next_sync(self) -> int:
        """Return the next step at whose end slices meet, or before which a live source is asked."""
        return self._opened.next_sync()

    def advance(self, stop: int) -> None:
        """Make the steps up to `stop`."""
        self._advance(stop)
