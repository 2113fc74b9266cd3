"""Tiles of rows: the rows of all layers that a rank has as a smaller network, and what tiles exchange.

Each rank of a group has ny / R rows of the layers that are split, all other layers, and all weights. Within a
step, the program exchanges the rows that patches reach beyond a tile, and gathers the rows of layers that are
needed as a whole. What weights learn from is summed exactly over the tiles of all slices.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from petabatch.engine.split import Split, portion, weights_of_part
from petabatch.geometry import Axis, Patches
from petabatch.network.build import tile_of_rows
from petabatch.network.graph import Graph
from petabatch.network.plan import Plan
from petabatch.network.shares import Part
from petabatch.network.tiles import with_overlap
from petabatch.parallel.comm import Comm
from petabatch.parallel.grid import Grid
from petabatch.parallel.neighbours import added, surrounded
from petabatch.spec.network import Network, Parallel
from petabatch.spec.parts import Connection, Reading
from petabatch.variable import Array, host, module_of
from petabatch.weight_mode import over_positions

ROWS = 0
"""The axis of the rows of a layer."""


class RowSplit(Split):
    """A tile of rows of the layers that are split."""

    def __init__(self, whole: Plan, place: Grid) -> None:
        graph, group = whole.graph, place.group
        own = tile_of_rows(graph, _tile(graph, group), Part(group.rank, group.size))
        super().__init__(whole, group, graph.tiling.layers, own)
        self.terms, self._place, self.tiles = group.size, place, group

    def of(self, plan: Plan) -> RowSplit:
        """Return the same tile of another network."""
        return RowSplit(plan, self._place)

    def learners(self, comm: Comm) -> Comm:
        """Return all ranks: each has a part of what a slice learns from."""
        return self._place.world

    def fitted(self, activity: Array, shape: tuple[int, int, int], tag: int) -> Array:
        """Return as many rows of an activity, `[lanes, ny, nx, nf]`: those of all tiles, or of this one.

        Gathering them is collective for each `tag`.
        """
        return self.fitted_along(ROWS, activity, shape[0], tag)

    def through(self, read: Reading, connection: str, activity: Array, tag: int) -> Array:
        """Return what a connection delivers of all of a layer; collective for each `tag`."""
        graph, layers = self.plan.graph, self.whole_plan.graph.network.layers
        if graph.tiling.repeated(connection):
            return read.through(connection, activity)
        via, part = graph.network.connections[connection], graph.tiling.part
        own = self.fitted_along(ROWS, activity, part.size(layers[via.pre].shape[0]), tag)
        return self.fitted_along(ROWS, read.through(connection, own), layers[via.post].shape[0], tag)

    def add_tiles(self, part: Array, tag: int) -> None:
        """Set an array to its sum over tiles, in their order; collective for each `tag`."""
        mine = np.ascontiguousarray(host(part))
        total = np.empty_like(mine)
        self.group.add_parts(mine, total, tag)
        part[...] = module_of(part).asarray(total)

    def surrounded(self, fine: Array, p: Patches, tag: int) -> tuple[Array, Patches]:
        """Return a layer with the rows of the next tiles that patches reach, and their geometry on it.

        Collective for each `tag`.
        """
        y, group = p.y, self.group
        if not (y.before or y.after):
            return fine, p
        wide = module_of(fine).asarray(surrounded(group, host(fine), y.before, y.after, tag))
        before = y.before if group.rank > 0 else 0  # beyond the edge of the image is no row of any tile
        lead = before + y.lead
        return wide, replace(p, y=Axis(y.coarse, wide.shape[1], y.stride, y.size, lead=lead))

    def overlapping(self, p: Patches) -> Patches:
        """Return the geometry of patches that are added up, with rows of the next tiles."""
        return with_overlap(p, p.y.before, p.y.after)

    def own_rows(self, wide: Array, p: Patches, tag: int) -> Array:
        """Return this rank's rows of what patches add up to, with what others have for them.

        Collective for each `tag`.
        """
        if not (p.y.before or p.y.after):
            return wide
        return module_of(wide).asarray(added(self.group, host(wide), p.y.before, p.y.after, tag))


def _tile(whole: Graph, group: Comm) -> Network:
    """Return the network of one rank of the group."""
    network, layers = whole.network, dict(whole.network.layers)
    for name in whole.tiling.layers:
        layer = layers[name]
        ny, nx, nf = layer.shape
        changed: dict[str, Any] = {"shape": (ny // group.size, nx, nf)}
        changed["start"] = {variable: portion(one, -3, group) for variable, one in layer.start.items()}
        layers[name] = layer.model_copy(update=changed)
    connections = dict(network.connections)
    for name in filter(whole.tiling.by_tiles, connections):
        connections[name] = _of_tile(connections[name], group)
    rest = Parallel(features=network.parallel.features)  # which split what is left
    return network.model_copy(update={"layers": layers, "connections": connections, "parallel": rest})


def _of_tile(connection: Connection, group: Comm) -> Connection:
    """Return a connection with the weights of the positions of a tile, if each has its own."""
    if connection.patch_owner is None or over_positions(connection.patch_owner.mode):
        return connection
    return weights_of_part(connection, -6, group)
