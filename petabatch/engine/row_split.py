"""Tiles of rows: the rows of all layers that a rank has as a smaller network, and what tiles exchange.

Each rank of a group has ny / R rows of every layer, and all weights. Within a step, the program exchanges the
rows that patches reach beyond a tile. What weights learn from is summed exactly over the tiles of all slices.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from petabatch.engine.split import Split, portion, weights_of_part
from petabatch.geometry import Axis, Patches
from petabatch.network.build import build
from petabatch.network.plan import Plan
from petabatch.network.tiles import with_overlap
from petabatch.parallel.comm import Comm
from petabatch.parallel.grid import Grid
from petabatch.parallel.neighbours import added, surrounded
from petabatch.spec.images import ImageStream, Shown
from petabatch.spec.network import Network, Parallel
from petabatch.spec.parts import Connection, Layer, Source
from petabatch.variable import Array, host, module_of
from petabatch.weight_mode import over_positions


class RowSplit(Split):
    """A tile of rows of every layer."""

    def __init__(self, whole: Plan, place: Grid) -> None:
        network, group = whole.graph.network, place.group
        super().__init__(whole, group, frozenset(network.layers), build(_tile(network, group)))
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

    def surrounded(self, fine: Array, p: Patches, tag: int) -> tuple[Array, Patches]:
        """Return a layer with the rows of the next tiles that patches reach, and their geometry on it.

        Collective for each `tag`.
        """
        y, group = p.y, self.group
        if not (y.before or y.after):
            return fine, p
        wide = module_of(fine).asarray(surrounded(group, host(fine), y.before, y.after, tag))
        lead = y.before if group.rank > 0 else 0  # beyond the edge of the image is no row of any tile
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


class _TileStream(ImageStream):
    """The rows of a tile of the images of a source, which is read by one thread at a time.

    So there is one whole image at a time where a source has no rows alone, however many are read ahead.
    """

    def __init__(self, whole: ImageStream, rows: slice) -> None:
        self._whole, self._rows, self._lock = whole, rows, threading.Lock()
        self.displays, self.forward, self.files = whole.displays, whole.forward, whole.files

    def __call__(self, slice_: int, display: int) -> np.ndarray:
        """Return the rows."""
        with self._lock:
            return self._whole.rows(slice_, display, self._rows)

    @property
    def notes(self) -> Sequence[str]:
        """Those of the whole."""
        return self._whole.notes

    def expect(self, slices: int) -> None:
        """Prepare for the number of slices for which it is read."""
        self._whole.expect(slices)

    def shown(self, slice_: int, display: int, margin: tuple[int, int] = (0, 0)) -> Shown:
        """Return what a slice shows of the whole."""
        return self._whole.shown(slice_, display, margin)

    def begins(self, slice_: int, display: int) -> bool:
        """Return whether a film begins."""
        return self._whole.begins(slice_, display)


class _TileSource(Source):
    """A source of whole images; a rank keeps the rows of its tile."""

    type: str = ""
    whole: Any
    """The source."""
    part: int
    parts: int

    def open(self, shape: tuple[int, int, int], batch: int, seed: int) -> Callable[[int, int], np.ndarray]:
        """Return what reads the rows."""
        return self.stream(shape, batch, seed)

    def stream(self, shape: tuple[int, int, int], batch: int, seed: int) -> ImageStream:
        """Return the rows of the images that the whole layer shows."""
        rows = slice(self.part * shape[0], (self.part + 1) * shape[0])
        return _TileStream(self.whole.stream(self._of_all(shape), batch, seed), rows)

    def paths(self) -> Sequence[str]:
        """Return the input files."""
        return self.whole.paths()  # type: ignore[no-any-return]

    @property
    def read_ahead(self) -> bool:
        """As the whole images are."""
        return bool(self.whole.read_ahead)

    @property
    def once(self) -> bool:
        """As the whole images are."""
        return bool(self.whole.once)

    @property
    def alike(self) -> bool:
        """As the whole images are."""
        return bool(self.whole.alike)

    @property
    def traced(self) -> bool:
        """As the whole images are."""
        return bool(self.whole.traced)

    @property
    def resets(self) -> bool:
        """As the whole images do."""
        return bool(self.whole.resets)

    def nbytes(self, shape: tuple[int, int, int]) -> int:
        """Return the bytes that reading images keeps in memory, with what rows take beyond themselves."""
        whole = self._of_all(shape)
        return int(self.whole.nbytes(whole)) + int(self.whole.nbytes_of_rows(whole))

    def _of_all(self, shape: tuple[int, int, int]) -> tuple[int, int, int]:
        return shape[0] * self.parts, *shape[1:]


def _tile(network: Network, group: Comm) -> Network:
    """Return the network of one rank of the group."""
    layers: dict[str, Layer] = {}
    for name, layer in network.layers.items():
        ny, nx, nf = layer.shape
        changed: dict[str, Any] = {"shape": (ny // group.size, nx, nf)}
        changed["start"] = {variable: portion(one, -3, group) for variable, one in layer.start.items()}
        if layer.images is not None:
            changed["source"] = _TileSource(whole=layer.images.source, part=group.rank, parts=group.size)
        layers[name] = layer.model_copy(update=changed)
    connections = {name: _of_tile(connection, group) for name, connection in network.connections.items()}
    rest = Parallel(features=network.parallel.features)  # which split what is left
    return network.model_copy(update={"layers": layers, "connections": connections, "parallel": rest})


def _of_tile(connection: Connection, group: Comm) -> Connection:
    """Return a connection with the weights of the positions of a tile, if each has its own."""
    if connection.owner is None or over_positions(connection.owner.mode):
        return connection
    return weights_of_part(connection, 0, group)
