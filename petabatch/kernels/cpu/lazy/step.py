"""Many steps of the LCA loop in which only units are computed that may be active: exact, and faster.

Leaky integration is linear, so the potential of a unit is that of its feature on the filtered error image F,
plus what is left of its start and of its own activity, H:

    F = e F + (1 - e) error                   one image for all units, 0 at the start
    H = e H + (1 - e) A                       V at the start; without self-interaction no A
    V = w . (patch of F) + H

So how F moves says how far a unit can come; see `cpu_lazy_motion`. Silent units that are computed get an
*alarm*, which is not reached before they could cross their threshold, and *sleep* until then. Active units
are computed in every step. As whoever sleeps is silent, the result does not depend on when somebody is woken:
the bits are those of computing all units in every step, provided that rounding cannot hide a crossing, for
which `room_to_sleep` accounts. H only fades while a unit is silent, and is kept as G with H = e^age G, so
that sleepers need no work at all; `fade[age]` is e^age and `gain[age]` (1 - e) / e^age.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from petabatch.kernels.cpu.controllers import ACTIVE, SUM, sum_squares, total
from petabatch.kernels.cpu.convolution import join_strips, synthesize
from petabatch.kernels.cpu.layout import Scratch, Shape
from petabatch.kernels.cpu.lazy.bound import aim, filter_rows, products, walk, worth_aiming
from petabatch.kernels.cpu.lazy.layout import (
    TOGETHER,
    DecayTable,
    Features,
    LazyScratch,
    LazyState,
    first_row,
)
from petabatch.kernels.cpu.lazy.state import hand_over
from petabatch.kernels.cpu.lazy.units import list_due, list_marked, update_due
from petabatch.kernels.cpu.rules import Cell, Units

_ZERO = np.float32(0)


@njit(nogil=True, error_model="numpy", cache=True)
def wake_tile(
    tile: int, age: int, rescale: bool, look: bool, state: LazyState, weights: Features, c: Cell,
    t: DecayTable, s: Shape, work: Scratch, own: LazyScratch,
) -> tuple[int, int]:  # fmt: skip
    """Compute the units of a tile that are due, write its strip, return how many were due and are active.

    If told to look, tally its activity.
    """
    strip = work.strips[tile]
    strip[:] = _ZERO
    start = (s.origin + tile * s.tile * s.stride_y) * s.pitch
    nf, size, active, computed = s.features, 0.0, 0, 0
    begin, end = tile * s.tile * s.nx, min((tile + 1) * s.tile, s.ny) * s.nx
    due, marks = own.due, own.marks
    walk(own.change, begin, end, s, work.places, own.column, state.path)
    for base in range(begin, end, s.chunk):
        count = min(s.chunk, end - base)
        places, row = work.places[base - begin : base - begin + count], first_row(tile, base - begin, s)
        marks[:count] = 0
        if rescale:
            state.history[row * s.chunk : (row + nf) * s.chunk] *= t.fade[-1]
        n = 0
        for f in range(nf):
            first, n = n, list_due(n, f, count, base, row, state, s, due)
            if n > first:
                which = (due.place[first:], n - first)
                found = due.product[first:]
                products(state.filtered, start, places, *which, work.pieces, weights.rows, f, found)
            if n >= TOGETHER or f == nf - 1:
                update_due(n, base, age, state, weights, c, t, due, marks)
                computed, n = computed + n, 0
        n = list_marked(count, row, marks, state.code, s, work)
        synthesize(count, work.active, work.values, work.ends, weights.groups, work.pieces, places, strip)
        active += n
        if look:
            for a in work.values[:n]:
                size += abs(np.float64(a))
    work.tallies[tile, SUM], work.tallies[tile, ACTIVE] = size, active
    return computed, active


@njit(nogil=True, error_model="numpy", cache=True)
def look_back(error: Any, tallies: Any, sums: Any) -> None:
    """Write sum error^2, sum |A| and the number of active units of the step just made to `sums` `[3]`."""
    sums[0] = 0.0
    for y in range(error.shape[0]):
        sums[0] += sum_squares(error[y])
    sums[1], sums[2] = total(tallies, SUM), total(tallies, ACTIVE)


@njit(nogil=True, error_model="numpy", cache=True)
def advance_lazily(
    image: Any, factor: Any, recon: Any, error: Any, units: Units, state: LazyState, weights: Features,
    c: Cell, e: Any, rest: Any, t: DecayTable, age: int, s: Shape, work: Scratch, own: LazyScratch,
    steps: int, beyond: int, watched: Any, sums: Any,
) -> tuple[int, int]:  # fmt: skip
    """Make `steps` steps of one slice, which goes on for `beyond` more; arguments as in `cpu.advance`.

    V is left as it is; `potentials` writes it. Returns the age, and how many units were computed.
    """
    computed, tiles = 0, work.strips.shape[0]
    for step in range(steps):
        rescale = age == t.fade.size - 1
        age = 1 if rescale else age + 1
        lead = e * state.lead[0] + rest
        filter_rows(
            image, factor, recon, 0, s.height, e, rest, lead - state.lead[0], s, error, state, own.change
        )  # fmt: skip
        state.lead[0] = lead
        due, silent = 0, 0
        for tile in range(tiles):
            found, active = wake_tile(
                tile, age, rescale, watched[step], state, weights, c, t, s, work, own
            )  # fmt: skip
            due, silent = due + found, silent + found - active
        computed += due
        state.in_vain[0] += silent
        if watched[step]:
            look_back(error, work.tallies, sums[step])
        join_strips(work.strips, 0, s.height, s, recon)
        if worth_aiming(state.in_vain[0], silent, steps - step - 1 + beyond, units.A.size):
            aim(image, factor, recon, c.signed, state, weights, s, work, own)
            state.in_vain[0] = -units.A.size  # all are computed once more, which `aim` counts
    for tile in range(tiles if steps > 0 else 0):
        hand_over(tile, units, state, s)
    return age, computed
