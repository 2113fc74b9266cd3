"""The lazy update of a code in a program: only units that could cross their threshold are computed.

**State.** Leaky integration is linear, so a potential is the drive of filtered layers F, one for each of the
code's drives d, plus H, which integrates one-to-one inputs and the self-interaction:

    F_d = e F_d + (1 - e) x_d                     0 at the start; x is the layer that the drive sees, padded
    H   = e H + (1 - e) (inputs + A)              V at the start
    V   = sum over d of w_d . (patch of F_d) + H

H is cheap and is integrated for all units in every step. The products are not: these are what is saved.

**Bound.** From time to time a *snapshot* S of all F_d is taken, and its products with all features. With the
last two, 0 and 1, and any coefficients a,

    w . (patch of F) = a_0 w . (patch of S_0) + a_1 w . (patch of S_1) + w . (patch of R)
    R = F - a_0 S_0 - a_1 S_1,    |w . (patch of R)| <= |w| |patch of R|    (Cauchy-Schwarz)

The products with S are known, the length of each patch of R is the same for all features. A unit for which
the sum stays below the threshold *sleeps*: it is silent. All others are *due* and computed from F. The
coefficients are those of least squares over all F_d, so that R is what is new since two snapshots: most of a
motion towards a fixed point is along a line. They bear on the bound alone.

**Same bits.** What is computed of a unit does not depend on snapshots, nor on what else is due. So the bits
are those of computing all units in every step, provided that rounding cannot hide a crossing: `_bounds` adds
what rounding can amount to.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import njit

from petabatch.kernels.cpu.layout import LANES, WORD
from petabatch.kernels.cpu.lazy.bound import products, sum_columns, sum_rows
from petabatch.kernels.cpu.program.table import (
    BOUNDS,
    DISPLAY,
    FEATURES,
    FILTERED,
    FLOATS,
    GEOMETRY,
    HISTORY,
    KEPT,
    LEFT,
    LENGTHS,
    LISTS,
    NORMS,
    OFFSETS,
    OUT,
    PANELS,
    POTENTIAL,
    PRODUCTS,
    ROWS,
    SNAPSHOTS,
    SOURCE,
    SPARE,
    SQUARES,
    STRIDE,
    VECTORS,
    A,
    B,
    C,
    D,
    G,
)  # fmt: skip
from petabatch.kernels.cpu.program.transport import project_units, shape_of
from petabatch.kernels.cpu.program.units import CHUNK, FACTOR, GAIN, cell_of, gather, rates
from petabatch.kernels.cpu.program.views import doubles, floats, longs, unsigned
from petabatch.kernels.cpu.rules import FAST, transfer
from petabatch.kernels.cpu.simd import lowest_bit, pair_operations
from petabatch.kernels.rules import Cell
from petabatch.variable import Array

COMPUTED, ACTIVE, WASTED, TAKEN, SQUARE_0, SQUARE_1, MIXED = range(7)
"""What is kept of a code's bound: units computed and units active so far; units computed and silent since the
last snapshot; snapshots taken; scalar products of the snapshots."""
KEPT_NUMBERS = 7
BLOCK = 256
"""Positions whose due units are computed together, feature by feature: whole words."""
_COST = 0.6
"""Cost of a snapshot, in computations of all units one by one."""
_EPS = 2.0**-24
_ZERO = np.float32(0)
_ONE, _ALL = np.uint64(1), ~np.uint64(0)
_, _, below_mask = pair_operations(WORD)


class Work(NamedTuple):
    """Scratch of one thread for a block of positions; `rooms` has the lengths."""

    known: Array
    """What is known of the potentials of one position."""
    limits: Array
    """The threshold, for each feature of a position."""
    found: Array
    """Potentials of due units."""
    values: Array
    """Their activities."""
    buffers: Array
    """One-to-one inputs."""
    mask: Array
    """Which units of WORD positions are due, a bit each."""
    bits: Array
    """The same of a block, by feature: `[words, nf]`."""
    ends: Array
    """Where the due units of each feature end in the lists."""
    places: Array
    """Positions of due units in the block."""
    units: Array
    """The units themselves."""


def rooms(nf: int) -> tuple[int, int]:
    """Return the lengths of the float32 and of the uint64 scratch for a code of `nf` features."""
    wide, room = -(-nf // WORD) * WORD, BLOCK * nf + LANES
    return 2 * (wide + room + max(CHUNK, nf)), wide + BLOCK // WORD * nf + nf + 2 * room


@njit(nogil=True, error_model="numpy", cache=True)
def _work(row: Any, arrays: Any) -> Work:
    """Return the thread's scratch for a block of positions."""
    nf, numbers, lists = row[FEATURES], floats(arrays, row[FLOATS], 0), unsigned(arrays, row[LISTS])
    wide, room, block = -(-nf // WORD) * WORD, BLOCK * nf + LANES, BLOCK // WORD * nf
    buffers, at = 2 * max(CHUNK, nf), 2 * wide + 2 * room
    return Work(
        numbers[:wide], numbers[wide : 2 * wide], numbers[2 * wide : 2 * wide + room],
        numbers[2 * wide + room : at], numbers[at : at + buffers],
        lists[:wide], lists[wide : wide + block], lists[wide + block : wide + block + nf].view(np.int64),
        lists[wide + block + nf : wide + block + nf + room], lists[wide + block + nf + room :],
    )  # fmt: skip


@njit(nogil=True, fastmath=FAST, error_model="numpy", cache=True)
def _filter(source: Any, e: Any, gain: Any, filtered: Any, first: Any, second: Any) -> tuple[float, float]:
    """Update F from its source; return its scalar products with both snapshots."""
    a, b = 0.0, 0.0
    for i in range(source.size):
        f = e * filtered[i] + gain * source[i]
        filtered[i] = f
        a += np.float64(f) * np.float64(first[i])
        b += np.float64(f) * np.float64(second[i])
    return a, b


@njit(nogil=True, fastmath=FAST, error_model="numpy", cache=True)
def _dot(a: Any, b: Any) -> float:
    found = 0.0
    for i in range(a.size):
        found += np.float64(a[i]) * np.float64(b[i])
    return found


@njit(nogil=True, fastmath=FAST, error_model="numpy", cache=True)
def _square_rest(filtered: Any, first: Any, second: Any, a: Any, b: Any, squares: Any) -> None:
    """Write the squares of R = F - a S_0 - b S_1."""
    for i in range(squares.size):
        rest = filtered[i] - a * first[i] - b * second[i]
        squares[i] = rest * rest


@njit(nogil=True, error_model="numpy", cache=True)
def _coefficients(first: float, second: float, kept: Any, length: int) -> tuple[Any, Any]:
    """Return the coefficients of least squares, from the scalar products of F with both snapshots.

    Snapshots that are nearly parallel would get large ones of opposite sign, whose rounding counts more than
    what they gain: hence the ridge.
    """
    ridge = 1.0 + (4 * length * _EPS) ** 2
    p, q, r = kept[SQUARE_0] * ridge, kept[SQUARE_1] * ridge, kept[MIXED]
    det = p * q - r * r
    if det > 0.0:
        return np.float32((first * q - second * r) / det), np.float32((second * p - first * r) / det)
    if p > 0.0:
        return np.float32(first / p), _ZERO
    if q > 0.0:
        return _ZERO, np.float32(second / q)
    return _ZERO, _ZERO


@njit(nogil=True, error_model="numpy", cache=True)
def _lengths(squares: Any, row: Any, column: Any, lengths: Any) -> None:
    """Write the length of each patch, from squares, not below the true one."""
    s = shape_of(row)
    longer = 1.0 + 2.0 * s.rows * s.row * _EPS
    for y in range(s.ny):
        sum_rows(squares, (s.origin + y * s.stride_y) * s.pitch, s.rows, s.pitch, column)
        for x in range(s.nx):
            start = row[LEFT] + x * row[STRIDE]
            lengths[y * s.nx + x] = np.sqrt(sum_columns(column[start : start + s.row])) * longer


@njit(nogil=True, error_model="numpy", cache=True)
def _bounds(lengths: Any, a: Any, b: Any, length: int, bounds: Any) -> None:
    """Add to the length of each patch of R what rounding can amount to, all in units of |w|.

    `bounds` has the lengths of R, `lengths` those of both snapshots. With M = |a| |patch of S_0| + |b| |patch
    of S_1| + |patch of R|, which is at least |patch of F|: a product of `length` pairs is wrong by length eps
    M at most, that with a snapshot as well as that of a due unit; elements of R by 4 eps M together; the sum
    of H and the products by some eps of M and of the threshold, since a unit whose H is larger is due, or
    far from its threshold. Three times as much is added.
    """
    wrong = np.float32(3 * (2 * length + 40) * _EPS)
    n = bounds.size
    for i in range(n):
        size = abs(a) * lengths[i] + abs(b) * lengths[n + i] + bounds[i]
        bounds[i] += wrong * size


@njit(nogil=True, error_model="numpy", cache=True)
def _transpose(bits: Any) -> None:
    """Transpose 64 words of 64 bits: bit i of word k becomes bit k of word i."""
    j, mask = 32, _ALL >> np.uint64(32)
    while j > 0:
        shift, k = np.uint64(j), 0
        while k < WORD:
            t = ((bits[k] >> shift) ^ bits[k + j]) & mask
            bits[k] ^= t << shift
            bits[k + j] ^= t
            k = (k + j + 1) & ~j
        j >>= 1
        mask ^= mask << np.uint64(j)


@njit(nogil=True, fastmath=FAST, error_model="numpy", cache=True)
def _integrate(
    drive: Any, code: Any, e: Any, gain: Any, first: Any, second: Any, a: Any, b: Any, c: Cell, history: Any,
    known: Any,
) -> None:  # fmt: skip
    """Update H of one position; write what is known of its potentials, with two thresholds the size."""
    for f in range(history.size):
        h = e * history[f] + gain * (drive[f] + c.self_interaction * code[f])
        history[f] = h
        u = h + a * first[f] + b * second[f]
        known[f] = abs(u) if c.signed else u


@njit(nogil=True, fastmath=FAST, error_model="numpy", cache=True)
def _add_bound(norms: Any, bound: Any, known: Any) -> None:
    for f in range(known.size):
        known[f] += norms[f] * bound


@njit(nogil=True, fastmath=FAST, error_model="numpy", cache=True)
def _activities(potentials: Any, c: Cell, out: Any) -> None:
    zero = np.float32(0)
    for i in range(out.size):
        a = transfer(potentials[i], c)
        # Not -0, whose sign would tell when the unit was computed last.
        out[i] = zero if a == zero else a


@njit(nogil=True, error_model="numpy", cache=True)
def _mark_due(
    known: Any, m: int, position: int, limits: Any, row: Any, drives: Any, arrays: Any, bits: Any
) -> None:
    """Write which units of one position are due: bits `m` of the words of `bits`, one word per position."""
    nf, first = row[FEATURES], row[C]
    norms, bound = floats(arrays, drives[first, NORMS], 0), floats(arrays, drives[first, BOUNDS], 0)[position]
    for d in range(first + 1, row[D]):
        other = floats(arrays, drives[d, BOUNDS], 0)[position]
        _add_bound(floats(arrays, drives[d, NORMS], 0), other, known[:nf])
    for f in range(0, nf, WORD):
        found = below_mask(bound, norms, limits, f, known, f)
        if f + WORD > nf:
            found &= (_ONE << np.uint64(nf - f)) - _ONE
        bits[f + m] = found


@njit(nogil=True, error_model="numpy", cache=True)
def _list_due(bits: Any, base: int, nf: int, n: int, units: Any, places: Any, ends: Any) -> int:
    """List the due units of a block, feature by feature; return how many they are."""
    count = bits.size // nf
    for f in range(nf):
        for word in range(count):
            left = bits[word * nf + f]
            while left != 0:
                place = word * WORD + lowest_bit(left)
                places[n], units[n] = place, (base + place) * nf + f
                n += 1
                left &= left - _ONE
        ends[f] = n
    return n


@njit(nogil=True, error_model="numpy", cache=True)
def _potentials(
    n: int, base: int, row: Any, drives: Any, arrays: Any, shapes: Any, work: Work, found: Any
) -> None:
    """Write V of the `n` units that are listed."""
    nf, other, history = row[FEATURES], work.values, floats(arrays, row[HISTORY], 0)
    for d in range(row[C], row[D]):
        drive, into = drives[d], found if d == row[C] else other
        offsets, vectors = longs(arrays, drive[OFFSETS]), longs(arrays, shapes[drive[GEOMETRY], VECTORS])
        rows, filtered = floats(arrays, drive[ROWS], 0), floats(arrays, drive[FILTERED], 0)
        weights, begin = rows.reshape((nf, rows.size // nf)), 0
        for f in range(nf):
            end = work.ends[f]
            if end > begin:
                due = (work.places[begin:], end - begin)
                products(filtered, 0, offsets[base:], *due, vectors, weights, f, into[begin:])
            begin = end
        if d > row[C]:
            for i in range(n):
                found[i] += other[i]
    for i in range(n):
        found[i] += history[work.units[i]]


@njit(nogil=True, error_model="numpy", cache=True)
def _take_snapshot(row: Any, drives: Any, arrays: Any, shapes: Any) -> None:
    """Keep F of all drives and its products with all features, in place of the older snapshot."""
    kept, products_of = doubles(arrays, row[KEPT]), floats(arrays, row[PRODUCTS], 0)
    slot, half = int(kept[TAKEN]) % 2, products_of.size // 2
    mine, spare = products_of[slot * half : (slot + 1) * half], floats(arrays, row[SPARE], 0)
    mine[:] = 0
    kept[SQUARE_0], kept[SQUARE_1], kept[MIXED] = 0.0, 0.0, 0.0
    for d in range(row[C], row[D]):
        drive = drives[d]
        shape = shapes[drive[GEOMETRY]]
        filtered, snapshots = floats(arrays, drive[FILTERED], 0), floats(arrays, drive[SNAPSHOTS], 0)
        lengths, scratch = floats(arrays, drive[LENGTHS], 0), floats(arrays, drive[SQUARES], 0)
        size, positions = snapshots.size // 2, lengths.size // 2
        first, second = snapshots[:size], snapshots[size:]
        snapshot = second if slot == 1 else first
        snapshot[:] = filtered[:size]
        project_units(filtered, floats(arrays, drive[PANELS], 0), floats(arrays, 0, 0), arrays, shape, spare)
        for i in range(half):
            mine[i] += spare[i]
        _square_rest(filtered[:size], snapshot, snapshot, _ZERO, _ZERO, scratch[:size])
        _lengths(scratch, shape, scratch[size:], lengths[slot * positions : (slot + 1) * positions])
        kept[SQUARE_0] += _dot(first, first)
        kept[SQUARE_1] += _dot(second, second)
        kept[MIXED] += _dot(first, second)
    kept[TAKEN] += 1
    kept[WASTED] = 0


@njit(nogil=True, error_model="numpy", cache=True)
def update_lazily(
    row: Any, own: Any, sources: Any, factors: Any, drives: Any, arrays: Any, shapes: Any, step: int
) -> None:
    """Make one step of a code."""
    activity, previous = floats(arrays, row[OUT], step), floats(arrays, row[OUT], step - 1)
    history, kept = floats(arrays, row[HISTORY], 0), doubles(arrays, row[KEPT])
    e, gain, c = np.float32(own[FACTOR]), np.float32(own[GAIN]), cell_of(own)
    if row[G] > 0:
        e, gain = rates(own, doubles(arrays, row[G])[0])
    first, second, length = 0.0, 0.0, 0
    for d in range(row[C], row[D]):
        drive, n = drives[d], drives[d, SOURCE]
        source, snapshots = (
            floats(arrays, sources[n, 0], step - sources[n, 1]),
            floats(arrays, drive[SNAPSHOTS], 0),
        )
        size, shape = snapshots.size // 2, shape_of(shapes[drive[GEOMETRY]])
        filtered = floats(arrays, drive[FILTERED], 0)[:size]
        x, y = _filter(source, e, gain * factors[n], filtered, snapshots[:size], snapshots[size:])
        first, second, length = first + x, second + y, max(length, shape.rows * shape.row)
    a, b = _coefficients(first, second, kept, length)
    for d in range(row[C], row[D]):
        drive = drives[d]
        shape, snapshots = shapes[drive[GEOMETRY]], floats(arrays, drive[SNAPSHOTS], 0)
        size, scratch, bounds = (
            snapshots.size // 2,
            floats(arrays, drive[SQUARES], 0),
            floats(arrays, drive[BOUNDS], 0),
        )
        filtered = floats(arrays, drive[FILTERED], 0)[:size]
        _square_rest(filtered, snapshots[:size], snapshots[size:], a, b, scratch[:size])
        _lengths(scratch, shape, scratch[size:], bounds)
        _bounds(floats(arrays, drive[LENGTHS], 0), a, b, length, bounds)
    nf, work = row[FEATURES], _work(row, arrays)
    positions, together = activity.size // nf, max(1, CHUNK // nf)
    products_of = floats(arrays, row[PRODUCTS], 0)
    half, limit = products_of.size // 2, c.threshold * np.float32(1 - 32 * _EPS)
    work.limits[:] = limit
    computed, active = 0, 0
    for base in range(0, positions, BLOCK):
        last = min(base + BLOCK, positions)
        for word in range(base, last, WORD):
            stop, wide = min(word + WORD, last), work.mask.size
            work.mask[:] = 0
            for begin in range(word, stop, together):
                end = min(begin + together, stop)
                spare, other = work.buffers[: (end - begin) * nf], work.buffers[work.buffers.size // 2 :]
                drive = gather(
                    arrays, sources, factors, row[A], row[B], row[OUT], step, begin * nf, end * nf, spare,
                    other[: (end - begin) * nf],
                )  # fmt: skip
                for m in range(begin, end):
                    u, v, known = m * nf, (m - begin) * nf, work.known
                    _integrate(
                        drive[v : v + nf], previous[u : u + nf], e, gain, products_of[u : u + nf],
                        products_of[half + u : half + u + nf], a, b, c, history[u : u + nf], known[:nf],
                    )  # fmt: skip
                    _mark_due(known, m - word, m, work.limits, row, drives, arrays, work.mask)
            activity[word * nf : stop * nf] = 0
            place = (word - base) // WORD * nf
            for f in range(0, wide, WORD):
                _transpose(work.mask[f : f + WORD])
            work.bits[place : place + nf] = work.mask[:nf]
        words_of = -(-(last - base) // WORD)
        n = _list_due(work.bits[: words_of * nf], base, nf, 0, work.units, work.places, work.ends)
        _potentials(n, base, row, drives, arrays, shapes, work, work.found)
        _activities(work.found[:n], c, work.values[:n])
        for i in range(n):
            activity[work.units[i]] = work.values[i]
            active += work.values[i] != _ZERO
        computed += n
    kept[COMPUTED] += computed
    kept[ACTIVE] += active
    kept[WASTED] += computed - active
    worth = _COST * activity.size
    left = -step % row[DISPLAY]
    if kept[WASTED] > worth and float(computed - active) * left > worth:
        _take_snapshot(row, drives, arrays, shapes)


@njit(nogil=True, error_model="numpy", cache=True)
def materialise(row: Any, drives: Any, arrays: Any, shapes: Any) -> None:
    """Write V of all units, with the bits it had in the step."""
    V, nf, work = floats(arrays, row[POTENTIAL], 0), row[FEATURES], _work(row, arrays)
    positions = V.size // nf
    for base in range(0, positions, BLOCK):
        last, n = min(base + BLOCK, positions), 0
        for f in range(nf):
            for place in range(last - base):
                work.places[n], work.units[n] = place, (base + place) * nf + f
                n += 1
            work.ends[f] = n
        _potentials(n, base, row, drives, arrays, shapes, work, work.found)
        for i in range(n):
            V[work.units[i]] = work.found[i]
