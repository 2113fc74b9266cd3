"""The update of a layer as a kernel, on all slices of a window."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from petabatch.kernels.cuda.device import Device, load
from petabatch.kernels.cuda.units.source import BLOCK, Body, Term, source
from petabatch.variable import Array


class UnitKernel:
    """A body, with the terms of its inputs and the numbers of each slice."""

    def __init__(
        self,
        device: Device,
        body: Body,
        terms: Sequence[Term],
        buffers: int,
        constants: Array,
        parameters: np.ndarray,
    ) -> None:
        """Have `constants` `[slices, constants]` on the device, and `parameters` in float64 on the host."""
        real = {"float32": "float", "float64": "double"}[constants.dtype.name]
        text = source(body, terms, buffers, constants.shape[1], real)
        self._folded = [term.patches is not None for term in terms]
        self._kernel, self._xp = load(device.compile(text), "units", 0), device.xp
        # An array without numbers has no address.
        self._constants = constants if constants.size else device.xp.zeros(1, constants.dtype)
        self._parameters = device.xp.asarray(parameters if parameters.size else np.zeros(1))

    def __call__(
        self,
        arrived: Sequence[Array],
        arrays: Sequence[Array],
        previous: Array,
        activity: Array,
        step: int,
    ) -> None:
        """Make a step; `arrived` are the sources of the terms, other arrays `[slices, ny, nx, nf]`."""
        slices, units = len(activity), activity[0].size
        terms = [
            self._xp.ascontiguousarray(one) if folded else self._readable(one, activity)
            for one, folded in zip(arrived, self._folded, strict=True)
        ]
        strided = [argument for one in terms for argument in (one, _stride(one))]
        states = (previous, _stride(previous), activity, _stride(activity))
        numbers = (self._constants, self._parameters, np.float64(step - 1), np.int32(units))
        block = min(BLOCK, -(-units // 32) * 32)
        grid = (-(-units // BLOCK), slices)
        self._kernel(grid, (block,), (*strided, *arrays, *states, *numbers), shared_mem=0)

    def _readable(self, array: Array, like: Array) -> Array:
        """Return an array whose slices are read as those of `like`, number by number."""
        if array.shape[1:] != like.shape[1:]:
            array = self._xp.broadcast_to(array, (len(array), *like.shape[1:]))
        if array.dtype == like.dtype and array[0].flags.c_contiguous:
            return array
        return self._xp.ascontiguousarray(array.astype(like.dtype))


def _stride(array: Array) -> np.int64:
    """Return how many numbers are from one slice to the next, 0 where all share one."""
    return np.int64(array.strides[0] // array.dtype.itemsize if len(array) > 1 else 0)
