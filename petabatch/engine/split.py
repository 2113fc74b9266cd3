"""Feature parallelism: a rank's part of the features as a smaller network, and sums over the parts.

Each rank of a group runs the same graph with nf / F features in the split layers. What leaves a split layer
is a partial sum; the parts are added where they arrive, in the order of ranks, so that the bits depend on F
alone. Where the shapes of an array in the whole and in the part differ, that axis is the axis of features.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np

from petabatch.engine.recorder import Record
from petabatch.network.build import build
from petabatch.network.feature_range import FeatureRange
from petabatch.network.features import split_layers
from petabatch.network.method import of_part
from petabatch.network.plan import Plan, schedule
from petabatch.parallel.comm import Comm
from petabatch.spec.compiled import Term
from petabatch.spec.network import Network, Parallel
from petabatch.spec.parts import Connection, Probe, Reading
from petabatch.spec.weights import Initial
from petabatch.variable import Array, host, module_of


class Split:
    """The part of rank `group.rank` of the features of a plan, among the ranks that have the same slices."""

    def __init__(self, whole: Plan, group: Comm) -> None:
        self.group = group
        self.layers = split_layers(whole.graph.network)
        self.whole_plan = whole
        self.writes = group.rank == 0
        part = schedule(build(_part(whole.graph.network, self.layers, group)))
        # What depends on sizes is that of the whole, so that all ranks meet at the same steps and keep the
        # same arrays.
        method = of_part(whole.method, part.graph, self.layers)
        self.plan = replace(part, flush=whole.flush, block=whole.block, method=method, whole=whole)
        self.together = method.by_layers
        streams = {recording.stream.path: recording.stream for recording in whole.recordings}
        self._streams = {r.stream.path: (streams[r.stream.path], r.stream) for r in self.plan.recordings}
        before, after = whole.variables, self.plan.variables
        self._axes = {key: _axis(before[key].shape, after[key].shape) for key in before}

    def joins(self, pre: str, post: str) -> bool:
        """Return whether what a connection delivers is a partial sum over features."""
        return pre in self.layers and post not in self.layers

    def add(self, part: Array) -> Array:
        """Return the sum of the parts of all ranks of the group; collective."""
        return module_of(part).asarray(self.group.sum_in_order(np.ascontiguousarray(host(part))))

    def add_parts(self, part: np.ndarray, total: np.ndarray, tag: int) -> None:
        """Set `total` to the sum of the parts of all ranks of the group; collective for each `tag`."""
        self.group.add_parts(part, total, tag)

    def norms(self, probe: str, plan: Plan) -> Mapping[str, Sequence[Term]]:
        """Return this rank's terms: norms of layers that all ranks hold are summed up on the first."""
        network = (plan.whole or self.whole_plan).graph.network
        found = network.probes[probe].norms(network.layers)
        return {
            quantity: [term for term in terms if term.layer in self.layers or self.group.rank == 0]
            for quantity, terms in found.items()
        }

    def measure(self, probe: Probe, read: Reading, slices: int, xp: Any) -> Mapping[str, Array]:
        """Return this rank's share of what a probe measures: the shares of a group add up to it."""
        mine = not self.layers.isdisjoint(probe.layers())
        if self.group.rank > 0 and not mine:
            return {quantity: xp.zeros(slices) for quantity in probe.quantities()}
        found = probe.measure(read if self.group.rank == 0 else _Others(read, self.layers), xp)
        return probe.split_share(found, self.group.size) if mine else found

    @contextmanager
    def all_of(
        self, connection: str, arrays: Mapping[str, Array], tag: int = 0
    ) -> Iterator[Mapping[str, Array]]:
        """Have arrays of a connection with all features within the block, then write this rank's part."""
        found: dict[str, Array] = {}
        for name, array in arrays.items():
            axis = self._axes[f"connections/{connection}/{name}"]
            found[name] = array if axis is None else self._all_features(array, axis + 1, tag)
        yield found
        for name, array in arrays.items():
            axis = self._axes[f"connections/{connection}/{name}"]
            if axis is not None:
                array[...] = module_of(array).split(found[name], self.group.size, axis + 1)[self.group.rank]

    def _all_features(self, part: Array, axis: int, tag: int) -> Array:
        """Return an array with the features of all ranks along an axis; collective for each `tag`."""
        shape = list(part.shape)
        shape[axis] *= self.group.size
        mine, total = np.zeros(shape, part.dtype), np.empty(shape, part.dtype)
        np.split(mine, self.group.size, axis)[self.group.rank][...] = host(part)
        self.group.add_parts(mine, total, tag)
        return module_of(part).asarray(total)

    def part(self, arrays: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Return this rank's features of the arrays of a checkpoint, each with its leading axis."""
        found = {}
        for key, array in arrays.items():
            axis = self._axes.get(key)
            parts = [array] if axis is None else np.split(array, self.group.size, axis + 1)
            found[key] = parts[self.group.rank if len(parts) > 1 else 0]
        return found

    def whole(self, arrays: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Return on the first rank of the group the arrays with all features; collective."""
        return {key: self._join(array, self._axes[key]) for key, array in arrays.items()}

    def records(self, records: Sequence[Record]) -> list[Record]:
        """Return on the first rank of the group what was recorded of all features, else nothing.

        Collective.
        """
        found = []
        for record in records:
            whole, part = self._streams[record.stream.path]
            if record.stream.path.startswith("probes/"):
                values = self.group.sum_in_order(np.ascontiguousarray(record.values))
            else:
                values = self._join(record.values, _axis(whole.shape, part.shape))
            found.append(Record(whole, record.steps, values))
        return found if self.group.rank == 0 else []

    def _join(self, array: np.ndarray, axis: int | None) -> np.ndarray:
        if axis is None:
            return array
        parts = self.group.gather(array)
        return array if parts is None else np.concatenate(parts, axis + 1)


class _Portion(Initial):
    """The weights, or the state, of some features as they are in the whole."""

    type: str = ""
    whole: Any
    """The initialiser of all features."""
    axis: int
    """Of features."""
    part: int
    parts: int

    def weights(self, shape: tuple[int, ...], rng: np.random.Generator) -> np.ndarray:
        full = list(shape)
        full[self.axis] *= self.parts
        return np.split(self.whole.weights(tuple(full), rng), self.parts, self.axis)[self.part]


class _GivenPortion(_Portion):
    """The same of values that are given for each slice."""

    given = True


class _Others:
    """What a probe sees on ranks after the first: layers that all ranks hold are measured there already."""

    def __init__(self, read: Reading, split: frozenset[str]) -> None:
        self._read, self._split = read, split
        self.through, self.own, self.step, self.dt = read.through, read.own, read.step, read.dt

    def __call__(self, layer: str, variable: str) -> Array:
        found = self._read(layer, variable)
        return found if layer in self._split else module_of(found).zeros_like(found)


def _part(network: Network, split: frozenset[str], group: Comm) -> Network:
    """Return the network of one rank of the group."""
    layers = {}
    for name, layer in network.layers.items():
        layers[name] = layer
        if name in split:
            ny, nx, nf = layer.shape
            start = {variable: _portion(one, -1, group) for variable, one in layer.start.items()}
            layers[name] = layer.model_copy(update={"shape": (ny, nx, nf // group.size), "start": start})
    connections: dict[str, Connection] = {}
    for name, connection in network.connections.items():
        ends = connection.pre in split, connection.post in split
        if connection.operation == "copy" and ends[0] != ends[1]:
            connections[name] = _range(connection, network.layers[connection.post].shape[2], ends[0], group)
            continue
        if connection.owner is not None and connection.pre in split:
            init, learn = _portion(connection.owner.init, -4, group), connection.owner.learn
            if learn is not None:
                starts = {key: _portion(one, -4, group) for key, one in learn.starts.values()}
                learn = learn.model_copy(update=starts)
            connection = connection.model_copy(update={"init": init, "learn": learn})
        connections[name] = connection
    return network.model_copy(update={"layers": layers, "connections": connections, "parallel": Parallel()})


def _portion(whole: Initial, axis: int, group: Comm) -> _Portion:
    kind = _GivenPortion if whole.given else _Portion
    return kind(per_slice=whole.per_slice, whole=whole, axis=axis, part=group.rank, parts=group.size)


def _range(connection: Connection, features: int, gathers: bool, group: Comm) -> FeatureRange:
    """Return the part of an identity from a split layer (`gathers`) or to one of these features."""
    count = features // group.size
    given = {name: getattr(connection, name) for name in Connection.model_fields}
    return FeatureRange(
        **given,
        first=group.rank * count,
        count=count,
        features=features if gathers else count,
        variable=connection.carries,
    )


def _axis(whole: Sequence[int], part: Sequence[int]) -> int | None:
    """Return the axis in which two shapes differ, None if they are the same."""
    return next((n for n, (a, b) in enumerate(zip(whole, part, strict=True)) if a != b), None)
