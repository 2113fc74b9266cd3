"""The last finite state of slices, to which one that is no longer finite goes back."""

from __future__ import annotations

from collections.abc import Mapping

from petabatch.engine.history import History
from petabatch.network.last_finite import NAME, STEP, is_cleared
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
        self._cleared = [array for key, array in arrays.items() if is_cleared(key)]
        self._step = arrays[STEP]

    def keep(self, step: int) -> None:
        """Copy the state after `step`, which is finite; `materialise` before."""
        for array, copy in self._copies:
            copy[...] = array
        self._step[...] = step

    def restore(self) -> None:
        """Set the state that was kept, of a single slice: activities of all steps are those of its step."""
        step = int(host(self._step)[0])
        for array, copy in self._copies:
            array[...] = copy
        for array in self._cleared:
            array[...] = 0
        for activity in self._histories:
            activity[...] = History(activity).at(step)[:, None].copy()
