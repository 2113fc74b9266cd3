"""Many steps of a sparse-coding loop in one call: compiled, without the interpreter lock, slice by slice.

    error = factor * image - recon
    drive = W^T error;  V = e V + (1 - e)(drive + A);  A = T(V)
    recon = W A

The twin of the layer-by-layer path through `kernels/array.py`, equal to it to rounding. What makes it fast:

- the code is sparse, so the reconstruction adds up the patches of active units only, four at a time, in
  a buffer of one patch that stays in the first cache;
- a slice is worked through in tiles of rows whose patch matrix stays in the second cache; the height of a
  tile follows from the layer's shape, so that bits depend on neither threads nor batch;
- patch lengths are compile-time constants, so that copying and adding patches become vector instructions.

The drive is one `sgemm` per tile, through the BLAS that scipy brings.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np
import scipy.linalg.cython_blas  # noqa: F401  (numba calls its BLAS: load it before threads are limited)
from numba import njit

from petabatch.geometry import Patches

TILE_BYTES = 2**18
"""The patch matrix of a tile takes about this much, to stay in a core's second cache."""
_FAST = {"nsz", "contract", "reassoc"}
"""What the compiler may assume: enough to use vectors and fused multiply-adds, not that all is finite."""


def tile_rows(p: Patches) -> int:
    """Return how many rows of units are worked through together."""
    return max(1, min(p.y.coarse, TILE_BYTES // (4 * p.length * p.x.coarse)))


class Workspace:
    """Scratch arrays of one thread, and the weights in the two orders the kernel reads."""

    def __init__(self, p: Patches) -> None:
        rows = tile_rows(p)
        self.recon = np.zeros((p.y.padded, p.x.padded * p.channels), np.float32)
        self.error = np.zeros_like(self.recon)
        self.patches = np.zeros((rows * p.x.coarse, p.length), np.float32)
        self.drive = np.zeros((rows * p.x.coarse, p.features), np.float32)
        self.by_pixel = np.zeros((p.length, p.features), np.float32)
        self.patch = np.zeros(p.length, np.float32)
        self.active = np.zeros(p.features + 1, np.int32)


@njit(nogil=True, fastmath=_FAST, error_model="numpy", cache=True)
def residual(image: Any, factor: Any, recon: Any, error: Any, top: int, left: int) -> None:
    """Write factor * image - recon inside the padded error image."""
    for y in range(image.shape[0]):
        source, minus, target = image[y], recon[y + top], error[y + top]
        for i in range(image.shape[1]):
            target[left + i] = factor * source[i] - minus[left + i]


@njit(nogil=True, error_model="numpy", cache=True)
def copy_patch(error: Any, y: int, x: int, rows: int, row: int, patch: Any) -> None:
    """Copy the patch that starts at row y and place x of the padded error image; `row` numbers a row."""
    for dy in range(rows):
        source = error[y + dy]
        for i in range(row):
            patch[dy * row + i] = source[x + i]


@njit(nogil=True, fastmath=_FAST, error_model="numpy", cache=True)
def add_patch(patch: Any, recon: Any, y: int, x: int, rows: int, row: int) -> None:
    """Add a patch to the padded reconstruction where it starts at row y and place x."""
    for dy in range(rows):
        target = recon[y + dy]
        for i in range(row):
            target[x + i] += patch[dy * row + i]


@njit(nogil=True, fastmath=_FAST, error_model="numpy", cache=True)
def integrate(
    V: Any, A: Any, drive: Any, e: Any, rest: Any, curve: Any, signed: bool, line: bool, own: bool
) -> None:
    """Make one membrane update and apply the transfer function, element by element (see `layers/lca.py`)."""
    threshold, shift, width, minimum, maximum = curve
    slope = (threshold + width - shift - minimum) / width if line else np.float32(0)
    for i in range(V.size):
        u = e * V[i] + rest * (drive[i] + A[i] if own else drive[i])
        V[i] = u
        size = abs(u) if signed else u
        a = min(size - shift, maximum)
        if line:
            ramp = min(minimum + slope * (size - threshold), maximum)
            a = ramp if size < threshold + width else a
        a = a if size >= threshold else minimum
        A[i] = (a if u >= np.float32(0) else -a) if signed else a


@njit(nogil=True, error_model="numpy", cache=True)
def active_units(code: Any, active: Any) -> int:
    """List the units of one position that are not silent; return how many there are."""
    count = 0
    for f in range(code.size):
        active[count] = f
        count += code[f] != np.float32(0)
    return count


@njit(nogil=True, fastmath=_FAST, error_model="numpy", cache=True)
def weigh_patches(code: Any, active: Any, count: int, by_unit: Any, length: int, patch: Any) -> None:
    """Sum the patches of the active units of one position, weighted by their activity."""
    for i in range(length):
        patch[i] = np.float32(0)
    for n in range(0, count - 3, 4):
        f0, f1, f2, f3 = active[n], active[n + 1], active[n + 2], active[n + 3]
        a0, a1, a2, a3 = code[f0], code[f1], code[f2], code[f3]
        w0, w1, w2, w3 = by_unit[f0], by_unit[f1], by_unit[f2], by_unit[f3]
        for i in range(length):
            patch[i] += a0 * w0[i] + a1 * w1[i] + a2 * w2[i] + a3 * w3[i]
    for n in range(count - count % 4, count):
        a0, w0 = code[active[n]], by_unit[active[n]]
        for i in range(length):
            patch[i] += a0 * w0[i]


@njit(nogil=True, error_model="numpy", cache=True)
def measure(error: Any, top: int, left: int, height: int, width: int, A: Any, sums: Any) -> None:
    """Write sum error^2, sum |A| and the number of active units, in float64."""
    squares, absolute, number = 0.0, 0.0, 0
    for y in range(height):
        row = error[y + top]
        for i in range(width):
            squares += np.float64(row[left + i]) * np.float64(row[left + i])
    for i in range(A.size):
        if A[i] != np.float32(0):
            absolute += abs(np.float64(A[i]))
            number += 1
    sums[0], sums[1], sums[2] = squares, absolute, number


@lru_cache(maxsize=64)
def compile_loop(p: Patches, signed: bool, line: bool, own: bool) -> Callable[..., None]:
    """Return the compiled steps of a loop of this geometry; see its arguments below.

    `image`, `recon`, `error` are `[NY, NX * C]`, `V`, `A` `[ny * nx, nf]`, all updated in place; `by_unit` is
    W `[nf, K]`, `by_pixel` its transpose; `curve` is (threshold, shift, width, minimum, maximum); row t of
    `sums` `[steps or 0, 3]` receives sum error^2, sum |A| and the number of active units after step t.
    """
    ny, nx, nf = p.y.coarse, p.x.coarse, p.features
    stride_y, stride_x = p.y.stride, p.x.stride * p.channels
    rows, row, length = p.y.size, p.x.size * p.channels, p.length
    height, width = p.y.fine, p.x.fine * p.channels
    top, left = p.y.before, p.x.before * p.channels
    first_y, first_x = p.y.offset, p.x.offset * p.channels
    tile = tile_rows(p)

    # Only numbers are captured, so that numba can keep the compiled function on disk; they become constants
    # of the functions above when those are inlined.
    @njit(nogil=True, error_model="numpy", cache=True)
    def run(
        image: Any, factor: Any, recon: Any, error: Any, V: Any, A: Any, by_unit: Any, by_pixel: Any,
        e: Any, rest: Any, curve: Any, steps: int, sums: Any,
        wide_recon: Any, wide_error: Any, patches: Any, drive: Any, patch: Any, active: Any,
    ) -> None:  # fmt: skip
        for y in range(height):
            wide_recon[y + top, left : left + width] = recon[y]
        flat_v, flat_a, flat_drive = V.reshape(-1), A.reshape(-1), drive.reshape(-1)
        for step in range(steps):
            residual(image, factor, wide_recon, wide_error, top, left)
            wide_recon[:] = np.float32(0)
            for y0 in range(0, ny, tile):
                y1 = min(y0 + tile, ny)
                for y in range(y0, y1):
                    for x in range(nx):
                        start = first_y + y * stride_y, first_x + x * stride_x
                        copy_patch(wide_error, start[0], start[1], rows, row, patches[(y - y0) * nx + x])
                np.dot(patches[: (y1 - y0) * nx], by_pixel, drive[: (y1 - y0) * nx])
                begin, end = y0 * nx * nf, y1 * nx * nf
                integrate(flat_v[begin:end], flat_a[begin:end], flat_drive, e, rest, curve, signed, line, own)
                for y in range(y0, y1):
                    for x in range(nx):
                        code = A[y * nx + x]
                        count = active_units(code, active)
                        if count > 0:
                            weigh_patches(code, active, count, by_unit, length, patch)
                            start = first_y + y * stride_y, first_x + x * stride_x
                            add_patch(patch, wide_recon, start[0], start[1], rows, row)
            if sums.shape[0] > 0:
                measure(wide_error, top, left, height, width, flat_a, sums[step])
        for y in range(height):
            recon[y] = wide_recon[y + top, left : left + width]
            error[y] = wide_error[y + top, left : left + width]

    return run  # type: ignore[no-any-return]
