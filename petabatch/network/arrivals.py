"""Deliveries of connections, as operations: where they arrive, and how layers are padded for them."""

from __future__ import annotations

import math
from dataclasses import replace

from petabatch.network.graph import Edge, Graph
from petabatch.network.operations import (
    Carry,
    Compare,
    Crop,
    Exchange,
    Extend,
    Join,
    Operation,
    Scatter,
    Source,
    When,
)
from petabatch.network.tiles import with_overlap
from petabatch.spec.compiled import NotSuitable
from petabatch.variable import Border

Shape = tuple[int, int, int]


def with_margin(graph: Graph, name: str) -> tuple[int, int, int]:
    """Return the shape of the images of an input layer with the margin that its connections read."""
    (rows, columns), (ny, nx, nf) = graph.margins(name), graph.network.layers[name].shape
    return ny + 2 * rows, nx + 2 * columns, nf


def active_units(layer: str) -> str:
    """Return the scratch with the lists of active units of a layer."""
    return f"scratch/active units of {layer}"


class Arrivals:
    """What arrives at the layers of a network in a step; what is padded for one edge serves others."""

    def __init__(self, graph: Graph, tiled: bool = False) -> None:
        """Take the graph of a whole network, or that of a tile of its rows."""
        self.graph, self.layers, self._tiled = graph, graph.network.layers, tiled
        self.scratch: dict[str, int] = {}
        """The size of each array that something arrives in, or is padded in."""
        self.padded: set[tuple[str, When]] = set()
        """Scratch that an operation before pads a layer into, and when."""

    def of(self, edge: Edge, when: When) -> tuple[Source, list[Operation]]:
        """Return what an update reads of an edge, and the operations that must come before it."""
        c, share = edge.connection, self.graph.shares.get(edge.name)
        seen, own = Source(f"layers/{c.pre}/{c.carries}", edge.lookback), self.layers[c.pre].shape
        if share is None:
            return self._carried(edge, seen, (own, self.layers[c.post].shape), when)
        if share.gathers and c.operation == "sparse":
            raise NotSuitable(f"connections.{edge.name}: its active units are those of several ranks")
        before, after = list[Operation](), list[Operation]()
        here = f"scratch/{c.pre}.{c.carries}[-{edge.lookback}]"
        if share.gathers:
            seen = self._gathered(f"{here} from all ranks", seen, own, when, before)
            own = self._all(own)
        elif share.cuts:
            seen = self._cut(f"{here} of this rank", seen, own, when, before)
            own = self._own(own)
        whole = self.layers[c.post].shape
        made = self._all(whole) if share.keeps else self._own(whole) if share.completes else whole
        arrival, operations = self._carried(edge, seen, (own, made), when)
        part = replace(arrival, factor=1.0, buffer=0)
        if share.gives == "sum":
            out, size = f"scratch/{edge.name} from all ranks", math.prod(made)
            self.scratch[out] = size
            after.append(Join(out, part, size, when=when))
            part = Source(out)
        if share.completes:
            part = self._gathered(f"scratch/{edge.name} from all ranks", part, made, when, after)
        elif share.keeps:
            part = self._cut(f"scratch/{edge.name} of this rank", part, made, when, after)
        return replace(part, factor=edge.factor, buffer=edge.buffer), [*before, *operations, *after]

    def gathered(self, out: str, seen: Source, shape: Shape, when: When) -> Join:
        """Return the operation that makes all features of a layer, of which this rank has some."""
        return Join(out, seen, math.prod(shape), shape[2], when=when)

    def cut(self, out: str, seen: Source, shape: Shape, when: When) -> Crop:
        """Return the operation that makes the features of this rank, of a layer with all of them."""
        (ny, nx, nf), part = shape, self.graph.part  # features are columns of single numbers here
        return Crop(out, seen, (ny * nx, part.size(nf), 1), (0, part.first(nf)), nf, when=when)

    def _gathered(self, out: str, seen: Source, shape: Shape, when: When, to: list[Operation]) -> Source:
        self.scratch[out] = math.prod(self._all(shape))
        return self._once(self.gathered(out, seen, shape, when), to)

    def _cut(self, out: str, seen: Source, shape: Shape, when: When, to: list[Operation]) -> Source:
        self.scratch[out] = math.prod(self._own(shape))
        return self._once(self.cut(out, seen, shape, when), to)

    def _once(self, one: Operation, to: list[Operation]) -> Source:
        """Add an operation unless another edge has asked for it; return what it makes."""
        if (one.out, one.when) not in self.padded:
            self.padded.add((one.out, one.when))
            to.append(one)
        return Source(one.out)

    def _all(self, shape: Shape) -> Shape:
        return *shape[:2], shape[2] * self.graph.part.parts

    def _own(self, shape: Shape) -> Shape:
        return *shape[:2], self.graph.part.size(shape[2])

    def _carried(
        self, edge: Edge, seen: Source, shapes: tuple[Shape, Shape], when: When
    ) -> tuple[Source, list[Operation]]:
        """Return what a connection makes of what it sees; `shapes` are those of this and of what it makes."""
        c, border, size = edge.connection, self.layers[edge.connection.pre].border, math.prod(shapes[1])
        place = f"connections.{edge.name}"
        if c.operation == "copy":
            return replace(seen, factor=edge.factor, buffer=edge.buffer), []
        if c.operation == "sparse" and edge.wiring.synapses is not None:
            out = f"connections/{edge.name}/pending"
            if out not in self.graph.variables:
                out = f"scratch/{edge.name}"
                self.scratch[out] = size
            positions, active = edge.wiring.synapses.positions, active_units(c.pre)
            scatter = Scatter(out, seen, edge.name, positions, active, when=when)
            return Source(out, 0, edge.factor, edge.buffer), [scatter]
        if c.operation in ("largest", "background"):
            out, features = f"scratch/{edge.name}", shapes[0][2]
            self.scratch[out] = size
            copies = shapes[1][2] // (features + 1) if c.operation == "background" else 0
            compare = Compare(out, seen, features, copies, when=when)
            return Source(out, 0, edge.factor, edge.buffer), [compare]
        link = edge.wiring.link
        if c.operation == "other" or link is None:
            raise NotSuitable(f"{place}: a connection of type {c.type} has no operation")
        p, weights, method, factor = link.patches, "", "sum", 1.0
        if c.operation.startswith("pool"):
            method = "max" if c.operation == "pool_max" else "sum"
            border = -math.inf if method == "max" and border == "zero" else border
            reach = p.y.size * p.x.size
            if c.operation == "pool_average":
                factor = p.y.stride * p.x.stride / reach if link.scatter else 1 / reach
        else:
            weights = self.graph.patches_of(edge.wiring.weights)
        if link.scatter:
            rows, columns = (p.y.margin,) * 2, (p.x.margin,) * 2
        else:
            rows, columns = (p.y.before, p.y.after), (p.x.before, p.x.after)
        seen, operations = self._pad(c.pre, seen, shapes[0], rows, columns, border, when)
        out = f"scratch/{edge.name}"
        self.scratch[out] = size
        if self._tiled and link.scatter and (p.y.before or p.y.after):
            carry = Carry(out, seen, weights, p, link.scatter, method, factor, when=when)
            operations += self._beyond(carry)
            return Source(out, 0, edge.factor, edge.buffer), operations
        arrived = out
        if not link.scatter and (p.y.margin or p.x.margin):
            # Units beyond the edge have patches of their own, which deliver nothing this way.
            arrived = f"scratch/{edge.name} and beyond"
            self.scratch[arrived] = p.positions * p.features
        operations.append(Carry(arrived, seen, weights, p, link.scatter, method, factor, when=when))
        if arrived != out:
            start = (p.y.margin, p.x.margin)
            operations.append(Crop(out, Source(arrived), shapes[1], start, p.x.units, when=when))
        return Source(out, 0, edge.factor, edge.buffer), operations

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
        pre: str,
        seen: Source,
        shape: Shape,
        rows: tuple[int, int],
        columns: tuple[int, int],
        border: Border,
        when: When,
    ) -> tuple[Source, list[Operation]]:
        """Return the padded layer, and the operation that pads it if no other edge has asked for it."""
        if not any((*rows, *columns)):
            return seen, []
        ny, nx, nf = shape
        of = f"{pre}[-{seen.lookback}]" if seen.key.startswith("layers/") else seen.key.partition("/")[2]
        out = f"scratch/{of} in {rows} {columns} {border}"
        self.scratch[out] = (ny + sum(rows)) * (nx + sum(columns)) * nf
        if (out, when) in self.padded:
            return Source(out), []
        self.padded.add((out, when))
        if border == "image":
            whole, margin = with_margin(self.graph, pre), self.graph.margins(pre)
            part = (ny + sum(rows), nx + sum(columns), nf)
            start = (margin[0] - rows[0], margin[1] - columns[0])
            image = replace(seen, key=f"margins/{pre}")
            return Source(out), [Crop(out, image, part, start, whole[1], when=when)]
        padding: list[Operation] = [Extend(out, seen, (ny, nx, nf), rows, columns, border, when=when)]
        if self._tiled and any(rows):
            row = (nx + sum(columns)) * nf
            padding.append(Exchange(out, Source(out), ny, *rows, row, adds=False, when=when))
        return Source(out), padding
