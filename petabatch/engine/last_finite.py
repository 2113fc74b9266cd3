"""The last finite state of slices, to which one that is no longer finite goes back."""

from __future__ import annotations

from collections.abc import Mapping

from petabatch.engine.history import History
from petabatch.network.last_finite import NAME, PENDING, STEP
from petabatch.variable import Array, host


class LastFinite:
    """The arrays of some slices, and their copies."""

    def __init__(self, arrays: Mapping[str, Array]) -> None:
        """Take arrays by key, `[slices, ...]`."""
        self._copies = [
            (arrays[key.removeprefix(f"{NAME}/")], array)
            for key, array in arrays.items()
            if key.startswith(f"{NAME}/") and key != STEP
        ]
        self._histories = [arrays[key] for key in arrays if f"{NAME}/{key}" in arrays and key.endswith("/A")]
        self._pending = [arrays[key] for key in arrays if key.endswith(f"/{PENDING}")]
        self._step = arrays[STEP]

    def keep(self, step: int) -> None:
        """Copy the state after `step`, which is finite."""
        for array, copy in self._copies:
            copy[...] = array
        self._step[...] = step

    def restore(self) -> None:
        """Set the state that was kept, of a single slice: activities of all steps are those of its step."""
        step = int(host(self._step)[0])
        for array, copy in self._copies:
            array[...] = copy
        for pending in self._pending:
            pending[...] = 0
        for activity in self._histories:
            activity[...] = History(activity).at(step)[:, None].copy()
