"""The units of a block that are due in the lazy update of a code: their potentials and activities."""

from __future__ import annotations

from typing import Any

import numpy as np

from petabatch.kernels.cpu.jit import FAST, njit
from petabatch.kernels.cpu.non_shared import order_by_position, products_of_units
from petabatch.kernels.cpu.program.lazy.layout import Work, words
from petabatch.kernels.cpu.program.records import drive_in
from petabatch.kernels.cpu.program.table import VECTORS, WINDOW_OF
from petabatch.kernels.cpu.program.transport import shape_of
from petabatch.kernels.cpu.program.views import floats, longs
from petabatch.kernels.cpu.rules import transfer
from petabatch.kernels.cpu.simd import lowest_bit, operations, pair_operations
from petabatch.kernels.cpu.sizes import AT_ONCE, LANES, WORD
from petabatch.kernels.rules import Cell

_ONE, _ALL, _ZERO = np.uint64(1), ~np.uint64(0), np.float32(0)
_SHIFT, _LAST = np.uint64(WORD.bit_length() - 1), np.uint64(WORD - 1)
_, _, below_mask, _ = pair_operations(WORD)
fma, horizontal_sum, *_ = pair_operations(LANES)
zeros, load, *_ = operations(LANES)
_TOGETHER = 4
"""Positions whose product with a feature is computed together."""


@njit(nogil=True, error_model="numpy")
def transpose(bits: Any) -> None:
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


@njit(nogil=True, fastmath=FAST, error_model="numpy")
def predict(
    first: Any, second: Any, a: Any, b: Any, decay: Any, history: Any, signed: bool, known: Any
) -> None:  # fmt: skip
    """Write what is known of the potentials of one position; with two thresholds, its size."""
    for f in range(history.size):
        u = decay * history[f] + a * first[f] + b * second[f]
        known[f] = abs(u) if signed else u


@njit(nogil=True, fastmath=FAST, error_model="numpy")
def _add_bound(norms: Any, bound: Any, known: Any) -> None:
    for f in range(known.size):
        known[f] += norms[f] * bound


@njit(nogil=True, error_model="numpy")
def norms_of(op: Any, drives: Any, arrays: Any, d: int) -> tuple[Any, int, Any]:
    """Return |w| of the features, how much further on those of the next position are, and bounds on |R|."""
    drive = drive_in(drives[d])
    own = floats(arrays, drive.own, 0).size > 0
    norms, bounds = floats(arrays, drive.norms, 0), floats(arrays, drive.bounds, 0)
    return norms, op.features if own else 0, bounds


@njit(nogil=True, error_model="numpy")
def add_bounds(known: Any, position: int, op: Any, drives: Any, arrays: Any) -> None:
    """Add the bounds of all drives but the first to what is known of the potentials of one position."""
    for d in range(op.drives[0] + 1, op.drives[1]):
        norms, pitch, bounds = norms_of(op, drives, arrays, d)
        _add_bound(norms[position * pitch :], bounds[position], known)


@njit(nogil=True, error_model="numpy")
def mark_due(
    known: Any, nf: int, m: int, limits: Any, norms: Any, bound: Any, active: Any, bits: Any
) -> None:  # fmt: skip
    """Write which units of one position are due: bits `m` of the words of `bits`, one word per position.

    Units that were `active` in the step before are; those bits are cleared.
    """
    for f in range(0, nf, WORD):
        found = below_mask(bound, norms, limits, f, known, f)
        if f + WORD > nf:
            found &= (_ONE << np.uint64(nf - f)) - _ONE
        bits[f + m] = found | active[f // WORD]
        active[f // WORD] = 0


@njit(nogil=True, error_model="numpy")
def products(
    image: Any, offsets: Any, places: Any, begin: int, end: int, vectors: Any, rows: Any, start: int,
    length: int, found: Any,
) -> None:  # fmt: skip
    """Write the products of a feature, `length` numbers of `rows` from `start` on, with patches of an image.

    Entries begin .. end of `places` say at which `offsets` they start. Some entries of `found` after the last
    are overwritten.
    """
    last = end - 1
    for n in range(begin, end, _TOGETHER):
        # Beyond the last position it is computed again.
        a, b = offsets[places[np.uint64(n)]], offsets[places[np.uint64(min(n + 1, last))]]
        c, d = offsets[places[np.uint64(min(n + 2, last))]], offsets[places[np.uint64(min(n + 3, last))]]
        v0, v1, v2, v3 = zeros(image), zeros(image), zeros(image), zeros(image)
        w = start
        for vector in range(length // LANES):
            weights, i = load(rows, w), vectors[vector]
            v0 = fma(v0, load(image, a + i), weights)
            v1 = fma(v1, load(image, b + i), weights)
            v2 = fma(v2, load(image, c + i), weights)
            v3 = fma(v3, load(image, d + i), weights)
            w += LANES
        found[n], found[n + 1] = horizontal_sum(v0), horizontal_sum(v1)
        found[n + 2], found[n + 3] = horizontal_sum(v2), horizontal_sum(v3)


@njit(nogil=True, error_model="numpy")
def list_features(
    bits: Any, f: int, nf: int, base: int, most: int, places: Any, units: Any, ends: Any
) -> tuple[int, int]:
    """List the due units of a block from feature `f` on, until there are `most`, feature by feature.

    Return their number, and the feature after the last; `ends` are the places after the units of each.
    """
    n, each = 0, bits.size // nf
    while f < nf and n < most:
        for word in range(each):
            left = bits[word * nf + f]
            while left != 0:
                for _ in range(AT_ONCE):  # without branches; the lists have room for bits that are not there
                    place, k = word * WORD + (lowest_bit(left) & (WORD - 1)), np.uint64(n)
                    places[k], units[k] = place, (base + place) * nf + f
                    n += int(left != 0)
                    left &= left - _ONE
        ends[f] = n
        f += 1
    return n, f


@njit(nogil=True, error_model="numpy")
def _products_of_shared(
    first: int, last: int, base: int, nf: int, drive: Any, arrays: Any, shapes: Any, work: Work, found: Any
) -> None:  # fmt: skip
    """Write the products of listed units of features first .. last with their patches of one drive's F."""
    filtered, rows = floats(arrays, drive.filtered, 0), floats(arrays, drive.rows, 0)
    offsets, vectors = longs(arrays, drive.offsets)[base:], longs(arrays, shapes[drive.geometry, VECTORS])
    length, begin = rows.size // nf, 0
    for f in range(first, last):
        end = work.ends[f]
        if end > begin:
            products(filtered, offsets, work.places, begin, end, vectors, rows, f * length, length, found)
        begin = end


@njit(nogil=True, error_model="numpy")
def _products_of_own(
    n: int, base: int, drive: Any, arrays: Any, shapes: Any, work: Work, found: Any
) -> None:  # fmt: skip
    """Write the products of `n` listed units with patches of their own, of one drive's F."""
    geometry, filtered = shapes[drive.geometry], floats(arrays, drive.filtered, 0)
    offsets, own = longs(arrays, drive.offsets)[base:], floats(arrays, drive.own, 0)
    s, window = shape_of(geometry), floats(arrays, geometry[WINDOW_OF], 0)
    patches = own.reshape((own.size // window.size, window.size))
    order_by_position(work.places[:n], work.counts, work.order)
    products_of_units(
        filtered, offsets, work.places, work.units, work.order[:n], patches, s, window, found
    )  # fmt: skip


@njit(nogil=True, error_model="numpy")
def has_own(op: Any, drives: Any, arrays: Any) -> bool:
    """Return whether units have weights of their own, by any drive."""
    for d in range(op.drives[0], op.drives[1]):  # noqa: SIM110  (compiled)
        if floats(arrays, drive_in(drives[d]).own, 0).size > 0:
            return True
    return False


@njit(nogil=True, error_model="numpy")
def drive_listed(
    first: int, last: int, n: int, base: int, op: Any, drives: Any, arrays: Any, shapes: Any, work: Work
) -> None:  # fmt: skip
    """Write what all drives bring to the `n` listed units, of features first .. last."""
    for d in range(op.drives[0], op.drives[1]):
        into = work.found if d == op.drives[0] else work.values
        drive = drive_in(drives[d])
        if floats(arrays, drive.own, 0).size > 0:
            _products_of_own(n, base, drive, arrays, shapes, work, into)
        else:
            _products_of_shared(first, last, base, op.features, drive, arrays, shapes, work, into)
        if d > op.drives[0]:
            for i in range(n):
                work.found[i] += into[i]


@njit(nogil=True, error_model="numpy")
def potential(product: Any, history: Any, decay: Any) -> Any:
    """Return V of a unit from its drives, G and decay; the same roundings wherever it is computed."""
    return product + history * decay


@njit(nogil=True, error_model="numpy")
def update_due(
    n: int, base: int, nf: int, gain: Any, decay: Any, previous: Any, history: Any, c: Cell, work: Work,
    activity: Any, active: Any,
) -> int:  # fmt: skip
    """Update G of `n` listed units; write their activities and the bits of those active; return their number.

    `gain` is that of G.
    """
    found, values, count, factor, each = work.found, work.values, 0, gain * c.self_interaction, words(nf)
    for i in range(n):
        k = np.uint64(i)  # Unsigned indices need no test for negative ones.
        unit = work.units[k]
        h = history[unit] + factor * previous[unit]
        history[unit] = h
        found[k] = potential(found[k], h, decay)
    activities(found[:n], c, values[:n])
    for i in range(n):
        k = np.uint64(i)
        unit, a = work.units[k], values[k]
        activity[unit] = a
        # Without a branch: which of the due units are active cannot be predicted.
        one = np.uint64(a != _ZERO)
        position = np.uint64(base) + work.places[k]
        f = unit - position * np.uint64(nf)
        active[position * np.uint64(each) + (f >> _SHIFT)] |= one << (f & _LAST)
        count += int(one)
    return count


@njit(nogil=True, fastmath=FAST, error_model="numpy")
def activities(potentials: Any, c: Cell, out: Any) -> None:
    """Write the activities of potentials."""
    for i in range(out.size):
        a = transfer(potentials[i], c.curve)
        # Not -0, whose sign would tell when the unit was computed last.
        out[i] = _ZERO if a == _ZERO else a
