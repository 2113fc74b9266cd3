"""Activities that a program records inside its steps: many of them in one call.

A slice keeps those of a few steps in an array of its own, from which they are copied to the recorder.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from petabatch.engine.recorder import Recorder
from petabatch.network.operations import Copy, LazyUpdate, Source, Update, When
from petabatch.network.plan import Plan
from petabatch.network.recordings import Recording
from petabatch.variable import Array

_BYTES = 1 << 16
"""Most memory of a recording of a slice: it should stay in the second cache."""
_GAIN = 2
"""Recordings of a call from which it is worth while to keep them, instead of ending the call at each."""
UNLIMITED = 1 << 62


@dataclass(frozen=True)
class StepRecords:
    """The recordings of activities that a program makes."""

    recordings: Mapping[int, Recording]
    """By number."""
    sizes: Mapping[str, int]
    """By the key of a slice's array, the units of the layer."""
    steps: int
    """Most steps of a call, of which each has a place in the array: `step % steps`."""

    @classmethod
    def of(cls, plan: Plan) -> StepRecords:
        """Return those of layers that the program updates, recorded several times in a display.

        There are none if layers are updated in the interpreter, since calls end there.
        """
        program, most = plan.method.program, min(plan.graph.network.run.display, plan.length)
        made = {one.layer for one in program.operations if isinstance(one, Update | LazyUpdate)}
        made = set() if program.interpreted else made - program.readers
        known = {
            index: recording
            for index, recording in enumerate(plan.recordings)
            if recording.stream.path in {f"layers/{layer}/A" for layer in made}
            and recording.stream.dtype == "float32"
            and 0 < _GAIN * recording.period <= _steps(recording, most)
        }
        sizes = {_key(recording): _size(recording) for recording in known.values()}
        return cls(known, sizes, min((_steps(one, most) for one in known.values()), default=UNLIMITED))

    @property
    def copies(self) -> list[Copy]:
        """The operations at the end of a step by which activities are kept."""
        return [
            Copy(_key(one), Source(one.stream.path), when=When(one.period, one.offset))
            for one in self.recordings.values()
        ]

    @property
    def nbytes(self) -> int:
        """Bytes of the arrays of a slice."""
        return 4 * sum(self.steps * size for size in self.sizes.values())

    def arrays(self) -> dict[str, np.ndarray]:
        """Return the arrays of a slice, `[1, steps, size]`, by key."""
        return {key: np.zeros((1, self.steps, size), np.float32) for key, size in self.sizes.items()}

    def write(
        self,
        recorder: Recorder,
        lanes: Sequence[int],
        first: int,
        last: int,
        arrays: Sequence[Mapping[str, np.ndarray]],
    ) -> None:
        """Record what is due in steps first+1 .. last, made in one call, from `arrays` of each slice."""
        for index, one in self.recordings.items():
            due = first + 1 + (one.offset - first - 1) % one.period
            if due > last:
                continue
            rows, key = recorder.rows(index, first + 1, last), _key(one)
            places = np.arange(due, last + 1, one.period) % self.steps
            shape = len(places), *rows.shape[2:]
            for lane, kept in zip(lanes, arrays, strict=True):
                rows[:, lane] = kept[key][0, places].reshape(shape)

    def repeat(
        self, recorder: Recorder, lanes: slice, first: int, last: int, arrays: Mapping[str, Array]
    ) -> None:
        """Record in steps first+1 .. last what layers of a slice that rests have been since step `first`."""
        for index, one in self.recordings.items():
            activity = arrays[one.stream.path]
            recorder.rows(index, first + 1, last)[:, lanes] = activity[:, first % activity.shape[1]]


def _key(recording: Recording) -> str:
    return f"records/{recording.stream.path}"


def _size(recording: Recording) -> int:
    return math.prod(recording.stream.shape[1:])


def _steps(recording: Recording, most: int) -> int:
    """Return the steps of a call of at most `most` for which there is room."""
    return min(most, _BYTES // (4 * _size(recording)))
