"""The update of a layer by its row function as a kernel, on all slices of a window."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from petabatch.kernels.cuda.device import Device, load
from petabatch.kernels.cuda.rows.source import BLOCK, row_source
from petabatch.kernels.rows import Form
from petabatch.variable import Array


class RowKernel:
    """A row function with the numbers of each slice."""

    def __init__(
        self, device: Device, function: Callable[..., None], form: Form, numbers: np.ndarray, dtype: str
    ) -> None:
        """`numbers` are the values of its parameters, float64 `[slices, numbers]`."""
        text = row_source(function, form, "float" if dtype == "float32" else "double")
        self._kernel = load(device.compile(text), "row", 0)
        self._numbers = device.xp.asarray(np.ascontiguousarray(numbers, np.float64))
        self._xp = device.xp
        self._A: Array = None

    def __call__(self, arrays: Sequence[Array], previous: Array, activity: Array, step: int) -> None:
        """Make a step; `arrays` are inputs, variables and random numbers, `[slices, ny, nx, nf]`."""
        if self._A is None:
            self._A = self._xp.empty(activity.shape, activity.dtype)
        self._A[...] = previous
        slices = len(activity)
        units = activity.size // slices
        grid = (-(-units // BLOCK), slices)
        arguments = (*arrays, self._A, self._numbers, np.float64(step - 1), np.int32(units))
        self._kernel(grid, (BLOCK,), arguments, shared_mem=0)
        activity[...] = self._A
