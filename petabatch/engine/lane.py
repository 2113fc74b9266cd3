"""A lane: a range of slices that runs from one sync event to the next on its own."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from functools import partial

import numpy as np

from petabatch.engine.fused import FusedLoop
from petabatch.engine.lazy_loop import LazyLoop, fuse
from petabatch.engine.lessons import change, normalise
from petabatch.engine.on_gpu import OnGpu
from petabatch.engine.recorder import Recorder
from petabatch.engine.resident import Resident
from petabatch.engine.split import Split
from petabatch.engine.state import State, owned, refresh
from petabatch.engine.surround import Images, Surround
from petabatch.errors import NonFiniteError
from petabatch.kernels.array import ArrayKernels
from petabatch.kernels.cpu_patches import CpuKernels
from petabatch.layers import LCA
from petabatch.network.graph import Edge
from petabatch.network.plan import Lesson, Plan
from petabatch.network.until import QUANTITY, Rest, certificate
from petabatch.spec.parts import Moment
from petabatch.variable import Array, Border, host

Operation = Callable[[Moment], None]


class Ring:
    """The last activities of a layer: step t stands in place t modulo the length."""

    def __init__(self, activity: Array) -> None:
        self.length = activity.shape[1]
        self._places = [activity[:, place] for place in range(self.length)]

    def at(self, step: int) -> Array:
        """Return the activity of `step`, `[lanes, ny, nx, nf]`."""
        return self._places[step % self.length]

    def stand(self, step: int) -> None:
        """Let the activity of `step` be that of the step before."""
        if self.length > 1:
            self.at(step)[...] = self.at(step - 1)


class Lane:
    """Binds a plan to the arrays of local slices `lanes`; `run` advances them."""

    def __init__(
        self,
        plan: Plan,
        state: State | Resident,
        lanes: slice,
        recorder: Recorder,
        readers: Mapping[str, Images],
        gpu: OnGpu | None = None,
        split: Split | None = None,
    ) -> None:
        network = plan.graph.network
        self.gpu, self.split = gpu, split
        self.plan, self.lanes, self.recorder, self.readers = plan, lanes, recorder, readers
        fast = state.xp is np and network.run.kernel != "array"
        self.kernels = CpuKernels(np) if fast else ArrayKernels(state.xp)
        self.arrays = state.lane(lanes)
        self.rings = {name: Ring(self.arrays[f"layers/{name}/A"]) for name in network.layers}
        slices = range(state.lo + lanes.start, state.lo + lanes.stop)
        run = network.run
        self.now = Moment(0, run.dt, slices, run.seed, state.xp, run.display)
        self.surrounds = {
            name: Surround(readers[name], self.now, run.precision)
            for name, layer in plan.inputs.items()
            if layer.border == "image"
        }
        self.layer_state = {name: owned(self.arrays, f"layers/{name}") for name in network.layers}
        self.controllers = {
            name: layer.time_scale
            for name, layer in network.layers.items()
            if isinstance(layer, LCA) and layer.time_scale is not None
        }
        assert run.until is None or len(slices) == 1  # each slice rests by itself
        self.rest = None if run.until is None else Rest(run.until, run.display, self.arrays)
        if split is not None:
            self.fused = None  # parts of the features meet in the middle of the loop
        else:
            self.fused = fuse(plan, self.arrays) if gpu is None else gpu.fuse(plan, self.arrays)
        if isinstance(self.fused, FusedLoop) and self.fused.followed is not None:
            self.controllers = {}
        self.operations = [
            self._layer(name) for level in plan.graph.order for name in level if self.fused is None
        ]
        self.reached = 0
        """The step that was last begun: what tells a slow lane from one that hangs."""

    def run(self, first: int, last: int) -> None:
        """Make steps first+1 .. last, with everything that happens in them."""
        # What overflows is reported by name at the end, not as a warning of numpy's.
        with np.errstate(over="ignore", invalid="ignore"):
            self._run(first, last)

    def _run(self, first: int, last: int) -> None:
        step = first
        if self.fused is not None:
            self.fused.load_weights()
        while step < last:
            self._show(step + 1)
            stop = self.plan.next_event(step, last, self._watched)
            if self.rest is None:
                self._steps(step, stop)
            elif self.rest.begins(step + 1):
                self._stand(step, stop)
            else:
                self._steps(step, stop)
                self.rest.made(step, stop, partial(self._gap, stop))
            step = stop
            self._learn(step)
            self.record(step)
        self._check(step)
        if step == self.plan.length:
            self.show()

    def show(self) -> None:
        """Bring the arrays up to date of which the loop needs less than others may want to see."""
        if isinstance(self.fused, LazyLoop):
            self.fused.show()

    def record(self, step: int) -> None:
        """Write what is due at the end of `step` to the recorder."""
        measured: dict[str, Mapping[str, Array]] = {}
        for index, recording in enumerate(self.plan.recordings):
            if not recording.due(step) or not recording.stream.batched or index in self._watched:
                continue
            kind, name, quantity = recording.stream.path.split("/")
            row = self.recorder.row(index, step)[self.lanes]
            if recording.key.startswith("probes/"):
                if name not in measured:
                    measured[name] = self._measure(name, step)
                row[...] = host(measured[name][quantity])
            else:
                values = (
                    self.activity(name, quantity, step) if kind == "layers" else self.arrays[recording.key]
                )
                row[...] = host(values).reshape(row.shape)

    def _layer(self, name: str) -> Operation:
        """Return the operation that gathers a layer's input and updates it."""
        layer = self.plan.graph.network.layers[name]
        edges = self.plan.graph.edges[name]
        state = self.layer_state[name]
        ring = self.rings[name]
        size = ring.at(0).shape
        buffers = 1 + max((buffer for buffer, _ in layer.channels.values()), default=0)
        drive = [self.kernels.xp.zeros(size, ring.at(0).dtype) for _ in range(buffers)]
        incoming = [(edge, self._arrival(edge)) for edge in edges]

        def operate(now: Moment) -> None:
            if not layer.due(now.step, now.display):
                ring.stand(now.step)
                return
            for buffer in drive:
                buffer[...] = 0
            for edge, arrival in incoming:
                drive[edge.buffer] += edge.factor * arrival(now.step)
            if layer.resets(now.step, now.display):
                layer.restart(state, self._start(layer.reset_to, name, now.step))
            layer.update(replace(now, layer=name), state, drive, ring.at(now.step - 1), ring.at(now.step))

        return operate

    def _start(self, source: str | None, layer: str, step: int) -> Array | None:
        """Return the potential that a layer starts anew from, `[lanes, ny, nx, nf]`; None is its own."""
        if source is None:
            return None
        potential = self.arrays.get(f"layers/{source}/V")
        lookback = self.plan.graph.reset_lookback(source, layer)
        return self.rings[source].at(step - lookback) if potential is None else potential

    def _arrival(self, edge: Edge) -> Callable[[int], Array]:
        """Return the function of the step that gives what an edge delivers."""
        connection, wiring = edge.connection, edge.wiring
        ring, pre = self.rings[connection.pre], connection.pre
        patches = self._patches(wiring.weights)

        def arrival(step: int) -> Array:
            seen = step - edge.lookback
            return connection.deliver(self.kernels, wiring, ring.at(seen), self._border(pre, seen), patches)

        split = self.split
        if split is not None and split.joins(pre, connection.post):
            return lambda step: split.add(arrival(step))
        return arrival

    def _border(self, layer: str, step: int) -> Border:
        """Return what connections see beyond the edge of a layer, at the activity of `step`."""
        around = self.surrounds.get(layer)
        if around is None:
            return self.plan.graph.border(layer)
        return around.at(step) if step >= 0 else "zero"

    def _patches(self, owner: str | None) -> Array | None:
        if owner is None:
            return None
        derived = self.arrays.get(f"connections/{owner}/patches")
        if derived is not None:
            return derived
        way = self.plan.graph.wirings[owner].link
        assert way is not None
        return self.kernels.to_patches(self.arrays[f"connections/{owner}/weights"], way)

    def _show(self, step: int) -> None:
        """Read the images that are new at the beginning of `step`."""
        display = self.plan.graph.network.run.display
        for name, layer in self.plan.inputs.items():
            item = layer.item(step, display)
            if item is None:
                continue
            activity = self.rings[name].at(step)
            if self.gpu is not None:
                self.gpu.feed.fill(name, self.now.slices, item, activity)
                continue
            for index, number in enumerate(self.now.slices):
                activity[index] = self.kernels.xp.asarray(self.readers[name](number, item))

    def _steps(self, first: int, last: int) -> None:
        if self.fused is not None and not self.controllers:
            self.reached = last
            self._fused_steps(first, last)
            return
        for step in range(first + 1, last + 1):
            self.reached = step
            self._control(step)
            if self.fused is not None:
                self._fused_steps(step - 1, step)
                continue
            now = replace(self.now, step=step)
            for operate in self.operations:
                operate(now)

    def _stand(self, first: int, last: int) -> None:
        """Let steps first+1 .. last be like `first`."""
        for ring in self.rings.values():
            for step in range(first + 1, min(last, first + ring.length) + 1):
                ring.stand(step)
        if isinstance(self.fused, FusedLoop):
            sums = np.tile(self.fused.sums(), (last - first, 1, 1))
            self.fused.watch.write(self.recorder, self.lanes, first, last, sums)

    def _gap(self, step: int) -> Array:
        """Return the relative duality gap that says whether a slice may rest, `[lanes]`."""
        probe = certificate(self.plan.graph.network)
        assert probe is not None
        return host(self._measure(probe, step)[QUANTITY])

    def _fused_steps(self, first: int, last: int) -> None:
        assert self.fused is not None
        sums = self.fused.run(first, last, self._fresh(first + 1))
        self.fused.watch.write(self.recorder, self.lanes, first, last, sums)

    @property
    def _watched(self) -> Collection[int]:
        """The recordings that the fused loop makes by itself."""
        return self.fused.watch.recordings if self.fused is not None else ()

    def _fresh(self, step: int) -> bool:
        """Say whether an image is new at `step`."""
        display = self.plan.graph.network.run.display
        return any(layer.item(step, display) is not None for layer in self.plan.inputs.values())

    def _control(self, step: int) -> None:
        """Let adaptive time scales see the energy of the step before, or -1 when an image is new."""
        for name, controller in self.controllers.items():
            if self._fresh(step):
                energy = np.full(len(self.now.slices), -1.0)
            else:
                energy = host(self._measure(controller.energy, step - 1)["total"])
            controller.control(self.layer_state[name], energy)

    def _learn(self, step: int) -> None:
        """Compute what updates that are due need of each slice; make them where nothing crosses slices."""
        graph, changed = self.plan.graph, set()
        if isinstance(self.fused, LazyLoop) and any(lesson.due(step) for lesson in self.plan.lessons):
            self.fused.settle()
        for lesson in self.plan.lessons:
            if lesson.due(step):
                self._product(lesson, step)
                if not lesson.reduced:
                    mine, slices = owned(self.arrays, f"connections/{lesson.name}"), self.now.slices
                    change(graph, lesson.name, mine, mine, lesson.update(step), 1, slices, self.now.xp)
                    changed.add(lesson.name)
        if changed:
            for name in normalise(graph, self.arrays, self.now.xp, changed):
                refresh(graph, self.arrays, self.kernels, name)
            if self.fused is not None:
                self.fused.load_weights()

    def _product(self, lesson: Lesson, step: int) -> None:
        """Compute the Hebbian product and what is counted with it, wherever these weights learn."""
        mine = owned(self.arrays, f"connections/{lesson.name}")
        for number, (name, against) in enumerate(self.plan.graph.lessons[lesson.name]):
            for kind, values in self._terms(lesson, name, against, mine, step).items():
                mine[kind][...] = values if number == 0 else mine[kind] + values

    def _terms(
        self, lesson: Lesson, name: str, against: str, mine: Mapping[str, Array], step: int
    ) -> dict[str, Array]:
        """Return what connection `name` adds to a lesson, the weights' own one or a clone of it."""
        graph, xp = self.plan.graph, self.kernels.xp
        connection, rule, way = (
            graph.network.connections[name],
            graph.plastic[lesson.name].learn,
            graph.wirings[name].link,
        )
        assert rule is not None
        assert way is not None
        pre = self.rings[connection.pre].at(step - connection.delay)
        post = self.rings[against].at(step)
        beyond = self._border(connection.pre, step - connection.delay)

        def product(a: Array, b: Array, beyond: Border) -> Array:
            ends = (a, b) if way.scatter else (b, a)
            borders: tuple[Border, Border] = (beyond, "zero") if way.scatter else ("zero", beyond)
            full = self.kernels.outer(*ends, way.patches, *borders)
            return self.kernels.from_patches(full, way, mine["weights"].shape[1:])

        found = {}
        if self.fused is not None and self.fused.learns(name, connection.pre, against, rule):
            self.fused.gradient(mine["product"], mine.get("counts"))
        else:
            found["product"] = product(pre, post, beyond)
            if rule.counted:
                # Units beyond the edge count as those of the layer do.
                if not isinstance(beyond, str):
                    tallied = rule.tally(xp.asarray(beyond))
                    beyond = tallied if tallied.ndim else float(tallied)
                found["counts"] = product(rule.tally(pre), xp.ones_like(post), beyond)
        if "active" in mine:
            found["active"] = (pre != 0).sum(axis=(1, 2))[:, None, None]
        return found

    def activity(self, layer: str, variable: str, step: int) -> Array:
        """Return a variable of a layer; of the activity that of `step`."""
        if variable == "A":
            return self.rings[layer].at(step)
        self.show()
        return self.arrays[f"layers/{layer}/{variable}"]

    def _measure(self, probe: str, step: int) -> Mapping[str, Array]:
        measure, view = self.plan.graph.network.probes[probe], _View(self, step)
        if self.split is not None:
            return self.split.measure(measure, view, len(self.now.slices))
        return measure.measure(view, self.kernels.xp)

    def through(self, connection: str, activity: Array) -> Array:
        """Return what a connection would deliver of this activity, with its weights of now."""
        graph = self.plan.graph
        via, wiring = graph.network.connections[connection], graph.wirings[connection]
        patches = self._patches(wiring.weights)
        # This activity need not be an image's, so nothing is known beyond its edge.
        border = "zero" if via.pre in self.surrounds else graph.border(via.pre)
        return via.strength * via.deliver(self.kernels, wiring, activity, border, patches)

    def _check(self, step: int) -> None:
        """Raise NonFiniteError when a layer holds a NaN or an infinity."""
        for name, ring in self.rings.items():
            activity = ring.at(step)
            if not bool(self.kernels.xp.isfinite(activity).all()):
                index = next(i for i in range(len(activity)) if not np.isfinite(host(activity[i])).all())
                raise NonFiniteError(
                    f"layer {name} of slice {self.now.slices[index]} is no longer finite at step {step}; "
                    "the step may be too large for these weights (lower run.dt or raise tau)"
                )


class _View:
    """What a probe sees of a lane at the end of a step."""

    def __init__(self, lane: Lane, step: int) -> None:
        self.through = lane.through
        self._lane, self._step = lane, step

    def __call__(self, layer: str, variable: str) -> Array:
        return self._lane.activity(layer, variable, self._step)
