"""The Hebbian product of a code with its error on a GPU."""

from __future__ import annotations

import numpy as np

from petabatch.geometry import Patches
from petabatch.kernels.cuda import source
from petabatch.kernels.cuda.cell import cell_constants
from petabatch.kernels.cuda.device import Device, Kernel, load
from petabatch.kernels.rules import Cell
from petabatch.variable import Array


class Gradient:
    """The kernel of one geometry, compiled when it is first needed."""

    def __init__(self, device: Device, p: Patches, cell: Cell) -> None:
        self._device, self._patches = device, p
        self._source = source.compose("gradient", {**source.geometry(p), **cell_constants(cell, 1.0, True)})
        self._kernel: Kernel | None = None

    def __call__(self, A: Array, error: Array, product: Array, counts: Array | None) -> None:
        """Write products `[lanes, nf, K]`, and the active units behind each pixel of a patch, `counts`."""
        p, counted = self._patches, counts is not None
        grid = (-(-p.features // 16), -(-p.length // 256), len(A))
        args = (A, error, product, counts if counted else product, np.int32(counted))
        if self._kernel is None:
            self._kernel = load(self._device.compile(self._source), "gradient", 0)
        self._kernel(grid, (512,), args, shared_mem=4 * 32 * 17)
