"""Prefetch of images on a GPU: read on threads into pinned memory while kernels run."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future

import numpy as np

from petabatch.kernels.cuda.device import Device
from petabatch.threads import ThreadPool
from petabatch.variable import Array


class _Buffer:
    """Pinned memory for the images of one display."""

    def __init__(self, memory: np.ndarray) -> None:
        self.memory = memory
        self.wait: Callable[[], None] = lambda: None


class Prefetch:
    """Double buffering of each input layer: one buffer is uploaded while the other is filled."""

    def __init__(
        self, device: Device, readers: Mapping[str, Callable[[int, int], np.ndarray]], threads: int
    ) -> None:
        self._device, self._readers = device, readers
        self._pool, self._threads = ThreadPool(threads, "feed"), threads
        self._buffers: dict[tuple[str, int], list[_Buffer]] = {}
        self.waited = 0.0
        """Seconds spent waiting for images."""
        self._ahead: dict[tuple[str, int], tuple[int, _Buffer, list[Future[None]]]] = {}

    def fill(self, name: str, slices: range, item: int, into: Array) -> None:
        """Put image `item` of each slice into `into` `[lanes, ny, nx, nf]`, and start reading the next."""
        key = (name, slices.start)
        if key not in self._buffers:
            self._buffers[key] = [_Buffer(self._device.staging(into.shape, into.dtype)) for _ in range(2)]
        number, buffer, reading = self._ahead.pop(key, (-1, self._buffers[key][0], []))
        if number != item:
            _finish(reading)
            reading = self._read(name, slices, item, buffer)
        begin = time.perf_counter()
        _finish(reading)
        self.waited += time.perf_counter() - begin
        buffer.wait = self._device.upload(into, buffer.memory)
        one, other = self._buffers[key]
        spare = other if buffer is one else one
        self._ahead[key] = (item + 1, spare, self._read(name, slices, item + 1, spare))

    def close(self) -> None:
        """Stop reading; it begins again with the next image."""
        self._pool.shutdown(cancel_futures=True)
        self._pool = ThreadPool(self._threads, "feed")
        self._ahead.clear()

    def forget(self) -> None:
        """Stop reading, and free the memory, for other slices are shown next."""
        self.close()
        for buffers in self._buffers.values():
            for buffer in buffers:
                buffer.wait()
        self._buffers.clear()

    def _read(self, name: str, slices: range, item: int, buffer: _Buffer) -> list[Future[None]]:
        read = self._readers[name]

        def one(index: int) -> None:
            buffer.memory[index] = read(slices[index], item)

        buffer.wait()
        return [self._pool.submit(one, index) for index in range(len(slices))]


def _finish(reading: list[Future[None]]) -> None:
    for one in reading:
        one.result()
