"""The plan of a run: its method, weight updates, recordings and sync events.

Between two *sync events* nothing crosses slices, so every lane (a range of slices) runs on its own. New
input, probes, samples and per-slice learning happen inside the lane; sync events are the updates of
`extra_shared` weights, flushes, checkpoints, and the end of a block of steps, after which stop signals are
handled.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from functools import cached_property

from petabatch.kernels.cuda.device import Limits
from petabatch.network import evaluation, lazy
from petabatch.network.graph import Graph
from petabatch.network.method import Method, choose
from petabatch.network.until import NAME, next_look, variables
from petabatch.spec.parts import ImageLayer
from petabatch.spec.schedule import fires, next_fire
from petabatch.variable import Stream, Variable

BLOCK_OPERATIONS = 4e10
"""Floating-point operations after which lanes meet at the latest, so that stop signals are handled:
seconds of one core."""
GPU_SPEED, LOOP_SPEED = 1000, 5
"""Approximate speed of a GPU and of a compiled loop, relative to layer-by-layer steps."""
LANE_OPERATIONS = 2e9
"""Minimum operations per slice between sync events (about 10 ms), so that starting a lane and loading its
state into cache are negligible."""
FLUSH_BYTES = 128 * 2**20
"""What is recorded goes to disk before it takes more memory than this."""

_SHOWN = (
    ("item", (), "image or film that is shown"),
    ("frame", (), "frame of the film; 0 for images"),
    ("crop", ("corner",), "first row and column of the part that is shown"),
)
"""What is recorded of each display: the fields of `Shown`, their axes and descriptions."""


@dataclass(frozen=True)
class UpdateSchedule:
    """The weight updates of one plastic connection."""

    name: str
    period: int
    offset: int
    reduced: bool
    """The change is summed over all slices: a sync event."""

    def due(self, step: int) -> bool:
        """Return whether the weights are updated at the end of `step`."""
        return step > 0 and fires(self.period, step, self.offset)

    def update(self, step: int) -> int:
        """Return the number of the update made at `step`, from 0."""
        first = next_fire(self.period, 0, self.offset)
        return (step - first) // self.period if first else 0


@dataclass(frozen=True)
class Recording:
    """One stream of the run file and its period in steps."""

    stream: Stream
    period: int
    key: str
    """What is recorded: a variable (`layers/V1/A`) or a probe (`probes/energy`)."""

    last: int
    """The last step of the run."""
    offset: int = 0
    """Steps by which it is recorded later."""

    @property
    def weights(self) -> bool:
        """Weights are recorded also before the first step and after the last."""
        return self.key.startswith("connections/")

    def due(self, step: int) -> bool:
        """Return whether the stream is recorded at the end of `step`."""
        if self.weights and self.period and step in (0, self.last):
            return True
        return step > 0 and fires(self.period, step, self.offset)

    def steps(self, first: int, last: int) -> list[int]:
        """Return the steps first .. last at whose end the stream is recorded."""
        if not self.period:
            return []
        start = first + (self.offset - first) % self.period
        multiples = range(start, last + 1, self.period)
        ends = {0, self.last} & set(range(first, last + 1)) if self.weights else set()
        return sorted({step for step in multiples if self.due(step)} | ends)


@dataclass(frozen=True)
class Plan:
    """Everything the engine needs to know; a value that can be printed."""

    graph: Graph
    method: Method
    """Which stepper advances the layers, and why."""
    weight_updates: tuple[UpdateSchedule, ...]
    recordings: tuple[Recording, ...]
    length: int
    flush: int
    checkpoint: int
    block: int
    evaluation: int = 0
    """Period of evaluations on held-out images, in steps; 0 is never."""
    stops: tuple[int, ...] = ()
    """Further steps at whose end slices meet, for inspection of their state."""

    @cached_property
    def inputs(self) -> dict[str, ImageLayer]:
        """The layers that show images."""
        layers = self.graph.network.layers
        return {name: layer.images for name, layer in layers.items() if layer.images is not None}

    @cached_property
    def variables(self) -> dict[str, Variable]:
        """Every array of the simulation by its key: those of the network and of its stepper."""
        kept = lazy.variables(self.graph, self.method.loop) if self.method.stepper == "lazy" else {}
        return kept | self.graph.variables

    def next_sync(self, step: int) -> int:
        """Return the first step after `step` at whose end slices meet."""
        periods = [(self.flush, 0), (self.checkpoint, 0), (self.block, 0), (self.evaluation, 0)]
        periods += [(update.period, update.offset) for update in self.weight_updates if update.reduced]
        steps = [next_fire(period, step, offset) for period, offset in periods]
        steps += [stop for stop in self.stops if stop > step]
        return min(self.length, *(s for s in steps if s is not None))

    def next_event(self, step: int, last: int, passed: Collection[int] = ()) -> int:
        """Return the last step that can be run from `step` in one go, up to `last`.

        A lane must stop before new input, and after a step that is recorded or learned from; not for the
        recordings numbered in `passed`.
        """
        display = self.graph.network.run.display
        stops = [last]
        for layer in self.inputs.values():
            change = layer.next_change(step + 1, display)
            if change is not None:
                stops.append(change - 1)
        for update in self.weight_updates:
            due = next_fire(update.period, step, update.offset)
            if due is not None:
                stops.append(due)
        for index, recording in enumerate(self.recordings):
            due = next_fire(recording.period, step, recording.offset)
            if due is not None and index not in passed:
                stops.append(due)
        if self.graph.network.run.until is not None:
            stops.append(next_look(self.graph.network.run.until, display, step))
        return min(stops)


def schedule(graph: Graph, limits: Limits | None = None) -> Plan:
    """Derive the plan of a graph; `limits` are those of the GPU that runs it, None where it is not known.

    Raises ResourceError when `run.kernel` names a kernel that the network cannot have on this GPU.
    """
    network, method = graph.network, choose(graph, limits)
    run, output = network.run, network.output
    weight_updates = tuple(
        UpdateSchedule(
            name,
            owner.learn.every.steps(run.display),
            owner.learn.offset,
            owner.weights(network.layers).per == "network",
        )
        for name, owner in graph.plastic.items()
        if owner.learn is not None
    )
    recordings = tuple(_recordings(graph))
    flush = output.flush.steps(run.display) if output.flush is not None else _flush(recordings, run.display)
    each = max(1, 2 * multiply_adds(graph))
    speed = GPU_SPEED if run.device == "gpu" else 1 if method.by_layers else LOOP_SPEED
    most = max(1, int(speed * BLOCK_OPERATIONS / (run.batch * each)))
    if not method.by_layers:
        most = max(most, int(LANE_OPERATIONS / each))
    block = max(1, run.display // -(-run.display // most))  # a whole fraction of a display where possible
    if run.until is not None:
        block *= max(1, most // run.display)  # slices that are done go on to their next image
    return Plan(
        graph,
        method,
        weight_updates,
        recordings,
        run.length,
        flush,
        network.checkpoint.every.steps(run.display),
        block,
        network.evaluate.every.steps(run.display) if network.evaluate is not None else 0,
    )


def multiply_adds(graph: Graph) -> int:
    """Return the dense multiply-adds of one step of one slice."""
    return sum(
        edge.wiring.link.patches.multiply_adds
        for edges in graph.edges.values()
        for edge in edges
        if edge.wiring.link is not None
    )


def _recordings(graph: Graph) -> Iterator[Recording]:
    network = graph.network
    batch, display = network.run.batch, network.run.display
    for name, wanted in network.output.layers.items():
        layer = network.layers[name]
        declared = {variable.name: variable for variable in layer.variables()}
        for variable in wanted.variables:
            described = declared.get(variable)
            shape = described.shape if described else layer.shape
            dims = described.dims if described else ("y", "x", "feature")
            yield Recording(
                Stream(
                    f"layers/{name}/{variable}",
                    (batch, *shape),
                    ("batch", *dims),
                    described.dtype_in(network.run.precision) if described else network.run.precision,
                    batched=True,
                    description=described.description if described else "activity",
                    units=described.units if described else "1",
                    sparse=variable == "A" and layer.sparse,
                ),
                wanted.every.steps(display),
                f"layers/{name}/{variable}",
                network.run.length,
            )
    for name in graph.weighted:
        if name not in network.output.connections:
            continue
        for kind in network.output.connections[name].variables:
            array = graph.variables[f"connections/{name}/{kind}"]
            batched = array.per == "slice"
            # Kernel axes of length one are dropped: a shared dictionary is [nf_pre, nyp, nxp, nf_post].
            plain = array.shape[:2] == (1, 1)
            shape, dims = (array.shape[2:], array.dims[2:]) if plain else (array.shape, array.dims)
            yield Recording(
                Stream(
                    f"connections/{name}/{kind}",
                    (batch, *shape) if batched else shape,
                    ("batch", *dims) if batched else dims,
                    network.run.precision,
                    batched=batched,
                    description=array.description,
                ),
                network.output.connections[name].every.steps(display),
                f"connections/{name}/{kind}",
                network.run.length,
            )
    for name, layer in network.layers.items():
        if layer.images is not None and layer.images.source.traced:
            period = layer.images.every.steps(display)
            for quantity, axes, description in _SHOWN:
                yield Recording(
                    Stream(
                        f"inputs/{name}/{quantity}",
                        (batch, *(2 for _ in axes)),
                        ("batch", *axes),
                        "int64",
                        True,
                        description,
                    ),
                    period or network.run.length,
                    f"inputs/{name}",
                    network.run.length,
                    layer.images.offset if period else 0,
                )
    for name, probe in network.probes.items():
        for quantity, description in probe.quantities().items():
            yield Recording(
                Stream(f"probes/{name}/{quantity}", (batch,), ("batch",), "float64", True, description),
                probe.every.steps(display),
                f"probes/{name}",
                network.run.length,
                probe.offset,
            )
    if network.evaluate is not None:
        period = network.evaluate.every.steps(display)
        for leaf, _, description in evaluation.quantities(network):
            place = f"probes/{evaluation.NAME}/{leaf}"
            stream = Stream(place, (batch,), ("batch",), "float64", True, description)
            yield Recording(stream, period, evaluation.NAME, network.run.length)
    for key, kept in variables(network).items():
        place = f"probes/{NAME}/{kept.name}"
        stream = Stream(place, (batch,), ("batch",), "float64", True, kept.description)
        yield Recording(stream, display, key, network.run.length)


def _flush(recordings: tuple[Recording, ...], display: int) -> int:
    """Return a period of ten displays, or what fits in memory; derived from the description alone."""
    per_step = 0.0
    for recording in recordings:
        per_step += recording.stream.nbytes / recording.period if recording.period else 0
    fits = int(FLUSH_BYTES / per_step) if per_step else 10 * display
    steps = min(fits, 10 * display)
    return max(1, steps - steps % display if steps >= display else steps)
