"""Events of Poisson processes in a step, compiled: counts by inversion, from random words of the unit's own.

`layers/poisson.py` is the reference, with the same bits from the same mean.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from petabatch.kernels.cpu.jit import njit
from petabatch.kernels.cpu.program.random import WORDS, stream_key, uniform, words
from petabatch.kernels.cpu.program.records import operation
from petabatch.kernels.operations.updates import CountEvents
from petabatch.kernels.poisson import LARGEST, NEGLIGIBLE, PIECE, SQUARINGS, TERMS


@njit(nogil=True, error_model="numpy")
def _exp_minus(x: float) -> float:
    """Return exp(-x), x at most PIECE, by additions and products alone."""
    y, e = x / (1 << SQUARINGS), 1.0
    for k in range(TERMS, 0, -1):
        e = 1.0 - y * e / k
    for _ in range(SQUARINGS):
        e = e * e
    return e


@njit(nogil=True, error_model="numpy")
def _count(mean: float, chance: float) -> int:
    """Return the smallest n with P(N <= n) > chance, for N of Poisson's distribution."""
    p = _exp_minus(mean)
    below, n = p, 0
    while chance >= below and p > NEGLIGIBLE:
        n += 1
        p = p * mean / n
        below += p
    return n


@operation(CountEvents)
def _count_events(op: Any, step: int) -> None:
    """Replace what arrived at each unit by its number of events, with mean dt times the sum of both rates.

    A large mean is divided into pieces; piece k of unit i has word k * units + i of the stream.
    """
    out, room, more, rate, dt = op.out, op.words, op.more, op.rate, op.dt
    low, high = stream_key(op.pool, step)
    for begin in range(0, out.size, WORDS):
        part = out[begin : begin + WORDS]
        drawn = words(room, low, high, begin, part.size)
        for i in range(part.size):
            both = rate + np.float64(part[i])
            mean = 0.0 if both < 0 else dt * both
            chance = uniform(drawn[i])
            if chance < 1.0 - mean - 1e-12:  # most often, without the exponential
                part[i] = 0
            elif mean <= PIECE:
                part[i] = _count(mean, chance)
            elif mean <= LARGEST:
                pieces = math.ceil(mean / PIECE)
                n = _count(mean / pieces, chance)
                for k in range(1, pieces):
                    n += _count(
                        mean / pieces, uniform(words(more, low, high, k * out.size + begin + i, 1)[0])
                    )
                part[i] = n
            else:
                part[i] = np.nan
