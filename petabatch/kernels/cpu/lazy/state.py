"""What the lazy loop of `cpu_lazy` takes from the state of a layer, and what it gives back."""

from __future__ import annotations

from numba import njit

from petabatch.kernels.cpu.layout import Scratch, Shape
from petabatch.kernels.cpu.lazy.bound import all_products
from petabatch.kernels.cpu.lazy.layout import (
    FEATURES,
    LINE,
    DecayTable,
    Features,
    LazyScratch,
    LazyState,
    first_row,
)
from petabatch.kernels.cpu.lazy.units import potential
from petabatch.kernels.cpu.rules import Units


@njit(nogil=True, error_model="numpy", cache=True)
def potentials(
    tile: int, age: int, anew: bool, units: Units, state: LazyState, weights: Features, t: DecayTable,
    s: Shape, work: Scratch, own: LazyScratch,
) -> None:  # fmt: skip
    """Write V of all units of a tile, with the bits it had in the step; if told to, begin anew from it."""
    start = (s.origin + tile * s.tile * s.stride_y) * s.pitch
    nf = s.features
    begin, end = tile * s.tile * s.nx, min((tile + 1) * s.tile, s.ny) * s.nx
    for base in range(begin, end, s.chunk):
        count = min(s.chunk, end - base)
        places, row = work.places[base - begin : base - begin + count], first_row(tile, base - begin, s)
        for first in range(0, nf, LINE):
            last = min(first + LINE, nf)
            for f in range(first, last, FEATURES):
                found = own.found[f - first :]
                all_products(state.filtered, start, places, count, work.pieces, weights.rows, f, found)
            for m in range(count):
                for f in range(first, last):
                    unit = (row + f) * s.chunk + m
                    u = potential(own.found[f - first, m], state.history[unit], t.fade[age])
                    units.V[(base + m) * nf + f] = u
                    if anew:
                        state.history[unit] = u


@njit(nogil=True, error_model="numpy", cache=True)
def take_over(tile: int, anew: bool, units: Units, state: LazyState, s: Shape) -> None:
    """Read the activity of a tile, and begin from its potentials if told to."""
    begin, end = tile * s.tile * s.nx, min((tile + 1) * s.tile, s.ny) * s.nx
    nf = s.features
    for base in range(begin, end, s.chunk):
        row = first_row(tile, base - begin, s)
        for first in range(0, nf, LINE):
            for m in range(min(s.chunk, end - base)):
                for f in range(first, min(first + LINE, nf)):
                    state.code[(row + f) * s.chunk + m] = units.A[(base + m) * nf + f]
                    if anew:
                        state.history[(row + f) * s.chunk + m] = units.V[(base + m) * nf + f]


@njit(nogil=True, error_model="numpy", cache=True)
def hand_over(tile: int, units: Units, state: LazyState, s: Shape) -> None:
    """Write the activity of a tile."""
    begin, end = tile * s.tile * s.nx, min((tile + 1) * s.tile, s.ny) * s.nx
    nf = s.features
    for base in range(begin, end, s.chunk):
        row = first_row(tile, base - begin, s)
        for first in range(0, nf, LINE):
            for m in range(min(s.chunk, end - base)):
                for f in range(first, min(first + LINE, nf)):
                    units.A[(base + m) * nf + f] = state.code[(row + f) * s.chunk + m]
