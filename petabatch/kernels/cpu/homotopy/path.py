"""The homotopy of the LASSO (LARS): solutions for falling penalties, along lines between events.

Osborne, Presnell and Turlach (2000), "A new approach to variable selection in least squares problems"; Efron
et al. (2004), "Least angle regression". For the penalty p, the atoms of the active set have the correlation
c = dictionary^T (image - dictionary^T a) = p sign(a), all others a smaller one. As p falls by `step`,

    a += step d      d = (Gram of the active set)^-1 sign(a)
    c -= step q      q = Gram[:, active] d

until a correlation of another atom reaches p (it enters), or an active code reaches 0 (it leaves).

Vectors over atoms have the type of the data, those over the active set float64. Loops over atoms are
elementwise, so that their bits do not depend on vectors of the processor.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from petabatch.kernels.cpu.arrays import borrow
from petabatch.kernels.cpu.homotopy.rows import WIDE, add
from petabatch.kernels.cpu.jit import FAST, njit
from petabatch.variable import Array

LANES = 16
"""Atoms are padded to a multiple of this."""
UNROLLED = 4
"""Rows of the Gram matrix that are read together: beyond the active set the first one, times 0."""
_PARALLEL = 1e-6
"""Slopes closer to that of the penalty than this never reach it."""


class Path(NamedTuple):
    """Where a path is: arrays of one thread, for one item after the other."""

    c: Array
    """Correlation of each atom with the residual `[atoms]`."""
    q: Array
    """Its slope `[atoms]`."""
    distance: Array
    """By how much the penalty must fall until an atom enters `[atoms]`."""
    at: Array
    """Atoms of the active set, int64 `[room]`; zeros from `UNROLLED` on beyond it."""
    sign: Array
    """Sign of their codes `[room]`."""
    code: Array
    """Their codes `[room]`."""
    direction: Array
    """d above `[room]`; zeros beyond the active set."""
    product: Array
    """Work space `[room]`."""
    levels: Array
    """Work space `[atoms]`."""
    gram: Array
    """Their Gram matrix `[room, room]`."""
    inverse: Array
    """Its inverse `[room, room]`."""
    without: Array
    """Atoms that depend linearly on the active set, int64 `[atoms]`."""


def new_path(atoms: int, most: int, dtype: Any) -> Path:
    """Return arrays for `atoms`, at most `most` of them active, and data of a type."""
    room = -(-most // WIDE) * WIDE + WIDE
    c, q, distance, levels = (np.zeros(atoms, dtype) for _ in range(4))
    sign, code, direction, product = (np.zeros(room) for _ in range(4))
    at, without = np.zeros(room, np.int64), np.zeros(atoms, np.int64)
    gram, inverse = np.zeros((room, room)), np.zeros((room, room))
    return Path(c, q, distance, at, sign, code, direction, product, levels, gram, inverse, without)


@njit(nogil=True, error_model="numpy")
def borrowed(p: Path) -> Path:
    """Return views that count no references; the caller keeps the arrays."""
    return Path(
        borrow(p.c), borrow(p.q), borrow(p.distance), borrow(p.at), borrow(p.sign), borrow(p.code),
        borrow(p.direction), borrow(p.product), borrow(p.levels), borrow(p.gram), borrow(p.inverse),
        borrow(p.without),
    )  # fmt: skip


@njit(nogil=True, error_model="numpy")
def _pad(active: int, path: Path) -> None:
    """Have the places beyond the active set count nothing where rows are read together."""
    for k in range(active, active + UNROLLED):
        path.at[k], path.direction[k] = 0, 0.0


@njit(nogil=True, fastmath=FAST, error_model="numpy")
def _slopes(active: int, gram: Any, path: Path) -> None:
    """Write q, reading a few rows of the Gram matrix at a time."""
    q, at = path.q, path.at
    for k in range(0, active, UNROLLED):
        g0, g1, g2, g3 = gram[at[k]], gram[at[k + 1]], gram[at[k + 2]], gram[at[k + 3]]
        d0, d1 = q.dtype.type(path.direction[k]), q.dtype.type(path.direction[k + 1])
        d2, d3 = q.dtype.type(path.direction[k + 2]), q.dtype.type(path.direction[k + 3])
        if k == 0:
            for j in range(q.size):
                q[j] = ((d0 * g0[j] + d1 * g1[j]) + d2 * g2[j]) + d3 * g3[j]
        else:
            for j in range(q.size):
                q[j] = (((q[j] + d0 * g0[j]) + d1 * g1[j]) + d2 * g2[j]) + d3 * g3[j]


@njit(nogil=True, fastmath=FAST, error_model="numpy")
def _distances(penalty: float, signed: bool, path: Path) -> None:
    """Write by how much the penalty must fall until it meets the correlation of each atom."""
    c, q, distance = path.c, path.q, path.distance
    one, parallel, never = c.dtype.type(1), c.dtype.type(_PARALLEL), c.dtype.type(np.inf)
    p = c.dtype.type(penalty)
    if signed:
        for j in range(c.size):
            # Of the two bounds, p and -p, the one that is met first.
            upper = c[j] > p * q[j]
            between, closing = (p - c[j] if upper else p + c[j]), (one - q[j] if upper else one + q[j])
            met = between / closing
            distance[j] = met if closing > parallel else never
    else:
        for j in range(c.size):
            closing = one - q[j]
            met = (p - c[j]) / closing
            distance[j] = met if closing > parallel else never


@njit(nogil=True, error_model="numpy")
def _smallest(values: Any, levels: Any) -> int:
    """Return the place of the smallest number, of several always the same one.

    Halves are compared number by number, as vectors are, until few are left; then the way back is taken.
    """
    size, begin = values.size // 2, 0
    for j in range(size):
        levels[j] = values[j] if values[j] <= values[j + size] else values[j + size]
    while size > LANES and size % 2 == 0:
        whole, size = levels[begin : begin + size], size // 2
        begin += whole.size
        half = levels[begin : begin + size]
        for j in range(size):
            half[j] = whole[j] if whole[j] <= whole[j + size] else whole[j + size]
    place = 0
    for j in range(1, size):
        place = j if levels[begin + j] < levels[begin + place] else place
    low = levels[begin + place]
    while begin > 0:
        begin -= 2 * size
        place = place if levels[begin + place] == low else place + size
        size *= 2
    return place if values[place] == low else place + size


@njit(nogil=True, fastmath=FAST, error_model="numpy")
def _enter(j: int, sign: float, active: int, tiny: float, gram: Any, path: Path) -> bool:
    """Add an atom to the active set; return False if it depends linearly on that."""
    v, inverse, row = path.product, path.inverse, gram[j]
    for i in range(active):
        v[i] = 0.0
    for k in range(active):
        g, own = np.float64(row[path.at[k]]), inverse[k]
        path.gram[active, k] = path.gram[k, active] = g
        add(v, g, own, active)
    apart, slope = np.float64(row[j]), sign
    for i in range(active):
        apart -= v[i] * path.gram[active, i]
        slope -= v[i] * path.sign[i]
    if not apart > tiny * np.float64(row[j]):
        return False
    scale = 1.0 / apart
    for i in range(active):
        own, factor = inverse[i], scale * v[i]
        add(own, factor, v, active)
        own[active] = inverse[active, i] = -factor
        path.direction[i] -= slope * factor
    inverse[active, active] = scale
    path.direction[active] = slope * scale
    path.gram[active, active] = np.float64(row[j])
    path.at[active], path.sign[active], path.code[active] = j, sign, 0.0
    return True


@njit(nogil=True, fastmath=FAST, error_model="numpy")
def _leave(place: int, active: int, path: Path) -> None:
    """Remove an atom of the active set; the last one takes its place."""
    inverse, d, last = path.inverse, path.direction, active - 1
    if place != last:
        for matrix in (inverse, path.gram):
            for i in range(active):
                matrix[place, i], matrix[last, i] = matrix[last, i], matrix[place, i]
            for i in range(active):
                matrix[i, place], matrix[i, last] = matrix[i, last], matrix[i, place]
        path.at[place], path.sign[place], path.code[place] = path.at[last], path.sign[last], path.code[last]
    removed = inverse[last]
    for i in range(last):
        add(inverse[i], -inverse[i, last] / removed[last], removed, active)
    for i in range(active):
        d[i] = 0.0
    for k in range(last):
        add(d, path.sign[k], inverse[k], active)
    _pad(last, path)


@njit(nogil=True, fastmath=FAST, error_model="numpy")
def _first_to_leave(active: int, path: Path) -> tuple[int, float]:
    """Return which code of the active set reaches 0 first, and by how much the penalty falls until then."""
    found, nearest = -1, np.inf
    for k in range(active):
        if path.direction[k] * path.sign[k] < 0.0:
            distance = max(-path.code[k] / path.direction[k], 0.0)
            if distance < nearest:
                found, nearest = k, distance
    return found, nearest


@njit(nogil=True, fastmath=FAST, error_model="numpy")
def _refine(b: Any, penalty: float, active: int, path: Path) -> None:
    """Improve the codes of the active set, where b - Gram a = penalty sign(a), by one Newton step.

    Along the path c has collected the rounding errors of all steps.
    """
    v, code = path.product, path.code
    for i in range(active):
        v[i] = np.float64(b[path.at[i]]) - penalty * path.sign[i]
    for k in range(active):
        add(v, -path.code[k], path.gram[k], active)
    for k in range(active):
        add(code, v[k], path.inverse[k], active)
    for i in range(active):
        if path.code[i] * path.sign[i] < 0.0:
            path.code[i] = 0.0


@njit(nogil=True, fastmath=FAST, error_model="numpy")
def follow(
    b: Any, gram: Any, penalty: float, signed: bool, capacity: int, tiny: float, most: int, path: Path
) -> tuple[int, int]:
    """Follow the path of an item with the correlations `b` down to a penalty; return (active atoms, steps).

    `path` has the codes there, or after `most` steps. At most `capacity` atoms are active at a time, and
    none whose squared distance from the space of the others is the fraction `tiny` of its square.
    """
    c, q, distance, one = path.c, path.q, path.distance, b.dtype.type(1)
    for j in range(c.size):
        c[j] = b[j]
        distance[j] = -abs(b[j]) if signed else -b[j]
    entering, leaving = _smallest(distance, path.levels), -1
    now = -np.float64(distance[entering])
    active, steps, without, left, left_sign = 0, 0, 0, -1, 0.0
    _pad(0, path)
    if not now > penalty:  # also for NaN
        return 0, 0
    while steps < most:
        if entering >= 0:
            sign = 1.0 if c[entering] > 0 else -1.0
            if active < capacity and _enter(entering, sign, active, tiny, gram, path):
                active += 1
                steps += 1
                _pad(active, path)
            else:
                path.without[without] = entering
                without += 1
            left = -1
        else:
            left, left_sign = path.at[leaving], path.sign[leaving]
            _leave(leaving, active, path)
            active -= 1
            steps += 1
            without = 0
        if active > 0:
            _slopes(active, gram, path)
        else:
            for i in range(q.size):
                q[i] = 0
        _distances(now, signed, path)
        for k in range(active):
            distance[path.at[k]] = np.inf
        for k in range(without):
            distance[path.without[k]] = np.inf
        if left >= 0:  # it is still at its bound, from which it moves away
            distance[left] = np.inf
            if signed:
                p, s = b.dtype.type(now), b.dtype.type(left_sign)
                closing = one + s * q[left]
                if closing > b.dtype.type(_PARALLEL):
                    distance[left] = (p + s * c[left]) / closing
        entering = _smallest(distance, path.levels)
        step = max(np.float64(distance[entering]), 0.0)
        leaving, nearest = _first_to_leave(active, path)
        if nearest < step:
            entering, step = -1, nearest
        ends = not step < now - penalty
        if ends:
            step = now - penalty
        for k in range(active):
            path.code[k] += step * path.direction[k]
        if ends:
            _refine(b, penalty, active, path)
            break
        now -= step
        fall = b.dtype.type(step)
        for i in range(c.size):
            c[i] -= fall * q[i]
    return active, steps
