"""Recordings of a run: what is written to the run file, and when."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from petabatch.clock import fires, firing, next_fire
from petabatch.network import evaluation, until
from petabatch.network.graph import Graph
from petabatch.spec.network import SPIKES, Network
from petabatch.variable import Stream
from petabatch.weight_mode import over_slices

_COLUMNS = (
    ("time", "float64", "end of the step in which the unit spiked, in the unit of run.dt"),
    ("unit", "int32", "unit, numbered by row, column and feature"),
    ("slice", "int32", "slice of the batch"),
)
"""What is recorded of each spike, beside its step: names, types and descriptions."""
_SHOWN = (
    ("item", (), "image or film that is shown"),
    ("frame", (), "frame of the film; 0 for images"),
    ("crop", ("corner",), "first row and column of the part that is shown"),
)
"""What is recorded of each display: the fields of `Shown`, their axes and descriptions."""


@dataclass(frozen=True)
class Recording:
    """One stream of the run file and its period in steps."""

    stream: Stream
    period: int
    key: str
    """What is recorded: a variable (`layers/V1/A`) or a probe (`probes/energy`)."""

    offset: int = 0
    """Steps by which it is recorded later."""
    also: tuple[int, ...] = ()
    """Other steps at whose end it is recorded; 0 is before the first."""
    written: bool = True
    """Whether it goes to the run file; events are also recorded where only probes count them."""

    @property
    def streams(self) -> tuple[Stream, ...]:
        """What is written: the stream, or the columns of events."""
        if not self.stream.events:
            return (self.stream,)
        folder = self.stream.path.rpartition("/")[0]
        return tuple(
            replace(self.stream, path=f"{folder}/{name}", dtype=dtype, description=description)
            for name, dtype, description in (_COLUMNS if self.written else ())
        )

    def due(self, step: int) -> bool:
        """Return whether the stream is recorded at the end of `step`."""
        return step in self.also or (step > 0 and fires(self.period, step, self.offset))

    def next(self, step: int) -> int | None:
        """Return the next step after `step` at whose end the stream is recorded, None if there is none."""
        due = next_fire(self.period, step, self.offset)
        return min((*([] if due is None else [due]), *(one for one in self.also if one > step)), default=None)

    def steps(self, first: int, last: int) -> list[int]:
        """Return the steps first .. last at whose end the stream is recorded."""
        regular = firing(self.period, max(first, 1) - 1, last, self.offset)
        also = (step for step in self.also if first <= step <= last)
        return sorted({*regular, *also})


def recordings_of(graph: Graph, whole: Graph | None = None) -> Iterator[Recording]:
    """Yield the recordings of a network: layers, weights, inputs, probes, evaluation, early stopping.

    A graph of a rank's part has those of the `whole` network, with the shapes of the part.
    """
    network = graph.network
    batch, display = network.batch, network.run.display
    for name, wanted in network.output.layers.items():
        layer = network.layers[name]
        declared = {variable.name: variable for variable in layer.variables()}
        for variable in wanted.variables:
            if variable == SPIKES:
                continue
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
            )
    for name in network.layers:
        written = _spikes_written(network, name)
        if written or any(probe.counts == name for probe in network.probes.values()):
            stream = Stream(f"{SPIKES}/{name}/unit", (), (), "int32", batched=False, events=True)
            yield Recording(stream, 1, f"layers/{name}/A", written=written)
    for name, owner in graph.weighted.items():
        if name in network.output.connections:
            listed = network.output.connections[name]
            period = listed.every.steps(display)
            kinds: Sequence[str] = listed.variables if period else ()
        elif owner.learns:
            period, kinds = 0, ("weights",)
        else:
            continue
        if name in graph.synapses:
            yield from _of_synapses(graph, name, period if kinds else None, kinds)
            continue
        for kind in kinds:
            array = graph.variables[f"connections/{name}/{kind}"]
            batched = array.per == "slice"
            # Kernel axes of length one are dropped: a shared dictionary is [nf_pre, nyp, nxp, nf_post].
            plain = (whole or graph).variables[f"connections/{name}/{kind}"].shape[:2] == (1, 1)
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
                period,
                f"connections/{name}/{kind}",
                also=(0, network.run.length) if period else (network.run.length,),
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
                    layer.images.offset if period else 0,
                )
    for name, probe in network.probes.items():
        for quantity, description in probe.quantities().items():
            yield Recording(
                Stream(f"probes/{name}/{quantity}", (batch,), ("batch",), "float64", True, description),
                probe.every.steps(display),
                f"probes/{name}",
                probe.offset,
            )
    if network.evaluate is not None:
        period = network.evaluate.every.steps(display)
        for leaf, _, description in evaluation.quantities(network):
            place = f"probes/{evaluation.NAME}/{leaf}"
            stream = Stream(place, (batch,), ("batch",), "float64", True, description)
            yield Recording(stream, period, evaluation.NAME)
    for key, kept in until.variables(network).items():
        place = f"probes/{until.NAME}/{kept.name}"
        stream = Stream(place, (batch,), ("batch",), "float64", True, kept.description)
        yield Recording(stream, display, key)


def _of_synapses(graph: Graph, name: str, period: int | None, kinds: Sequence[str]) -> Iterator[Recording]:
    """Yield the recordings of synapses, with which synapses they are of: at the start and the end.

    The latter have a value of each slice where the former have, so that the points of a sweep have arrays of
    one kind however many are held at once. Places that a slice does not need are 0.
    """
    if period is None:
        return
    synapses, network = graph.synapses[name], graph.network
    ends = (0, network.run.length)
    recorded = [one for one in (synapses.weights, *synapses.learned) if one.name in kinds]
    for array in (*recorded, *synapses.structure):
        batched = not over_slices(synapses.mode) or array in synapses.learned
        stream = Stream(
            f"connections/{name}/{array.name}",
            (network.batch, *array.shape) if batched else array.shape,
            ("batch", *array.dims) if batched else array.dims,
            array.dtype_in(network.run.precision),
            batched,
            array.description,
            array.units,
        )
        fixed = array not in recorded
        also = ends if fixed or period else (network.run.length,)
        yield Recording(stream, 0 if fixed else period, stream.path, also=also)


def _spikes_written(network: Network, layer: str) -> bool:
    wanted = network.output.layers.get(layer)
    return wanted is not None and SPIKES in wanted.variables and wanted.every.count > 0
