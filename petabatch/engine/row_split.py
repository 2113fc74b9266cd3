"""Tiles of rows: the rows of all layers that a rank has as a smaller network, and what tiles exchange.

Each rank of a group has ny / R rows of the layers that are split, all other layers, and all weights. Within a
step, the program exchanges the rows that patches reach beyond a tile, and gathers the rows of layers that are
needed as a whole. What weights learn from is summed exactly over the tiles of all slices.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from petabatch.engine.split import Split, portion, weights_of_part
from petabatch.network.build import tile_of_rows
from petabatch.network.graph import Graph
from petabatch.network.plan import Plan
from petabatch.network.shares import Part
from petabatch.parallel.comm import Comm
from petabatch.parallel.grid import Grid
from petabatch.spec.network import Network, Parallel
from petabatch.spec.parts import Connection
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

    def add_tiles(self, part: Array, tag: int) -> None:
        """Set an array to its sum over tiles, in their order; collective for each `tag`."""
        mine = np.ascontiguousarray(host(part))
        total = np.empty_like(mine)
        self.group.add_parts(mine, total, tag)
        part[...] = module_of(part).asarray(total)


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
