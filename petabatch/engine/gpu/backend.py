"""The GPU of a rank as the backend of its engine."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial

import numpy as np

from petabatch.engine.backend import Operation, Peers, Reader, Steps
from petabatch.engine.gpu.arrays import DeviceArrays
from petabatch.engine.gpu.download import Download
from petabatch.engine.gpu.graphs import CapturedSteps
from petabatch.engine.gpu.prefetch import Prefetch
from petabatch.engine.state import State
from petabatch.engine.updates import Updates
from petabatch.errors import ResourceError
from petabatch.kernels.array import ArrayKernels
from petabatch.kernels.cuda.device import Device
from petabatch.kernels.cuda.patches import GpuKernels
from petabatch.network.graph import Graph
from petabatch.parallel.gpu_sums import SideStreamSum, between
from petabatch.threads import ThreadPool
from petabatch.variable import Array


class GpuBackend:
    """One thread launches the work of the GPU; a window has as many slices as fit in its memory."""

    def __init__(
        self,
        device: Device,
        state: State,
        readers: Mapping[str, Reader],
        threads: int,
        together: bool = False,
    ) -> None:
        """Read images on `threads` threads; with `together`, ranks exchange sums within each step.

        All slices must then fit at once, and steps are not captured. Raises ResourceError if they do not.
        """
        device.enter()
        self.device, self._together = device, together
        self.arrays = DeviceArrays(state, device)
        if together and not self.arrays.stays:
            raise ResourceError(
                "the slices of a rank whose features are split must fit in the memory of its GPU\n"
                f"    found:    {len(self.arrays.windows)} parts that fit\n"
                "    hint:     more ranks, a smaller batch, or --device cpu"
            )
        self.windows = self.arrays.windows
        self._peers = {window.start: Peers(window) for window in self.windows}
        self.workers, self.version = 1, 0
        self._readers, self._prefetch = readers, Prefetch(device, readers, threads)
        self._download = Download(device)

    @property
    def name(self) -> str:
        """The GPU's name and identifier."""
        return f"gpu, {self.device.name}, {self.device.uuid}"

    def slots(self, size: int) -> Sequence[range]:
        """Return the windows, whatever `size` is."""
        return [range(window.start, window.stop) for window in self.windows]

    def seated(self) -> None:
        """Copy everything from the host again when it is used; images read ahead are those of others."""
        self.arrays.forget()
        self._prefetch.forget()

    def peers(self, lanes: slice) -> Peers:
        """Return what the lanes of a window share."""
        return self._peers[self.arrays.window(lanes).start]

    def pool(self) -> ThreadPool:
        """Return the one thread."""
        return ThreadPool(1, "gpu", self.device.enter)

    def kernels(self, compiled: bool) -> ArrayKernels:
        """Return the operators on the device's arrays."""
        return GpuKernels.of(self.device)

    def steps(self, graph: Graph, levels: Sequence[Sequence[Operation]]) -> Steps:
        """Return what runs the branches of a level side by side, and replays captured steps."""
        return CapturedSteps(self.device, graph, levels, not self._together)

    def allocate(self, shape: tuple[int, ...], dtype: str) -> np.ndarray:
        """Return pinned memory."""
        return self.device.staging(shape, dtype)

    @contextmanager
    def holding(self, lanes: slice) -> Iterator[None]:
        """Have the arrays of these local slices on the device."""
        self.arrays.enter(lanes)
        yield
        self.arrays.leave()

    def read_ahead(self, number: int) -> None:
        """Images are read where lanes show them."""

    def first(self, name: str, again: bool, number: int, item: int) -> np.ndarray:
        """Return an image of a slice."""
        return self._readers[name](number, item)

    def show(self, name: str, slices: range, item: int, into: Array) -> None:
        """Copy images that were read ahead, and begin to read the next."""
        self._prefetch.fill(name, slices, item, into)

    def record(self, number: int, values: Array, row: np.ndarray, pending: list[Callable[[], None]]) -> None:
        """Start the copy."""
        pending.append(self._download.send(number, values, row))

    def sum_updates(self, updates: Updates) -> None:
        """Sum on the device if slices stay there; collective."""
        updates.products = self.arrays.products()
        if updates.groups:
            updates.reduction.sums = between(self.device, updates.comm, self.arrays.stays)
            if self.arrays.stays:
                updates.reduction.start = partial(SideStreamSum, self.device)

    def start(self) -> None:
        """Copy everything from the host again when it is used."""
        self.arrays.forget()

    def weights_changed(self) -> None:
        """Copy what all slices share."""
        self.arrays.refresh()

    def collect(self) -> None:
        """Copy what a checkpoint holds."""
        self.arrays.collect()

    @property
    def waited(self) -> float:
        """Seconds in which the GPU's thread waited for images."""
        return self._prefetch.waited

    def close(self) -> None:
        """Stop reading images ahead."""
        self._prefetch.close()
