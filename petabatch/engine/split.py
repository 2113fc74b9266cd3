"""Slices that several ranks share: what each has of them, and what they are as a whole.

Each rank of a group runs the same graph with smaller layers. An array whose shape in the part differs from
that in the whole is split along that axis: each part begins as many places after the one before, and where
parts are longer than that, they overlap.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np

from petabatch.engine.recorder import Record
from petabatch.network.graph import Graph
from petabatch.network.method import of_part
from petabatch.network.plan import Plan
from petabatch.network.recordings import recordings_of
from petabatch.parallel.comm import Comm, Serial
from petabatch.parallel.cut import Cut, whole_of
from petabatch.spec.compiled import Term
from petabatch.spec.parts import Connection, Reading
from petabatch.spec.weights import Initial
from petabatch.variable import Array

PRE_FEATURE = 2
"""The axis of weights `[ky, kx, nf_pre, nyp, nxp, nf_post]` before those of a patch."""


class Split:
    """The part of rank `group.rank` of the slices of a plan, among the ranks that have the same slices."""

    terms = 1
    """Products of a slice that an exact sum adds up, in different ranks."""

    def __init__(self, whole: Plan, group: Comm, layers: frozenset[str], own: Graph) -> None:
        """Take the layers that are split, and the graph of this rank."""
        self.group = group
        self.tiles: Comm = Serial()
        self.adders: Comm = group
        self.layers = layers
        self.whole_plan = whole
        self.writes = group.rank == 0
        # What depends on sizes is that of the whole, so that all ranks meet at the same steps and keep the
        # same arrays.
        outermost = whole.whole or whole
        method = of_part(whole.method, own)
        recordings = tuple(recordings_of(own, outermost.graph))
        self.plan = replace(whole, graph=own, method=method, recordings=recordings, whole=outermost)
        self.together = method.by_layers
        streams = {stream.path: stream for recording in whole.recordings for stream in recording.streams}
        self._streams = {one.path: (streams[one.path], one) for r in recordings for one in r.streams}
        before, after = whole.variables, self.plan.variables
        self._cuts = {key: _cut(before[key].shape, after[key].shape, group.size) for key in before}
        shapes = whole.graph.network.layers, self.plan.graph.network.layers
        self._layer_cuts = {
            name: _cut(shapes[0][name].shape, shapes[1][name].shape, group.size) for name in shapes[0]
        }

    def learners(self, comm: Comm) -> Comm:
        """Return the ranks over which what weights learn from is summed; `comm` have other slices."""
        return comm

    def cuts_patches(self, connection: str) -> bool:
        """Return whether ranks have parts of the same patches of a connection, those onto their features."""
        cut = self._cuts[f"connections/{connection}/weights"]
        return cut is not None and cut.axis > PRE_FEATURE

    def add_shares(self, share: np.ndarray, total: np.ndarray, tag: int) -> None:
        """Set `total` to the sum of what each rank has of a measurement; collective for each `tag`."""
        self.group.add_parts(share, total, tag)

    def add_tiles(self, part: Array, tag: int) -> None:
        """Leave it, there is one tile."""

    def norms(self, probe: str, plan: Plan) -> Mapping[str, Sequence[Term]]:
        """Return this rank's terms: norms of layers that all ranks hold are summed up on the first."""
        network = (plan.whole or self.whole_plan).graph.network
        found = network.probes[probe].norms(network.layers)
        return {
            quantity: [term for term in terms if self.sums(term.layer)] for quantity, terms in found.items()
        }

    def sums(self, layer: str) -> bool:
        """Return whether this rank has a part of a layer, or is the first of those that have the whole."""
        return layer in self.layers or self.group.rank == 0

    def reading(self, read: Reading, tag: int) -> Reading:
        """Return what a probe sees of whole layers; what it reads is collective for each `tag`."""
        return _WholeReading(self, read, tag)

    def layer(self, name: str, part: Array, tag: int) -> Array:
        """Return a whole layer, `[lanes, ny, nx, nf]`, from the parts of all ranks; collective.

        Parts of an image with its margin overlap.
        """
        cut = self._layer_cuts[name]
        if cut is None or cut.axis >= part.ndim - 1:
            return part
        return whole_of(self.group, part, cut._replace(length=part.shape[cut.axis + 1]), tag)

    def part_of_layer(self, name: str, whole: Array) -> Array:
        """Return this rank's part of a layer, `[lanes, ny, nx, nf]`, or of an image with a margin."""
        cut, ranks = self._layer_cuts[name], self.group.size
        if cut is None:
            return whole
        length = whole.shape[cut.axis + 1] - (ranks - 1) * cut.step
        return cut._replace(length=length).part(whole, self.group.rank)

    @contextmanager
    def all_of(
        self, connection: str, arrays: Mapping[str, Array], tag: int = 0
    ) -> Iterator[Mapping[str, Array]]:
        """Have arrays of a connection as a whole within the block, then write this rank's part."""
        found: dict[str, Array] = {}
        for name, array in arrays.items():
            cut = self._cuts[f"connections/{connection}/{name}"]
            found[name] = array if cut is None else whole_of(self.group, array, cut, tag)
        yield found
        for name, array in arrays.items():
            cut = self._cuts[f"connections/{connection}/{name}"]
            if cut is not None:
                array[...] = cut.part(found[name], self.group.rank)

    def part(self, arrays: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Return this rank's part of the arrays of a checkpoint, each with its leading axis."""
        cuts = {key: self._cuts.get(key) for key in arrays}
        return {
            key: array if (cut := cuts[key]) is None else cut.part(array, self.group.rank)
            for key, array in arrays.items()
        }

    def whole(self, arrays: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Return on the first rank of the group the whole arrays; collective."""
        return {key: self._join(array, self._cuts[key], 0) for key, array in arrays.items()}

    def everywhere(self, arrays: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Return the whole arrays, on all ranks of the group; collective."""
        cuts = {key: self._cuts[key] for key in arrays}
        return {
            key: array if (cut := cuts[key]) is None else whole_of(self.group, array, cut, 0)
            for key, array in arrays.items()
        }

    def records(self, records: Sequence[Record], tag: int = 0) -> list[Record]:
        """Return on the first rank of the group what was recorded of whole slices, else nothing.

        Collective for each `tag`.
        """
        found = []
        for record in records:
            whole, part = self._streams[record.stream.path]
            if record.stream.path.startswith("probes/"):
                mine = np.ascontiguousarray(record.values)
                with np.errstate(invalid="ignore"):  # of slices that fail
                    self.group.add_parts(mine, values := np.empty_like(mine), tag)
            else:
                values = self._join(record.values, _cut(whole.shape, part.shape, self.group.size), tag)
            found.append(Record(whole, record.steps, values))
        return found if self.group.rank == 0 else []

    def _join(self, array: np.ndarray, cut: Cut | None, tag: int) -> np.ndarray:
        """Return on the first rank of the group an array from the parts of all; collective for each `tag`."""
        if cut is None:
            return array
        mine, group = np.ascontiguousarray(array), self.group
        if group.rank > 0:
            group.exchange({0: mine}, {}, tag)
            return array
        parts = [mine, *(np.empty_like(mine) for _ in range(1, group.size))]
        group.exchange({}, dict(enumerate(parts[1:], 1)), tag)
        return cut.join(parts)


class Portion(Initial):
    """The weights, or the state, of a part as they are in the whole."""

    type: str = ""
    whole: Any
    """The initialiser of the whole."""
    axis: int
    """That is split."""
    part: int
    parts: int

    def weights(self, shape: tuple[int, ...], rng: np.random.Generator) -> np.ndarray:
        """Return this part of the weights of the whole."""
        full = list(shape)
        full[self.axis] *= self.parts
        return np.split(self.whole.weights(tuple(full), rng), self.parts, self.axis)[self.part]


class _GivenPortion(Portion):
    """The same of values that are given for each slice."""

    given = True


def portion(whole: Initial, axis: int, group: Comm) -> Portion:
    """Return what initialises this rank's part along an axis."""
    kind = _GivenPortion if whole.given else Portion
    return kind(per_slice=whole.per_slice, whole=whole, axis=axis, part=group.rank, parts=group.size)


def weights_of_part(connection: Connection, axis: int, group: Comm) -> Connection:
    """Return a connection that owns weights with this rank's part of them along an axis."""
    owner = connection.patch_owner
    assert owner is not None
    init, learn = portion(owner.init, axis, group), owner.learn
    if learn is not None:
        starts = {key: portion(one, axis, group) for key, one in learn.starts.values()}
        learn = learn.model_copy(update=starts)
    return connection.model_copy(update={"init": init, "learn": learn})


class _WholeReading:
    """A probe's view of whole layers, gathered from the parts of the ranks of a group."""

    def __init__(self, split: Split, read: Reading, tag: int) -> None:
        self._split, self._read, self._tag = split, read, tag
        self.own, self.step, self.dt = read.own, read.step, read.dt

    def __call__(self, layer: str, variable: str) -> Array:
        return self._split.layer(layer, self._read(layer, variable), self._tag)

    def through(self, connection: str, activity: Array) -> Array:
        return self._read.through(connection, activity)


def _cut(whole: Sequence[int], part: Sequence[int], ranks: int) -> Cut | None:
    """Return how an array is split whose shapes in the whole and in a part are these, None if it is not."""
    for axis, (a, b) in enumerate(zip(whole, part, strict=True)):
        if a != b:
            return Cut(axis, (a - b) // (ranks - 1), b)
    return None
