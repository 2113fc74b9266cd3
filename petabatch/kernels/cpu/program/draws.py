"""Random numbers of row functions, compiled: one for each unit, from a word of its own or half of one.

Normal numbers are pairs by Box and Muller, in loops that compilers make vectors of; in float32 logarithm,
sine and cosine are polynomials (Moshier's Cephes, `logf.c` and `sinf.c`), to 1e-7. Both precisions make their
numbers of the same words; `spec/rows.py` is the reference.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numba import types
from numba.extending import overload

from petabatch.kernels.cpu.arrays import copy
from petabatch.kernels.cpu.elementary import cos, log, sin
from petabatch.kernels.cpu.jit import FAST, njit
from petabatch.kernels.cpu.program.random import WORDS, stream_key, words
from petabatch.kernels.cpu.program.records import operation
from petabatch.kernels.operations.updates import Draw

_f = np.float32
_PAIRS = 128
"""Pairs in a block: its units have the cosines first, then the sines."""
_UNIT = _f(2.0**-24)


@operation(Draw)
def _draw(op: Any, step: int) -> None:
    draw(op.pool, step, op.normal, op.words, op.out)


@njit(nogil=True, error_model="numpy")
def draw(pool: Any, step: int, normal: bool, room: Any, out: Any) -> None:
    """Write a random number for each unit: normal, or uniform in [0, 1) with 24 bits."""
    low, high = stream_key(pool, step)
    real = out.dtype.type
    if not normal:
        for begin in range(0, out.size, WORDS):
            part = out[begin : begin + WORDS]
            drawn = words(room, low, high, begin, part.size)
            for i in range(part.size):
                part[i] = real(np.uint32(drawn[i] >> np.uint64(40))) * _UNIT
        return
    pair = np.empty(2 * _PAIRS, out.dtype)
    for begin in range(0, out.size, 2 * _PAIRS):
        drawn = words(room, low, high, begin // 2, _PAIRS)
        if begin + 2 * _PAIRS <= out.size:
            _pairs(drawn, out[begin : begin + 2 * _PAIRS])
        else:
            _pairs(drawn, pair)
            copy(pair, out[begin:])


@njit(nogil=True, error_model="numpy")
def draw_each(pools: Any, step: int, normal: bool, room: Any, out: Any) -> None:
    """Do as `draw` for several streams; `pools` `[streams, 4]`, `out` `[streams, units]`."""
    for n in range(out.shape[0]):
        draw(pools[n], step, normal, room, out[n])


def _pairs(drawn: Any, out: Any) -> None:
    """Write the normal numbers of a block of words."""


@overload(_pairs, strict=False)
def _pairs_of(drawn: Any, out: Any) -> Any:
    if out.dtype == types.float64:
        return lambda drawn, out: _pairs64(drawn, out)
    return lambda drawn, out: _pairs32(drawn, out)


@njit(nogil=True, error_model="numpy")
def _pairs64(drawn: Any, out: Any) -> None:
    for i in range(_PAIRS):
        # Rounded as in float32, where half a unit is lost.
        chance = np.float64(_f(np.int32(drawn[i] >> np.uint64(40))) + _f(0.5)) * np.float64(_UNIT)
        angle = np.float64(np.int32(drawn[i] & np.uint64(0xFFFFFF))) * (2 * math.pi * np.float64(_UNIT))
        r = np.sqrt(-2 * log(chance))
        out[i], out[_PAIRS + i] = r * cos(angle), r * sin(angle)


@njit(nogil=True, error_model="numpy", fastmath=FAST)
def _pairs32(drawn: Any, out: Any) -> None:
    radii = out[:_PAIRS]
    exponents, angles = np.empty(_PAIRS, np.int32), np.empty(_PAIRS, np.float32)
    for i in range(_PAIRS):
        radii[i] = (_f(np.int32(drawn[i] >> np.uint64(40))) + _f(0.5)) * _UNIT
        angles[i] = _f(np.int32(drawn[i] & np.uint64(0xFFFFFF))) * (_f(4) * _UNIT)
    bits = radii.view(np.int32)
    for i in range(_PAIRS):
        exponents[i] = (bits[i] >> np.int32(23)) - np.int32(126)
        bits[i] = (bits[i] & np.int32(0x7FFFFF)) | np.int32(0x3F000000)
    for i in range(_PAIRS):
        r = np.sqrt(max(_f(0), _f(-2) * _log(radii[i], _f(exponents[i]))))
        quarter = np.int32(angles[i])
        x = (angles[i] - _f(quarter) - _f(0.5)) * _f(math.pi / 2)
        s, c = _sine(x), _cosine(x)
        # The angle is x + (quarter + 1/2) pi / 2.
        a, b = (c - s) * _f(math.sqrt(0.5)), (c + s) * _f(math.sqrt(0.5))
        swapped, down = (quarter & np.int32(1)) != 0, quarter >= np.int32(2)
        cosine = -b if swapped else a
        sine = a if swapped else b
        radii[i] = r * (-cosine if down else cosine)
        out[_PAIRS + i] = r * (-sine if down else sine)


@njit(nogil=True, error_model="numpy", fastmath=FAST)
def _log(m: Any, e: Any) -> Any:
    """Return the logarithm of m 2^e, with m in [1/2, 1)."""
    small = m < _f(0.707106781)
    x = (m + m if small else m) - _f(1)
    e = e - _f(1) if small else e
    y = _f(7.0376836292e-2)
    y = y * x - _f(1.1514610310e-1)
    y = y * x + _f(1.1676998740e-1)
    y = y * x - _f(1.2420140846e-1)
    y = y * x + _f(1.4249322787e-1)
    y = y * x - _f(1.6668057665e-1)
    y = y * x + _f(2.0000714765e-1)
    y = y * x - _f(2.4999993993e-1)
    y = y * x + _f(3.3333331174e-1)
    square = x * x
    return x + (y * x * square - _f(0.5) * square) + e * _f(0.693147181)


@njit(nogil=True, error_model="numpy", fastmath=FAST)
def _sine(x: Any) -> Any:
    z = x * x
    return ((_f(-1.9515295891e-4) * z + _f(8.3321608736e-3)) * z - _f(1.6666654611e-1)) * z * x + x


@njit(nogil=True, error_model="numpy", fastmath=FAST)
def _cosine(x: Any) -> Any:
    z = x * x
    high = (_f(2.443315711809948e-5) * z - _f(1.388731625493765e-3)) * z + _f(4.166664568298827e-2)
    return high * z * z - _f(0.5) * z + _f(1)
