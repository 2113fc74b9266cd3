"""Patch operators of networks that run layer by layer, where plain array code is slow; equal to rounding.

All is compiled, so that bits depend on no library. Codes are sparse, so that a reconstruction
reads the patches of active units only, and adds them up in their places. Non-shared weights are far larger
than any cache, so that time goes where they are read: all of them for the drive.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from petabatch.geometry import Patches
from petabatch.kernels.array import ArrayKernels
from petabatch.kernels.cpu.jit import njit
from petabatch.kernels.cpu.products import multiply
from petabatch.kernels.cpu.sums import dot
from petabatch.variable import Array, Border

_DENSE = 0.3
"""Activity from which a product of matrices makes a reconstruction as fast."""


@dataclass(frozen=True)
class CpuKernels(ArrayKernels):
    """Patch operators on arrays of numpy."""

    def windows(self, fine: Array, p: Patches, border: Border) -> Array:
        """Return the patches of a fine layer `[L, NY, NX, C]` as `[L, G, M, K]`."""
        padded = self.extend(fine, (p.y.before, p.y.after), (p.x.before, p.x.after), border)
        out = np.empty((len(fine), p.y.units, p.x.units, p.y.size, p.x.size * p.channels), fine.dtype)
        _cut_out(np.ascontiguousarray(padded).reshape(*padded.shape[:2], -1), *_places(p), out)
        return out.reshape(len(fine), p.groups, p.members, p.length)

    def dots(self, windows: Array, patches: Array) -> Array:
        """Return the scalar product of each window `[L, G, M, K]` and patch, `[L, G, M, nf]`."""
        non_shared = patches.shape[1] > 1 and windows.shape[2] == 1
        if not non_shared or not _plain(windows, patches):
            return super().dots(windows, patches)
        out = np.empty((*windows.shape[:3], patches.shape[2]), patches.dtype)
        _dots(np.ascontiguousarray(windows), patches, out)
        return out

    def multiply(self, a: Array, b: Array) -> Array:
        """Return the product of matrices; leading axes are broadcast."""
        return multiply(a, b)

    def synthesize(self, coarse: Array, patches: Array, p: Patches, border: Border = "zero") -> Array:
        """Return the sum of all patches weighted by the coarse layer, `[L, NY, NX, C]`; cut at the edge."""
        if not _plain(coarse, patches):
            return super().synthesize(coarse, patches, p, border)
        units = np.ascontiguousarray(self.coarse(coarse, p, border))
        # Slice by slice, for the bits of a slice must not depend on those that it is computed with.
        slices = [
            self._synthesize(units[lane : lane + 1], patches[lane % len(patches)][None], p)
            for lane in range(len(units))
        ]
        return slices[0] if len(slices) == 1 else np.concatenate(slices)

    def _synthesize(self, units: Array, patches: Array, p: Patches) -> Array:
        """Return the reconstruction `[1, NY, NX, C]` of a slice's units `[1, G, M, nf]`."""
        if p.shared and np.count_nonzero(units) > _DENSE * units.size:
            columns = self.mixtures(units, patches)
            return self.overlap(columns.reshape(1, p.y.units, p.x.units, p.y.size, p.x.size, p.channels), p)
        padded = np.zeros((1, p.y.padded, p.x.padded * p.channels), units.dtype)
        window = np.empty((p.y.size, p.x.size * p.channels), units.dtype)
        units = units.reshape(1, p.y.units, p.x.units, p.features)
        _add_active(units, patches, *_places(p), window, padded)
        out = padded.reshape(1, p.y.padded, p.x.padded, p.channels)
        return out[:, p.y.before : p.y.before + p.y.fine, p.x.before : p.x.before + p.x.fine]


def _plain(positions: Array, patches: Array) -> bool:
    """Return whether these arrays are such as the compiled functions expect."""
    plain: bool = positions.dtype == patches.dtype and patches.flags.c_contiguous
    return plain


def _places(p: Patches) -> tuple[int, int, int, int]:
    """Return where patches begin in a padded fine layer `[NY, NX * C]`: row, stride, float, stride."""
    return p.y.offset, p.y.stride, p.x.offset * p.channels, p.x.stride * p.channels


@njit(nogil=True, error_model="numpy")
def _cut_out(padded: Any, top: int, stride_y: int, left: int, stride_x: int, out: Any) -> None:
    lanes, units_y, units_x, rows, row = out.shape
    for lane in range(lanes):
        for y in range(units_y):
            for x in range(units_x):
                start = left + x * stride_x
                for dy in range(rows):
                    source, target = padded[lane, top + y * stride_y + dy], out[lane, y, x, dy]
                    for i in range(row):
                        target[i] = source[start + i]


@njit(nogil=True, error_model="numpy")
def _dots(windows: Any, patches: Any, out: Any) -> None:
    for lane in range(windows.shape[0]):
        mine = patches[lane % patches.shape[0]]
        for group in range(windows.shape[1]):
            window = windows[lane, group, 0]
            for f in range(mine.shape[1]):
                out[lane, group, 0, f] = dot(window, mine[group, f])


@njit(nogil=True, fastmath={"contract", "nsz"}, error_model="numpy")
def _add_active(
    units: Any, patches: Any, top: int, stride_y: int, left: int, stride_x: int, window: Any, padded: Any
) -> None:
    """Add up each position's patches in `window` `[rows, row]`, then add this in its place."""
    lanes, units_y, units_x, features = units.shape
    rows, row = window.shape
    added = window.reshape(-1)
    for lane in range(lanes):
        mine = patches[lane % patches.shape[0]]
        for y in range(units_y):
            for x in range(units_x):
                code, group = units[lane, y, x], mine[(y * units_x + x) % mine.shape[0]]
                silent = True
                for f in range(features):
                    a = code[f]
                    if a == 0:
                        continue
                    patch = group[f]
                    if silent:
                        added[:] = 0
                        silent = False
                    for k in range(patch.size):
                        added[k] += a * patch[k]
                if silent:
                    continue
                start = left + x * stride_x
                for dy in range(rows):
                    target, source = padded[lane, top + y * stride_y + dy], window[dy]
                    for i in range(row):
                        target[start + i] += source[i]
