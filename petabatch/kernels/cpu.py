"""Many steps of a sparse-coding loop in one call: compiled, without the interpreter lock, slice by slice.

    error = factor * image - recon          restricted to the image; recon of the step before
    V = e V + (1 - e)(W^T error + A);  A = T(V)          or another rule of `cpu_units.py`
    recon = W A

Equal to the layer-by-layer path through `kernels/array.py` up to rounding. One compilation serves every
geometry. What makes it fast:

- the drive is a direct convolution: sums of 6 positions times two registers of features stay in registers
  while a panel of weights streams from the first cache; no patch matrix, and no BLAS whose kernel or number
  of threads could change bits. Each unit's sum runs over its patch in one order, whatever stands beside it;
- the code is sparse: patches of active units only are added up, 64 weights at a time in registers;
- a slice is worked through in tiles of rows. The patches of a tile add up in a strip of its own and strips
  are joined in order, so that tiles can run on any number of threads with the same bits.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from petabatch.kernels.cpu_layout import BLOCK, GROUP, PANEL, PIECE, Dictionary, Scratch, Shape
from petabatch.kernels.cpu_own import project_own, synthesize_own
from petabatch.kernels.cpu_pace import (
    ACTIVE,
    MOVES,
    SUM,
    TURNS,
    UPHILL,
    Pace,
    energy,
    rates,
    restart,
    sum_squares,
    total,
)  # fmt: skip
from petabatch.kernels.cpu_units import ACCELERATED, FAST, Cell, Units, accelerate, compare, update
from petabatch.kernels.vector import lowest_bit, operations

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
def list_active(code: Any, count: int, nf: int, wide: int, active: Any, ends: Any) -> None:
    """List the features of the units of `count` positions that are not silent, position by position."""
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
                n += 1
                bits &= bits - np.uint64(1)
        ends[m + 1] = n


@njit(nogil=True, error_model="numpy", cache=True)
def synthesize(
    code: Any,
    count: int,
    wide: int,
    active: Any,
    ends: Any,
    groups: Any,
    pieces: Any,
    places: Any,
    strip: Any,
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
                unit = m * wide + active[n]
                c0 = multiply_add(c0, code, unit, load(groups, w))
                c1 = multiply_add(c1, code, unit, load(groups, w + PIECE))
                c2 = multiply_add(c2, code, unit, load(groups, w + 2 * PIECE))
                c3 = multiply_add(c3, code, unit, load(groups, w + 3 * PIECE))
                c4 = multiply_add(c4, code, unit, load(groups, w + 4 * PIECE))
                c5 = multiply_add(c5, code, unit, load(groups, w + 5 * PIECE))
                c6 = multiply_add(c6, code, unit, load(groups, w + 6 * PIECE))
                c7 = multiply_add(c7, code, unit, load(groups, w + 7 * PIECE))
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
    list_active(code, count, s.features, s.wide, work.active, work.ends)
    if weights.own.shape[0] > 0:
        own = weights.own[base : base + count]
        synthesize_own(code, work.active, work.ends, own, places, s, work.window, strip)
    else:
        synthesize(
            code, count, s.wide, work.active, work.ends, weights.groups, work.pieces, places, strip
        )  # fmt: skip


@njit(nogil=True, error_model="numpy", cache=True)
def rows_of(count: int, s: Shape) -> tuple[int, int, int]:
    """Return how the units of `count` positions lie in a drive: so many rows, of so many units, so far apart.

    One long row where features fill their panels, else a row for each position.
    """
    nf, wide = s.features, s.wide
    return (1, count * nf, count * nf) if wide == nf else (count, nf, wide)


@njit(nogil=True, error_model="numpy", cache=True)
def compare_tile(tile: int, units: Units, weights: Dictionary, s: Shape, work: Scratch) -> None:
    """Compute the drive of a tile, into `units.before`, and how it turned since the step before."""
    start = (s.origin + tile * s.tile * s.stride_y) * s.pitch
    nf, moves, turns = s.features, 0.0, 0.0
    begin, end = tile * s.tile * s.nx, min((tile + 1) * s.tile, s.ny) * s.nx
    for base in range(begin, end, s.chunk):
        count = min(s.chunk, end - base)
        places = work.places[base - begin : base - begin + count]
        drive_units(base, count, start, places, weights, s, work)
        rows, length, pitch = rows_of(count, s)
        for m in range(rows):
            part = slice(base * nf + m * length, base * nf + (m + 1) * length)
            drive = work.drive[m * pitch : m * pitch + length]
            move, turn = compare(drive, units.A[part], units.V[part], units.before[part], work.turned[part])
            moves, turns = moves + move, turns + turn
    work.tallies[tile, MOVES], work.tallies[tile, TURNS] = moves, turns


@njit(nogil=True, error_model="numpy", cache=True)
def update_tile(
    tile: int, first: bool, last: bool, look: bool, units: Units, weights: Dictionary, c: Cell, e: Any,
    rest: Any, s: Shape, work: Scratch,
) -> None:  # fmt: skip
    """Make the membrane update of a tile and write its strip; if told to look, tally its activity.

    Of layers with A = T(V), A is read in the first of many steps and written after the last, not between.
    """
    strip = work.strips[tile]
    strip[:] = _ZERO
    start = (s.origin + tile * s.tile * s.stride_y) * s.pitch
    nf, wide, code = s.features, s.wide, work.drive
    size, active, uphill = 0.0, 0, 0.0
    begin, end = tile * s.tile * s.nx, min((tile + 1) * s.tile, s.ny) * s.nx
    for base in range(begin, end, s.chunk):
        count = min(s.chunk, end - base)
        places = work.places[base - begin : base - begin + count]
        if c.rule != ACCELERATED:
            drive_units(base, count, start, places, weights, s, work)
        rows, length, pitch = rows_of(count, s)
        for m in range(rows):
            part = slice(base * nf + m * length, base * nf + (m + 1) * length)
            row = code[m * pitch : m * pitch + length]
            A, V, before = units.A[part], units.V[part], units.before[part]
            if c.rule == ACCELERATED:
                uphill += accelerate(row, A, V, before, work.turned[part], e, rest, c)
                continue
            update(row, A, V, before, first, e, rest, c)
            if last:
                A[:] = row
        add_patches(base, count, code, places, weights, s, work, strip)
        if look:
            active += work.ends[count]
            for m in range(count):
                for n in range(work.ends[m], work.ends[m + 1]):
                    size += abs(np.float64(code[m * wide + work.active[n]]))
    work.tallies[tile, SUM], work.tallies[tile, ACTIVE], work.tallies[tile, UPHILL] = size, active, uphill


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


@njit(nogil=True, error_model="numpy", cache=True)
def sums_of_state(error: Any, A: Any, s: Shape, work: Scratch) -> tuple[float, float, float]:
    """Return sum error^2, sum |A| and the number of active units, with the bits of `sums_of_step`."""
    squares = 0.0
    for y in range(s.height):
        squares += sum_squares(error[y])
    each = s.tile * s.nx * s.features
    for tile in range(work.strips.shape[0]):
        size, active = 0.0, 0
        for a in A[tile * each : (tile + 1) * each]:
            size += abs(np.float64(a))
            active += a != _ZERO
        work.tallies[tile, SUM], work.tallies[tile, ACTIVE] = size, active
    return squares, total(work.tallies, SUM), total(work.tallies, ACTIVE)


@njit(nogil=True, error_model="numpy", cache=True)
def sums_of_step(s: Shape, work: Scratch) -> tuple[float, float, float]:
    """Return sum error^2, sum |A| and the number of active units of the step just made."""
    squares = 0.0
    for y in range(s.height):
        start = (y + s.top) * s.pitch + s.left
        squares += sum_squares(work.error[start : start + s.width])
    return squares, total(work.tallies, SUM), total(work.tallies, ACTIVE)


@njit(nogil=True, error_model="numpy", cache=True)
def advance(
    image: Any, factor: Any, recon: Any, error: Any, units: Units, weights: Dictionary, c: Cell, p: Pace,
    fresh: bool, s: Shape, work: Scratch, steps: int, watched: Any, sums: Any,
) -> None:  # fmt: skip
    """Make `steps` steps of one slice.

    `image`, `recon`, `error` are `[NY, NX * C]`; all but the image are updated in place. `fresh` says that
    the image is new. Where `watched` `[steps]` is true or a time scale adapts, that row of `sums`
    `[steps, 3]` float64 receives sum error^2, sum |A| and the number of active units after the step; asking
    for them changes no bit of the state.
    """
    tiles = work.strips.shape[0]
    seen = -1.0
    if p.adaptive and not fresh and steps > 0:
        seen = energy(p, sums_of_state(error, units.A, s, work))
    for step in range(steps):
        look = p.adaptive or watched[step]
        residual(image, factor, recon, 0, s.height, s, work.error)
        if c.rule == ACCELERATED:
            for tile in range(tiles):
                compare_tile(tile, units, weights, s, work)
        e, rest = rates(c, p, seen, work.tallies)
        for tile in range(tiles):
            update_tile(
                tile, step == 0, step == steps - 1, look, units, weights, c, e, rest, s, work
            )  # fmt: skip
        restart(c, p, work.tallies)
        if look:
            found = sums_of_step(s, work)
            seen = energy(p, found)
            sums[step, 0], sums[step, 1], sums[step, 2] = found
        join_strips(work.strips, 0, s.height, s, recon)
    if steps > 0:
        crop(work.error, s, error)
