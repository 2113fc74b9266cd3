"""The lazy step of a sparse-coding loop: many steps of a slice in one compiled call, without the GIL."""

from __future__ import annotations

from typing import Any

import numpy as np

from petabatch.kernels.cpu.certificate import Looks, is_due, look
from petabatch.kernels.cpu.controllers import ACTIVE, SUM, sum_squares, total
from petabatch.kernels.cpu.convolution import join_strips, synthesize
from petabatch.kernels.cpu.jit import njit
from petabatch.kernels.cpu.layout import Dictionary, Images, Scratch, StepSums, chunk_places, tile_bounds
from petabatch.kernels.cpu.lazy.bound import (
    choose_direction,
    extend_paths,
    filter_rows,
    products,
    worth_choosing,
)
from petabatch.kernels.cpu.lazy.layout import DUE_BLOCK, LazyModel, LazyScratch, LazyState, first_row
from petabatch.kernels.cpu.lazy.state import store_activity
from petabatch.kernels.cpu.lazy.units import list_active_units, list_due, update_due
from petabatch.kernels.cpu.rules import ZERO
from petabatch.kernels.rules import Units


@njit(nogil=True, error_model="numpy")
def update_tile_lazily(
    tile: int, age: int, rescale: bool, wanted: bool, state: LazyState, model: LazyModel, work: Scratch,
    lazy: LazyScratch,
) -> tuple[int, int]:  # fmt: skip
    """Compute the units of a tile that are due and write its strip; return how many are due and active.

    Where its sums are `wanted`, tally its activity; with `rescale`, e^age begins again at age 0.
    """
    weights, _, decay, s = model
    strip = work.strips[tile]
    strip[:] = ZERO
    start, begin, end = tile_bounds(tile, s)
    nf, size, active, computed = s.features, 0.0, 0, 0
    due, active_bits = lazy.due, lazy.active_bits
    extend_paths(lazy.squares, begin, end, s, work.places, lazy.column, state.path_length)
    for base in range(begin, end, s.chunk):
        places, row = chunk_places(base, begin, end, s, work), first_row(tile, base - begin, s)
        count = places.size
        active_bits[:count] = 0
        if rescale:
            state.history[row * s.chunk : (row + nf) * s.chunk] *= decay.powers[-1]
        n = 0
        for f in range(nf):
            first, n = n, list_due(n, f, count, base, row, state, s, due)
            if n > first:
                which, found = (due.place[first:], n - first), due.product[first:]
                products(state.filtered, start, places, *which, work.vectors, weights.rows, f, found)
            if n >= DUE_BLOCK or f == nf - 1:
                update_due(n, base, age, state, model, lazy)
                computed, n = computed + n, 0
        n = list_active_units(count, row, active_bits, state.code, s, work)
        synthesize(weights.groups, places, work.active, work.values, work.ends, work.vectors, strip)
        active += n
        if wanted:
            for a in work.values[:n]:
                size += abs(np.float64(a))
    work.tallies[tile, SUM], work.tallies[tile, ACTIVE] = size, active
    return computed, active


@njit(nogil=True, error_model="numpy")
def write_sums(error: Any, tallies: Any, sums: Any) -> None:
    """Write sum error^2, sum |A| and the number of active units of the step just made to `sums` `[3]`."""
    sums[0] = 0.0
    for y in range(error.shape[0]):
        sums[0] += sum_squares(error[y])
    sums[1], sums[2] = total(tallies, SUM), total(tallies, ACTIVE)


@njit(nogil=True, error_model="numpy")
def advance_lazily(
    images: Images, units: Units, state: LazyState, model: LazyModel, age: int, beyond: int, work: Scratch,
    lazy: LazyScratch, record: StepSums, looks: Looks, dictionary: Dictionary,
) -> tuple[int, int, int]:  # fmt: skip
    """Make the steps of one slice whose sums `record` has room for, or fewer, as `advance` does.

    `beyond` more steps of the same image will follow. V is not written; `materialise_potentials` does.
    Returns the number of steps, the age, and how many units were computed.
    """
    decay, s = model.decay, model.shape
    computed, made, tiles, steps = 0, 0, work.strips.shape[0], record.wanted.size
    for step in range(steps):
        rescale = age == decay.powers.size - 1
        age = 1 if rescale else age + 1
        progress = decay.powers[1] * state.progress[0] + decay.scaled_gain[0]
        filter_rows(images, 0, s.height, progress - state.progress[0], model, state, lazy.squares)
        state.progress[0] = progress
        due, silent = 0, 0
        for tile in range(tiles):
            found, active = update_tile_lazily(
                tile, age, rescale, record.wanted[step], state, model, work, lazy
            )  # fmt: skip
            due, silent = due + found, silent + found - active
        computed += due
        state.wasted[0] += silent
        if record.wanted[step]:
            write_sums(images.error, work.tallies, record.sums[step])
        join_strips(work.strips, 0, s.height, s, images.recon)
        made += 1
        if is_due(looks, step):
            size, ends = total(work.tallies, SUM), looks.whole and step == steps - 1
            if look(ends, size, state.code, images, looks, dictionary, s, work):
                break
        if worth_choosing(state.wasted[0], silent, steps - step - 1 + beyond, units.A.size):
            choose_direction(images, state, model, work, lazy)
            state.wasted[0] = -units.A.size  # all are computed once more, which the choice accounts for
    for tile in range(tiles if steps > 0 else 0):
        store_activity(tile, units, state, s)
    return made, age, computed
