"""Undoing of steps that fail: an earlier state, and the steps since, which are made again.

Copying the state takes as long as a few steps of a network that does little in one. It is therefore copied
once in a while; how often changes no bit.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

import numpy as np

from petabatch.engine.driver import Driver
from petabatch.engine.engine import Engine

_SELDOM = 200
"""Time between two copies as a multiple of that of a copy; making the steps since again takes no longer."""


class Undo:
    """What an engine goes back from steps that fail with."""

    def __init__(self, engine: Engine, keys: Sequence[str], again: bool) -> None:
        """Keep the arrays `keys`, which steps change; `again` says whether steps can be made again."""
        self._engine, self._again = engine, again
        self._arrays = {key: np.empty_like(engine.state.arrays[key]) for key in keys}
        self._step: int | None = None
        """The step of the copy; None if there is none."""
        self._next = 0.0
        """The time of the next copy."""
        self._clock = time.process_time if engine.device is None else time.monotonic
        """Pauses between calls, and other programs, do not count where steps are made by the processor."""

    def forget(self) -> None:
        """Copy the state before the next steps, since it was changed."""
        self._step = None

    def keep(self) -> None:
        """Copy the state if that is due; collective."""
        begin, engine = self._clock(), self._engine
        if self._again and self._step is not None and begin < self._next:
            return
        engine.collect(potentials=False)
        for key, array in self._arrays.items():
            np.copyto(array, engine.state.arrays[key])
        end = self._clock()
        self._step, self._next = engine.step, end + _SELDOM * (end - begin)

    def back_to(self, step: int) -> None:
        """Go back to the end of `step`, at or after that of the copy."""
        engine = self._engine
        assert self._step is not None
        engine.recorder.forget_after(self._step)
        engine.go_back(self._step, {**engine.state.saved(), **self._arrays})
        for _ in Driver(engine).advance(step):
            pass
