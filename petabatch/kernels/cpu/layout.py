"""The memory layout of the compiled kernels: sizes, weights in reading order, scratch, tiles, chunks.

Sizes follow from the geometry and the target's register length alone, never from batch or threads.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from petabatch.geometry import Patches
from petabatch.kernels.cpu.jit import njit
from petabatch.kernels.cpu.sizes import AT_ONCE, GROUP, LANES, tiling
from petabatch.kernels.cpu.target import lanes
from petabatch.variable import Array

PANEL = 2 * lanes()
"""Features whose drive is computed together, in two registers for each position."""
_FEATURES = 32
"""Features that are packed at a time, so that their buffer stays in the cache."""
DRIVE_BLOCK = 8 if lanes() == 16 else 6
"""Positions whose drive is computed together: 6 times 2 registers of sums leave 4 of the usual 16; AVX-512
has 32, and 8 suit the usual numbers of positions and slices better."""
CACHE_LINE = 16
"""Numbers in a line of the cache."""


class Shape(NamedTuple):
    """The sizes of a geometry, for compiled functions; lengths along x count floats, not units."""

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
    """Rows of units in a tile; its patches are added up in one strip."""
    chunk: int
    """Positions of a tile that are computed together; a multiple of WORD, or 1."""
    wide: int
    """Features rounded up to whole panels."""


class Scratch(NamedTuple):
    """Scratch of one thread; holds nothing between calls."""

    error: Array
    """The padded error image, `[rows * pitch]`, with room for one vector; its padding stays zero."""
    strips: Array
    """The patches of each tile added up, `[tiles, strip]`."""
    window: Array
    """The patch of the image at one position, for non-shared weights, `[K]`."""
    drive: Array
    """Drive, then activity, `[positions, wide]`, a chunk's positions rounded up to whole blocks."""
    active: Array
    """Features of the active units of a chunk, `[chunk * nf]`; `ends` says where each position's end."""
    values: Array
    """Their activities."""
    ends: Array
    places: Array
    """Where in the padded fine layer each position's patch starts, from the start of its tile's."""
    vectors: Array
    """Where in a patch each vector starts."""


class Dictionary(NamedTuple):
    """The weights of a drive, in the order in which they are read."""

    panels: Array
    """`[panel, K, PANEL]`; empty where weights are not shared."""
    non_shared: Array
    """Non-shared patches `[positions, nf, K]`, read as they lie; empty where weights are shared."""


class Images(NamedTuple):
    """The images of a slice, `[NY, NX * C]` each: error = factor * image - recon."""

    image: Array
    factor: Any
    recon: Array


def shape(p: Patches) -> Shape:
    """Return the sizes of a geometry.

    Raises ValueError if the coarse layer has a margin.
    """
    tile, chunk = tiling(p)
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


def scratch(p: Patches, real: str = "float32") -> Scratch:
    """Return the scratch space of one thread, for numbers of a precision."""
    s = shape(p)
    y, x = np.divmod(np.arange(s.tile * s.nx), s.nx)
    vectors = (np.arange(s.rows)[:, None] * s.pitch + LANES * np.arange(_row_vectors(p))).reshape(-1)
    # The last vector of a row may reach into the next row or the room at the end, where it adds zeros.
    strip = ((s.tile - 1) * s.stride_y + s.rows) * s.pitch + LANES
    return Scratch(
        error=np.zeros(p.y.padded * s.pitch + LANES, real),
        strips=np.zeros((-(-s.ny // s.tile), strip), real),
        window=np.zeros(0 if p.shared else p.length, real),
        drive=np.zeros(-(-s.chunk // DRIVE_BLOCK) * DRIVE_BLOCK * s.wide, real),
        active=np.zeros(s.chunk * s.features + AT_ONCE, np.int32),
        values=np.zeros(s.chunk * s.features + AT_ONCE, real),
        ends=np.zeros(s.chunk + 1, np.int64),
        places=y * (s.stride_y * s.pitch) + (p.x.offset + x * p.x.stride) * p.channels,
        vectors=np.concatenate([vectors, np.zeros(_groups(p) * GROUP - len(vectors), np.int64)]),
    )


def room_for_panels(p: Patches, real: str = "float32") -> Array:
    """Return room for the weights of one kernel in the order in which a drive reads them."""
    return np.zeros((shape(p).wide // PANEL, p.length, PANEL), real)


def room_for_groups(p: Patches, real: str = "float32") -> Array:
    """Return room for the weights of one kernel in the order in which a reconstruction reads them."""
    return np.zeros((_groups(p), p.features, GROUP * LANES), real)


@njit(nogil=True, error_model="numpy")
def tile_bounds(tile: int, s: Shape) -> tuple[int, int, int]:
    """Return where the patches of a tile start in the padded image, and its positions begin .. end."""
    start = (s.origin + tile * s.tile * s.stride_y) * s.pitch
    return start, tile * s.tile * s.nx, min((tile + 1) * s.tile, s.ny) * s.nx


@njit(nogil=True, error_model="numpy")
def chunk_places(base: int, begin: int, end: int, s: Shape, work: Scratch) -> Any:
    """Return the `places` of the positions of the chunk at `base`, in the tile of positions begin .. end."""
    return work.places[base - begin : min(base + s.chunk, end) - begin]


@njit(nogil=True, error_model="numpy")
def same(a: Any, b: Any) -> bool:
    """Return whether two flat arrays hold the same numbers."""
    for i in range(a.size):  # noqa: SIM110  (a loop is compiled to better code)
        if a[i] != b[i]:
            return False
    return True


def pack_panels(weights: Array, panels: Array) -> None:
    """Put weights `[nf, K]` in the order in which a drive reads them."""
    for number, panel in enumerate(panels):
        part = weights[number * PANEL : (number + 1) * PANEL]
        panel[:, : len(part)] = part.T


def pack_groups(weights: Array, p: Patches, groups: Array) -> None:
    """Put weights `[nf, K]` in the order in which a reconstruction reads them."""
    width, vectors = p.x.size * p.channels, _row_vectors(p) * LANES
    buffer = np.zeros((min(p.features, _FEATURES), len(groups) * GROUP * LANES), groups.dtype)
    for begin in range(0, p.features, _FEATURES):
        part = weights[begin : begin + _FEATURES]
        flat = buffer[: len(part)]
        rows = flat[:, : p.y.size * vectors].reshape(len(part), p.y.size, vectors)
        rows[:, :, :width] = part.reshape(len(part), p.y.size, width)
        groups[:, begin : begin + len(part)] = flat.reshape(len(part), len(groups), -1).swapaxes(0, 1)


def _row_vectors(p: Patches) -> int:
    return -(-p.x.size * p.channels // LANES)


def _groups(p: Patches) -> int:
    return -(-p.y.size * _row_vectors(p) // GROUP)
