"""Delivery by patches, compiled: borders, drives, reconstructions, pooling."""

from __future__ import annotations

from typing import Any

import numpy as np

from petabatch.kernels.cpu.arrays import copy
from petabatch.kernels.cpu.convolution import join_strips, project, synthesize
from petabatch.kernels.cpu.jit import njit
from petabatch.kernels.cpu.layout import DRIVE_BLOCK, PANEL, Scratch, Shape, chunk_places, tile_bounds
from petabatch.kernels.cpu.non_shared import project_non_shared, synthesize_non_shared
from petabatch.kernels.cpu.program.records import operation
from petabatch.kernels.cpu.program.table import (
    ACTIVE,
    DRIVE,
    ENDS,
    LEFT,
    PLACES,
    STRIDE,
    STRIP,
    STRIPS,
    TILES,
    VALUES,
    VECTORS,
    WINDOW_OF,
)
from petabatch.kernels.cpu.program.views import floats, ints, longs
from petabatch.kernels.cpu.simd import lowest_bit, operations
from petabatch.kernels.cpu.sizes import AT_ONCE, GROUP, LANES, WORD
from petabatch.kernels.operations.fields import CONSTANT, MIRROR
from petabatch.kernels.operations.patches import Pool, Project, Spread, Synthesize
from petabatch.kernels.operations.transport import Copy, Crop, Extend, Fill, FillDouble

_ZERO = np.float32(0)
*_, nonzero = operations(WORD)
*_, nonzero_vector = operations(LANES)


@njit(nogil=True, error_model="numpy")
def shape_of(row: Any) -> Shape:
    """Return the geometry in a row of shapes."""
    return Shape(
        row[0], row[1], row[2], row[3], row[4], row[5], row[6], row[7], row[8], row[9], row[10], row[11],
        row[12], row[13], row[14],
    )  # fmt: skip


@njit(nogil=True, error_model="numpy")
def scratch_of(padded: Any, arrays: Any, row: Any) -> Scratch:
    """Return the scratch of a geometry, with `padded` as its error image."""
    return Scratch(
        padded, floats(arrays, row[STRIPS], 0).reshape((row[TILES], row[STRIP])),
        floats(arrays, row[WINDOW_OF], 0), floats(arrays, row[DRIVE], 0), ints(arrays, row[ACTIVE]),
        floats(arrays, row[VALUES], 0), longs(arrays, row[ENDS]), longs(arrays, row[PLACES]),
        longs(arrays, row[VECTORS]),
    )  # fmt: skip


@njit(nogil=True, error_model="numpy")
def _beyond(i: int, n: int) -> int:
    """Return the unit that a mirrored layer of `n` shows at index `i`, the edge unit repeated."""
    i = i % (2 * n)
    return i if i < n else 2 * n - 1 - i


@operation(Copy)
def _copy(op: Any) -> None:
    copy(op.source, op.out)


@operation(Fill)
def _fill(op: Any) -> None:
    op.out[:] = op.out.dtype.type(op.value)


@operation(FillDouble)
def _fill_double(op: Any) -> None:
    op.out[:] = op.value


@operation(Extend)
def _extend(op: Any) -> None:
    """Copy a layer into the middle of its padding, and fill this by the border rule if that is not zero."""
    (ny, nx, nf), (top, bottom), (left, right), (border, value) = op.shape, op.rows, op.columns, op.border
    layer, value, out = op.source, op.out.dtype.type(value), op.out
    pitch, row = (left + nx + right) * nf, nx * nf
    for y in range(ny):
        start = (top + y) * pitch + left * nf
        copy(layer[y * row : (y + 1) * row], out[start : start + row])
    if border in (CONSTANT, MIRROR):
        for y in range(-top, ny + bottom):
            outside = y < 0 or y >= ny
            for x in range(-left, nx + right):
                if outside or x < 0 or x >= nx:
                    start = (top + y) * pitch + (left + x) * nf
                    if border == CONSTANT:
                        out[start : start + nf] = value
                    else:
                        source = _beyond(y, ny) * row + _beyond(x, nx) * nf
                        copy(layer[source : source + nf], out[start : start + nf])


@operation(Crop)
def _crop(op: Any) -> None:
    (ny, nx, nf), (top, left) = op.shape, op.start
    row = nx * nf
    for y in range(ny):
        start = ((top + y) * op.columns + left) * nf
        copy(op.source[start : start + row], op.out[y * row : (y + 1) * row])


@operation(Project)
def _project(op: Any, arrays: Any, begin: int, end: int) -> None:
    project_units(op.source, op.panels, op.own, arrays, op.geometry, op.out, begin, end)


@njit(nogil=True, error_model="numpy")
def project_units(
    padded: Any, panels: Any, own: Any, arrays: Any, row: Any, out: Any, first: int, last: int
) -> None:  # fmt: skip
    """Write the scalar product of each unit's patch with the padded fine layer, `[units]`, of some tiles.

    `out` has room for a block of positions more. `own` holds patches of each unit, if it is not empty.
    """
    s, work = shape_of(row), scratch_of(padded, arrays, row)
    nf, length = s.features, s.rows * s.row
    packed = panels.reshape((panels.size // (length * PANEL), length, PANEL))
    for tile in range(first, min(last, row[TILES])):
        start, begin, end = tile_bounds(tile, s)
        for base in range(begin, end, s.chunk):
            places = chunk_places(base, begin, end, s, work)
            if own.size > 0:
                part = own[base * nf * length : (base + places.size) * nf * length]
                project_non_shared(start, places, part.reshape((places.size, nf, length)), s, work)
            elif s.wide == nf and (_rounded(base, places.size) <= end or tile == row[TILES] - 1):
                project(padded, start, places, packed, s, out[base * nf :])
                continue
            else:
                project(padded, start, places, packed, s, work.drive)
            for m in range(places.size):
                copy(work.drive[m * s.wide : m * s.wide + nf], out[(base + m) * nf : (base + m + 1) * nf])


@njit(nogil=True, error_model="numpy")
def _rounded(base: int, count: int) -> int:
    """Return where the last block of `count` positions from `base` on ends."""
    return base + (count + DRIVE_BLOCK - 1) // DRIVE_BLOCK * DRIVE_BLOCK


@njit(nogil=True, error_model="numpy")
def nonzero_word(code: Any, start: int, count: int) -> Any:
    """Return which of up to WORD units from `start` on are active, a bit each."""
    if count == WORD:
        return nonzero(code, start)
    bits, vectors = np.uint64(0), count - count % LANES
    for k in range(0, vectors, LANES):
        bits |= nonzero_vector(code, start + k) << np.uint64(k)
    for k in range(vectors, count):
        bits |= np.uint64(code[start + k] != _ZERO) << np.uint64(k)
    return bits


@njit(nogil=True, error_model="numpy")
def _list_bits(bits: Any, f: int, code: Any, start: int, n: int, active: Any, values: Any) -> int:
    """List the units whose bits are set, of those from `start` + `f` on."""
    while bits != 0:
        # Unsigned indices need no test for negative ones.
        unit, place = f + lowest_bit(bits), np.uint64(n)
        active[place], values[place] = unit, code[np.uint64(start + unit)]
        n += 1
        bits &= bits - np.uint64(1)
    return n


@njit(nogil=True, error_model="numpy")
def list_marked(code: Any, marks: Any, start: int, n: int, active: Any, values: Any) -> int:
    """List the units whose bits are set in the words of a position, as `list_units` does.

    Bits are taken AT_ONCE at a time, without branches, since their number cannot be predicted: the lists have
    room for those that are not there.
    """
    for word in range(marks.size):
        bits, f = marks[word], word * WORD
        while bits != 0:
            for _ in range(AT_ONCE):
                unit, place = f + (lowest_bit(bits) & (WORD - 1)), np.uint64(n)
                active[place], values[place] = unit, code[np.uint64(start + unit)]
                n += int(bits != 0)
                bits &= bits - np.uint64(1)
    return n


@njit(nogil=True, error_model="numpy")
def list_units(code: Any, start: int, nf: int, n: int, active: Any, values: Any) -> int:
    """List which of the `nf` units from `start` are active, from place `n` on; return the place after."""
    words, vectors = nf - nf % WORD, nf - nf % LANES
    for f in range(0, words, WORD):
        n = _list_bits(nonzero(code, start + f), f, code, start, n, active, values)
    for f in range(words, vectors, LANES):
        n = _list_bits(nonzero_vector(code, start + f), f, code, start, n, active, values)
    for f in range(vectors, nf):
        if code[start + f] != _ZERO:
            active[n], values[n] = f, code[start + f]
            n += 1
    return n


@njit(nogil=True, error_model="numpy")
def reconstruct(
    code: Any, marks: Any, groups: Any, own: Any, arrays: Any, row: Any, out: Any, room: Any, first: int,
    last: int,
) -> None:  # fmt: skip
    """Write the sum of the patches of active units, `[height * width]`: parts are tiles, and to join them.

    `marks` says which units are active, a bit each; where it is empty, all are looked at. `room` is for the
    sums of tiles where threads share them.
    """
    s, work = shape_of(row), scratch_of(out, arrays, row)
    nf, length = s.features, s.rows * s.row
    each, each_word = nf * GROUP * LANES, -(-nf // WORD)
    packed = (
        groups.reshape((groups.size // each, nf, GROUP * LANES))
        if own.size == 0
        else groups.reshape((0, 0, 0))
    )
    strips = work.strips
    if room.size > 0:
        strips = room.reshape((row[TILES], row[STRIP]))
    for tile in range(first, min(last, row[TILES])):
        strip = strips[tile]
        strip[:] = _ZERO
        _, begin, end = tile_bounds(tile, s)
        for base in range(begin, end, s.chunk):
            places, n = chunk_places(base, begin, end, s, work), 0
            work.ends[0] = 0
            for m in range(places.size):
                start, at = (base + m) * nf, (base + m) * each_word
                if marks.size > 0:
                    mine = marks[at : at + each_word]
                    n = list_marked(code, mine, start, n, work.active, work.values)
                else:
                    n = list_units(code, start, nf, n, work.active, work.values)
                work.ends[m + 1] = n
            if own.size > 0:
                part = own[base * nf * length : (base + places.size) * nf * length]
                synthesize_non_shared(part.reshape((places.size, nf, length)), places, s, work, strip)
            else:
                synthesize(packed, places, work.active, work.values, work.ends, work.vectors, strip)
    if last > row[TILES]:
        join_strips(strips, 0, s.height, s, out.reshape((s.height, s.width)))


@operation(Synthesize)
def _synthesize(op: Any, arrays: Any, begin: int, end: int) -> None:
    reconstruct(
        op.source, op.marks, op.groups, op.own, arrays, op.geometry, op.out, op.strips, begin, end
    )  # fmt: skip


@operation(Pool)
def _pool(op: Any, begin: int, end: int) -> None:
    """Write the sum or maximum of each unit's window of the padded fine layer, by feature, of some tiles."""
    row, padded, out, largest, factor = op.geometry, op.source, op.out, op.largest, op.factor
    s, first, last, factor = shape_of(row), begin, end, out.dtype.type(factor)
    nf, left, stride = s.features, row[LEFT], row[STRIDE]
    for y in range(first * s.tile, min(min(last, row[TILES]) * s.tile, s.ny)):
        for x in range(s.nx):
            target = out[(y * s.nx + x) * nf : (y * s.nx + x + 1) * nf]
            start = (s.origin + y * s.stride_y) * s.pitch + left + x * stride
            for r in range(s.rows):
                for c in range(0, s.row, nf):
                    source = padded[start + r * s.pitch + c : start + r * s.pitch + c + nf]
                    if r == 0 and c == 0:
                        copy(source, target)
                    elif largest:
                        for f in range(nf):
                            a, b = target[f], source[f]
                            target[f] = b if a < b or b != b else a
                    else:
                        for f in range(nf):
                            target[f] += source[f]
            for f in range(nf):
                target[f] *= factor


@operation(Spread)
def _spread(op: Any) -> None:
    """Write what the windows of all units add up to, or the largest of them, feature by feature."""
    row, units, out, largest, factor = op.geometry, op.source, op.out, op.largest, op.factor
    s, padded, factor = shape_of(row), op.padded, out.dtype.type(factor)
    nf, left, stride = s.features, row[LEFT], row[STRIDE]
    nothing = out.dtype.type(-np.inf if largest else 0.0)
    padded[:] = nothing
    for y in range(s.ny):
        for x in range(s.nx):
            source = units[(y * s.nx + x) * nf : (y * s.nx + x + 1) * nf]
            start = (s.origin + y * s.stride_y) * s.pitch + left + x * stride
            for r in range(s.rows):
                for c in range(0, s.row, nf):
                    target = padded[start + r * s.pitch + c : start + r * s.pitch + c + nf]
                    for f in range(nf):
                        if not largest:
                            target[f] += source[f]
                        elif not target[f] >= source[f]:
                            target[f] = source[f]
    for y in range(s.height):
        start = (y + s.top) * s.pitch + s.left
        for i in range(s.width):
            a = padded[start + i]
            out[y * s.width + i] = _ZERO if a == -np.inf else factor * a
