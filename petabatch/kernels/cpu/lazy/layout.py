"""What the lazy loop keeps of weights, slices and threads, and how it lies in memory; see `cpu_lazy`."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import njit

from petabatch.geometry import Patches
from petabatch.kernels.cpu.layout import PIECE, WORD, Shape, shape
from petabatch.variable import Array

BLOCK = 4
"""Positions whose product with a feature is computed together."""
TOGETHER = 256
"""Units that are updated together at least, where so many are due."""
FEATURES = 4
"""Features whose products are computed together where all are."""
LINE = 16
"""Numbers in a line of memory: as many features change between the order of layers and ours together."""


class Features(NamedTuple):
    """The weights as the lazy loop reads them."""

    rows: Array
    """`[nf, pieces * PIECE]`, patch rows rounded up to whole pieces."""
    norms: Array
    """|w| of each feature, not below the true one, `[nf]`."""
    groups: Array
    """For the reconstruction, as in `Dictionary`."""


class LazyState(NamedTuple):
    """What a slice needs beside its layers' state.

    What is kept for each unit lies as it is read, feature by feature: `[chunks * nf * chunk]`, where
    `first_row` is the first feature's; a tile's last chunk may be longer than its positions.
    """

    filtered: Array
    """F in the padding of the error image, with room for one piece."""
    history: Array
    """G of each unit."""
    code: Array
    """The activity of each unit."""
    direction: Array
    """D, the way that F was to go when it was last looked at, in the same padding."""
    lead: Array
    """c, how much of it F has gone, `[1]`."""
    in_vain: Array
    """Units that were computed and silent since D was chosen, float64 `[1]`."""
    path: Array
    """Length of the way of each position's patch of F beside D, not below it, `[ny * nx + WORD]`."""
    slope: Array
    """What c adds to each unit's potential, in units of |w|."""
    alarm: Array
    """What slope c + path reaches when a unit is to be computed again."""


class DueUnits(NamedTuple):
    """Units of a chunk that are computed together, and what is known of each."""

    place: Array
    feature: Array
    unit: Array
    """Where in the arrays of `Sleep`."""
    product: Array
    """Of the feature with the patch of F."""
    potential: Array
    activity: Array
    norm: Array
    path: Array
    alarm: Array
    """First slope c + path, then the alarm."""


class LazyScratch(NamedTuple):
    """Scratch of one thread beside `Scratch`; `change` is shared by threads that share a slice."""

    change: Array
    """The square of what F moved by beside D, in the padding of the error image."""
    column: Array
    """The same, summed over the rows of patches, `[pitch]`."""
    found: Array
    """Products of LINE features with all patches of a chunk."""
    marks: Array
    """Bits that say which units of a chunk are active, uint64 `[chunk, words]`."""
    due: DueUnits
    """Units that are computed together."""


class DecayTable(NamedTuple):
    """Powers of e by age, float32 `[ages]`."""

    fade: Array
    gain: Array


def decay_table(e: np.float32, rest: np.float32) -> DecayTable:
    """Return the powers of e down to about e^-10, where H is rescaled."""
    ages = max(1, int(-10 / np.log(float(e))))
    powers = float(e) ** np.arange(ages + 1)
    return DecayTable(powers.astype(np.float32), (float(rest) / powers).astype(np.float32))


def features(p: Patches, groups: Array) -> Features:
    """Return room for the weights; `fill` does."""
    length = p.y.size * -(-p.x.size * p.channels // PIECE) * PIECE
    return Features(np.zeros((p.features, length), np.float32), np.zeros(p.features, np.float32), groups)


def fill(weights: Array, p: Patches, into: Features) -> None:
    """Put weights `[nf, K]` in order; to be done whenever they change, after `cpu_layout.pack`."""
    rows = into.rows.reshape(p.features, p.y.size, -1)
    rows[:, :, : p.x.size * p.channels] = weights.reshape(p.features, p.y.size, -1)
    into.norms[...] = np.sqrt(np.square(weights, dtype=np.float64).sum(1)) * (1 + 2.0**-20)


def kept_units(p: Patches) -> int:
    """Return how long the arrays are that hold a number for each unit."""
    s = shape(p)
    return -(-s.ny // s.tile) * -(-(s.tile * s.nx) // s.chunk) * s.features * s.chunk


def sleep(p: Patches, history: Array) -> LazyState:
    """Return the state of a slice in which nobody sleeps, with `history` of `kept_units`."""
    padded, units = p.y.padded * shape(p).pitch + PIECE, history.shape
    return LazyState(
        filtered=np.zeros(padded, np.float32),
        history=history,
        code=np.zeros(units, np.float32),
        direction=np.zeros(padded, np.float32),
        lead=np.zeros(1, np.float32),
        in_vain=np.zeros(1),
        path=np.zeros(p.positions + WORD, np.float32),
        slope=np.zeros(units, np.float32),
        alarm=np.full(units, -np.inf, np.float32),
    )


@njit(nogil=True, error_model="numpy", cache=True)
def first_row(tile: int, place: int, s: Shape) -> Any:
    """Return the row of the first feature of the chunk that begins at `place` of a tile."""
    return (tile * -(-(s.tile * s.nx) // s.chunk) + place // s.chunk) * s.features


def bench(p: Patches) -> LazyScratch:
    """Return the scratch of one thread."""
    s = shape(p)
    return LazyScratch(
        np.zeros(p.y.padded * s.pitch, np.float32),
        np.zeros(s.pitch, np.float32),
        np.zeros((LINE, s.chunk + BLOCK), np.float32),
        np.zeros((s.chunk, -(-p.features // WORD)), np.uint64),
        due(s.chunk),
    )


def due(chunk: int) -> DueUnits:
    """Return room for TOGETHER units and those of one more feature."""
    room = TOGETHER + chunk + BLOCK
    places, numbers = (np.zeros((n, room), kind) for n, kind in ((3, np.uint64), (6, np.float32)))
    return DueUnits(*places, *numbers)
