"""Probes that compiled loops measure, from three sums of each step.

The sums of error^2, |A| and active units of one slice; quantities are weighted sums of them. They are those
of the probe's own `measure` to rounding (a relative 1e-12), the same bits whatever else is observed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from petabatch.engine.recorder import Recorder
from petabatch.network.loop import Loop
from petabatch.network.plan import Plan, Recording
from petabatch.spec.compiled import NotSuitable, SumWeights
from petabatch.spec.parts import Probe


class LoopProbes:
    """The recordings that a stepper makes."""

    def __init__(
        self, recordings: Sequence[Recording], found: Mapping[str, Mapping[str, SumWeights]]
    ) -> None:
        """Take all recordings of a plan, and what the probes among them are sums of, by name."""
        self._all = recordings
        self.recordings: dict[int, SumWeights] = {}
        """Number of the recording to its quantity."""
        self.energies = {name: sums["total"] for name, sums in found.items() if "total" in sums}
        """What an adaptive time scale can follow in the loop, by the name of the probe."""
        for index, recording in enumerate(recordings):
            kind, name, quantity = recording.stream.path.split("/")
            if kind == "probes" and name in found:
                self.recordings[index] = found[name][quantity]

    @classmethod
    def none(cls) -> LoopProbes:
        """Return those of a stepper that makes none."""
        return cls((), {})

    @classmethod
    def of(cls, plan: Plan, loop: Loop, units: int) -> LoopProbes:
        """Return those of a loop whose code has so many units in a slice."""
        found = {}
        for name, probe in plan.graph.network.probes.items():
            sums = _sums(probe, loop, units)
            if sums:
                found[name] = sums
        return cls(plan.recordings, found)

    def due(self, first: int, last: int) -> np.ndarray:
        """Say which of the steps first+1 .. last are recorded, `[steps]`."""
        found = np.zeros(last - first, bool)
        for index in self.recordings:
            found[self._steps(index, first, last)] = True
        return found

    def write(self, recorder: Recorder, lanes: slice, first: int, last: int, sums: np.ndarray) -> None:
        """Record what is due in steps first+1 .. last, from `sums` `[steps, lanes, 3]`."""
        for index, weights in self.recordings.items():
            steps = self._steps(index, first, last)
            if steps.size:
                s = sums[steps]
                values = weights.squares * s[..., 0] + weights.sizes * s[..., 1] + weights.active * s[..., 2]
                recorder.rows(index, first + 1, last)[:, lanes] = values

    def _steps(self, index: int, first: int, last: int) -> np.ndarray:
        """Return the steps of a recording in first+1 .. last, counted from 0."""
        one = self._all[index]
        if not one.period:
            return np.zeros(0, int)
        return np.arange((one.offset - first - 1) % one.period, last - first, one.period)


def _sums(probe: Probe, loop: Loop, units: int) -> Mapping[str, SumWeights]:
    """Return what the quantities of a probe are sums of, nothing where it needs more than sums."""
    try:
        return probe.from_step_sums(loop.error, loop.code, units)
    except NotSuitable:
        return {}
