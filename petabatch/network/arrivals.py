"""Deliveries of connections, as operations: where they arrive, and how layers are padded for them."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

from petabatch.geometry import Patches
from petabatch.kernels.operations.base import ALWAYS, Operation, When
from petabatch.kernels.operations.fields import Source
from petabatch.kernels.operations.patches import Carry, Pool, Project, Spread, Synthesize
from petabatch.kernels.operations.synapses import Scatter
from petabatch.kernels.operations.transport import Compare, Crop, Exchange, Extend, Join
from petabatch.network.graph import Edge, Graph
from petabatch.network.operations import Deliver
from petabatch.network.shares import ALL
from petabatch.network.tiles import with_overlap
from petabatch.spec.compiled import NotSuitable
from petabatch.variable import Border

Shape = tuple[int, int, int]
ROWS, FEATURES = 0, 2
"""Axes along which ranks have parts of layers."""
NAMES = {ROWS: ("from all tiles", "of this tile"), FEATURES: ("from all ranks", "of this rank")}
"""What is gathered, and what is cut out."""


def with_margin(graph: Graph, name: str) -> tuple[int, int, int]:
    """Return the shape of the images of an input layer with the margin that its connections read."""
    (rows, columns), (ny, nx, nf) = graph.margins(name), graph.network.layers[name].shape
    return ny + 2 * rows, nx + 2 * columns, nf


def active_units(layer: str) -> str:
    """Return the scratch with the lists of active units of a layer."""
    return f"scratch/active units of {layer}"


class Arrivals:
    """What arrives at the layers of a network in a step; what is padded for one edge serves others."""

    def __init__(self, graph: Graph, on_arrays: bool = False) -> None:
        """Take the graph of a whole network, or that of a part of it.

        Of operations `on_arrays` there is one for every connection.
        """
        self.graph, self.layers, self._on_arrays = graph, graph.network.layers, on_arrays
        self._parts = {ROWS: graph.tiling.part, FEATURES: graph.part}
        self.scratch: dict[str, int] = {}
        """The size of each array that something arrives in, or is padded in."""
        self.padded: set[tuple[str, When]] = set()
        """Scratch that an operation before pads a layer into, and when."""

    def of(self, edge: Edge, when: When) -> tuple[Source, list[Operation]]:
        """Return what an update reads of an edge, and the operations that must come before it."""
        c, graph, name = edge.connection, self.graph, edge.name
        if name in graph.learning_synapses:  # events at the end of the step before have delivered
            return Source(f"connections/{name}/pending", 0, edge.factor, edge.buffer), []
        when = ALWAYS if name in graph.delayed else when
        seen, shape = Source(f"layers/{c.pre}/{c.carries}", edge.lookback), self.layers[c.pre].shape
        rows, features = graph.tiling.shares.get(name, ALL), graph.shares.get(name, ALL)
        if features.gathers and c.operation == "sparse" and not self._on_arrays:
            raise NotSuitable(f"connections.{name}: its active units are those of several ranks")
        before, after = list[Operation](), list[Operation]()
        here = f"scratch/{c.pre}.{c.carries}[-{edge.lookback}]"
        for share, axis in ((rows, ROWS), (features, FEATURES)):
            if share.gathers or (share.cuts and not self._in_image(edge, axis)):
                here += f" {NAMES[axis][share.cuts]}"
                one, shape = self._fitted(here, seen, shape, axis, share.gathers, when)
                seen = self._once(one, before)
        made = graph.given(name)
        arrival, operations = self.carried(edge, seen, graph.border(c.pre), when)
        part, out = replace(arrival, factor=1.0, buffer=0), f"scratch/{name}"
        if features.gives == "sum":
            out += " from all ranks"
            self.scratch[out] = math.prod(made)
            after.append(Join(out, part, math.prod(made), when=when))
            part = Source(out)
        for share, axis in ((features, FEATURES), (rows, ROWS)):
            if share.completes or share.keeps:
                out += f" {NAMES[axis][share.keeps]}"
                one, made = self._fitted(out, part, made, axis, share.completes, when)
                part = self._once(one, after)
        return replace(part, factor=edge.factor, buffer=edge.buffer), [*before, *operations, *after]

    def whole(self, edge: Edge, given: Source, border: Border) -> tuple[Source, list[Operation], Shape]:
        """Return what a connection makes of a whole layer, its operations, and its shape.

        Of ranks that share the layers, each makes its part of it.
        """
        name, operations, seen = edge.name, list[Operation](), given
        features = self.graph.shares.get(name, ALL)
        cuts = (self.graph.tiling.shares.get(name, ALL), ROWS), (features, FEATURES)
        size = list(self.layers[edge.connection.pre].shape)
        for share, axis in cuts:
            size[axis] *= self._parts[axis].parts if share.pre else 1
        shape: Shape = (size[0], size[1], size[2])
        for share, axis in cuts:
            if share.takes == "own":
                cut, shape = self._fitted(f"{given.key} {NAMES[axis][1]}", seen, shape, axis, False, ALWAYS)
                operations.append(cut)
                seen = Source(cut.out)
        part, carry = self.carried(edge, seen, border, ALWAYS)
        operations, made = operations + carry, self.graph.given(name)
        if features.gives == "sum":
            operations.append(Join(f"scratch/{name} {NAMES[FEATURES][0]}", part, math.prod(made)))
            part = Source(operations[-1].out)
        for share, axis in reversed(cuts):
            if share.gives == "own":
                join, made = self._fitted(f"scratch/all {name} {axis}", part, made, axis, True, ALWAYS)
                operations.append(join)
                part = Source(join.out)
        return part, operations, made

    def fitted(self, out: str, seen: Source, shape: Shape, to: Shape, when: When) -> Iterator[Operation]:
        """Yield the operations that make `out`, of shape `to`, of a layer with other parts on this rank."""
        axes = [axis for axis in (ROWS, FEATURES) if shape[axis] != to[axis]]
        for axis in axes:
            here = out if axis == axes[-1] else f"{out.replace('layers/', 'scratch/')}, its rows"
            one, shape = self._fitted(here, seen, shape, axis, to[axis] > shape[axis], when)
            yield one
            seen = Source(here)

    def _fitted(
        self, out: str, seen: Source, shape: Shape, axis: int, gathers: bool, when: When
    ) -> tuple[Operation, Shape]:
        """Return the operation that gathers what all ranks have of a layer, or cuts out the part of this one.

        And the shape of what it makes.
        """
        part, (ny, nx, nf) = self._parts[axis], shape
        size = shape[axis] * part.parts if gathers else part.size(shape[axis])
        made = (size, nx, nf) if axis == ROWS else (ny, nx, size)
        one: Operation
        if gathers:
            one = Join(out, seen, math.prod(shape), math.prod(shape[axis:]), axis == ROWS, when=when)
        elif axis == ROWS:
            one = Crop(out, seen, made, (part.first(ny), 0), nx, when=when)
        else:  # features are columns of single numbers
            one = Crop(out, seen, (ny * nx, size, 1), (0, part.first(nf)), nf, when=when)
        if out.startswith("scratch/"):
            self.scratch[out] = math.prod(made)
        return one, made

    def _once(self, one: Operation, to: list[Operation]) -> Source:
        """Add an operation unless another edge has asked for it; return what it makes."""
        if (one.out, one.when) not in self.padded:
            self.padded.add((one.out, one.when))
            to.append(one)
        return Source(one.out)

    def _in_image(self, edge: Edge, axis: int) -> bool:
        """Return whether the tile that an edge takes is cut out of an image with the margin around it."""
        link, pre = edge.wiring.link, edge.connection.pre
        padded = link is not None and not link.scatter
        return axis == ROWS and padded and self.layers[pre].border == "image"

    def carried(self, edge: Edge, seen: Source, border: Border, when: When) -> tuple[Source, list[Operation]]:
        """Return what a connection makes of what it sees, and of the `border` around it."""
        c, shapes = edge.connection, (self.graph.taken(edge.name), self.graph.given(edge.name))
        place, tiled, size = (
            f"connections.{edge.name}",
            self.graph.tiling.by_tiles(edge.name),
            math.prod(shapes[1]),
        )
        if c.operation == "copy":
            return replace(seen, factor=edge.factor, buffer=edge.buffer), []
        if c.operation == "sparse" and edge.wiring.synapses is not None:
            out = f"connections/{edge.name}/pending"
            if out not in self.graph.variables or edge.name in self.graph.learning_synapses:
                out = f"scratch/{edge.name}"
                self.scratch[out] = size
            positions, active = edge.wiring.synapses.positions, active_units(c.pre)
            delayed = f"connections/{edge.name}/delays" in self.graph.variables
            post = edge.wiring.synapses.shape
            scatter = Scatter(out, seen, edge.name, positions, active, delayed=delayed, shape=post, when=when)
            return Source(out, 0, edge.factor, edge.buffer), [scatter]
        if c.operation in ("largest", "background"):
            out, features = f"scratch/{edge.name}", shapes[0][2]
            self.scratch[out] = size
            copies = shapes[1][2] // (features + 1) if c.operation == "background" else 0
            compare = Compare(out, seen, features, copies, when=when)
            return Source(out, 0, edge.factor, edge.buffer), [compare]
        link = edge.wiring.link
        if c.operation == "other" or link is None:
            if not self._on_arrays:
                raise NotSuitable(f"{place}: a connection of type {c.type} has no operation")
            one = self.delivered(edge, seen, border, when)
            return Source(one.out), [one]
        p, pools = link.patches, c.operation.startswith("pool")
        if pools and c.operation == "pool_max" and border == "zero":
            border = -math.inf
        if link.scatter:
            rows, columns = (p.y.margin,) * 2, (p.x.margin,) * 2
        else:
            rows, columns = (p.y.before, p.y.after), (p.x.before, p.x.after)
        seen, operations = self._pad(edge, seen, shapes[0], rows, columns, border, tiled, when)
        out = f"scratch/{edge.name}"
        self.scratch[out] = size
        if pools:
            carry = _pooled(out, seen, p, c.operation, link.scatter, when)
        else:
            kind = Synthesize if link.scatter else Project
            carry = kind(out, seen, p, weights=self.graph.patches_of(edge.wiring.weights), when=when)
        if tiled and link.scatter and (p.y.before or p.y.after):
            operations += self._beyond(carry)
            return Source(out, 0, edge.factor, edge.buffer), operations
        arrived = out
        if not link.scatter and (p.y.margin or p.x.margin):
            # Units beyond the edge have patches of their own, which deliver nothing this way.
            arrived = f"scratch/{edge.name} and beyond"
            self.scratch[arrived] = p.positions * p.features
        operations.append(replace(carry, out=arrived))
        if arrived != out:
            start = (p.y.margin, p.x.margin)
            operations.append(Crop(out, Source(arrived), shapes[1], start, p.x.units, when=when))
        return Source(out, 0, edge.factor, edge.buffer), operations

    def delivered(self, edge: Edge, seen: Source, border: Border, when: When) -> Deliver:
        """Return the operation of a connection that delivers in a way of its own."""
        c, name, wiring = edge.connection, edge.name, edge.wiring
        return Deliver(
            f"scratch/{name}", seen, name, self.graph.taken(name), c, wiring, border,
            Source(f"margins/{c.pre}", edge.lookback) if border == "image" else None,
            "" if wiring.weights is None else self.graph.patches_of(wiring.weights),
            delayed=f"connections/{name}/delays" in self.graph.variables, when=when,
        )  # fmt: skip

    def _beyond(self, one: Carry) -> tuple[Operation, Operation]:
        """Return the operations that deliver a tile's patches, also to the tiles before and after it."""
        p, wide = one.patches, f"{one.out} and beyond"
        before, after = p.y.before, p.y.after
        row = p.x.fine * p.channels
        self.scratch[wide] = (before + p.y.fine + after) * row
        exchange = Exchange(one.out, Source(wide), p.y.fine, before, after, row, adds=True, when=one.when)
        return replace(one, out=wide, patches=with_overlap(p, before, after)), exchange

    def _pad(
        self,
        edge: Edge,
        seen: Source,
        shape: Shape,
        rows: tuple[int, int],
        columns: tuple[int, int],
        border: Border,
        tiled: bool,
        when: When,
    ) -> tuple[Source, list[Operation]]:
        """Return the padded layer, and the operation that pads it if no other edge has asked for it.

        Of a layer that is `tiled` for it, other tiles have rows of the padding.
        """
        pre = edge.connection.pre
        (ny, nx, nf), (whole, _, features) = shape, self.layers[pre].shape
        if not any((*rows, *columns, ny != whole and border == "image")):
            return seen, []
        of = f"{pre}[-{seen.lookback}]" if seen.key.startswith("layers/") else seen.key.partition("/")[2]
        of += f" {NAMES[ROWS][1]}" if ny != whole and border == "image" else ""
        out = f"scratch/{of} in {rows} {columns} {border}"
        self.scratch[out] = (ny + sum(rows)) * (nx + sum(columns)) * nf
        if (out, when) in self.padded:
            return Source(out), []
        self.padded.add((out, when))
        if border == "image":
            margin, part = self.graph.margins(pre), (ny + sum(rows), nx + sum(columns), features)
            first = self.graph.tiling.part.first(whole) if ny != whole else 0
            start = (first + margin[0] - rows[0], margin[1] - columns[0])
            image = Source(f"margins/{pre}", edge.lookback)  # what is seen may be a part that was cut out
            columns_there = with_margin(self.graph, pre)[1]
            if nf == features:
                return Source(out), [Crop(out, image, part, start, columns_there, when=when)]
            wide = f"{out} of all features"
            self.scratch[wide] = math.prod(part)
            cut, _ = self._fitted(out, Source(wide), part, FEATURES, False, when)
            return Source(out), [Crop(wide, image, part, start, columns_there, when=when), cut]
        padding: list[Operation] = [Extend(out, seen, (ny, nx, nf), rows, columns, border, when=when)]
        if tiled and any(rows):
            row = (nx + sum(columns)) * nf
            padding.append(Exchange(out, Source(out), ny, *rows, row, adds=False, when=when))
        return Source(out), padding


def _pooled(out: str, seen: Source, p: Patches, operation: str, scatter: bool, when: When) -> Carry:
    """Return the operation that pools a layer, or spreads it."""
    reach, factor = p.y.size * p.x.size, 1.0
    if operation == "pool_average":
        factor = p.y.stride * p.x.stride / reach if scatter else 1 / reach
    return (Spread if scatter else Pool)(out, seen, p, operation == "pool_max", factor, when=when)
