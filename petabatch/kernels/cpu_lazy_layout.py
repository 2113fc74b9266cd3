"""What the lazy loop keeps of weights, slices and threads, and how it lies in memory; see `cpu_lazy`."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from petabatch.geometry import Patches
from petabatch.kernels.cpu_layout import PIECE, shape
from petabatch.variable import Array

WORD = 64
"""Positions whose alarms are looked at together."""
BLOCK = 4
"""Positions whose product with a feature is computed together."""
FEATURES = 4
"""Features whose products are computed together where all are."""


class Features(NamedTuple):
    """The weights as the lazy loop reads them."""

    rows: Array
    """`[nf, pieces * PIECE]`, patch rows rounded up to whole pieces."""
    norms: Array
    """|w| of each feature, not below the true one, `[nf]`."""
    groups: Array
    """For the reconstruction, as in `Dictionary`."""


class Sleep(NamedTuple):
    """What a slice needs beside its layers' state."""

    filtered: Array
    """F in the padding of the error image, with room for one piece."""
    history: Array
    """G, `[ny * nx * nf]`."""
    direction: Array
    """D, the way that F was to go when it was last looked at, in the same padding."""
    lead: Array
    """c, how much of it F has gone, `[1]`."""
    path: Array
    """Length of the way of each position's patch of F beside D, not below it, `[ny * nx + WORD]`."""
    slope: Array
    """What c adds to a unit's potential in units of |w|, `[nf, ny * nx + WORD]`."""
    alarm: Array
    """What slope c + path reaches when a unit is to be computed again, `[nf, ny * nx + WORD]`."""


class Bench(NamedTuple):
    """Scratch of one thread beside `Scratch`; `change` is shared by threads that share a slice."""

    change: Array
    """The square of what F moved by beside D, in the padding of the error image."""
    column: Array
    """The same, summed over the rows of patches, `[pitch]`."""
    due: Array
    """Positions of a chunk at which a feature is computed."""
    found: Array
    """Its products with their patches, in the first row; where all are computed, of FEATURES features."""
    marks: Array
    """Bits that say which units of a chunk are active, uint64 `[chunk, words]`."""


class Fading(NamedTuple):
    """Powers of e by age, float32 `[ages]`."""

    fade: Array
    gain: Array


def fading(e: np.float32, rest: np.float32) -> Fading:
    """Return the powers of e down to about e^-10, where H is rescaled."""
    ages = max(1, int(-10 / np.log(float(e))))
    powers = float(e) ** np.arange(ages + 1)
    return Fading(powers.astype(np.float32), (float(rest) / powers).astype(np.float32))


def features(p: Patches, groups: Array) -> Features:
    """Return room for the weights; `fill` does."""
    length = p.y.size * -(-p.x.size * p.channels // PIECE) * PIECE
    return Features(np.zeros((p.features, length), np.float32), np.zeros(p.features, np.float32), groups)


def fill(weights: Array, p: Patches, into: Features) -> None:
    """Put weights `[nf, K]` in order; to be done whenever they change, after `cpu_layout.pack`."""
    rows = into.rows.reshape(p.features, p.y.size, -1)
    rows[:, :, : p.x.size * p.channels] = weights.reshape(p.features, p.y.size, -1)
    into.norms[...] = np.sqrt(np.square(weights, dtype=np.float64).sum(1)) * (1 + 2.0**-20)


def sleep(p: Patches, history: Array) -> Sleep:
    """Return the state of a slice in which nobody sleeps."""
    padded, positions = p.y.padded * shape(p).pitch + PIECE, p.positions + WORD
    return Sleep(
        np.zeros(padded, np.float32),
        history,
        np.zeros(padded, np.float32),
        np.zeros(1, np.float32),
        np.zeros(positions, np.float32),
        np.zeros((p.features, positions), np.float32),
        np.full((p.features, positions), -np.inf, np.float32),
    )


def bench(p: Patches) -> Bench:
    """Return the scratch of one thread."""
    s = shape(p)
    return Bench(
        np.zeros(p.y.padded * s.pitch, np.float32),
        np.zeros(s.pitch, np.float32),
        np.zeros(s.chunk + BLOCK, np.int64),
        np.zeros((FEATURES, s.chunk + BLOCK), np.float32),
        np.zeros((s.chunk, -(-p.features // WORD)), np.uint64),
    )
