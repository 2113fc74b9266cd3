"""The memory layout of lazy evaluation: weights, state and scratch; see `__init__.py`."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from petabatch.geometry import Patches
from petabatch.kernels.cpu.jit import njit
from petabatch.kernels.cpu.layout import CACHE_LINE, Shape, shape
from petabatch.kernels.cpu.sizes import LANES, WORD
from petabatch.kernels.rules import Cell
from petabatch.variable import Array

POSITION_BLOCK = 4
"""Positions whose product with a feature is computed together."""
FEATURE_BLOCK = 4
"""Features whose products are computed together where all are."""
DUE_BLOCK = 256
"""Due units that are updated together, at least, where there are as many."""
ALWAYS = np.float32(-np.inf)
"""The wake level of a unit that is computed in every step."""


class Features(NamedTuple):
    """The weights in the order in which lazy evaluation reads them."""

    rows: Array
    """`[nf, vectors * LANES]`, patch rows rounded up to whole vectors."""
    norms: Array
    """|w| of each feature, not below the true one, `[nf]`."""
    groups: Array
    """For the reconstruction, as in `Dictionary`."""


class LazyState(NamedTuple):
    """The lazy state of a slice, in addition to its layers' state.

    Arrays over units lie as they are read, feature by feature: `[chunks * nf * chunk]`, where `first_row` is
    the first feature's; a tile's last chunk may be longer than its positions.
    """

    filtered: Array
    """F, padded like the error image, with room for one vector."""
    history: Array
    """G of each unit."""
    code: Array
    """The activity of each unit."""
    direction: Array
    """D, the direction in which F moves if the error stays as it was, padded in the same way."""
    progress: Array
    """c, how much of D has been added to F, `[1]`."""
    wasted: Array
    """Units that were computed and silent since D was chosen, float64 `[1]`."""
    path_length: Array
    """Path length of each position's patch of F apart from D, an upper bound, `[ny * nx + WORD]`."""
    slope: Array
    """What c adds to each unit's potential, in units of |w|."""
    wake_level: Array
    """What slope c + path length reaches when a unit is to be computed again."""


class DueUnits(NamedTuple):
    """Units of a chunk that are computed together."""

    place: Array
    feature: Array
    unit: Array
    """Index into the arrays of `LazyState`."""
    product: Array
    """Of the feature with the patch of F."""
    potential: Array
    activity: Array
    norm: Array
    path_length: Array
    wake_level: Array
    """First slope c + path length, then the wake level."""


class LazyScratch(NamedTuple):
    """Scratch of one thread, in addition to `Scratch`; threads that share a slice share `squares`."""

    squares: Array
    """Squared change of F apart from D in this step, padded like the error image."""
    column: Array
    """The same, summed over the rows of patches, `[pitch]`."""
    products: Array
    """Products of CACHE_LINE features with all patches of a chunk."""
    active_bits: Array
    """Which units of a chunk are active, a bit each, uint64 `[chunk, words]`."""
    due: DueUnits


class DecayTable(NamedTuple):
    """The constants of a step, V = e V + gain drive, by age: e is `powers[1]`, the gain `scaled_gain[0]`.

    They are no fields of their own because with those of `Cell` the floats would exceed the registers for
    arguments, and to pass a model would take 2 % of a step.
    """

    powers: Array
    """e^age, float32 `[ages]`."""
    scaled_gain: Array
    """gain / e^age, float32 `[ages]`."""


class LazyModel(NamedTuple):
    """What a lazy step computes with and does not change."""

    weights: Features
    cell: Cell
    decay: DecayTable
    shape: Shape


def decay_table(e: np.float32, gain: np.float32) -> DecayTable:
    """Return the powers of e down to about e^-10, where G is rescaled."""
    ages = max(1, int(-10 / np.log(float(e))))
    powers = float(e) ** np.arange(ages + 1)
    return DecayTable(powers.astype(np.float32), (float(gain) / powers).astype(np.float32))


def features(p: Patches, groups: Array) -> Features:
    """Return room for the weights; `fill` fills it."""
    length = p.y.size * -(-p.x.size * p.channels // LANES) * LANES
    return Features(np.zeros((p.features, length), np.float32), np.zeros(p.features, np.float32), groups)


def fill(weights: Array, p: Patches, into: Features) -> None:
    """Put weights `[nf, K]` in order; to be called whenever they change."""
    rows = into.rows.reshape(p.features, p.y.size, -1)
    rows[:, :, : p.x.size * p.channels] = weights.reshape(p.features, p.y.size, -1)
    into.norms[...] = norms(weights)


def norms(weights: Array) -> Array:
    """Return the length of each row of weights `[n, K]`, not below the true one."""
    return np.sqrt(np.einsum("nk,nk->n", weights, weights, dtype=np.float64)) * (1 + 2.0**-20)


def lazy_state(p: Patches, history: Array) -> LazyState:
    """Return the state of a slice in which no unit sleeps; `history` is `[padded_units]`."""
    padded, units = p.y.padded * shape(p).pitch + LANES, history.shape
    return LazyState(
        filtered=np.zeros(padded, np.float32),
        history=history,
        code=np.zeros(units, np.float32),
        direction=np.zeros(padded, np.float32),
        progress=np.zeros(1, np.float32),
        wasted=np.zeros(1),
        path_length=np.zeros(p.positions + WORD, np.float32),
        slope=np.zeros(units, np.float32),
        wake_level=np.full(units, ALWAYS, np.float32),
    )


@njit(nogil=True, error_model="numpy")
def first_row(tile: int, place: int, s: Shape) -> Any:
    """Return the row of the first feature of the chunk that begins at `place` of a tile."""
    return (tile * -(-(s.tile * s.nx) // s.chunk) + place // s.chunk) * s.features


def lazy_scratch(p: Patches) -> LazyScratch:
    """Return the scratch of one thread."""
    s = shape(p)
    return LazyScratch(
        np.zeros(p.y.padded * s.pitch, np.float32),
        np.zeros(s.pitch, np.float32),
        np.zeros((CACHE_LINE, s.chunk + POSITION_BLOCK), np.float32),
        np.zeros((s.chunk, -(-p.features // WORD)), np.uint64),
        due_units(s.chunk),
    )


def due_units(chunk: int) -> DueUnits:
    """Return room for DUE_BLOCK units and those of one more feature."""
    room = DUE_BLOCK + chunk + POSITION_BLOCK
    places, numbers = (np.zeros((n, room), kind) for n, kind in ((3, np.uint64), (6, np.float32)))
    return DueUnits(*places, *numbers)
