"""Observation of a lane at the end of a step: its variables, probes and recordings."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import numpy as np

from petabatch.engine.backend import Backend
from petabatch.engine.deliveries import Deliveries
from petabatch.engine.images import ImageReader
from petabatch.engine.recorder import Events, Recorder
from petabatch.engine.state import owned
from petabatch.engine.steppers import Stepper
from petabatch.network import evaluation
from petabatch.network.plan import Plan
from petabatch.network.recordings import Recording
from petabatch.network.until import QUANTITY, certificate
from petabatch.spec.images import Shown
from petabatch.spec.measured import check_measured
from petabatch.spec.part_errors import calling
from petabatch.variable import Array, host


class Observer:
    """Looks at the local slices `lanes`; changes nothing that later steps depend on."""

    def __init__(
        self,
        plan: Plan,
        deliveries: Deliveries,
        steppers: Sequence[Stepper],
        recorder: Recorder,
        lanes: slice,
        backend: Backend,
        readers: Mapping[str, ImageReader],
        slices: Sequence[int],
    ) -> None:
        """Look at slices with the values of `plan`; `steppers` are those that advance them."""
        self._readers, self._slices, self._steppers = readers, slices, steppers
        self.plan, self.deliveries, self.stepper = plan, deliveries, steppers[0]
        self.recorder, self.lanes, self._backend = recorder, lanes, backend
        watched = self.watched
        recordings = [
            (index, recording)
            for index, recording in enumerate(plan.recordings)
            # `Evaluation` records what it measures at the sync event.
            if (recording.stream.batched or recording.stream.events)
            and index not in watched
            and recording.key != evaluation.NAME
        ]
        # Events must not be recorded again after an error of another slice: they come last, but for probes
        # that are told of them, and then slices are recorded alone.
        self._recordings = sorted(recordings, key=lambda one: (self._counts(one[1]), one[1].stream.events))

    @property
    def watched(self) -> Collection[int]:
        """The recordings that the stepper makes."""
        return self.stepper.recorded

    def due(self, step: int) -> bool:
        """Return whether `record` has anything to write at the end of `step`."""
        return any(recording.due(step) for _, recording in self._recordings)

    def record(self, step: int) -> None:
        """Write what is due at the end of `step` to the recorder."""
        probes = self.plan.graph.network.probes
        due = [one for _, one in self._recordings if one.due(step) and one.key.startswith("probes/")]
        names = dict.fromkeys(one.key.split("/")[1] for one in due if not self._counts(one))
        measured = {name: self.measure(name, step) for name in names}
        shown: dict[str, list[Shown]] = {}
        for index, recording in self._recordings:
            if not recording.due(step):
                continue
            if recording.stream.events:
                self._record_events(index, recording.key.split("/")[1], step)
                continue
            kind, name, quantity = recording.stream.path.split("/")
            row = self.recorder.row(index, step)[self.lanes]
            mine = kind != "probes" or self.deliveries.features.writes  # the others add nothing to them
            if kind == "inputs":
                if name not in shown:
                    item = self.plan.inputs[name].shown(step, self.plan.graph.network.run.display)
                    shown[name] = [self._readers[name].shown(number, item) for number in self._slices]
                row[...] = [getattr(one, quantity) for one in shown[name]]
            elif recording.key.startswith("probes/"):
                if name not in measured:
                    measured[name] = self.measure(name, step)
                row[...] = host(measured[name][quantity]) if mine else 0
            elif not mine:
                row[...] = 0
            else:
                layer = kind == "layers"
                values = (
                    self.variable(name, quantity, step) if layer else self.deliveries.arrays[recording.key]
                )
                self._backend.record(index, self._of_each(values), row, self.recorder.pending)

        for name in measured:
            if probes[name].counts is not None:
                probes[name].recorded(self._own(name), step)

    def _counts(self, recording: Recording) -> bool:
        """Return whether it is of a probe that is told of events."""
        kind, name, *_ = recording.key.split("/")
        return kind == "probes" and self.plan.graph.network.probes[name].counts is not None

    def _record_events(self, index: int, layer: str, step: int) -> None:
        """Record the units that are active after `step`, slice by slice."""
        values = host(self.variable(layer, "A", step)).reshape(self.lanes.stop - self.lanes.start, -1)
        for lane, value in enumerate(values, self.lanes.start):
            (units,) = np.nonzero(value)
            self.recorder.add(index, lane, Events(np.full(len(units), step), units, value[units]))

    def _own(self, probe: str) -> Mapping[str, Array]:
        """Return the arrays of a probe, `[lanes, ...]`."""
        return owned(self.deliveries.arrays, f"probes/{probe}")

    def _of_each(self, values: Array) -> Array:
        """Return values `[slices, ...]`, of one that all slices have in common, too."""
        slices = self.lanes.stop - self.lanes.start
        if len(values) == slices:
            return values
        return self.deliveries.kernels.xp.broadcast_to(values, (slices, *values.shape[1:]))

    def measure(self, probe: str, step: int) -> Mapping[str, Array]:
        """Return what a probe measures at the end of `step`, each quantity `[lanes]`."""
        measure, features = self.plan.whole_graph.network.probes[probe], self.deliveries.features
        view = features.reading(_View(self, step, probe), self.lanes.start)
        key = f"probes.{probe}"
        with calling(measure, key, step):
            found = measure.measure(view, self.deliveries.kernels.xp)
            check_measured(measure, key, found, self.lanes.stop - self.lanes.start)
        return found

    def energy(self, probe: str, step: int) -> Array:
        """Return what time scales follow of a probe, at the end of `step`, `[lanes]`.

        It is the same on all ranks of a group.
        """
        features, weights = self.deliveries.features, self.stepper.probes.energies.get(probe)
        if features.group.size == 1 or weights is None:
            return self.quantity(probe, self.plan.graph.network.probes[probe].followed, step)
        mine = np.atleast_1d(self.stepper.sums(step) @ np.array(weights))
        total = np.empty_like(mine)
        features.add_shares(mine, total, self.lanes.start)
        return total

    def gap(self, step: int) -> Array:
        """Return the relative duality gap that says whether a slice may rest, `[lanes]`, as `energy` does."""
        probe = certificate(self.plan.graph.network)
        assert probe is not None
        return self.quantity(probe, QUANTITY, step)

    def quantity(self, probe: str, name: str, step: int) -> np.ndarray:
        """Return what a probe measures at the end of `step`, `[lanes]`, the same on all ranks of a group.

        It is what one of them has measured: others may round it differently. Collective for each lane.
        """
        measured, features = host(self.measure(probe, step)[name]), self.deliveries.features
        if features.group.size == 1:
            return measured
        mine = np.ascontiguousarray(measured) if features.writes else np.zeros_like(measured)
        features.add_shares(mine, agreed := np.empty_like(measured), self.lanes.start)
        return agreed

    def variable(self, layer: str, name: str, step: int) -> Array:
        """Return a variable of a layer; of the activity that of `step`."""
        if name == "A":
            return self.deliveries.histories[layer].at(step)
        for stepper in self._steppers:
            stepper.materialise()
        return self.deliveries.arrays[f"layers/{layer}/{name}"]


class _View:
    """What a probe sees of a lane at the end of a step: of each slice, also what all have in common."""

    def __init__(self, observer: Observer, step: int, probe: str) -> None:
        self.through = observer.deliveries.through
        self.step, self.dt = step, observer.plan.graph.network.run.dt
        self._observer, self._probe = observer, probe

    def __call__(self, layer: str, variable: str) -> Array:
        return self._observer._of_each(self._observer.variable(layer, variable, self.step))

    def own(self, variable: str) -> Array:
        return self._observer._own(self._probe)[variable]
