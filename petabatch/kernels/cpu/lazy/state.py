"""The exchange of the lazy state with the activities and potentials of a layer."""

from __future__ import annotations

from petabatch.kernels.cpu.jit import njit
from petabatch.kernels.cpu.layout import CACHE_LINE, Scratch, Shape, chunk_places, tile_bounds
from petabatch.kernels.cpu.lazy.bound import all_products
from petabatch.kernels.cpu.lazy.layout import FEATURE_BLOCK, LazyModel, LazyScratch, LazyState, first_row
from petabatch.kernels.cpu.lazy.units import potential
from petabatch.kernels.rules import Units


@njit(nogil=True, error_model="numpy")
def materialise_potentials(
    tile: int, age: int, reset: bool, units: Units, state: LazyState, model: LazyModel, work: Scratch,
    lazy: LazyScratch,
) -> None:  # fmt: skip
    """Write V of all units of a tile, with the bits it had in the step; with `reset`, also as their G.

    G = V is right for F = 0 at age 0, which the caller sets.
    """
    weights, _, decay, s = model
    start, begin, end = tile_bounds(tile, s)
    nf = s.features
    for base in range(begin, end, s.chunk):
        places, row = chunk_places(base, begin, end, s, work), first_row(tile, base - begin, s)
        for first in range(0, nf, CACHE_LINE):
            last = min(first + CACHE_LINE, nf)
            for f in range(first, last, FEATURE_BLOCK):
                found = lazy.products[f - first :]
                all_products(state.filtered, start, places, work.vectors, weights.rows, f, found)
            for m in range(places.size):
                for f in range(first, last):
                    unit = (row + f) * s.chunk + m
                    u = potential(lazy.products[f - first, m], state.history[unit], decay.powers[age])
                    units.V[(base + m) * nf + f] = u
                    if reset:
                        state.history[unit] = u


@njit(nogil=True, error_model="numpy")
def load_units(tile: int, reset: bool, units: Units, state: LazyState, s: Shape) -> None:
    """Read the activity of a tile; with `reset`, also its potentials as G."""
    _, begin, end = tile_bounds(tile, s)
    nf = s.features
    for base in range(begin, end, s.chunk):
        row = first_row(tile, base - begin, s)
        for first in range(0, nf, CACHE_LINE):
            for m in range(min(s.chunk, end - base)):
                for f in range(first, min(first + CACHE_LINE, nf)):
                    state.code[(row + f) * s.chunk + m] = units.A[(base + m) * nf + f]
                    if reset:
                        state.history[(row + f) * s.chunk + m] = units.V[(base + m) * nf + f]


@njit(nogil=True, error_model="numpy")
def store_activity(tile: int, units: Units, state: LazyState, s: Shape) -> None:
    """Write the activity of a tile."""
    _, begin, end = tile_bounds(tile, s)
    nf = s.features
    for base in range(begin, end, s.chunk):
        row = first_row(tile, base - begin, s)
        for first in range(0, nf, CACHE_LINE):
            for m in range(min(s.chunk, end - base)):
                for f in range(first, min(first + CACHE_LINE, nf)):
                    units.A[(base + m) * nf + f] = state.code[(row + f) * s.chunk + m]
