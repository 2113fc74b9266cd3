"""What connections with patches deliver, compiled: borders, drives, reconstructions, pooling."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from petabatch.kernels.cpu.convolution import join_strips, project, synthesize
from petabatch.kernels.cpu.layout import GROUP, PANEL, PIECE, Shape
from petabatch.kernels.cpu.own_patches import project_own, synthesize_own
from petabatch.kernels.cpu.program.table import (
    ACTIVE,
    CONSTANT,
    DRIVE,
    ENDS,
    LEFT,
    MIRROR,
    PIECES,
    PLACES,
    STRIDE,
    STRIP,
    STRIPS,
    TILES,
    VALUES,
    WINDOW_OF,
)
from petabatch.kernels.cpu.program.views import floats, ints, longs
from petabatch.kernels.cpu.simd import lowest_bit, operations

_ZERO = np.float32(0)
_, _, _, _, _, nonzero = operations(PIECE)


@njit(nogil=True, error_model="numpy", cache=True)
def shape_of(row: Any) -> Shape:
    """Return the geometry in a row of shapes."""
    return Shape(
        row[0], row[1], row[2], row[3], row[4], row[5], row[6], row[7], row[8], row[9], row[10], row[11],
        row[12], row[13], row[14],
    )  # fmt: skip


@njit(nogil=True, error_model="numpy", cache=True)
def _beyond(i: int, n: int) -> int:
    """Return the unit that a mirrored layer of `n` shows at index `i`, the edge unit repeated."""
    i = i % (2 * n)
    return i if i < n else 2 * n - 1 - i


@njit(nogil=True, error_model="numpy", cache=True)
def extend(
    layer: Any, ny: int, nx: int, nf: int, top: int, bottom: int, left: int, right: int, border: int,
    value: Any, out: Any,
) -> None:  # fmt: skip
    """Copy a layer into the middle of its padding, and fill this by the border rule if that is not zero."""
    pitch, row = (left + nx + right) * nf, nx * nf
    for y in range(ny):
        start = (top + y) * pitch + left * nf
        out[start : start + row] = layer[y * row : (y + 1) * row]
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
                        out[start : start + nf] = layer[source : source + nf]


@njit(nogil=True, error_model="numpy", cache=True)
def project_units(padded: Any, panels: Any, own: Any, arrays: Any, row: Any, out: Any) -> None:
    """Write the scalar product of each unit's patch with the padded fine layer, `[units]`.

    `out` has room for a block of positions more. `own` holds patches of each unit, if it is not empty.
    """
    s, tiles = shape_of(row), row[TILES]
    all_places, chunk = longs(arrays, row[PLACES]), floats(arrays, row[DRIVE], 0)
    window, nf, length = floats(arrays, row[WINDOW_OF], 0), s.features, s.rows * s.row
    packed = panels.reshape((panels.size // (length * PANEL), length, PANEL))
    for tile in range(tiles):
        start = (s.origin + tile * s.tile * s.stride_y) * s.pitch
        begin, end = tile * s.tile * s.nx, min((tile + 1) * s.tile, s.ny) * s.nx
        for base in range(begin, end, s.chunk):
            count = min(s.chunk, end - base)
            places = all_places[base - begin : base - begin + count]
            if own.size > 0:
                patches = own[base * nf * length : (base + count) * nf * length].reshape((count, nf, length))
                project_own(padded, start, places, patches, s, window, chunk)
            elif s.wide == nf:
                project(padded, start, places, count, packed, s, out[base * nf :])
                continue
            else:
                project(padded, start, places, count, packed, s, chunk)
            for m in range(count):
                out[(base + m) * nf : (base + m + 1) * nf] = chunk[m * s.wide : m * s.wide + nf]


@njit(nogil=True, error_model="numpy", cache=True)
def list_units(code: Any, start: int, nf: int, n: int, active: Any, values: Any) -> int:
    """List which of the `nf` units from `start` are active, from place `n` on; return the place after."""
    whole = nf - nf % PIECE
    for f in range(0, whole, PIECE):
        bits = nonzero(code, start + f)
        while bits != 0:
            active[n] = f + lowest_bit(bits)
            values[n] = code[start + active[n]]
            n += 1
            bits &= bits - np.uint64(1)
    for f in range(whole, nf):
        if code[start + f] != _ZERO:
            active[n], values[n] = f, code[start + f]
            n += 1
    return n


@njit(nogil=True, error_model="numpy", cache=True)
def reconstruct(code: Any, groups: Any, own: Any, arrays: Any, row: Any, out: Any) -> None:
    """Write the sum of the patches of active units, `[height * width]`; tiles are joined in order."""
    s, tiles = shape_of(row), row[TILES]
    all_places, pieces = longs(arrays, row[PLACES]), longs(arrays, row[PIECES])
    active, ends = ints(arrays, row[ACTIVE]), longs(arrays, row[ENDS])
    values, window = floats(arrays, row[VALUES], 0), floats(arrays, row[WINDOW_OF], 0)
    nf, length = s.features, s.rows * s.row
    strips = floats(arrays, row[STRIPS], 0).reshape((tiles, row[STRIP]))
    each = nf * GROUP * PIECE
    packed = (
        groups.reshape((groups.size // each, nf, GROUP * PIECE))
        if own.size == 0
        else groups.reshape((0, 0, 0))
    )
    for tile in range(tiles):
        strip = strips[tile]
        strip[:] = _ZERO
        begin, end = tile * s.tile * s.nx, min((tile + 1) * s.tile, s.ny) * s.nx
        for base in range(begin, end, s.chunk):
            count, n = min(s.chunk, end - base), 0
            places = all_places[base - begin : base - begin + count]
            ends[0] = 0
            for m in range(count):
                n = list_units(code, (base + m) * nf, nf, n, active, values)
                ends[m + 1] = n
            if own.size > 0:
                weights = slice(base * nf * length, (base + count) * nf * length)
                patches = own[weights].reshape((count, nf, length))
                synthesize_own(active, values, ends, patches, places, s, window, strip)
            else:
                synthesize(count, active, values, ends, packed, pieces, places, strip)
    join_strips(strips, 0, s.height, s, out.reshape((s.height, s.width)))


@njit(nogil=True, error_model="numpy", cache=True)
def pool(padded: Any, arrays: Any, row: Any, largest: bool, factor: Any, out: Any) -> None:
    """Write the sum or maximum of each unit's window of the padded fine layer, feature by feature."""
    s = shape_of(row)
    nf, left, stride = s.features, row[LEFT], row[STRIDE]
    for y in range(s.ny):
        for x in range(s.nx):
            target = out[(y * s.nx + x) * nf : (y * s.nx + x + 1) * nf]
            start = (s.origin + y * s.stride_y) * s.pitch + left + x * stride
            for r in range(s.rows):
                for c in range(0, s.row, nf):
                    source = padded[start + r * s.pitch + c : start + r * s.pitch + c + nf]
                    if r == 0 and c == 0:
                        target[:] = source
                    elif largest:
                        for f in range(nf):
                            a, b = target[f], source[f]
                            target[f] = b if a < b or b != b else a
                    else:
                        for f in range(nf):
                            target[f] += source[f]
            for f in range(nf):
                target[f] *= factor


@njit(nogil=True, error_model="numpy", cache=True)
def spread(
    units: Any, arrays: Any, row: Any, largest: bool, factor: Any, padded: Any, out: Any
) -> None:  # fmt: skip
    """Write what the windows of all units add up to, or the largest of them, feature by feature."""
    s = shape_of(row)
    nf, left, stride = s.features, row[LEFT], row[STRIDE]
    nothing = np.float32(-np.inf) if largest else _ZERO
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
