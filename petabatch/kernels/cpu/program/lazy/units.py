"""The units of a block that are due in the lazy update of a code, and their potentials."""

from __future__ import annotations

from typing import Any

import numpy as np

from petabatch.kernels.cpu.jit import njit
from petabatch.kernels.cpu.lazy.bound import products
from petabatch.kernels.cpu.non_shared import order_by_position, products_of_units
from petabatch.kernels.cpu.program.lazy.layout import Work
from petabatch.kernels.cpu.program.table import (
    BOUNDS,
    FEATURES,
    FILTERED,
    GEOMETRY,
    HISTORY,
    NORMS,
    OFFSETS,
    OWN,
    ROWS,
    VECTORS,
    WINDOW_OF,
    C,
    D,
)
from petabatch.kernels.cpu.program.transport import shape_of
from petabatch.kernels.cpu.program.views import floats, longs
from petabatch.kernels.cpu.rules import FAST, transfer
from petabatch.kernels.cpu.simd import lowest_bit, pair_operations
from petabatch.kernels.cpu.sizes import WORD
from petabatch.kernels.rules import Cell

_ONE, _ALL = np.uint64(1), ~np.uint64(0)
_, _, below_mask = pair_operations(WORD)


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
def integrate(
    drive: Any, code: Any, e: Any, gain: Any, first: Any, second: Any, a: Any, b: Any, c: Cell, history: Any,
    known: Any,
) -> None:  # fmt: skip
    """Update H of one position; write what is known of its potentials, with two thresholds the size."""
    for f in range(history.size):
        h = e * history[f] + gain * (drive[f] + c.self_interaction * code[f])
        history[f] = h
        u = h + a * first[f] + b * second[f]
        known[f] = abs(u) if c.signed else u


@njit(nogil=True, fastmath=FAST, error_model="numpy")
def integrate_all(drive: Any, code: Any, e: Any, gain: Any, c: Cell, history: Any, V: Any) -> None:
    """Update H of some units and add it to their drives, which makes them potentials."""
    for i in range(history.size):
        history[i] = e * history[i] + gain * (drive[i] + c.self_interaction * code[i])
    # On its own, so that V has the bits it is materialised with.
    for i in range(history.size):
        V[i] += history[i]


@njit(nogil=True, fastmath=FAST, error_model="numpy")
def _add_bound(norms: Any, bound: Any, known: Any) -> None:
    for f in range(known.size):
        known[f] += norms[f] * bound


@njit(nogil=True, error_model="numpy")
def norms_of(row: Any, drives: Any, arrays: Any, d: int) -> tuple[Any, int, Any]:
    """Return |w| of the features, how much further on those of the next position are, and bounds on |R|."""
    own = floats(arrays, drives[d, OWN], 0).size > 0
    norms, bounds = floats(arrays, drives[d, NORMS], 0), floats(arrays, drives[d, BOUNDS], 0)
    return norms, row[FEATURES] if own else 0, bounds


@njit(nogil=True, error_model="numpy")
def add_bounds(known: Any, position: int, row: Any, drives: Any, arrays: Any) -> None:
    """Add the bounds of all drives but the first to what is known of the potentials of one position."""
    for d in range(row[C] + 1, row[D]):
        norms, pitch, bounds = norms_of(row, drives, arrays, d)
        _add_bound(norms[position * pitch :], bounds[position], known)


@njit(nogil=True, error_model="numpy")
def mark_due(known: Any, nf: int, m: int, limits: Any, norms: Any, bound: Any, bits: Any) -> None:
    """Write which units of one position are due: bits `m` of the words of `bits`, one word per position."""
    for f in range(0, nf, WORD):
        found = below_mask(bound, norms, limits, f, known, f)
        if f + WORD > nf:
            found &= (_ONE << np.uint64(nf - f)) - _ONE
        bits[f + m] = found


@njit(nogil=True, error_model="numpy")
def list_due(bits: Any, base: int, nf: int, units: Any, places: Any, ends: Any) -> int:
    """List the due units of a block, feature by feature; return how many they are."""
    count, n = bits.size // nf, 0
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


@njit(nogil=True, error_model="numpy")
def _products(
    n: int, base: int, nf: int, drive: Any, arrays: Any, shapes: Any, work: Work, found: Any
) -> None:
    """Write the products of the `n` units that are listed with their patches of one drive's F."""
    geometry, filtered = shapes[drive[GEOMETRY]], floats(arrays, drive[FILTERED], 0)
    offsets, own = longs(arrays, drive[OFFSETS])[base:], floats(arrays, drive[OWN], 0)
    if own.size > 0:
        s, window = shape_of(geometry), floats(arrays, geometry[WINDOW_OF], 0)
        patches = own.reshape((own.size // window.size, window.size))
        order_by_position(work.places[:n], work.counts, work.order)
        products_of_units(
            filtered, offsets, work.places, work.units, work.order[:n], patches, s, window, found
        )  # fmt: skip
        return
    rows, vectors, begin = floats(arrays, drive[ROWS], 0), longs(arrays, geometry[VECTORS]), 0
    weights = rows.reshape((nf, rows.size // nf))
    for f in range(nf):
        end = work.ends[f]
        if end > begin:
            due = (work.places[begin:], end - begin)
            products(filtered, 0, offsets, *due, vectors, weights, f, found[begin:])
        begin = end


@njit(nogil=True, error_model="numpy")
def potentials(
    n: int, base: int, row: Any, drives: Any, arrays: Any, shapes: Any, work: Work, found: Any
) -> None:
    """Write V of the `n` units that are listed."""
    other, history = work.values, floats(arrays, row[HISTORY], 0)
    for d in range(row[C], row[D]):
        into = found if d == row[C] else other
        _products(n, base, row[FEATURES], drives[d], arrays, shapes, work, into)
        if d > row[C]:
            for i in range(n):
                found[i] += other[i]
    for i in range(n):
        found[i] += history[work.units[i]]


@njit(nogil=True, fastmath=FAST, error_model="numpy")
def activities(potentials: Any, c: Cell, out: Any) -> None:
    """Write the activities of potentials."""
    zero = np.float32(0)
    for i in range(out.size):
        a = transfer(potentials[i], c)
        # Not -0, whose sign would tell when the unit was computed last.
        out[i] = zero if a == zero else a
