"""Probes that compiled steps measure inside, as sums of norms of layers.

They are those of the probe's own `measure` to rounding (a relative 1e-12), the same bits whatever else is
observed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from petabatch.clock import firing
from petabatch.engine.features import Features
from petabatch.engine.recorder import Recorder
from petabatch.network.plan import Plan
from petabatch.network.recordings import Recording
from petabatch.spec.compiled import NotSuitable, Term
from petabatch.variable import Array

Weights = tuple[float | np.ndarray, ...]
"""The weight of each norm in a recording, `[lanes]` where they have their own."""


@dataclass(frozen=True)
class StepProbes:
    """The recordings that a stepper makes, from norms that it sums up in each step."""

    all: Sequence[Recording]
    columns: tuple[Term, ...]
    """The norms, each with coefficient 1."""
    recordings: dict[int, Weights]
    """By the number of the recording."""
    energies: Mapping[str, tuple[float, ...]]
    """The same of what an adaptive time scale can follow, by the name of the probe."""

    @classmethod
    def none(cls) -> StepProbes:
        """Return those of a stepper that makes no recordings."""
        return cls((), (), {}, {})

    @classmethod
    def of(cls, plan: Plan, features: Features, columns: Sequence[Term] | None = None) -> StepProbes:
        """Return the probes that are sums of these norms, by default of any norms of layers."""
        found = {}
        for name in plan.graph.network.probes:
            try:
                norms = features.norms(name, plan)
            except NotSuitable:
                continue
            named = {(term.layer, term.norm) for terms in norms.values() for term in terms}
            if columns is None or named <= {(term.layer, term.norm) for term in columns}:
                found[name] = norms
        if columns is None:
            terms = [term for norms in found.values() for parts in norms.values() for term in parts]
            columns = [Term(layer, norm) for layer, norm in dict.fromkeys((t.layer, t.norm) for t in terms)]
        weights = {
            name: {quantity: _weights(terms, columns) for quantity, terms in norms.items()}
            for name, norms in found.items()
        }
        recordings: dict[int, Weights] = {}
        for index, recording in enumerate(plan.recordings):
            kind, name, quantity = recording.stream.path.split("/")
            if kind == "probes" and name in weights:
                recordings[index] = weights[name][quantity]
        energies = {name: one["total"] for name, one in weights.items() if "total" in one}
        return cls(plan.recordings, tuple(columns), recordings, energies)

    @classmethod
    def together(cls, probes: Sequence[StepProbes]) -> StepProbes:
        """Return those of several lanes, which record and sum up the same with weights of their own."""
        first = probes[0]
        if all(one is first for one in probes):
            return first
        recordings: dict[int, Weights] = {}
        for index in first.recordings:
            columns = zip(*(one.recordings[index] for one in probes), strict=True)
            recordings[index] = tuple(np.array(column) for column in columns)
        return replace(first, recordings=recordings)

    @cached_property
    def _schedules(self) -> Sequence[tuple[Sequence[int], np.ndarray]]:
        """Recordings that fall due together: their numbers, and weights `[columns, ..., recordings]`."""
        found: dict[tuple[int, int], list[int]] = {}
        for index in self.recordings:
            one = self.all[index]
            if one.period:
                found.setdefault((one.period, one.offset), []).append(index)
        return [
            (indices, np.stack([np.array(self.recordings[index]) for index in indices], -1))
            for indices in found.values()
        ]

    def due(self, first: int, last: int) -> np.ndarray:
        """Return which of the steps first+1 .. last are recorded, `[steps]`."""
        found = np.zeros(last - first, bool)
        for indices, _ in self._schedules:
            found[self._steps(indices[0], first, last)] = True
        return found

    def write(
        self, recorder: Recorder, lanes: slice | Sequence[int], first: int, last: int, sums: Array
    ) -> None:
        """Record what is due in steps first+1 .. last, from the norms `[steps, lanes, columns]`."""
        for indices, weights in self._schedules:
            steps = self._steps(indices[0], first, last)
            if steps.size:
                found, values = sums[steps], np.zeros(len(indices))
                for column, weight in enumerate(weights):
                    values = values + weight * found[..., column, None]
                for place, index in enumerate(indices):
                    recorder.rows(index, first + 1, last)[:, lanes] = values[..., place]

    def _steps(self, index: int, first: int, last: int) -> np.ndarray:
        """Return the steps of a recording in first+1 .. last, counted from 0."""
        due = firing(self.all[index].period, first, last, self.all[index].offset)
        return np.arange(due.start, due.stop, due.step) - first - 1


def _weights(terms: Sequence[Term], columns: Sequence[Term]) -> tuple[float, ...]:
    """Return the weight of each column in a sum of terms."""
    return tuple(
        sum(term.coefficient for term in terms if (term.layer, term.norm) == (column.layer, column.norm))
        for column in columns
    )
