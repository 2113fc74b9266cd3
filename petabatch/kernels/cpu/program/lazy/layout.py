"""Arrays of the lazy update of a code: weights, what is kept of its bound, and scratch of a thread."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from petabatch.geometry import Patches
from petabatch.kernels.cpu.jit import njit
from petabatch.kernels.cpu.program.units import CHUNK
from petabatch.kernels.cpu.program.views import floats, unsigned
from petabatch.kernels.cpu.sizes import LANES, WORD
from petabatch.variable import Array

(
    COMPUTED, ACTIVE, WASTED, TAKEN, SQUARE_0, SQUARE_1, MIXED, KNOWN, DUE, FACTOR_0, FACTOR_1, RESCALE, E,
    GAIN,
) = range(14)  # fmt: skip
"""What is kept of a code's bound: units computed and units active so far; units computed and silent since the
last snapshot; snapshots taken; scalar products of the snapshots; whether the bits of active units are known;
whether a snapshot is due; and of the present step the coefficients of the snapshots, the factor by which G is
rescaled (-1: it is not), e and 1 - e."""
KEPT_NUMBERS = 14
BLOCK = 256
"""Positions whose units are tested together, and listed feature by feature: whole words."""
GROUP = 256
"""Due units that are updated together, at least, where there are as many and weights are shared."""


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
    order: Array
    """Due units in the order of their positions."""
    counts: Array
    """Where the units of each position begin in that order."""


def rooms(nf: int) -> tuple[int, int]:
    """Return the lengths of the float32 and of the uint64 scratch for a code of `nf` features."""
    wide, room = -(-nf // WORD) * WORD, BLOCK * nf + LANES
    return 2 * (wide + room + max(CHUNK, nf)), wide + BLOCK // WORD * nf + nf + 3 * room + BLOCK + 1


class Features(NamedTuple):
    """Shared weights in the order in which due units read them."""

    rows: Array
    """`[nf, vectors * LANES]`, patch rows rounded up to whole vectors."""
    norms: Array
    """|w| of each feature, not below the true one, `[nf]`, with room for a whole word."""


def features(p: Patches) -> Features:
    """Return room for weights; `fill` fills it."""
    length = p.y.size * -(-p.x.size * p.channels // LANES) * LANES
    return Features(np.zeros((p.features, length), np.float32), np.zeros(p.features + WORD, np.float32))


def fill(weights: Array, p: Patches, into: Features) -> None:
    """Put weights `[nf, K]` in order; to be called whenever they change."""
    rows = into.rows.reshape(p.features, p.y.size, -1)
    rows[:, :, : p.x.size * p.channels] = weights.reshape(p.features, p.y.size, -1)
    into.norms[: p.features] = norms(weights)


def norms(weights: Array) -> Array:
    """Return the length of each row of weights `[n, K]`, not below the true one."""
    return np.sqrt(np.einsum("nk,nk->n", weights, weights, dtype=np.float64)) * (1 + 2.0**-20)


@njit(nogil=True, error_model="numpy")
def words(nf: int) -> int:
    """Return the words that hold a bit for each feature."""
    count: int = -(-nf // WORD)
    return count


@njit(nogil=True, error_model="numpy")
def work_of(op: Any, arrays: Any) -> Work:
    """Return the thread's scratch for a block of positions."""
    nf, numbers, lists = op.features, floats(arrays, op.floats, 0), unsigned(arrays, op.lists)
    wide, room, block = -(-nf // WORD) * WORD, BLOCK * nf + LANES, BLOCK // WORD * nf
    buffers, at, listed = 2 * max(CHUNK, nf), 2 * wide + 2 * room, wide + block + nf
    return Work(
        numbers[:wide], numbers[wide : 2 * wide], numbers[2 * wide : 2 * wide + room],
        numbers[2 * wide + room : at], numbers[at : at + buffers],
        lists[:wide], lists[wide : wide + block], lists[wide + block : listed].view(np.int64),
        lists[listed : listed + room], lists[listed + room : listed + 2 * room],
        lists[listed + 2 * room : listed + 3 * room], lists[listed + 3 * room :],
    )  # fmt: skip
