"""How the compiled kernels lay out a layer's patches, a dictionary and their scratch space in memory.

Sizes follow from the geometry and the processor's register length alone, never from batch or threads.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import njit

from petabatch.geometry import Patches
from petabatch.kernels.cpu.simd import register_lanes
from petabatch.variable import Array

PANEL = 2 * register_lanes()
"""Features whose drive is computed together, in two registers for each position."""
BLOCK = 6
"""Positions whose drive is computed together: 6 times 2 registers of sums leave 4 of the usual 16."""
PIECE, GROUP = 8, 8
"""A patch is summed up in groups of 8 pieces of 8 weights, which stay in registers meanwhile."""
CHUNK = 256
"""About as many positions share a pass over the weights."""
WORD = 64
"""Positions that are looked at together, to see which of their units sleep; a chunk is whole words."""


class Shape(NamedTuple):
    """The numbers of a geometry, for compiled functions; lengths along x count floats, not units."""

    ny: int
    nx: int
    features: int
    rows: int
    """Rows of a patch; `row` is the length of one."""
    row: int
    stride_y: int
    height: int
    width: int
    top: int
    """Padding above the fine layer; `left` that before it."""
    left: int
    pitch: int
    """From one row of the padded fine layer to the next."""
    origin: int
    """Row of the padded fine layer where the first patch starts."""
    tile: int
    """Rows of units in a tile: its patches are added up in a strip of its own."""
    chunk: int
    """Positions of a tile that are worked through together; a multiple of WORD, or 1."""
    wide: int
    """Features rounded up to whole panels."""


class Scratch(NamedTuple):
    """What one thread needs beside the state of the slice it works on; holds nothing between calls."""

    error: Array
    """The padded error image, `[rows * pitch]`, with room for one piece; its padding stays zero."""
    strips: Array
    """The patches of each tile added up, `[tiles, strip]`."""
    window: Array
    """The patch of one position, of units that have patches of their own, `[K]`."""
    drive: Array
    """Drive, then activity, `[positions, wide]`, a chunk's positions rounded up to whole blocks."""
    active: Array
    """Features of the active units of a chunk, `[chunk * nf]`; `ends` says where each position's end."""
    values: Array
    """Their activities."""
    ends: Array
    places: Array
    """Where in the padded fine layer each position's patch starts, from the start of its tile's."""
    pieces: Array
    """Where in a patch each piece starts."""
    tallies: Array
    """What each tile counts, float64 `[tiles, 5]`; see `cpu_pace.py`."""
    turned: Array
    """By how much the drive of each unit turned since the step before, for FISTA alone."""


class Dictionary(NamedTuple):
    """The weights in the orders in which they are read."""

    panels: Array
    """For the drive: `[panel, K, PANEL]`."""
    groups: Array
    """For the reconstruction: `[group, nf, GROUP * PIECE]`, patch rows rounded up to whole pieces."""
    own: Array
    """`[positions, nf, K]` of units that have patches of their own, read as they lie; empty otherwise."""


def shape(p: Patches) -> Shape:
    """Return the numbers of a geometry; the coarse layer must have no margin."""
    if p.y.margin or p.x.margin:
        raise ValueError("the compiled loop needs a zero border of the coarse layer")
    # A tile at least as high as patches overlap, so that at most few strips meet in a row.
    tile = min(p.y.coarse, max(-(-CHUNK // p.x.coarse), -(-p.y.size // p.y.stride)))
    positions = tile * p.x.coarse
    chunks = -(-positions // CHUNK)
    # Patches of a position's own are read twice, the second time from the cache.
    chunk = -(-positions // (chunks * WORD)) * WORD if p.shared else 1
    return Shape(
        ny=p.y.coarse,
        nx=p.x.coarse,
        features=p.features,
        rows=p.y.size,
        row=p.x.size * p.channels,
        stride_y=p.y.stride,
        height=p.y.fine,
        width=p.x.fine * p.channels,
        top=p.y.before,
        left=p.x.before * p.channels,
        pitch=p.x.padded * p.channels,
        origin=p.y.offset,
        tile=tile,
        chunk=chunk,
        wide=-(-p.features // PANEL) * PANEL,
    )


def scratch(p: Patches, accelerated: bool = False) -> Scratch:
    """Return the scratch space of one thread; FISTA, which is `accelerated`, needs more."""
    s = shape(p)
    y, x = np.divmod(np.arange(s.tile * s.nx), s.nx)
    pieces = (np.arange(s.rows)[:, None] * s.pitch + PIECE * np.arange(_row_pieces(p))).reshape(-1)
    # The last piece of a row may reach into the next row or the room at the end, where it adds zeros.
    strip = ((s.tile - 1) * s.stride_y + s.rows) * s.pitch + PIECE
    return Scratch(
        error=np.zeros(p.y.padded * s.pitch + PIECE, np.float32),
        strips=np.zeros((-(-s.ny // s.tile), strip), np.float32),
        window=np.zeros(0 if p.shared else p.length, np.float32),
        drive=np.zeros(-(-s.chunk // BLOCK) * BLOCK * s.wide, np.float32),
        active=np.zeros(s.chunk * s.features, np.int32),
        values=np.zeros(s.chunk * s.features, np.float32),
        ends=np.zeros(s.chunk + 1, np.int64),
        places=y * (s.stride_y * s.pitch) + (p.x.offset + x * p.x.stride) * p.channels,
        pieces=np.concatenate([pieces, np.zeros(_groups(p) * GROUP - len(pieces), np.int64)]),
        tallies=np.zeros((-(-s.ny // s.tile), 5)),
        turned=np.zeros(p.positions * s.features if accelerated else 0, np.float32),
    )


def dictionary(p: Patches) -> Dictionary:
    """Return room for the weights of one kernel; `pack` fills it."""
    return Dictionary(
        np.zeros((shape(p).wide // PANEL, p.length, PANEL), np.float32),
        np.zeros((_groups(p), p.features, GROUP * PIECE), np.float32),
        np.zeros((0, 0, 0), np.float32),
    )


def own_patches(weights: Array) -> Dictionary:
    """Return weights `[positions, nf, K]` of units that have patches of their own."""
    nothing = np.zeros((0, 0, 0), np.float32)
    return Dictionary(nothing, nothing, weights)


@njit(nogil=True, error_model="numpy", cache=True)
def same(a: Any, b: Any) -> bool:
    """Say whether two flat arrays hold the same numbers."""
    for i in range(a.size):  # noqa: SIM110  (a loop is compiled to better code)
        if a[i] != b[i]:
            return False
    return True


def pack(weights: Array, p: Patches, into: Dictionary) -> None:
    """Put weights `[nf, K]` in the orders in which they are read; to be done whenever they change."""
    nf, length = p.features, p.length
    for number, panel in enumerate(into.panels):
        part = weights[number * PANEL : (number + 1) * PANEL]
        panel[:, : len(part)] = part.T
    rows = np.zeros((nf, p.y.size, _row_pieces(p) * PIECE), np.float32)
    rows[:, :, : p.x.size * p.channels] = weights.reshape(nf, p.y.size, length // p.y.size)
    flat = np.zeros((nf, len(into.groups) * GROUP * PIECE), np.float32)
    flat[:, : rows[0].size] = rows.reshape(nf, -1)
    into.groups[...] = flat.reshape(nf, len(into.groups), GROUP * PIECE).swapaxes(0, 1)


def packed(weights: Array, p: Patches) -> Dictionary:
    """Return the weights of one slice, of whatever mode, in reading order."""
    if not p.shared:
        return own_patches(weights.reshape(p.groups, p.features, p.length))
    into = dictionary(p)
    pack(weights.reshape(p.features, p.length), p, into)
    return into


def _row_pieces(p: Patches) -> int:
    return -(-p.x.size * p.channels // PIECE)


def _groups(p: Patches) -> int:
    return -(-p.y.size * _row_pieces(p) // GROUP)
