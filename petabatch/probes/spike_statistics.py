"""Rates of units, and the intervals between their spikes."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np

from petabatch.clock import Clock
from petabatch.spec.model import Count
from petabatch.spec.parts import Layer, Probe, Reading
from petabatch.spec.schedule import Schedule
from petabatch.variable import Array, Variable


class SpikeStatistics(Probe):
    """Rate, mean interspike interval (ISI) and its coefficient of variation (CV) of a spiking layer.

    They are those of the time since the last measurement; an interval is of the time in which it ends. A
    quantity without intervals is NaN.
    """

    type: Literal["spike_statistics"] = "spike_statistics"
    layer: str
    """Name of the spiking layer."""
    every: Schedule
    """Measurement schedule: at the end of these steps."""
    least: Count = 5
    """Fewest intervals of a unit whose coefficient of variation counts."""

    @property
    def slicewise(self) -> bool:
        """Each slice is measured apart."""
        return True

    @property
    def counts(self) -> str:
        """The layer."""
        return self.layer

    def layers(self) -> Sequence[str]:
        """Return the name of the layer."""
        return (self.layer,)

    def quantities(self) -> Mapping[str, str]:
        """Return the names of the statistics."""
        return {
            "rate": "mean rate of units, in spikes per unit of time of run.dt",
            "isi": "mean interspike interval, in the unit of run.dt",
            "cv": "coefficient of variation of interspike intervals, mean over units",
        }

    def variables(self, layers: Mapping[str, Layer]) -> Sequence[Variable]:
        """Declare sums since the last measurement, in whole steps, and the last spike of each unit."""
        if self.layer not in layers:
            return ()  # reported elsewhere
        shape = (math.prod(layers[self.layer].shape),)

        def of_units(name: str, description: str, initial: float = 0.0) -> Variable:
            return Variable(name, shape, ("unit",), description, "steps", "int64", initial, on_host=True)

        return (
            Variable("since", (), (), "step of the last measurement", "steps", "int64", on_host=True),
            Variable("spikes", (), (), "spikes of all units since", "1", "int64", on_host=True),
            of_units("last", "step of the last spike; -1 before the first", -1),
            of_units("intervals", "number of intervals since"),
            of_units("total", "their sum"),
            of_units("squares", "the sum of their squares"),
        )

    def count(self, own: Mapping[str, Array], steps: Array, units: Array, numbers: Array) -> None:
        """Add the intervals that these spikes end."""
        many = np.where(np.isfinite(numbers), numbers, 0).astype(np.int64)  # others end the run
        steps, units = np.repeat(steps.astype(np.int64), many), np.repeat(units, many)
        own["spikes"][...] += len(steps)
        order = np.lexsort((steps, units))
        steps, units = steps[order], units[order]
        first = np.diff(units, prepend=-1) != 0
        before = np.where(first, own["last"][units], np.roll(steps, 1))
        ended = before >= 0
        spans = (steps - before)[ended]
        for name, added in (("intervals", 1), ("total", spans), ("squares", spans * spans)):
            np.add.at(own[name], units[ended], added)
        final = np.diff(units, append=-1) != 0
        own["last"][units[final]] = steps[final]

    def recorded(self, own: Mapping[str, Array], step: int) -> None:
        """Begin the next sums."""
        own["since"][...] = step
        for name in ("spikes", "intervals", "total", "squares"):
            own[name][...] = 0

    def measure(self, read: Reading, xp: Any) -> Mapping[str, Array]:
        """Return the statistics, each float64 `[lanes]`."""
        number, total, squares = (read.own(name).astype(float) for name in ("intervals", "total", "squares"))
        clock = Clock(dt=read.dt)
        with np.errstate(invalid="ignore", divide="ignore"):
            time = clock.time(read.step - read.own("since"))
            mean = total / number
            variance = np.maximum(squares / number - mean * mean, 0.0)
            counts = (number >= self.least) & (total > 0)
            each = np.where(counts, np.sqrt(variance) / mean, 0.0)
            return {
                "rate": read.own("spikes") / (number.shape[1] * time),
                "isi": clock.time(total.sum(axis=1)) / number.sum(axis=1),
                "cv": each.sum(axis=1) / counts.sum(axis=1),
            }
