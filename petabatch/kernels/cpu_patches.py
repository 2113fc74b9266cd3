"""Patch operators of networks that run layer by layer, where plain array code is slow; equal to rounding.

Weights that each unit has of its own are far larger than any cache, so that time goes where they are read:
all of them for the drive, those of active units for the reconstruction.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numba import njit

from petabatch.geometry import Patches
from petabatch.kernels.array import ArrayKernels
from petabatch.variable import Array


@dataclass(frozen=True)
class CpuKernels(ArrayKernels):
    """Patch operators on arrays of numpy."""

    def dots(self, windows: Array, patches: Array) -> Array:
        """Return the scalar product of each window `[L, G, M, K]` and patch, `[L, G, M, nf]`."""
        if not _own(windows, patches):
            return super().dots(windows, patches)
        out = np.empty((*windows.shape[:3], patches.shape[2]), np.float32)
        _dots(np.ascontiguousarray(windows), patches, out)
        return out

    def mixtures(self, units: Array, patches: Array) -> Array:
        """Return the patches weighted by each position's units `[L, G, M, nf]`, `[L, G, M, K]`."""
        if not _own(units, patches):
            return super().mixtures(units, patches)
        out = np.zeros((*units.shape[:3], patches.shape[3]), np.float32)
        _mixtures(units, patches, out)
        return out

    def overlap(self, columns: Array, p: Patches) -> Array:
        """Return the sum of patches `[L, units y, units x, rows, columns, C]` in their places."""
        rows = max(p.y.padded, p.y.offset + p.y.size + p.y.stride * p.y.units)
        row = max(p.x.padded, p.x.offset + p.x.size + p.x.stride * p.x.units) * p.channels
        padded = np.zeros((len(columns), rows, row), columns.dtype)
        steps = p.y.offset, p.y.stride, p.x.offset * p.channels, p.x.stride * p.channels
        _overlap(columns.reshape(*columns.shape[:4], -1), *steps, padded)
        return padded.reshape(len(columns), rows, -1, p.channels)


def _own(positions: Array, patches: Array) -> bool:
    """Say whether each position has patches of its own, as the compiled functions expect them."""
    plain: bool = positions.dtype == patches.dtype == np.float32 and patches.flags.c_contiguous
    return plain and patches.shape[1] > 1 and positions.shape[2] == 1


@njit(nogil=True, fastmath={"reassoc", "contract", "nsz"}, error_model="numpy", cache=True)
def _dots(windows: Any, patches: Any, out: Any) -> None:
    for lane in range(windows.shape[0]):
        mine = patches[lane % patches.shape[0]]
        for group in range(windows.shape[1]):
            window = windows[lane, group, 0]
            for f in range(mine.shape[1]):
                patch, total = mine[group, f], np.float32(0)
                for k in range(patch.size):
                    total += window[k] * patch[k]
                out[lane, group, 0, f] = total


@njit(nogil=True, fastmath={"contract", "nsz"}, error_model="numpy", cache=True)
def _mixtures(units: Any, patches: Any, out: Any) -> None:
    for lane in range(units.shape[0]):
        mine = patches[lane % patches.shape[0]]
        for group in range(units.shape[1]):
            target = out[lane, group, 0]
            for f in range(mine.shape[1]):
                a = units[lane, group, 0, f]
                if a != 0:
                    patch = mine[group, f]
                    for k in range(patch.size):
                        target[k] += a * patch[k]


@njit(nogil=True, error_model="numpy", cache=True)
def _overlap(columns: Any, top: int, stride_y: int, left: int, stride_x: int, padded: Any) -> None:
    lanes, units_y, units_x, rows, row = columns.shape
    for lane in range(lanes):
        for y in range(units_y):
            for x in range(units_x):
                for dy in range(rows):
                    target = padded[lane, top + y * stride_y + dy]
                    source, start = columns[lane, y, x, dy], left + x * stride_x
                    for i in range(row):
                        target[start + i] += source[i]
