"""What is seen of a lane at the end of a step: variables, what probes measure of them, records."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from petabatch.engine.gpu.download import Outlet
from petabatch.engine.recorder import Recorder
from petabatch.engine.signals import Signals
from petabatch.engine.split import Split
from petabatch.engine.steppers.cuda import CudaStepper
from petabatch.engine.steppers.dense import DenseStepper
from petabatch.engine.steppers.lazy import LazyStepper
from petabatch.network.plan import Plan
from petabatch.network.until import QUANTITY, certificate
from petabatch.variable import Array, host


class Observer:
    """Looks at the local slices `lanes`; changes nothing that later steps depend on."""

    def __init__(
        self,
        plan: Plan,
        signals: Signals,
        fused: DenseStepper | CudaStepper | None,
        recorder: Recorder,
        lanes: slice,
        split: Split | None = None,
        outlet: Outlet | None = None,
    ) -> None:
        """Write to `recorder`: by `outlet` what is on a GPU."""
        self.outlet = outlet
        self.plan, self.signals, self.fused, self.split = plan, signals, fused, split
        self.recorder, self.lanes = recorder, lanes

    @property
    def watched(self) -> Collection[int]:
        """The recordings that the fused loop makes by itself."""
        return self.fused.watch.recordings if self.fused is not None else ()

    def show(self) -> None:
        """Bring the arrays up to date of which the loop needs less than others may want to see."""
        if isinstance(self.fused, LazyStepper):
            self.fused.show()

    def record(self, step: int) -> None:
        """Write what is due at the end of `step` to the recorder."""
        measured: dict[str, Mapping[str, Array]] = {}
        for index, recording in enumerate(self.plan.recordings):
            if not recording.due(step) or not recording.stream.batched or index in self.watched:
                continue
            kind, name, quantity = recording.stream.path.split("/")
            row = self.recorder.row(index, step)[self.lanes]
            if recording.key.startswith("probes/"):
                if name not in measured:
                    measured[name] = self.measure(name, step)
                row[...] = host(measured[name][quantity])
            else:
                layer = kind == "layers"
                values = self.variable(name, quantity, step) if layer else self.signals.arrays[recording.key]
                if self.outlet is None:
                    row[...] = host(values).reshape(row.shape)
                else:
                    self.recorder.arriving.append(self.outlet.send(index, values, row))

    def measure(self, probe: str, step: int) -> Mapping[str, Array]:
        """Return what a probe measures at the end of `step`, each quantity `[lanes]`."""
        measure, view = self.plan.graph.network.probes[probe], _View(self, step)
        if self.split is not None:
            return self.split.measure(measure, view, self.lanes.stop - self.lanes.start)
        return measure.measure(view, self.signals.kernels.xp)

    def gap(self, step: int) -> Array:
        """Return the relative duality gap that says whether a slice may rest, `[lanes]`."""
        probe = certificate(self.plan.graph.network)
        assert probe is not None
        return host(self.measure(probe, step)[QUANTITY])

    def variable(self, layer: str, name: str, step: int) -> Array:
        """Return a variable of a layer; of the activity that of `step`."""
        if name == "A":
            return self.signals.histories[layer].at(step)
        self.show()
        return self.signals.arrays[f"layers/{layer}/{name}"]


class _View:
    """What a probe sees of a lane at the end of a step."""

    def __init__(self, observer: Observer, step: int) -> None:
        self.through = observer.signals.through
        self._observer, self._step = observer, step

    def __call__(self, layer: str, variable: str) -> Array:
        return self._observer.variable(layer, variable, self._step)
