"""Many steps of the LCA loop in which only units are computed that may be active: exact, and faster.

Leaky integration is linear, so the potential of a unit is that of its feature on the filtered error image F,
plus what is left of its start and of its own activity, H:

    F = e F + (1 - e) error                   one image for all units, 0 at the start
    H = e H + (1 - e) A                       V at the start; without self-interaction no A
    V = w . (patch of F) + H

Where the patch of F moves by a length d, w . (patch of F) moves by |w| d at most (Cauchy-Schwarz), and H only
fades while a unit is silent. So each silent unit that is computed *sleeps* until the path of its patch, the
sum of all |patch of F(t) - patch of F(t - 1)|, reaches its *alarm*:

    alarm = path + (threshold - max(|V|, |w . patch|)) / |w|

Active units are computed in every step. As whoever sleeps is silent, the result does not depend on when
somebody is woken: the bits are those of computing all units in every step, provided that rounding cannot
hide a crossing. `room_to_sleep` accounts for it. H is kept as G with H = e^age G, so that sleepers need no
work at all; `fade[age]` is e^age and `gain[age]` (1 - e) / e^age.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from petabatch.kernels.cpu import join_strips, synthesize
from petabatch.kernels.cpu_layout import PIECE, Scratch, Shape
from petabatch.kernels.cpu_lazy_layout import BLOCK, WORD, Bench, Fading, Features, Sleep
from petabatch.kernels.cpu_pace import ACTIVE, SUM, sum_squares, total
from petabatch.kernels.cpu_units import FAST, Cell, Units, transfer
from petabatch.kernels.vector import lowest_bit, operations, pair_operations

_ZERO = np.float32(0)
_ALWAYS = np.float32(-np.inf)
_EPS = np.float32(2.0**-24)
_FEW = np.float32(16) * _EPS
_UP = np.float32(1 + 2.0**-22)
zeros, load, _, _, _, _ = operations(PIECE)
product_add, sum_of, _ = pair_operations(PIECE)
_, _, not_above = pair_operations(WORD)


@njit(nogil=True, fastmath=FAST, error_model="numpy", cache=True)
def filter_rows(
    image: Any, factor: Any, recon: Any, begin: int, end: int, e: Any, rest: Any, s: Shape, error: Any,
    filtered: Any, change: Any,
) -> None:  # fmt: skip
    """Write rows begin .. end of the error image and bring F up to date with them."""
    for y in range(begin, end):
        source, minus, to = image[y], recon[y], error[y]
        start = (y + s.top) * s.pitch + s.left
        f, d = filtered[start : start + s.width], change[start : start + s.width]
        for i in range(s.width):
            r = factor * source[i] - minus[i]
            now = e * f[i] + rest * r
            move = now - f[i]
            to[i], f[i], d[i] = r, now, move * move


@njit(nogil=True, fastmath=FAST, error_model="numpy", cache=True)
def sum_rows(squares: Any, start: int, rows: int, pitch: int, column: Any) -> None:
    """Sum squares over the rows of a patch."""
    column[:] = squares[start : start + pitch]
    for r in range(1, rows):
        row = squares[start + r * pitch : start + (r + 1) * pitch]
        for i in range(pitch):
            column[i] += row[i]


@njit(nogil=True, fastmath=FAST, error_model="numpy", cache=True)
def sum_columns(column: Any) -> Any:
    """Sum squares over the columns of a patch."""
    found = _ZERO
    for i in range(column.size):
        found += column[i]
    return found


@njit(nogil=True, error_model="numpy", cache=True)
def walk(squares: Any, begin: int, end: int, s: Shape, places: Any, column: Any, path: Any) -> None:
    """Make the path of positions begin .. end longer by the length of what patches changed by."""
    # What sums of squares lose by rounding, twice over.
    longer = np.float32(1) + np.float32(2 * s.rows * s.row) * _EPS
    for y in range(begin // s.nx, end // s.nx):
        sum_rows(squares, (s.origin + y * s.stride_y) * s.pitch, s.rows, s.pitch, column)
        for x in range(s.nx):
            i = y * s.nx + x
            step = np.sqrt(sum_columns(column[places[x] : places[x] + s.row]))
            path[i] = (path[i] + longer * step) * _UP


@njit(nogil=True, error_model="numpy", cache=True)
def products(
    filtered: Any, start: int, places: Any, due: Any, count: int, pieces: Any, rows: Any, f: int, found: Any
) -> None:  # fmt: skip
    """Write the products of a feature with the patches of `count` positions that are due."""
    length = rows.shape[1]
    for n in range(0, count, BLOCK):
        # Beyond the last position it is computed again.
        a, b = start + places[due[n]], start + places[due[min(n + 1, count - 1)]]
        c, d = start + places[due[min(n + 2, count - 1)]], start + places[due[min(n + 3, count - 1)]]
        v0, v1, v2, v3 = zeros(), zeros(), zeros(), zeros()
        w = f * length
        for piece in range(length // PIECE):
            weights, i = load(rows, w), pieces[piece]
            v0 = product_add(v0, load(filtered, a + i), weights)
            v1 = product_add(v1, load(filtered, b + i), weights)
            v2 = product_add(v2, load(filtered, c + i), weights)
            v3 = product_add(v3, load(filtered, d + i), weights)
            w += PIECE
        found[n], found[n + 1] = sum_of(v0), sum_of(v1)
        found[n + 2], found[n + 3] = sum_of(v2), sum_of(v3)


@njit(nogil=True, error_model="numpy", cache=True)
def room_to_sleep(u: Any, product: Any, norm: Any, path: Any, length: int, c: Cell) -> Any:
    """Return by how much w . patch can grow before a silent unit crosses its threshold, less rounding.

    A product of `length` pairs in PIECE sums is wrong by (length / PIECE + 4) eps |w| |patch| at most, now
    and when the unit wakes, and |patch| is at most the path, then longer by the room; H and its sum with the
    product are wrong by a few eps of their size, covered by 16 eps.
    """
    if c.signed:
        u, product = abs(u), abs(product)
    size = max(u, product)
    wrong = np.float32(2 * (length // PIECE + 6)) * _EPS
    room = (c.threshold - size) * (np.float32(1) - wrong)
    return room - wrong * norm * path - _FEW * (abs(u) + abs(product) + abs(c.threshold))


@njit(nogil=True, error_model="numpy", cache=True)
def potential(product: Any, history: Any, fade: Any) -> Any:
    """Return V."""
    return product + history * fade


@njit(nogil=True, error_model="numpy", cache=True)
def wake_tile(
    tile: int, age: int, rescale: bool, look: bool, units: Units, state: Sleep, weights: Features,
    c: Cell, t: Fading, s: Shape, work: Scratch, own: Bench,
) -> int:  # fmt: skip
    """Compute the units of a tile that are due, write its strip, return how many were due.

    If told to look, tally its activity.
    """
    strip = work.strips[tile]
    strip[:] = _ZERO
    start = (s.origin + tile * s.tile * s.stride_y) * s.pitch
    nf, size, active, computed = s.features, 0.0, 0, 0
    begin, end = tile * s.tile * s.nx, min((tile + 1) * s.tile, s.ny) * s.nx
    G, path, alarm, due, marks = state.history, state.path, state.alarm, own.due, own.marks
    fade, gain = t.fade[age], c.own * t.gain[age]
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
                bits = not_above(alarm, f * alarm.shape[1] + base + k, path, base + k)
                if k + WORD > count:
                    bits &= (np.uint64(1) << np.uint64(count - k)) - np.uint64(1)
                while bits != 0:
                    due[n] = k + lowest_bit(bits)
                    n += 1
                    bits &= bits - np.uint64(1)
            if n == 0:
                continue
            computed += n
            products(state.filtered, start, places, due, n, work.pieces, weights.rows, f, own.found)
            norm, mark = weights.norms[f], np.uint64(1) << np.uint64(f % WORD)
            for k in range(n):
                p = base + due[k]
                i = p * nf + f
                if units.A[i] != _ZERO:
                    G[i] += gain * units.A[i]
                u = potential(own.found[k], G[i], fade)
                a = transfer(u, c)
                bell = _ALWAYS
                if a == _ZERO:
                    a = _ZERO  # not -0, whose sign would tell when the unit was computed last
                    room = room_to_sleep(u, own.found[k], norm, path[p], weights.rows.shape[1], c)
                    if room > _ZERO:
                        bell = path[p] + room / norm
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
        if look:
            active += n
            for m in range(count):
                for k in range(work.ends[m], work.ends[m + 1]):
                    size += abs(np.float64(code[m * nf + work.active[k]]))
    work.tallies[tile, SUM], work.tallies[tile, ACTIVE] = size, active
    return computed


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
        for m in range(count):
            own.due[m] = m
        for f in range(nf):
            products(state.filtered, start, places, own.due, count, work.pieces, weights.rows, f, own.found)
            for m in range(count):
                i = (base + m) * nf + f
                units.V[i] = potential(own.found[m], state.history[i], t.fade[age])


@njit(nogil=True, error_model="numpy", cache=True)
def paste(image: Any, s: Shape, padded: Any) -> None:
    """Copy an image into padding."""
    for y in range(s.height):
        start = (y + s.top) * s.pitch + s.left
        padded[start : start + s.width] = image[y]


@njit(nogil=True, error_model="numpy", cache=True)
def begin_anew(state: Sleep, s: Shape, work: Scratch, own: Bench) -> None:
    """Wake everybody: the path of each position is the length of its patch of F."""
    state.alarm[:] = _ALWAYS
    state.path[:] = _ZERO
    own.change[:] = state.filtered[: own.change.size] ** 2
    walk(own.change, 0, s.ny * s.nx, s, work.places, own.column, state.path)


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
    computed = 0
    for step in range(steps):
        rescale = age == t.fade.size - 1
        age = 1 if rescale else age + 1
        filter_rows(image, factor, recon, 0, s.height, e, rest, s, error, state.filtered, own.change)
        for tile in range(work.strips.shape[0]):
            computed += wake_tile(
                tile, age, rescale, watched[step], units, state, weights, c, t, s, work, own
            )  # fmt: skip
        if watched[step]:
            look_back(error, work.tallies, sums[step])
        join_strips(work.strips, 0, s.height, s, recon)
    return age, computed
