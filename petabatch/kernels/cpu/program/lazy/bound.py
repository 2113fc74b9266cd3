"""The bound on potentials in the lazy update of a code: filtered layers, snapshots, rounding."""

from __future__ import annotations

from typing import Any

import numpy as np

from petabatch.kernels.cpu.arrays import add, copy, multiply
from petabatch.kernels.cpu.jit import FAST, njit
from petabatch.kernels.cpu.program.lazy.layout import (
    DUE,
    FACTOR_0,
    FACTOR_1,
    MIXED,
    SQUARE_0,
    SQUARE_1,
    TAKEN,
    WASTED,
)
from petabatch.kernels.cpu.program.records import drive_in
from petabatch.kernels.cpu.program.table import LEFT, STRIDE
from petabatch.kernels.cpu.program.team import ALL
from petabatch.kernels.cpu.program.transport import project_units, shape_of
from petabatch.kernels.cpu.program.views import doubles, floats
from petabatch.kernels.cpu.sums import total, wide_dot, wide_squares

EPS = 2.0**-24
_ZERO = np.float32(0)


@njit(nogil=True, fastmath=FAST, error_model="numpy")
def _filter(source: Any, e: Any, gain: Any, filtered: Any, first: Any, second: Any) -> tuple[float, float]:
    """Update F from its source; return its scalar products with both snapshots."""
    for i in range(source.size):
        filtered[i] = e * filtered[i] + gain * source[i]
    return wide_dot(first, filtered), wide_dot(second, filtered)


@njit(nogil=True, fastmath=FAST, error_model="numpy")
def _square_rest(filtered: Any, first: Any, second: Any, a: Any, b: Any, squares: Any) -> None:
    """Write the squares of R = F - a S_0 - b S_1."""
    for i in range(squares.size):
        rest = filtered[i] - a * first[i] - b * second[i]
        squares[i] = rest * rest


@njit(nogil=True, error_model="numpy")
def _coefficients(first: float, second: float, kept: Any, length: int) -> tuple[Any, Any]:
    """Return the coefficients of least squares, from the scalar products of F with both snapshots.

    Snapshots that are nearly parallel would get large ones of opposite sign, whose rounding counts more than
    what they gain: hence the ridge.
    """
    ridge = 1.0 + (4 * length * EPS) ** 2
    p, q, r = kept[SQUARE_0] * ridge, kept[SQUARE_1] * ridge, kept[MIXED]
    det = p * q - r * r
    if det > 0.0:
        return np.float32((first * q - second * r) / det), np.float32((second * p - first * r) / det)
    if p > 0.0:
        return np.float32(first / p), _ZERO
    if q > 0.0:
        return _ZERO, np.float32(second / q)
    return _ZERO, _ZERO


@njit(nogil=True, fastmath=FAST, error_model="numpy")
def _sum_rows(squares: Any, start: int, rows: int, pitch: int, column: Any) -> None:
    """Sum squares over the rows of a patch."""
    copy(squares[start : start + pitch], column)
    for r in range(1, rows):
        row = squares[start + r * pitch : start + (r + 1) * pitch]
        for i in range(pitch):
            column[i] += row[i]


@njit(nogil=True, error_model="numpy")
def _lengths(squares: Any, row: Any, column: Any, lengths: Any) -> None:
    """Write the length of each patch, from squares, not below the true one."""
    s = shape_of(row)
    longer = 1.0 + 2.0 * s.rows * s.row * EPS
    for y in range(s.ny):
        _sum_rows(squares, (s.origin + y * s.stride_y) * s.pitch, s.rows, s.pitch, column)
        for x in range(s.nx):
            start = row[LEFT] + x * row[STRIDE]
            lengths[y * s.nx + x] = np.sqrt(total(column[start : start + s.row])) * longer


@njit(nogil=True, error_model="numpy")
def add_rounding(lengths: Any, a: Any, b: Any, length: int, bounds: Any) -> None:
    """Add to the length of each patch of R what rounding can amount to, all in units of |w|.

    `bounds` has the lengths of R, `lengths` those of both snapshots. With M = |a| |patch of S_0| + |b| |patch
    of S_1| + |patch of R|, which is at least |patch of F|: a product of `length` pairs is wrong by length eps
    M at most, that with a snapshot as well as that of a due unit; elements of R by 4 eps M together; the sum
    of H and the products by some eps of M and of the threshold, since a unit whose H is larger is due, or
    far from its threshold. Three times as much is added.
    """
    wrong = np.float32(3 * (2 * length + 40) * EPS)
    n = bounds.size
    for i in range(n):
        size = abs(a) * lengths[i] + abs(b) * lengths[n + i] + bounds[i]
        bounds[i] += wrong * size


@njit(nogil=True, error_model="numpy")
def filter_drives(
    op: Any, sources: Any, factors: Any, drives: Any, arrays: Any, step: int, e: Any, gain: Any
) -> tuple[float, float]:
    """Update F of all drives of a code; return its scalar products with both snapshots."""
    first, second = 0.0, 0.0
    for d in range(op.drives[0], op.drives[1]):
        drive = drive_in(drives[d])
        n, snapshots = drive.source[0], floats(arrays, drive.snapshots, 0)
        source, size = floats(arrays, sources[n, 0], step - sources[n, 1]), snapshots.size // 2
        filtered = floats(arrays, drive.filtered, 0)[:size]
        x, y = _filter(source, e, gain * factors[n], filtered, snapshots[:size], snapshots[size:])
        first, second = first + x, second + y
    return first, second


@njit(nogil=True, error_model="numpy")
def set_bounds(op: Any, drives: Any, arrays: Any, shapes: Any, first: float, second: float) -> None:
    """Set the bounds of all drives of a code after those products, and the coefficients of snapshots."""
    kept, length = doubles(arrays, op.kept), 0
    for d in range(op.drives[0], op.drives[1]):
        shape = shape_of(shapes[drive_in(drives[d]).geometry])
        length = max(length, shape.rows * shape.row)
    a, b = _coefficients(first, second, kept, length)
    kept[FACTOR_0], kept[FACTOR_1] = a, b
    for d in range(op.drives[0], op.drives[1]):
        drive = drive_in(drives[d])
        snapshots, lengths = floats(arrays, drive.snapshots, 0), floats(arrays, drive.lengths, 0)
        scratch, bounds = floats(arrays, drive.squares, 0), floats(arrays, drive.bounds, 0)
        size = snapshots.size // 2
        filtered = floats(arrays, drive.filtered, 0)[:size]
        _square_rest(filtered, snapshots[:size], snapshots[size:], a, b, scratch[:size])
        _lengths(scratch, shapes[drive.geometry], scratch[size:], bounds)
        add_rounding(lengths, a, b, length, bounds)


@njit(nogil=True, error_model="numpy")
def take_snapshot(op: Any, drives: Any, arrays: Any, shapes: Any) -> None:
    """Keep F of all drives in place of the older snapshot; `project_snapshot` is then due in all tiles."""
    kept = doubles(arrays, op.kept)
    slot = int(kept[TAKEN]) % 2
    kept[SQUARE_0], kept[SQUARE_1], kept[MIXED] = 0.0, 0.0, 0.0
    for d in range(op.drives[0], op.drives[1]):
        drive = drive_in(drives[d])
        filtered, snapshots = floats(arrays, drive.filtered, 0), floats(arrays, drive.snapshots, 0)
        lengths, scratch = floats(arrays, drive.lengths, 0), floats(arrays, drive.squares, 0)
        size, positions = snapshots.size // 2, lengths.size // 2
        first, second = snapshots[:size], snapshots[size:]
        snapshot = second if slot == 1 else first
        copy(filtered, snapshot)
        _square_rest(snapshot, snapshot, snapshot, _ZERO, _ZERO, scratch[:size])
        mine = lengths[slot * positions : (slot + 1) * positions]
        _lengths(scratch, shapes[drive.geometry], scratch[size:], mine)
        kept[SQUARE_0] += wide_squares(first)
        kept[SQUARE_1] += wide_squares(second)
        kept[MIXED] += wide_dot(first, second)
    kept[TAKEN] += 1
    kept[WASTED] = 0


@njit(nogil=True, error_model="numpy")
def _project(
    d: int, padded: Any, op: Any, drives: Any, arrays: Any, shapes: Any, tile: int, begin: int, end: int
) -> Any:  # fmt: skip
    """Return the products of all features with a padded layer by one drive, in scratch.

    Of units begin .. end, those of a tile, or all of them.
    """
    spare = floats(arrays, op.spare, 0)
    into = spare if d == op.drives[0] else spare[spare.size // 2 :]
    drive = drive_in(drives[d])
    panels, own = floats(arrays, drive.panels, 0), floats(arrays, drive.own, 0)
    last = tile + 1 if op.height > 0 else ALL
    project_units(padded, panels, own, arrays, shapes[drive.geometry], into, tile, last)
    return into[begin:end]


@njit(nogil=True, error_model="numpy")
def project_snapshot(
    op: Any, drives: Any, arrays: Any, shapes: Any, tile: int, begin: int, end: int
) -> None:  # fmt: skip
    """Write the products of the last snapshot with all features, of units begin .. end, those of a tile."""
    products, slot = floats(arrays, op.products, 0), int(doubles(arrays, op.kept)[TAKEN] + 1) % 2
    start = slot * (products.size // 2)
    found = products[start + begin : start + end]
    for d in range(op.drives[0], op.drives[1]):
        snapshots = floats(arrays, drive_in(drives[d]).snapshots, 0)
        padded = snapshots[slot * (snapshots.size // 2) :]
        more = _project(d, padded, op, drives, arrays, shapes, tile, begin, end)
        if d == op.drives[0]:
            copy(more, found)
        else:
            add(more, np.float32(1), found)


@njit(nogil=True, error_model="numpy")
def project_sources(
    op: Any, sources: Any, factors: Any, drives: Any, arrays: Any, shapes: Any, step: int, tile: int,
    begin: int, end: int,
) -> Any:  # fmt: skip
    """Return what all drives bring to units begin .. end, those of a tile, in scratch."""
    found = floats(arrays, op.spare, 0)[begin:end]
    for d in range(op.drives[0], op.drives[1]):
        n = drive_in(drives[d]).source[0]
        padded = floats(arrays, sources[n, 0], step - sources[n, 1])
        more = _project(d, padded, op, drives, arrays, shapes, tile, begin, end)
        if d > op.drives[0]:
            add(more, factors[n], found)
        elif factors[n] != 1:
            multiply(factors[n], found)
    return found


@njit(nogil=True, error_model="numpy")
def forget_snapshots(op: Any, drives: Any, arrays: Any) -> None:
    """Begin with F = 0, which no snapshot predicts."""
    kept = doubles(arrays, op.kept)
    kept[SQUARE_0], kept[SQUARE_1], kept[MIXED], kept[WASTED], kept[DUE] = 0.0, 0.0, 0.0, 0.0, 0.0
    for d in range(op.drives[0], op.drives[1]):
        drive = drive_in(drives[d])
        floats(arrays, drive.filtered, 0)[:] = _ZERO
        floats(arrays, drive.snapshots, 0)[:] = _ZERO
        floats(arrays, drive.lengths, 0)[:] = _ZERO
