"""The last finite state of slices, to which one that is no longer finite goes back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from petabatch.engine.agreement import agreed
from petabatch.engine.finite import Watch
from petabatch.engine.history import History
from petabatch.engine.state import State
from petabatch.errors import NonFiniteError, PetabatchError
from petabatch.network.last_finite import NAME, STEP, TRACED, is_cleared
from petabatch.network.plan import Plan
from petabatch.parallel.comm import Comm
from petabatch.variable import Array, host


class LastFinite:
    """The arrays of some slices, and their copies."""

    def __init__(self, arrays: Mapping[str, Array]) -> None:
        """Take arrays by key, `[slices, ...]`."""
        self._copies = [
            (arrays[key.removeprefix(f"{NAME}/")], array)
            for key, array in arrays.items()
            if key.startswith(f"{NAME}/") and key not in (STEP, TRACED)
        ]
        self._histories = [arrays[key] for key in arrays if f"{NAME}/{key}" in arrays and key.endswith("/A")]
        self._cleared = [array for key, array in arrays.items() if is_cleared(key)]
        self._step, self._traced = arrays[STEP], arrays.get(TRACED)

    def keep(self, step: int) -> None:
        """Copy the state after `step`, which is finite; `materialise` before."""
        for array, copy in self._copies:
            copy[...] = array
        self._step[...] = step
        if self._traced is not None:
            self._traced[...] = step

    @property
    def traced(self) -> int:
        """The step from which all these slices can make their steps again; -1 if there is none."""
        return -1 if self._traced is None else int(host(self._traced).min())

    def rewind(self) -> None:
        """Set the state from which steps are made again."""
        for array, copy in self._copies:
            array[...] = copy

    @property
    def state(self) -> Sequence[Array]:
        """Copies of the arrays that steps change."""
        return [array.copy() for array, _ in self._copies]

    def set(self, state: Sequence[Array]) -> None:
        """Set a `state`."""
        for (array, _), values in zip(self._copies, state, strict=True):
            array[...] = values

    def restore(self) -> None:
        """Set the state that was kept, of a single slice: activities of all steps are those of its step."""
        step = int(host(self._step)[0])
        for array, copy in self._copies:
            array[...] = copy
        for array in self._cleared:
            array[...] = 0
        for activity in self._histories:
            activity[...] = History(activity).at(step)[:, None].copy()


def keep_finite(plan: Plan, state: State, group: Comm, step: int) -> None:
    """Keep the state after `step` of all slices that are finite on all ranks that share them; collective.

    Some may not be in another run's checkpoint.
    """
    count = state.hi - state.lo
    lanes = [slice(0, count)]
    errors = _not_finite(plan, state, lanes, group, step)
    if errors != [None]:
        lanes = [slice(place, place + 1) for place in range(count)]
        errors = _not_finite(plan, state, lanes, group, step)
    for lane, error in zip(lanes, errors, strict=True):
        if error is None:
            LastFinite(state.lane(lane)).keep(step)


def _not_finite(
    plan: Plan, state: State, lanes: Sequence[slice], group: Comm, step: int
) -> Sequence[PetabatchError | None]:
    """Return the errors of local slices that are not finite; collective."""
    slices = range(state.lo, state.hi)
    errors = list[PetabatchError | None]()
    for lane in lanes:
        try:
            Watch(plan, state.lane(lane), slices[lane]).check(step)
            errors.append(None)
        except NonFiniteError as error:
            errors.append(error)
    return agreed(errors, group, 0)
