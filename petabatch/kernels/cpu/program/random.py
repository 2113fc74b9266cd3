"""Random numbers of a step, compiled: those of `petabatch.random.stream`, bit for bit.

They are those of numpy's generator: SeedSequence gives the key of Philox (Salmon et al. 2011), whose blocks
of four words depend on key and place alone; normal numbers are made by its ziggurat.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic
from numba.np.random._constants import (
    fi_double,
    ki_double,
    wi_double,
    ziggurat_nor_inv_r,
    ziggurat_nor_r,
)

from petabatch.kernels.cpu.jit import njit
from petabatch.kernels.cpu.program.records import operation
from petabatch.kernels.operations.updates import Drop, Noise, Shots

WORDS = 256
"""Words that are drawn at a time, a multiple of 4; `words` needs room for 4 more."""
_u8 = np.uint64
_AFTER = (0x43B0D7E5 * pow(0x931E8875, 24, 2**32)) % 2**32
"""SeedSequence's constant after 24 hashes: those of four words of a seed, a purpose and a slice."""


@intrinsic
def _high(typing: Any, a: Any, b: Any) -> Any:
    """Return the upper half of the product of two uint64."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        wide = ir.IntType(128)
        product = builder.mul(builder.zext(args[0], wide), builder.zext(args[1], wide))
        return builder.trunc(builder.lshr(product, wide(64)), ir.IntType(64))

    return types.uint64(types.uint64, types.uint64), generate


@njit(nogil=True, error_model="numpy")
def stream_key(pool: Any, step: int) -> tuple[Any, Any]:
    """Return the key of Philox for a step; `pool` is its `stream_pool`.

    Source: numpy's `bit_generator.pyx`, `mix_entropy` and `generate_state`.
    """
    u4 = np.uint32
    hashing, after = u4(_AFTER), u4(0x8B51F9DD)
    low, high = _u8(0), _u8(0)
    for i in range(4):
        value = u4(step) ^ hashing
        hashing = u4(hashing * u4(0x931E8875))
        value = u4(value * hashing)
        value ^= value >> u4(16)
        mixed = u4(u4(u4(0xCA01F9DD) * u4(pool[i])) - u4(u4(0x4973F715) * value))
        mixed ^= mixed >> u4(16)
        mixed ^= after
        after = u4(after * u4(0x58F38DED))
        mixed = u4(mixed * after)
        mixed ^= mixed >> u4(16)
        part = _u8(mixed) << _u8(32 * (i % 2))
        if i < 2:
            low |= part
        else:
            high |= part
    return low, high


@njit(nogil=True, error_model="numpy")
def words(room: Any, low: Any, high: Any, first: int, count: int) -> Any:
    """Write `count` words of a stream from number `first` on to `room`; return where they lie in it."""
    block = first // 4
    n = 0
    while n < first % 4 + count:
        a, b, c, d = _u8(block + 1), _u8(0), _u8(0), _u8(0)
        k, m = low, high
        for _ in range(10):
            x, y = _high(_u8(0xD2E7470EE14C6C93), a), _high(_u8(0xCA5A826395121157), c)
            p, q = _u8(0xD2E7470EE14C6C93) * a, _u8(0xCA5A826395121157) * c
            a, b, c, d = y ^ b ^ k, q, x ^ d ^ m, p
            k += _u8(0x9E3779B97F4A7C15)
            m += _u8(0xBB67AE8584CAA73B)
        room[n], room[n + 1], room[n + 2], room[n + 3] = a, b, c, d
        block += 1
        n += 4
    return room[first % 4 : first % 4 + count]


@njit(nogil=True, error_model="numpy")
def uniform(word: Any) -> float:
    """Return a random word as a number of [0, 1)."""
    return float(word >> _u8(11)) * (1.0 / 9007199254740992.0)


@njit(nogil=True, error_model="numpy")
def _word(room: Any, low: Any, high: Any, n: int) -> Any:
    """Return word `n` of a stream that is read in order."""
    if n % WORDS == 0:
        words(room, low, high, n, WORDS)
    return room[n % WORDS]


@njit(nogil=True, error_model="numpy")
def _normal(room: Any, low: Any, high: Any, n: int) -> tuple[float, int]:
    """Return a normal number from words `n` on, and the number of the next word.

    Source: numpy's `distributions.c`, `random_standard_normal`.
    """
    while True:
        word = _word(room, low, high, n)
        n += 1
        place = int(word & _u8(0xFF))
        size = (word >> _u8(9)) & _u8(0x000FFFFFFFFFFFFF)
        x = float(size) * wi_double[place]
        if (word >> _u8(8)) & _u8(1):
            x = -x
        if size < ki_double[place]:
            return x, n
        if place > 0:
            u = uniform(_word(room, low, high, n))
            n += 1
            if (fi_double[place - 1] - fi_double[place]) * u + fi_double[place] < math.exp(-0.5 * x * x):
                return x, n
            continue
        while True:
            beyond = -ziggurat_nor_inv_r * math.log1p(-uniform(_word(room, low, high, n)))
            y = -math.log1p(-uniform(_word(room, low, high, n + 1)))
            n += 2
            if y + y > beyond * beyond:
                x = ziggurat_nor_r + beyond
                return (-x if (size >> _u8(8)) & _u8(1) else x), n


@operation(Noise)
def add_noise(op: Any, step: int) -> None:
    """Add normal noise to each unit, from number `first` of the stream on."""
    out, room, std = op.out, op.words, op.std
    low, high = stream_key(op.pool, step)
    n, real = 0, out.dtype.type
    offset = real(op.mean)
    for _ in range(op.first):  # how many words a number takes is found by drawing it
        _, n = _normal(room, low, high, n)
    for i in range(out.size):
        x, n = _normal(room, low, high, n)
        out[i] = real(np.float64(out[i] + offset) + std * x)


@operation(Drop)
def drop(op: Any, step: int) -> None:
    """Set random units to 0, by the numbers of the stream from `first` on."""
    out, room, probability, first = op.out, op.words, op.probability, op.first
    low, high = stream_key(op.pool, step)
    for begin in range(0, out.size, WORDS):
        part = out[begin : begin + WORDS]
        drawn = words(room, low, high, first + begin, part.size)
        for i in range(part.size):
            part[i] *= out.dtype.type(uniform(drawn[i]) >= probability)


@operation(Shots)
def add_shots(op: Any, step: int) -> None:
    """Add shot noise to the input of a channel of three: uniform up to `size`, with a probability."""
    out, hits, sizes, channel, size, chance = op.out, op.words, op.more, op.channel, op.size, op.probability
    low, high = stream_key(op.pool, step)
    for begin in range(0, out.size, WORDS):
        part = out[begin : begin + WORDS]
        hit = words(hits, low, high, channel * out.size + begin, part.size)
        drawn = words(sizes, low, high, (3 + channel) * out.size + begin, part.size)
        for i in range(part.size):
            if uniform(hit[i]) < chance:
                part[i] += out.dtype.type(size * uniform(drawn[i]))
