"""Activities that a program records inside its steps: many of them in one call.

A slice keeps those of a few steps in an array of its own, from which they are copied to the recorder; of
layers that spike, the lists of active units are what is kept.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from petabatch.clock import firing
from petabatch.engine.recorder import Events, Recorder
from petabatch.kernels.operations.base import When
from petabatch.kernels.operations.fields import Source
from petabatch.kernels.operations.transport import Copy
from petabatch.network.operations import LazyUpdate, Update
from petabatch.network.plan import Plan
from petabatch.network.recordings import Recording
from petabatch.variable import Array

_BYTES = 1 << 16
"""Most memory of a recording of a slice: it should stay in the second cache."""
_LISTS = 1 << 23
"""Most memory of the lists of a layer, of which active units alone are touched."""
_GAIN = 2
"""Recordings of a call from which it is worth while to keep them, instead of ending the call at each."""
UNLIMITED = 1 << 62


class ActiveUnits(NamedTuple):
    """Lists of the active units of a layer in some steps, as a program keeps them."""

    units: np.ndarray
    values: np.ndarray
    ends: np.ndarray
    """Where the next list begins; where each begins and ends, step t in place t modulo their number."""

    def in_steps(self, steps: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return the step, the unit and the activity of each active unit in some steps."""
        bounds = self.ends[1:].reshape(-1, 2)
        begin, end = bounds[steps % len(bounds)].T
        counts = end - begin
        places = np.repeat(begin - np.cumsum(counts) + counts, counts) + np.arange(counts.sum())
        return np.repeat(steps, counts), self.units[places], self.values[places]


@dataclass(frozen=True)
class StepRecords:
    """The recordings of activities that a program makes."""

    recordings: Mapping[int, Recording]
    """By number."""
    sizes: Mapping[str, int]
    """By the key of a slice's array, the units of the layer."""
    listed: Mapping[int, str]
    """Recordings of active units, and their layers."""
    real: str
    """The precision of the run, that of activities."""
    steps: int
    """Most steps of a call, of which each has a place in the array: `step % steps`."""

    @classmethod
    def of(cls, plan: Plan) -> StepRecords:
        """Return those of layers that the program updates, recorded several times in a display.

        Without images, several times in the run. There are none if layers are updated in the interpreter,
        since calls end there. Other variables of units are kept as well, unless slices may rest.
        """
        program, graph = plan.method.program, plan.graph
        most = min(graph.network.run.display, plan.length) if graph.shows else plan.length
        real = graph.network.run.precision
        made = {one.layer for one in program.operations if isinstance(one, Update | LazyUpdate)}
        made = set() if program.interpreted else made - program.readers
        layers = {
            index: layer
            for index, recording in enumerate(plan.recordings)
            for layer in made
            if (recording.stream.events and recording.key == f"layers/{layer}/A")
            or (recording.stream.path == f"layers/{layer}/A" and recording.stream.dtype == real)
        }
        # A display that ends early is made in several calls, of slices in other places.
        variables = set() if graph.network.run.until is not None else _variables(plan, made)
        others = {
            index: recording.stream.path.split("/")[1]
            for index, recording in enumerate(plan.recordings)
            if recording.stream.path in variables
        }
        lists = (
            set()
            if program.look
            else {layer for layer in program.listed if graph.network.layers[layer].spiking}
        )
        units = {
            index: math.prod(graph.network.layers[layer].shape) for index, layer in (layers | others).items()
        }
        steps = {index: _steps(units[index], most, layers.get(index) in lists, real) for index in units}
        known = {
            index: plan.recordings[index]
            for index in steps
            if 0 < _GAIN * plan.recordings[index].period <= steps[index]
        }
        listed = {index: layers[index] for index in known if layers.get(index) in lists}
        sizes = {_key(one): units[index] for index, one in known.items() if index not in listed}
        return cls(known, sizes, listed, real, min(map(steps.__getitem__, known), default=UNLIMITED))

    @property
    def copies(self) -> list[Copy]:
        """The operations at the end of a step by which activities are kept."""
        return [
            Copy(_key(one), Source(one.key), when=When(one.period, one.offset))
            for index, one in self.recordings.items()
            if index not in self.listed
        ]

    @property
    def places(self) -> Mapping[str, int]:
        """How many lists of active units of a layer are kept."""
        return dict.fromkeys(self.listed.values(), self.steps)

    @property
    def nbytes(self) -> int:
        """Bytes of the arrays of a slice."""
        return np.dtype(self.real).itemsize * sum(self.steps * size for size in self.sizes.values())

    def arrays(self) -> dict[str, np.ndarray]:
        """Return the arrays of a slice, `[1, steps, size]`, by key."""
        return {key: np.zeros((1, self.steps, size), self.real) for key, size in self.sizes.items()}

    def write(
        self,
        recorder: Recorder,
        lanes: Sequence[int],
        first: int,
        last: int,
        arrays: Sequence[Mapping[str, np.ndarray]],
        lists: Sequence[Mapping[str, ActiveUnits]],
    ) -> None:
        """Record what is due in steps first+1 .. last, made in one call.

        From `arrays` of each slice, and its lists of active units by layer.
        """
        for index, one in self.recordings.items():
            due = firing(one.period, first, last, one.offset)
            if not due:
                continue
            if index in self.listed:
                steps = np.arange(due.start, due.stop, due.step)
                for lane, active in zip(lanes, lists, strict=True):
                    recorder.add(index, lane, Events(*active[self.listed[index]].in_steps(steps)))
                continue
            steps, key = np.arange(due.start, due.stop, due.step), _key(one)
            places = steps % self.steps
            if one.stream.events:
                for lane, kept in zip(lanes, arrays, strict=True):
                    at, units = np.nonzero(values := kept[key][0, places])
                    recorder.add(index, lane, Events(steps[at], units, values[at, units]))
                continue
            rows = recorder.rows(index, first + 1, last)
            shape = len(places), *rows.shape[2:]
            for lane, kept in zip(lanes, arrays, strict=True):
                rows[:, lane] = kept[key][0, places].reshape(shape)

    def repeat(
        self, recorder: Recorder, lanes: slice, first: int, last: int, arrays: Mapping[str, Array]
    ) -> None:
        """Record in steps first+1 .. last what layers of a slice that rests have been since step `first`."""
        for index, one in self.recordings.items():
            if one.stream.events:  # a network whose slices rest has no list of spikes
                continue
            activity = arrays[one.stream.path]
            recorder.rows(index, first + 1, last)[:, lanes] = activity[:, first % activity.shape[1]]


def _variables(plan: Plan, layers: Collection[str]) -> set[str]:
    """Return the keys of variables of units, of the precision of the run, that steps keep up to date."""
    network, lazy = plan.graph.network, {one.layer for one in plan.method.program.lazy}
    real = network.run.precision
    return {
        f"layers/{name}/{variable.name}"
        for name in layers
        if name not in lazy
        for variable in network.layers[name].variables()
        if variable.shape == network.layers[name].shape and variable.dtype_in(real) == real
    }


def _key(recording: Recording) -> str:
    return f"records/{recording.stream.path}"


def _steps(size: int, most: int, lists: bool, real: str) -> int:
    """Return the steps of a call of at most `most` for which there is room, as arrays or as lists."""
    each = np.dtype(real).itemsize
    room = _LISTS // (2 * each * size) - 1 if lists else _BYTES // (each * size)
    return min(most, room)
