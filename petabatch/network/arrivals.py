"""Deliveries of connections, as operations: where they arrive, and how layers are padded for them."""

from __future__ import annotations

import math
from dataclasses import replace

from petabatch.geometry import Patches
from petabatch.network.graph import Edge, Graph
from petabatch.network.operations import (
    Carry,
    Compare,
    Crop,
    Exchange,
    Extend,
    Operation,
    Scatter,
    Source,
    When,
)
from petabatch.network.tiles import with_overlap
from petabatch.spec.compiled import NotSuitable
from petabatch.variable import Border


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
        c, pre = edge.connection, self.layers[edge.connection.pre]
        seen = Source(f"layers/{c.pre}/{c.carries}", edge.lookback)
        place = f"connections.{edge.name}"
        if c.operation == "copy":
            return replace(seen, factor=edge.factor, buffer=edge.buffer), []
        if c.operation == "features":
            return self._features(edge, seen, when)
        if c.operation == "sparse" and edge.wiring.synapses is not None:
            out = f"connections/{edge.name}/pending"
            if out not in self.graph.variables:
                out = f"scratch/{edge.name}"
                self.scratch[out] = math.prod(self.layers[c.post].shape)
            positions, active = edge.wiring.synapses.positions, active_units(c.pre)
            scatter = Scatter(out, seen, edge.name, positions, active, when=when)
            return Source(out, 0, edge.factor, edge.buffer), [scatter]
        if c.operation in ("largest", "background"):
            out = f"scratch/{edge.name}"
            self.scratch[out] = math.prod(self.layers[c.post].shape)
            features = pre.shape[2]
            copies = self.layers[c.post].shape[2] // (features + 1) if c.operation == "background" else 0
            compare = Compare(out, seen, features, copies, when=when)
            return Source(out, 0, edge.factor, edge.buffer), [compare]
        link = edge.wiring.link
        if c.operation == "other" or link is None:
            raise NotSuitable(f"{place}: a connection of type {c.type} has no operation")
        p, weights, method, factor = link.patches, "", "sum", 1.0
        border: Border = pre.border
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
        seen, operations = self._pad(c.pre, seen, rows, columns, border, when)
        out = f"scratch/{edge.name}"
        shape = self.layers[c.post].shape
        self.scratch[out] = math.prod(shape)
        if self._tiled and link.scatter and (p.y.before or p.y.after):
            operations += self._beyond(out, seen, weights, p, when)
            return Source(out, 0, edge.factor, edge.buffer), operations
        arrived = out
        if not link.scatter and (p.y.margin or p.x.margin):
            # Units beyond the edge have patches of their own, which deliver nothing this way.
            arrived = f"scratch/{edge.name} and beyond"
            self.scratch[arrived] = p.positions * p.features
        operations.append(Carry(arrived, seen, weights, p, link.scatter, method, factor, when=when))
        if arrived != out:
            start = (p.y.margin, p.x.margin)
            operations.append(Crop(out, Source(arrived), shape, start, p.x.units, when=when))
        return Source(out, 0, edge.factor, edge.buffer), operations

    def _features(self, edge: Edge, seen: Source, when: When) -> tuple[Source, list[Operation]]:
        """Return what a range of features delivers: features are columns of single numbers here."""
        c, out = edge.connection, f"scratch/{edge.name}"
        (ny, nx, nf), post = self.layers[c.pre].shape, self.layers[c.post].shape
        self.scratch[out], first = math.prod(post), c.first_feature
        if nf > post[2]:
            some: Operation = Crop(out, seen, (ny * nx, post[2], 1), (0, first), nf, when=when)
        else:
            beside = first, post[2] - first - nf
            some = Extend(out, seen, (ny * nx, nf, 1), (0, 0), beside, "zero", when=when)
        return Source(out, 0, edge.factor, edge.buffer), [some]

    def _beyond(
        self, out: str, seen: Source, weights: str, p: Patches, when: When
    ) -> tuple[Operation, Operation]:
        """Return the operations that deliver a tile's patches, also to the tiles before and after it."""
        before, after, wide = p.y.before, p.y.after, f"{out} and beyond"
        row = p.x.fine * p.channels
        self.scratch[wide] = (before + p.y.fine + after) * row
        carry = Carry(wide, seen, weights, with_overlap(p, before, after), scatter=True, when=when)
        exchange = Exchange(out, Source(wide), p.y.fine, before, after, row, adds=True, when=when)
        return carry, exchange

    def _pad(
        self,
        pre: str,
        seen: Source,
        rows: tuple[int, int],
        columns: tuple[int, int],
        border: Border,
        when: When,
    ) -> tuple[Source, list[Operation]]:
        """Return the padded layer, and the operation that pads it if no other edge has asked for it."""
        if not any((*rows, *columns)):
            return seen, []
        ny, nx, nf = self.layers[pre].shape
        out = f"scratch/{pre}[-{seen.lookback}] in {rows} {columns} {border}"
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
