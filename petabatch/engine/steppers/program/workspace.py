"""Workspace of a thread that runs a program: scratch, and the weights in reading order."""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping
from typing import Any

import numpy as np

from petabatch.engine.step_records import ActiveUnits
from petabatch.engine.steppers.program.tables import Tables
from petabatch.engine.steppers.program.tables.writer import GEOMETRY, NOTHING
from petabatch.geometry import Patches
from petabatch.kernels.cpu import layout
from petabatch.kernels.cpu.gradient import dictionary_gradient, gradient_scratch
from petabatch.kernels.cpu.incoming import NAMES, Incoming
from petabatch.kernels.cpu.layout import DRIVE_BLOCK, PANEL, Scratch, Shape
from petabatch.kernels.cpu.program import random
from petabatch.kernels.cpu.program import table as t
from petabatch.kernels.cpu.program.lazy import layout as lazy_layout
from petabatch.kernels.operations.patches import Project
from petabatch.kernels.operations.synapses import incoming
from petabatch.kernels.operations.updates import WORDS
from petabatch.kernels.operations.weights import Weights
from petabatch.spec.synapses import Synapses
from petabatch.variable import Array

_OF_GEOMETRY = (*GEOMETRY, "strips")


class Workspace:
    """Scratch and packed weights of one thread."""

    def __init__(self, tables: Tables) -> None:
        self.weights, self.turned, self.lists = tables.weights, tables.turned, tables.active
        self.real = tables.real
        self.held: dict[str, np.ndarray] = {NOTHING: np.zeros(0, self.real)}
        for key, (pattern, times) in tables.constants.items():
            self.held[key] = np.tile(np.array(pattern, self.real), times)
        self.held |= {key: np.zeros(random.WORDS + 4, np.uint64) for key in WORDS}
        self.held |= {key: np.zeros(size, np.uint64) for key, size in tables.lists.items()}
        self.incoming = {
            name: _incoming(tables.graph.synapses[name], self.real) for name in sorted(tables.incoming)
        }
        for name, found in self.incoming.items():
            self.held |= dict(zip(incoming(name), found.arrays(), strict=True))
        self.shapes = np.zeros((max(1, len(tables.geometries)), t.SHAPES), np.int64)
        for number, p in enumerate(tables.geometries):
            self._scratch(tables, number, p, layout.shape(p), layout.scratch(p, self.real))
        self.packed: dict[tuple[str, str], np.ndarray] = {}
        self._loaded: dict[object, tuple[np.ndarray, int]] = {}
        """The arrays that were packed, or found to be the same, and their version."""
        self.features: dict[tuple[str, str], lazy_layout.Features] = {}
        for names, weights in tables.weights.items():
            panels, groups = names
            if panels in tables.numbers_of:
                self.held[panels] = layout.room_for_panels(weights.patches, self.real)
            if groups in tables.numbers_of:
                self.held[groups] = layout.room_for_groups(weights.patches, self.real)
            if names in tables.read_by_rows:
                self._rows(weights)
            size = weights.patches.features, weights.patches.length
            self.packed[names] = np.full(size, np.nan, self.real)
        for name, weights in tables.turned.items():
            count = -(-weights.patches.length // PANEL)
            self.held[name] = np.zeros((count, weights.patches.features, PANEL), self.real)
        self.own: dict[str, np.ndarray] = {}
        """Scratch of each slice, `[slices, size]`."""
        self.arrays = np.zeros((tables.slices, len(tables.numbers_of), 3), np.int64)
        """The table of arrays of each slice."""
        for key, number in tables.numbers_of.items():
            if key in self.held:
                array = self.held[key]
                self.arrays[:, number] = array.ctypes.data, array.size, 1
            elif key in tables.scratch:
                array = self._own(tables, key)
                self.arrays[:, number, 0] = array.ctypes.data + array.strides[0] * np.arange(tables.slices)
                self.arrays[:, number, 1:] = tables.scratch[key], 1
        calls = tables.slices if tables.slices > 1 else 0
        self.places = np.zeros(calls * tables.places, np.int64)
        """Scratch of what is computed in several slices at once."""
        room = np.zeros(-(-calls // DRIVE_BLOCK) * DRIVE_BLOCK * tables.room, self.real)
        self.room = room.view(np.uint8)
        private = {f"scratch/{name} {g}" for g in range(len(tables.geometries)) for name in _OF_GEOMETRY}
        private |= tables.private & tables.numbers_of.keys()
        self._private = [(tables.numbers_of[key], (self.held | self.own)[key]) for key in sorted(private)]
        """Scratch that holds nothing between operations, by number."""
        self._more: list[tuple[np.ndarray, list[np.ndarray]]] = []
        """Tables of arrays of further threads, and their own scratch."""
        self.links: dict[Hashable, Any] = {}
        """What ranks exchange in steps on this thread, and the buffers for it; see `links.py`."""
        self.buffers: dict[Hashable, Any] = {}
        self._products: dict[Patches, tuple[Shape, Scratch, Any]] = {}

    def _own(self, tables: Tables, key: str) -> np.ndarray:
        """Return scratch of each slice, of its own or within other scratch."""
        if key not in self.own:
            size = tables.scratch[key]
            if key in tables.inside:
                whole, begin = tables.inside[key]
                self.own[key] = self._own(tables, whole)[:, begin : begin + size]
            else:
                # Drives are computed in blocks; the last block may extend beyond the array.
                self.own[key] = np.zeros((tables.slices, size + _slack(tables, key)), self.real)
        return self.own[key]

    def _scratch(self, tables: Tables, number: int, p: Patches, s: Shape, scratch: Scratch) -> None:
        row, names = self.shapes[number], tables.numbers_of
        own = {name: getattr(scratch, name) for name in _OF_GEOMETRY}
        self.held |= {f"scratch/{name} {number}": array for name, array in own.items()}
        y, x = np.divmod(np.arange(p.positions), s.nx)
        across = (p.x.offset + x * p.x.stride) * p.channels
        offsets = (s.origin + y * s.stride_y) * s.pitch + across
        self.held[f"scratch/offsets {number}"] = offsets.astype(np.int64)
        row[: len(s)] = s
        row[t.TILES], row[t.STRIP] = scratch.strips.shape
        row[t.LEFT], row[t.STRIDE] = p.x.offset * p.channels, p.x.stride * p.channels
        columns = (t.WINDOW_OF, t.DRIVE, t.ACTIVE, t.VALUES, t.ENDS, t.PLACES, t.VECTORS, t.STRIPS)
        for column, name in zip(columns, own, strict=True):
            row[column] = names[f"scratch/{name} {number}"]

    def _rows(self, weights: Weights) -> None:
        """Make room for weights as lazy evaluation reads them, with norms for whole words of features."""
        self.features[weights.names] = features = lazy_layout.features(weights.patches)
        self.held[weights.rows[0]], self.held[weights.rows[1]] = features

    def for_threads(self, count: int) -> list[np.ndarray]:
        """Return a table of arrays for each thread that works on a slice, with scratch of its own."""
        while len(self._more) < count - 1:
            table, own = self.arrays.copy(), [array.copy() for _, array in self._private]
            for (number, _), array in zip(self._private, own, strict=True):
                table[:, number, 0] = array.ctypes.data
            self._more.append((table, own))
        return [self.arrays, *(table for table, _ in self._more[: count - 1])]

    def slices_of(self, key: str, slices: int, shape: tuple[int, ...]) -> np.ndarray:
        """Return scratch as an array of the first slices, `[slices, *shape]`."""
        return self.own[key][:slices, : math.prod(shape)].reshape(slices, *shape)

    def active_units(self, number: int) -> dict[str, ActiveUnits]:
        """Return the lists of a slice of the last call, by layer."""
        return {
            layer: ActiveUnits(
                _ints(self.own[units][number]),
                self.own[values][number],
                _ints(self.own[ends][number]),
            )
            for layer, (units, values, ends) in self.lists.items()
        }

    def load(self, weights: Mapping[str, np.ndarray], version: int) -> None:
        """Put the weights of a slice in reading order, where they are not those that are there.

        An array is looked at again once its `version` is another one.
        """
        for name, found in self.incoming.items():
            keys = {key: f"connections/{name}/{key}" for key in NAMES}
            if self._is_new(name, weights[keys["weights"]], version):
                found.sort({key: weights[whole] for key, whole in keys.items() if whole in weights})
        for names, one in self.weights.items():
            array = weights[one.key]
            if not self._is_new(names, array, version):
                continue
            mine = array.reshape(one.patches.features, one.patches.length)
            if not layout.same(mine.reshape(-1), self.packed[names].reshape(-1)):
                panels, groups = names
                if panels in self.held:
                    layout.pack_panels(mine, self.held[panels])
                if groups in self.held:
                    layout.pack_groups(mine, one.patches, self.held[groups])
                if names in self.features:
                    lazy_layout.fill(mine, one.patches, self.features[names])
                if one.turned in self.turned:
                    for number, panel in enumerate(self.held[one.turned]):
                        part = mine[:, number * PANEL : (number + 1) * PANEL]
                        panel[:, : part.shape[1]] = part
                self.packed[names][...] = mine

    def _is_new(self, names: object, array: np.ndarray, version: int) -> bool:
        """Return whether an array must be looked at, and note that it is."""
        loaded = self._loaded.get(names)
        self._loaded[names] = array, version
        return loaded is None or loaded[0] is not array or loaded[1] != version

    def product(self, p: Patches, code: Array, error: Array, product: Array, counts: Array | None) -> None:
        """Write the Hebbian product of a code with an error on its patches, from the active units alone."""
        if p not in self._products:
            self._products[p] = layout.shape(p), layout.scratch(p, self.real), gradient_scratch(p, self.real)
        s, scratch, sums = self._products[p]
        counts = None if counts is None else counts.reshape(p.features, -1)
        code, error = code.reshape(-1), error.reshape(s.height, s.width)
        dictionary_gradient(code, error, s, scratch, sums, product.reshape(p.features, p.length), counts)


def _ints(room: np.ndarray) -> np.ndarray:
    """Return the integers that kernels have in place of numbers, as many as those."""
    return room.view("i4")[: len(room)]


def _incoming(synapses: Synapses, real: str) -> Incoming:
    count, longest = len(synapses.targets), synapses.longest if synapses.delayed else 0
    return Incoming(count, synapses.ends.post_units, longest, real)


def thread_workspace(tables: Tables) -> Workspace:
    """Return this thread's own workspace for a program, which lasts as long as this."""
    shared = tables.workspace_of
    space: Workspace | None = getattr(shared.threads, "space", None)
    if space is None:
        space = shared.threads.space = Workspace(shared)
    return space


def _slack(tables: Tables, key: str) -> int:
    drives = [o for o in tables.program.operations if isinstance(o, Project) and o.out == key]
    return max((DRIVE_BLOCK * o.patches.features for o in drives), default=0)
