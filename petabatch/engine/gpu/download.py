"""Asynchronous download of records: copied from the GPU while the next steps are computed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from petabatch.kernels.cuda.device import Device
from petabatch.variable import Array


class _Buffer:
    """A staging buffer on the device."""

    def __init__(self, array: Array) -> None:
        self.array = array
        self.left: Any = None
        """The event of its last copy's arrival."""


class Download:
    """Double buffering of each recording: one buffer is copied to the host while the other is filled."""

    def __init__(self, device: Device) -> None:
        self._device, self._stream = device, device.stream()
        self._buffers: dict[tuple[int, tuple[int, ...]], list[_Buffer]] = {}

    def send(self, number: int, values: Array, row: np.ndarray) -> Callable[[], None]:
        """Start copying `values` of recording `number` to `row`; return a function that waits for the copy.

        `values` are those of each slice of `row`, or one for all.

        `row` is contiguous and lies in pinned memory; `values` may change as soon as this returns.
        """
        key = (number, row.shape)
        if key not in self._buffers:
            self._buffers[key] = [_Buffer(self._device.xp.empty(row.shape, row.dtype)) for _ in range(2)]
        self._buffers[key].reverse()
        room = self._buffers[key][0]
        if room.left is not None:
            self._device.follow(room.left)
        xp = self._device.xp
        # What all slices have in common is recorded of each.
        room.array[...] = xp.broadcast_to(values, (len(row), *values.shape[1:])).reshape(row.shape)
        self._stream.wait_event(self._device.mark())
        room.array.get(stream=self._stream, out=row, blocking=False)
        with self._device.on(self._stream):
            room.left = self._device.mark()
        wait: Callable[[], None] = room.left.synchronize
        return wait
