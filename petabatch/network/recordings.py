"""Recordings of a run: what is written to the run file, and when."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from petabatch.network import evaluation, until
from petabatch.network.graph import Graph
from petabatch.spec.schedule import fires
from petabatch.variable import Stream

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

    last: int
    """The last step of the run."""
    offset: int = 0
    """Steps by which it is recorded later."""

    @cached_property
    def weights(self) -> bool:
        """Weights are recorded also before the first step and after the last."""
        return self.key.startswith("connections/")

    def due(self, step: int) -> bool:
        """Return whether the stream is recorded at the end of `step`."""
        if step in (0, self.last) and self.weights and self.period:
            return True
        return step > 0 and fires(self.period, step, self.offset)

    def steps(self, first: int, last: int) -> list[int]:
        """Return the steps first .. last at whose end the stream is recorded."""
        if not self.period:
            return []
        start = first + (self.offset - first) % self.period
        multiples = range(start, last + 1, self.period)
        ends = {step for step in (0, self.last) if self.weights and first <= step <= last}
        return sorted({step for step in multiples if self.due(step)} | ends)


def recordings_of(graph: Graph) -> Iterator[Recording]:
    """Yield the recordings of a network: layers, weights, inputs, probes, evaluation, early stopping."""
    network = graph.network
    batch, display = network.batch, network.run.display
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
    for key, kept in until.variables(network).items():
        place = f"probes/{until.NAME}/{kept.name}"
        stream = Stream(place, (batch,), ("batch",), "float64", True, kept.description)
        yield Recording(stream, display, key, network.run.length)
