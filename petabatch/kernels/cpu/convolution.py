"""The two convolutions of a step, compiled: the drive of some positions, the patches of their active units.

- the drive is a direct convolution: sums of 6 positions times two registers of features stay in registers
  while a panel of weights streams from the first cache; no patch matrix, and no BLAS whose kernel or number
  of threads could change bits. Each unit's sum runs over its patch in one order, whatever stands beside it;
- the code is sparse: patches of active units only are added up, 64 weights at a time in registers.

Images are kept in padding, and the patches of a tile are added up in a strip: how padding is filled and
strips are joined stands here too.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from petabatch.kernels.cpu.layout import BLOCK, GROUP, PANEL, PIECE, Dictionary, Scratch, Shape
from petabatch.kernels.cpu.own_patches import project_own, synthesize_own
from petabatch.kernels.cpu.rules import FAST
from petabatch.kernels.cpu.simd import lowest_bit, operations

_ZERO = np.float32(0)
panel_zeros, panel_load, panel_store, _, panel_multiply_add, nonzero = operations(PANEL)
zeros, load, _, add_to, multiply_add, _ = operations(PIECE)


@njit(nogil=True, fastmath=FAST, error_model="numpy", cache=True)
def residual(image: Any, factor: Any, recon: Any, begin: int, end: int, s: Shape, error: Any) -> None:
    """Write rows begin .. end of factor * image - recon inside the padded error image."""
    for y in range(begin, end):
        source, minus = image[y], recon[y]
        start = (y + s.top) * s.pitch + s.left
        target = error[start : start + s.width]
        for i in range(s.width):
            target[i] = factor * source[i] - minus[i]


@njit(nogil=True, error_model="numpy", cache=True)
def project(error: Any, start: int, places: Any, count: int, panels: Any, s: Shape, drive: Any) -> None:
    """Write the drive of `count` positions, `[count, wide]`; their patches start at `start + places`."""
    last = count - 1
    for panel in range(panels.shape[0]):
        for m in range(0, count, BLOCK):
            # Beyond the last position it is computed again, into rows of the drive that nobody reads.
            o0, o1 = start + places[m], start + places[min(m + 1, last)]
            o2, o3 = start + places[min(m + 2, last)], start + places[min(m + 3, last)]
            o4, o5 = start + places[min(m + 4, last)], start + places[min(m + 5, last)]
            c0, c1, c2 = panel_zeros(), panel_zeros(), panel_zeros()
            c3, c4, c5 = panel_zeros(), panel_zeros(), panel_zeros()
            w = panel * s.rows * s.row * PANEL
            for _ in range(s.rows):
                for i in range(s.row):
                    weights = panel_load(panels, w)
                    c0 = panel_multiply_add(c0, error, o0 + i, weights)
                    c1 = panel_multiply_add(c1, error, o1 + i, weights)
                    c2 = panel_multiply_add(c2, error, o2 + i, weights)
                    c3 = panel_multiply_add(c3, error, o3 + i, weights)
                    c4 = panel_multiply_add(c4, error, o4 + i, weights)
                    c5 = panel_multiply_add(c5, error, o5 + i, weights)
                    w += PANEL
                o0, o1, o2 = o0 + s.pitch, o1 + s.pitch, o2 + s.pitch
                o3, o4, o5 = o3 + s.pitch, o4 + s.pitch, o5 + s.pitch
            to = m * s.wide + panel * PANEL
            panel_store(drive, to, c0)
            panel_store(drive, to + s.wide, c1)
            panel_store(drive, to + 2 * s.wide, c2)
            panel_store(drive, to + 3 * s.wide, c3)
            panel_store(drive, to + 4 * s.wide, c4)
            panel_store(drive, to + 5 * s.wide, c5)


@njit(nogil=True, error_model="numpy", cache=True)
def list_active(code: Any, count: int, nf: int, wide: int, active: Any, values: Any, ends: Any) -> None:
    """List the units of `count` positions that are not silent, position by position: feature and activity."""
    n = 0
    # A NaN in the error image makes the drive beyond the last feature NaN too.
    exist = (np.uint64(1) << np.uint64(nf - (wide - PANEL))) - np.uint64(1)
    for m in range(count):
        for f in range(0, wide, PANEL):
            bits = nonzero(code, m * wide + f)
            if f == wide - PANEL:
                bits &= exist
            while bits != 0:
                active[n] = f + lowest_bit(bits)
                values[n] = code[m * wide + active[n]]
                n += 1
                bits &= bits - np.uint64(1)
        ends[m + 1] = n


@njit(nogil=True, error_model="numpy", cache=True)
def synthesize(
    count: int, active: Any, values: Any, ends: Any, groups: Any, pieces: Any, places: Any, strip: Any
) -> None:
    """Add the patches of the active units of `count` positions to a strip, at `places`."""
    nf = groups.shape[1]
    for group in range(groups.shape[0]):
        p = group * GROUP
        for m in range(count):
            if ends[m] == ends[m + 1]:
                continue
            c0, c1, c2, c3, c4, c5, c6, c7 = (
                zeros(), zeros(), zeros(), zeros(), zeros(), zeros(), zeros(), zeros()
            )  # fmt: skip
            for n in range(ends[m], ends[m + 1]):
                w = (group * nf + active[n]) * (GROUP * PIECE)
                c0 = multiply_add(c0, values, n, load(groups, w))
                c1 = multiply_add(c1, values, n, load(groups, w + PIECE))
                c2 = multiply_add(c2, values, n, load(groups, w + 2 * PIECE))
                c3 = multiply_add(c3, values, n, load(groups, w + 3 * PIECE))
                c4 = multiply_add(c4, values, n, load(groups, w + 4 * PIECE))
                c5 = multiply_add(c5, values, n, load(groups, w + 5 * PIECE))
                c6 = multiply_add(c6, values, n, load(groups, w + 6 * PIECE))
                c7 = multiply_add(c7, values, n, load(groups, w + 7 * PIECE))
            add_to(strip, places[m] + pieces[p], c0)
            add_to(strip, places[m] + pieces[p + 1], c1)
            add_to(strip, places[m] + pieces[p + 2], c2)
            add_to(strip, places[m] + pieces[p + 3], c3)
            add_to(strip, places[m] + pieces[p + 4], c4)
            add_to(strip, places[m] + pieces[p + 5], c5)
            add_to(strip, places[m] + pieces[p + 6], c6)
            add_to(strip, places[m] + pieces[p + 7], c7)


@njit(nogil=True, error_model="numpy", cache=True)
def drive_units(
    base: int, count: int, start: int, places: Any, weights: Dictionary, s: Shape, work: Scratch
) -> None:  # fmt: skip
    """Write the drive of positions base .. base + count to `work.drive`; see `project`."""
    if weights.own.shape[0] > 0:
        own = weights.own[base : base + count]
        project_own(work.error, start, places, own, s, work.window, work.drive)
    else:
        project(work.error, start, places, count, weights.panels, s, work.drive)


@njit(nogil=True, error_model="numpy", cache=True)
def add_patches(
    base: int, count: int, code: Any, places: Any, weights: Dictionary, s: Shape, work: Scratch, strip: Any
) -> None:  # fmt: skip
    """Add the patches of the active units of positions base .. base + count to a strip; see `synthesize`."""
    active, values, ends = work.active, work.values, work.ends
    list_active(code, count, s.features, s.wide, active, values, ends)
    if weights.own.shape[0] > 0:
        own = weights.own[base : base + count]
        synthesize_own(active, values, ends, own, places, s, work.window, strip)
    else:
        synthesize(count, active, values, ends, weights.groups, work.pieces, places, strip)


@njit(nogil=True, error_model="numpy", cache=True)
def join_strips(strips: Any, begin: int, end: int, s: Shape, recon: Any) -> None:
    """Add the strips of all tiles, in order, to make rows begin .. end of the reconstruction."""
    for y in range(begin, end):
        target = recon[y]
        target[:] = _ZERO
        for tile in range(strips.shape[0]):
            units = min(s.tile, s.ny - tile * s.tile)
            row = y + s.top - s.origin - tile * s.tile * s.stride_y
            if 0 <= row < (units - 1) * s.stride_y + s.rows:
                start = row * s.pitch + s.left
                source = strips[tile, start : start + s.width]
                for i in range(s.width):
                    target[i] += source[i]


@njit(nogil=True, error_model="numpy", cache=True)
def paste(error: Any, s: Shape, padded: Any) -> None:
    """Copy an error image into its padding."""
    for y in range(s.height):
        start = (y + s.top) * s.pitch + s.left
        padded[start : start + s.width] = error[y]


@njit(nogil=True, error_model="numpy", cache=True)
def crop(padded: Any, s: Shape, error: Any) -> None:
    """Copy an error image out of its padding."""
    for y in range(s.height):
        start = (y + s.top) * s.pitch + s.left
        error[y] = padded[start : start + s.width]
