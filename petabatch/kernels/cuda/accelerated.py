"""The FISTA step on a GPU: the kernels behind the drive, see `accelerated.cu`."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from petabatch.geometry import Patches
from petabatch.kernels.cuda import source
from petabatch.kernels.cuda.cell import Constant
from petabatch.kernels.cuda.device import Device, load
from petabatch.kernels.cuda.numbers import SliceNumbers
from petabatch.kernels.rules import Units
from petabatch.variable import Array

_THREADS = 256
_EACH = 8
"""Units of a thread, at least: what it adds up by itself."""
_MOST = 64
"""Blocks of a slice, at most: a thread goes through their tallies."""


class Accelerated:
    """The kernels behind the drive of a step, for all slices of a lane."""

    def __init__(self, device: Device, p: Patches, constants: Mapping[str, Constant], lanes: int) -> None:
        units = p.positions * p.features
        blocks = min(_MOST, -(-units // (_THREADS * _EACH)))
        constants = {**source.geometry(p), **constants, "BLOCKS": blocks}
        made = device.compile(source.compose("accelerated", constants))
        self._compare, self._accelerate, self._settle = (
            load(made, name, 0) for name in ("compare", "accelerate", "settle")
        )
        self._grid, self._lanes = (blocks, lanes), lanes
        self._tallies = device.xp.zeros((lanes, blocks, 3), np.float64)

    def run(self, drive: Array, units: Units, control: tuple[Array, Array], numbers: SliceNumbers) -> None:
        """Make the step of the units from W^T error, which is overwritten by how much it turned.

        `control`: the step size and the momentum's age, float64 `[lanes]`.
        """
        moves = numbers.moves
        A, earlier, before = units
        block, shared = (_THREADS,), 8 * 4 * _THREADS // 32
        state = (A, earlier, before, drive)
        self._compare(self._grid, block, (*state, self._tallies, moves), shared_mem=shared)
        self._accelerate(
            self._grid, block, (*state, *control, self._tallies, numbers.cells, moves), shared_mem=shared
        )
        settled = (self._tallies, *control, np.int32(self._lanes), moves)
        self._settle((-(-self._lanes // 32),), (32,), settled, shared_mem=0)
