"""Buffers of the recordings between two flushes; each lane fills its own columns."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from petabatch.clock import Clock
from petabatch.network.recordings import Recording
from petabatch.variable import Stream


class Events(NamedTuple):
    """Values of single units of a slice in some steps, in their order; others are 0."""

    steps: np.ndarray
    units: np.ndarray
    values: np.ndarray

    def write(self, steps: np.ndarray, rows: np.ndarray) -> None:
        """Write them to the rows `[n, ...]` of the slice in some steps."""
        rows[steps.searchsorted(self.steps), *np.unravel_index(self.units, rows.shape[1:])] = self.values


Counter = Callable[[int, Events], None]
"""Is told of the events of a local slice, once and in the order of the steps."""


@dataclass(frozen=True)
class Record:
    """What one stream holds when it is flushed."""

    stream: Stream
    steps: np.ndarray
    """int64 `[n]`."""
    rows: np.ndarray
    """The values, apart from `events`."""
    events: Sequence[list[Events]] = ()
    """Of each local slice, what is written to `rows` when it is asked for."""

    @property
    def values(self) -> np.ndarray:
        """All values, `[n, local slices, ...]` for batched streams, else `[n, ...]`."""
        for lane, events in enumerate(self.events):
            for one in events:
                one.write(self.steps, self.rows[:, lane])
            events.clear()
        return self.rows

    def of(self, lanes: slice) -> Record:
        """Return the record of some local slices, on the same memory."""
        return replace(self, rows=self.rows[:, lanes], events=self.events[lanes])


class Recorder:
    """Rows for a range of steps, of the local slices; nothing grows while lanes run."""

    def __init__(
        self,
        recordings: Sequence[Recording],
        slices: int,
        room: Callable[[tuple[int, ...], str], np.ndarray] = np.zeros,
        dt: Sequence[float] = (),
    ) -> None:
        """Keep rows in what `room` gives for a shape and a dtype; `dt` is that of each slice, for events."""
        self.recordings, self._room, self._dt = recordings, room, dt
        self.counters: dict[int, list[Counter]] = {}
        """By number of a recording of events."""
        self.pending: list[Callable[[], None]] = []
        """Functions that wait for rows being downloaded from a GPU."""
        self.slices = slices
        self.first = 0
        self._buffers: list[np.ndarray] = []
        self._events: list[list[list[Events]]] = []
        """Of each recording and local slice, what is not in its buffer."""
        self._steps: list[np.ndarray] = []
        self.reached = 0
        """The last step whose rows are complete."""
        self._seen: dict[str, np.ndarray] = {}

    def open(self, first: int, last: int, initial: bool = False) -> None:
        """Make room for steps first+1 .. last, and for step `first` itself if `initial`."""
        self.close()
        self.first = first if initial else first + 1
        self._buffers, self._steps = [], []
        self._events = [[[] for _ in range(self.slices)] for _ in self.recordings]
        for recording in self.recordings:
            steps = [] if recording.stream.events else recording.steps(self.first, last)
            shape = recording.stream.shape
            local = (self.slices, *shape[1:]) if recording.stream.batched else shape
            self._steps.append(np.asarray(steps, np.int64))
            self._buffers.append(self._room((len(steps), *local), recording.stream.dtype))

    def add(self, index: int, lane: int, events: Events) -> None:
        """Record values of single units of a local slice by recording number `index`, in its steps."""
        if self.recordings[index].written:
            self._events[index][lane].append(events)
        for count in self.counters.get(index, ()):
            count(lane, events)

    def forget_after(self, step: int) -> None:
        """Leave out events after `step`, from which steps are made again; rows are written again."""
        for lanes in self._events:
            for events in lanes:
                kept = [
                    Events(*(column[: one.steps.searchsorted(step, "right")] for column in one))
                    for one in events
                ]
                events[:] = [one for one in kept if len(one.steps)]

    def row(self, index: int, step: int) -> np.ndarray:
        """Return the row of recording number `index` at `step`, to be written by slice."""
        row: np.ndarray = self._buffers[index][self._steps[index].searchsorted(step)]
        return row

    def rows(self, index: int, first: int, last: int) -> np.ndarray:
        """Return the rows of recording number `index` in steps first .. last, `[n, local slices, ...]`."""
        begin, end = self._steps[index].searchsorted((first, last + 1))
        return self._buffers[index][begin:end]

    def take(self, last: int) -> list[Record]:
        """Return what was recorded up to `last`."""
        self.close()
        records = []
        for recording, steps, buffer, events in zip(
            self.recordings, self._steps, self._buffers, self._events, strict=True
        ):
            rows = int(np.searchsorted(steps, last, side="right"))
            if recording.stream.events:
                records += self._columns(recording, events, last)
            elif rows:
                records.append(Record(recording.stream, steps[:rows], buffer[:rows], events))
        return records

    def _columns(self, recording: Recording, lanes: Sequence[list[Events]], last: int) -> list[Record]:
        """Return events up to `last` as a record of each column, by steps, slices and units."""
        found = [(lane, one) for lane, events in enumerate(lanes) for one in events]
        if not found:
            return []
        slices = np.concatenate([np.full(len(one.steps), lane, np.int32) for lane, one in found])
        steps, units, numbers = (
            np.concatenate(column) for column in zip(*(one for _, one in found), strict=True)
        )
        order = np.lexsort((units, slices, steps))
        each = order[steps[order] <= last]
        each = np.repeat(each, numbers[each].astype(np.int64))
        if not len(each):
            return []
        at = steps[each].astype(np.int64)
        values = {
            "time": Clock(dt=np.asarray(self._dt)[slices[each]]).time(at),
            "unit": units[each],
            "slice": slices[each],
        }
        return [Record(one, at, values[one.leaf].astype(one.dtype)) for one in recording.streams]

    def close(self) -> None:
        """Wait for the rows that are being downloaded."""
        for wait in self.pending:
            wait()
        self.pending.clear()

    def latest(self, quantity: str) -> tuple[str, np.ndarray] | None:
        """Return the first probe with this quantity, and its newest value in each local slice."""
        for recording, steps, buffer in zip(self.recordings, self._steps, self._buffers, strict=True):
            folder, _, rest = recording.stream.path.partition("/")
            probe, _, measured = rest.rpartition("/")
            if (folder, measured) == ("probes", quantity):
                row = int(np.searchsorted(steps, self.reached, side="right")) - 1
                if row >= 0:
                    self._seen[quantity] = buffer[row].astype(float)
                return (probe, self._seen[quantity]) if quantity in self._seen else None
        return None
