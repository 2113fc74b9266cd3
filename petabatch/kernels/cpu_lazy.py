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

from petabatch.kernels.cpu_convolution import join_strips, synthesize
from petabatch.kernels.cpu_layout import Scratch, Shape
from petabatch.kernels.cpu_lazy_layout import FEATURES, WORD, Bench, Fading, Features, Sleep
from petabatch.kernels.cpu_lazy_motion import (
    aim,
    all_products,
    filter_rows,
    products,
    room_to_sleep,
    walk,
    worth_aiming,
)
from petabatch.kernels.cpu_pace import ACTIVE, SUM, sum_squares, total
from petabatch.kernels.cpu_units import Cell, Units, transfer
from petabatch.kernels.vector import lowest_bit, pair_operations

_ZERO = np.float32(0)
_ALWAYS = np.float32(-np.inf)
_, _, reached = pair_operations(WORD)


@njit(nogil=True, error_model="numpy", cache=True)
def potential(product: Any, history: Any, fade: Any) -> Any:
    """Return V."""
    return product + history * fade


@njit(nogil=True, error_model="numpy", cache=True)
def wake_tile(
    tile: int, age: int, rescale: bool, look: bool, units: Units, state: Sleep, weights: Features,
    c: Cell, t: Fading, s: Shape, work: Scratch, own: Bench,
) -> tuple[int, int]:  # fmt: skip
    """Compute the units of a tile that are due, write its strip, return how many were due and are active.

    If told to look, tally its activity.
    """
    strip = work.strips[tile]
    strip[:] = _ZERO
    start = (s.origin + tile * s.tile * s.stride_y) * s.pitch
    nf, size, active, computed = s.features, 0.0, 0, 0
    begin, end = tile * s.tile * s.nx, min((tile + 1) * s.tile, s.ny) * s.nx
    G, path, alarm, due, marks = state.history, state.path, state.alarm, own.due, own.marks
    found = own.found[0]
    fade, gain, lead, slope = t.fade[age], c.own * t.gain[age], state.lead[0], state.slope
    if rescale:
        for i in range(begin * nf, end * nf):
            G[i] *= t.fade[-1]
    walk(own.change, begin, end, s, work.places, own.column, path)
    for base in range(begin, end, s.chunk):
        count = min(s.chunk, end - base)
        places = work.places[base - begin : base - begin + count]
        marks[:count] = 0
        for f in range(nf):
            n = 0
            for k in range(0, count, WORD):
                bits = reached(lead, slope, alarm, f * alarm.shape[1] + base + k, path, base + k)
                if k + WORD > count:
                    bits &= (np.uint64(1) << np.uint64(count - k)) - np.uint64(1)
                while bits != 0:
                    due[n] = k + lowest_bit(bits)
                    n += 1
                    bits &= bits - np.uint64(1)
            if n == 0:
                continue
            computed += n
            products(state.filtered, start, places, due, n, work.pieces, weights.rows, f, found)
            norm, mark = weights.norms[f], np.uint64(1) << np.uint64(f % WORD)
            for k in range(n):
                p = base + due[k]
                i = p * nf + f
                if units.A[i] != _ZERO:
                    G[i] += gain * units.A[i]
                u = potential(found[k], G[i], fade)
                a = transfer(u, c)
                bell = _ALWAYS
                if a == _ZERO:
                    a = _ZERO  # not -0, whose sign would tell when the unit was computed last
                    room = room_to_sleep(u, found[k], norm, path[p], weights.rows.shape[1], c)
                    if room > _ZERO:
                        bell = lead * slope[f, p] + path[p] + room / norm
                else:
                    marks[due[k], f // WORD] |= mark
                units.A[i] = a
                alarm[f, p] = bell
        n = 0
        for m in range(count):
            for word in range(marks.shape[1]):
                bits = marks[m, word]
                while bits != 0:
                    work.active[n] = word * WORD + lowest_bit(bits)
                    n += 1
                    bits &= bits - np.uint64(1)
            work.ends[m + 1] = n
        code = units.A[base * nf : (base + count) * nf]
        synthesize(
            code, count, nf, work.active, work.ends, weights.groups, work.pieces, places, strip
        )  # fmt: skip
        active += n
        if look:
            for m in range(count):
                for k in range(work.ends[m], work.ends[m + 1]):
                    size += abs(np.float64(code[m * nf + work.active[k]]))
    work.tallies[tile, SUM], work.tallies[tile, ACTIVE] = size, active
    return computed, active


@njit(nogil=True, error_model="numpy", cache=True)
def potentials(
    tile: int, age: int, units: Units, state: Sleep, weights: Features, t: Fading, s: Shape, work: Scratch,
    own: Bench,
) -> None:  # fmt: skip
    """Write V of all units of a tile, with the bits it had in the step."""
    start = (s.origin + tile * s.tile * s.stride_y) * s.pitch
    nf = s.features
    begin, end = tile * s.tile * s.nx, min((tile + 1) * s.tile, s.ny) * s.nx
    for base in range(begin, end, s.chunk):
        count = min(s.chunk, end - base)
        places = work.places[base - begin : base - begin + count]
        for f in range(0, nf, FEATURES):
            all_products(state.filtered, start, places, count, work.pieces, weights.rows, f, own.found)
            for k in range(min(FEATURES, nf - f)):
                for m in range(count):
                    i = (base + m) * nf + f + k
                    units.V[i] = potential(own.found[k, m], state.history[i], t.fade[age])


@njit(nogil=True, error_model="numpy", cache=True)
def look_back(error: Any, tallies: Any, sums: Any) -> None:
    """Write sum error^2, sum |A| and the number of active units of the step just made to `sums` `[3]`."""
    sums[0] = 0.0
    for y in range(error.shape[0]):
        sums[0] += sum_squares(error[y])
    sums[1], sums[2] = total(tallies, SUM), total(tallies, ACTIVE)


@njit(nogil=True, error_model="numpy", cache=True)
def advance_lazily(
    image: Any, factor: Any, recon: Any, error: Any, units: Units, state: Sleep, weights: Features, c: Cell,
    e: Any, rest: Any, t: Fading, age: int, s: Shape, work: Scratch, own: Bench, steps: int, watched: Any,
    sums: Any,
) -> tuple[int, int]:  # fmt: skip
    """Make `steps` steps of one slice; arguments as in `cpu.advance`.

    V is left as it is; `potentials` writes it. Returns the age, and how many units were computed.
    """
    computed, in_vain, tiles = 0, 0.0, work.strips.shape[0]
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
                tile, age, rescale, watched[step], units, state, weights, c, t, s, work, own
            )  # fmt: skip
            due, silent = due + found, silent + found - active
        computed, in_vain = computed + due, in_vain + silent
        if watched[step]:
            look_back(error, work.tallies, sums[step])
        join_strips(work.strips, 0, s.height, s, recon)
        if worth_aiming(in_vain, silent, steps - step - 1, units.A.size):
            aim(image, factor, recon, c.signed, state, weights, s, work, own)
            in_vain = -float(units.A.size)  # all are computed once more, which `aim` counts
    return age, computed
