"""Timing of the parts of a lazy step: a step up to one of them; compare `step.update_tile_lazily`."""

from __future__ import annotations

from petabatch.kernels.cpu.convolution import join_strips, synthesize
from petabatch.kernels.cpu.jit import njit
from petabatch.kernels.cpu.layout import Images, Scratch, chunk_places, tile_bounds
from petabatch.kernels.cpu.lazy.bound import extend_paths, filter_rows, products
from petabatch.kernels.cpu.lazy.layout import DUE_BLOCK, LazyModel, LazyScratch, LazyState, first_row
from petabatch.kernels.cpu.lazy.units import list_active_units, list_due, update_due

NOTHING, ERROR, WAKE_LEVELS, DRIVE, UPDATE, RECONSTRUCTION = range(6)
"""The parts of a step, in this order."""


@njit(nogil=True, error_model="numpy")
def part_of_step(
    last: int, images: Images, state: LazyState, model: LazyModel, age: int, work: Scratch, lazy: LazyScratch
) -> None:
    """Make a step as far as part `last`, on a state that is void after it."""
    if last < ERROR:
        return
    weights, _, decay, s = model
    progress = decay.powers[1] * state.progress[0] + decay.scaled_gain[0]
    filter_rows(images, 0, s.height, progress - state.progress[0], model, state, lazy.squares)
    state.progress[0] = progress
    for tile in range(work.strips.shape[0]):
        work.strips[tile] = 0
        start, begin, end = tile_bounds(tile, s)
        extend_paths(lazy.squares, begin, end, s, work.places, lazy.column, state.path_length)
        for base in range(begin, end if last > ERROR else begin, s.chunk):
            places, row = chunk_places(base, begin, end, s, work), first_row(tile, base - begin, s)
            count = places.size
            lazy.active_bits[:count] = 0
            n = 0
            for f in range(s.features):
                first, n = n, list_due(n, f, count, base, row, state, s, lazy.due)
                if n > first and last >= DRIVE:
                    which, found = (lazy.due.place[first:], n - first), lazy.due.product[first:]
                    products(state.filtered, start, places, *which, work.vectors, weights.rows, f, found)
                if n >= DUE_BLOCK or f == s.features - 1:
                    if last >= UPDATE:
                        update_due(n, base, age, state, model, lazy)
                    n = 0
            if last == RECONSTRUCTION:
                list_active_units(count, row, lazy.active_bits, state.code, s, work)
                lists = (work.active, work.values, work.ends)
                synthesize(weights.groups, places, *lists, work.vectors, work.strips[tile])
    if last == RECONSTRUCTION:
        join_strips(work.strips, 0, s.height, s, images.recon)
