"""The two convolutions of a step, compiled: the drive of positions and the patches of their active units.

- the drive is a direct convolution: sums of some positions times two registers of features stay in registers
  while a panel of weights streams from the first cache; no patch matrix, and no BLAS whose kernel or number
  of threads could change bits. Each unit's sum runs over its patch in one order, whatever else is computed;
- the code is sparse: patches of active units only are added up, 64 weights at a time in registers.

Images are padded, and the patches of a tile are added up in a strip: filling the padding and joining strips
stand here too.
"""

from __future__ import annotations

from typing import Any

from petabatch.kernels.cpu.arrays import bytes_of, copy
from petabatch.kernels.cpu.jit import FAST, njit
from petabatch.kernels.cpu.layout import DRIVE_BLOCK, PANEL, Dictionary, Images, Scratch, Shape
from petabatch.kernels.cpu.non_shared import project_non_shared
from petabatch.kernels.cpu.rules import ZERO
from petabatch.kernels.cpu.simd import block_operations, operations
from petabatch.kernels.cpu.sizes import GROUP, LANES

panel_load, block_zeros, starts, shift, block_fma, block_store = block_operations(PANEL, DRIVE_BLOCK)
zeros, load, _, add_to, broadcast_fma, *_ = operations(LANES)
_SINGLE = 4
"""Bytes of a number of float32."""


@njit(nogil=True, fastmath=FAST, error_model="numpy")
def residual(images: Images, begin: int, end: int, s: Shape, error: Any) -> None:
    """Write rows begin .. end of factor * image - recon inside the padded error image."""
    factor = images.factor
    for y in range(begin, end):
        source, minus = images.image[y], images.recon[y]
        start = (y + s.top) * s.pitch + s.left
        target = error[start : start + s.width]
        for i in range(s.width):
            target[i] = factor * source[i] - minus[i]


@njit(nogil=True, error_model="numpy")
def project(error: Any, start: int, places: Any, panels: Any, s: Shape, drive: Any) -> None:
    """Write the drive of some positions, `[positions, wide]`; their patches start at `start + places`."""
    parts = bytes_of(panels) // _SINGLE  # of a panel, that are computed together
    for part in range(parts * panels.shape[0]):
        first = part // parts * s.rows * s.row * PANEL + part % parts * (PANEL // parts)
        for m in range(0, places.size, DRIVE_BLOCK):
            # Beyond the last position it is computed again, into rows of the drive that are not read.
            patches, sums, w = starts(places, m, start), block_zeros(panels), first
            for _ in range(s.rows):
                for i in range(s.row):
                    sums = block_fma(sums, error, patches, i, panel_load(panels, w))
                    w += PANEL
                patches = shift(patches, s.pitch)
            block_store(drive, m * s.wide + part * (PANEL // parts), s.wide, sums)


@njit(nogil=True, error_model="numpy")
def synthesize(
    groups: Any, places: Any, active: Any, values: Any, ends: Any, vectors: Any, strip: Any
) -> None:
    """Add the patches of the active units of some positions to a strip, at `places`.

    It takes arrays and not the scratch that holds them: then it stays a function of its own in machine code,
    whose sums are in registers.
    """
    count, nf = places.size, groups.shape[1]
    for group in range(groups.shape[0]):
        p = group * GROUP
        for m in range(count):
            if ends[m] == ends[m + 1]:
                continue
            c0, c1, c2, c3, c4, c5, c6, c7 = (
                zeros(strip), zeros(strip), zeros(strip), zeros(strip),
                zeros(strip), zeros(strip), zeros(strip), zeros(strip),
            )  # fmt: skip
            for n in range(ends[m], ends[m + 1]):
                w = (group * nf + active[n]) * (GROUP * LANES)
                c0 = broadcast_fma(c0, values, n, load(groups, w))
                c1 = broadcast_fma(c1, values, n, load(groups, w + LANES))
                c2 = broadcast_fma(c2, values, n, load(groups, w + 2 * LANES))
                c3 = broadcast_fma(c3, values, n, load(groups, w + 3 * LANES))
                c4 = broadcast_fma(c4, values, n, load(groups, w + 4 * LANES))
                c5 = broadcast_fma(c5, values, n, load(groups, w + 5 * LANES))
                c6 = broadcast_fma(c6, values, n, load(groups, w + 6 * LANES))
                c7 = broadcast_fma(c7, values, n, load(groups, w + 7 * LANES))
            add_to(strip, places[m] + vectors[p], c0)
            add_to(strip, places[m] + vectors[p + 1], c1)
            add_to(strip, places[m] + vectors[p + 2], c2)
            add_to(strip, places[m] + vectors[p + 3], c3)
            add_to(strip, places[m] + vectors[p + 4], c4)
            add_to(strip, places[m] + vectors[p + 5], c5)
            add_to(strip, places[m] + vectors[p + 6], c6)
            add_to(strip, places[m] + vectors[p + 7], c7)


@njit(nogil=True, error_model="numpy")
def drive_units(base: int, start: int, places: Any, weights: Dictionary, s: Shape, work: Scratch) -> None:
    """Write the drive of the positions from `base` on to `work.drive`; see `project`."""
    if weights.non_shared.shape[0] > 0:
        patches = weights.non_shared[base : base + places.size]
        project_non_shared(start, places, patches, s, work)
    else:
        project(work.error, start, places, weights.panels, s, work.drive)


@njit(nogil=True, error_model="numpy")
def join_strips(strips: Any, begin: int, end: int, s: Shape, recon: Any) -> None:
    """Add the strips of all tiles, in order, to make rows begin .. end of the reconstruction."""
    for y in range(begin, end):
        target = recon[y]
        target[:] = ZERO
        for tile in range(strips.shape[0]):
            units = min(s.tile, s.ny - tile * s.tile)
            row = y + s.top - s.origin - tile * s.tile * s.stride_y
            if 0 <= row < (units - 1) * s.stride_y + s.rows:
                start = row * s.pitch + s.left
                source = strips[tile, start : start + s.width]
                for i in range(s.width):
                    target[i] += source[i]


@njit(nogil=True, error_model="numpy")
def paste(error: Any, s: Shape, padded: Any) -> None:
    """Copy an error image into its padding."""
    for y in range(s.height):
        start = (y + s.top) * s.pitch + s.left
        copy(error[y], padded[start : start + s.width])
