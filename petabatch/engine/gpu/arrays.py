"""Device arrays of a rank: all its slices, or a window of some of them if memory is short."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from itertools import pairwise
from types import MappingProxyType

import numpy as np

from petabatch.engine.state import State
from petabatch.errors import ResourceError
from petabatch.kernels.cuda.device import Device
from petabatch.network.graph import Graph
from petabatch.network.last_finite import NAME
from petabatch.sizes import size_text
from petabatch.variable import Array, host

_SHARE = 0.85
"""Share of the free memory that arrays may take."""
_LONGEST = 32768
"""Maximum number of slices in a lane: they are an axis of the grid, of at most 65535 blocks."""


class DeviceArrays:
    """Copies of `host` on a device, seen by lanes as `State` is.

    If all slices fit, the copies stay on the device; otherwise windows of slices are swapped in and out
    between sync events.
    """

    def __init__(self, host: State, device: Device) -> None:
        self.host, self.xp = host, device.xp
        slices, each = host.hi - host.lo, slice_bytes(host.graph) + _kept_bytes(host)
        fits = min(slices, _LONGEST, int(_SHARE * device.free() / each))
        if fits < 1:
            raise ResourceError(
                "one slice of this network does not fit in the memory of the GPU\n"
                f"    found:    {size_text(device.free())} free\n"
                f"    expected: {size_text(each)} for the arrays of a slice\n"
                "    hint:     --device cpu, or a smaller layer"
            )
        count = -(-slices // fits)
        ends = [slices * number // count for number in range(count + 1)]
        self.windows = [slice(a, b) for a, b in pairwise(ends)]
        window = max(b - a for a, b in pairwise(ends))
        self.arrays: dict[str, Array] = {
            key: self.xp.empty((window if self._own(key) else 1, *array.shape[1:]), array.dtype)
            for key, array in host.arrays.items()
            if not host.variables[key].on_host
        }
        self._here: slice | None = None

    @property
    def stays(self) -> bool:
        """Whether all slices are on the device at once."""
        return len(self.windows) == 1

    def window(self, lanes: slice) -> slice:
        """Return the window that holds the given local slices."""
        return next(one for one in self.windows if one.start <= lanes.start < one.stop)

    def lane(self, lanes: slice) -> Mapping[str, Array]:
        """Return the arrays of the given local slices, valid while their window is on the device.

        What stays on the host is there.
        """
        stays = {key: array for key, array in self.host.lane(lanes).items() if key not in self.arrays}
        return MappingProxyType({**self._lane(lanes), **stays})

    def _lane(self, lanes: slice) -> dict[str, Array]:
        first = self.window(lanes).start
        here = slice(lanes.start - first, lanes.stop - first)
        return {key: array[here] if self._own(key) else array for key, array in self.arrays.items()}

    def enter(self, lanes: slice) -> None:
        """Copy the window of these slices to the device, if it is not there."""
        window = self.window(lanes)
        if self._here == window:
            return
        for key, array in self._lane(window).items():
            if self._own(key):
                array[...] = self.xp.asarray(self.host.arrays[key][window])
        self._here = window

    def leave(self) -> None:
        """Copy slices back to the host, if windows are swapped."""
        if not self.stays:
            self._bring(self.arrays)
            self._here = None

    def collect(self) -> None:
        """Copy to the host what a checkpoint may hold."""
        self._bring([*self.host.saved(), *self.host.kept()])

    def _bring(self, keys: Iterable[str]) -> None:
        if self._here is None:
            return
        here = self._lane(self._here)
        for key in keys:
            if key in here and self._own(key):
                self.host.arrays[key][self._here] = host(here[key])

    def refresh(self) -> None:
        """Copy what all slices share, such as weights, to the device."""
        for key, array in self.arrays.items():
            if not self._own(key):
                array[...] = self.xp.asarray(self.host.arrays[key])

    def forget(self) -> None:
        """Mark the device copies as stale: everything is uploaded again before it is used."""
        self._here = None
        self.refresh()

    def products(self) -> Mapping[str, Array]:
        """Return the arrays whose sums over slices are wanted: on the device if all slices are there."""
        return self.arrays if self.stays else self.host.arrays

    def _own(self, key: str) -> bool:
        return self.host.variables[key].per == "slice"


def _kept_bytes(state: State) -> int:
    """Return the memory in which a slice keeps its last finite state."""
    precision = state.graph.network.run.precision
    kept = (one for key, one in state.variables.items() if key.startswith(f"{NAME}/") and not one.on_host)
    return sum(one.nbytes(precision) for one in kept)


def slice_bytes(graph: Graph) -> int:
    """Return an estimate of the memory of a slice: arrays, download buffers, temporary patches and sums."""
    precision = graph.network.run.precision
    size = np.dtype(precision).itemsize
    arrays = sum(v.nbytes(precision) for v in graph.variables.values() if v.per == "slice" and not v.on_host)
    for name, wanted in graph.network.output.layers.items():
        arrays += 2 * size * len(wanted.variables) * math.prod(graph.network.layers[name].shape)
    patches = [
        edge.wiring.link.patches for edges in graph.edges.values() for edge in edges if edge.wiring.link
    ]
    temporary = [3 * p.positions * p.length for p in patches]
    for one in graph.synapses.values():
        sums = (one.longest + 1 if one.delayed else 1) * math.prod(one.ends.shape)
        temporary.append(3 * one.ends.positions * one.most + 2 * sums)
    return arrays + size * max(temporary, default=0)
