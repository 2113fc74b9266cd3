"""Codes of images with their duality gaps, compiled: the path, and coordinate descent where it fails.

The gap is that of `probes/optimality.py`, of the code as it is returned: its residual is computed from the
image and the atoms, and not from the Gram matrix.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from petabatch.kernels.cpu.arrays import borrow
from petabatch.kernels.cpu.homotopy.drive import drive
from petabatch.kernels.cpu.homotopy.path import LANES, Path, borrowed, follow
from petabatch.kernels.cpu.jit import FAST, njit
from petabatch.variable import Array

BLOCK = 8
"""Images whose correlations are computed together; the last block is padded with zeros."""
_SWEEPS = 10
"""Sweeps of coordinate descent over one working set."""
_TINY = np.finfo(float).tiny


class Atoms(NamedTuple):
    """A dictionary: atoms are padded with zeros to a multiple of `LANES`, pixels to one of `LANES`."""

    rows: Array
    """`[atoms, pixels]`"""
    columns: Array
    """`[pixels, atoms]`"""
    gram: Array
    """`[atoms, atoms]`"""


class Goal(NamedTuple):
    """What is to be reached for each image."""

    penalty: float
    signed: bool
    gap: float
    """Largest relative gap; of a larger one, the code is improved by coordinate descent."""
    capacity: int
    """Largest number of active atoms of the path: their rank is not larger."""
    tiny: float
    """Squared distance of an atom from the space of others, relative to its square, that is none."""
    steps: int
    """Largest number of steps: of the path, and sweeps of coordinate descent."""


class Block(NamedTuple):
    """Images of a thread that are coded together."""

    image: Array
    """`[BLOCK, pixels]`"""
    residual: Array
    """image - reconstruction `[BLOCK, pixels]`"""
    drive: Array
    """Correlations of the images, then of the residuals `[BLOCK, atoms]`"""
    exact: Array
    """Residual of each image, float64 `[BLOCK, pixels]`"""
    at: Array
    """Active atoms of each image, int64 `[BLOCK, atoms]`"""
    code: Array
    """Their codes `[BLOCK, atoms]`"""
    active: Array
    """Their number, int64 `[BLOCK]`"""
    sums: Array
    """Work space, float64 `[LANES]`"""
    top: Array
    """Work space `[LANES]`"""


@njit(nogil=True, fastmath=FAST, error_model="numpy")
def _dot(a: Any, b: Any, sums: Any) -> float:
    """Return the sum of a b over a multiple of `LANES` numbers, in float64."""
    for i in range(LANES):
        sums[i] = 0.0
    for begin in range(0, a.size, LANES):
        for i in range(LANES):
            sums[i] += np.float64(a[begin + i]) * np.float64(b[begin + i])
    total = 0.0
    for i in range(LANES):
        total += sums[i]
    return total


@njit(nogil=True, fastmath=FAST, error_model="numpy")
def _steepest(slopes: Any, signed: bool, top: Any) -> float:
    """Return the largest of a multiple of `LANES` slopes, or of their sizes; at least 0, or NaN."""
    for i in range(LANES):
        top[i] = 0
    for begin in range(0, slopes.size, LANES):
        for i in range(LANES):
            g = abs(slopes[begin + i]) if signed else slopes[begin + i]
            top[i] = top[i] if (g <= top[i]) | (top[i] != top[i]) else g
    best = 0.0
    for i in range(LANES):
        best = best if top[i] <= best or best != best else np.float64(top[i])
    return best


@njit(nogil=True, fastmath=FAST, error_model="numpy")
def _subtract(n: int, rows: Any, block: Block) -> None:
    """Write the residual of an image."""
    x, r, rounded = block.image[n], block.exact[n], block.residual[n]
    for k in range(r.size):
        r[k] = np.float64(x[k])
    for i in range(block.active[n]):
        a, atom = np.float64(block.code[n, i]), rows[block.at[n, i]]
        for k in range(r.size):
            r[k] -= a * np.float64(atom[k])
    for k in range(r.size):
        rounded[k] = x.dtype.type(r[k])


@njit(nogil=True, fastmath=FAST, error_model="numpy")
def _relative_gap(n: int, goal: Goal, block: Block) -> float:
    """Return the relative gap of the code of an image; infinity where there is none."""
    r, size = block.exact[n], 0.0
    for i in range(block.active[n]):
        size += abs(np.float64(block.code[n, i]))
    squares, cross = _dot(r, r, block.sums), _dot(r, block.image[n], block.sums)
    shrink = goal.penalty / max(_steepest(block.drive[n], goal.signed, block.top), goal.penalty)
    energy = 0.5 * squares + goal.penalty * size
    gap = (energy - (shrink * cross - 0.5 * shrink * shrink * squares)) / max(energy, _TINY)
    return max(gap, 0.0) if gap < np.inf else np.inf


@njit(nogil=True, fastmath=FAST, error_model="numpy")
def _sweep(
    chosen: Any, count: int, code: Any, r: Any, penalty: float, signed: bool, atoms: Atoms, sums: Any
) -> float:
    """Minimise over one code after the other; return by how much correlations moved at most."""
    moved = 0.0
    for k in range(count):
        j = chosen[k]
        atom, square, before = atoms.rows[j], np.float64(atoms.gram[j, j]), code[j]
        g = _dot(r, atom, sums) + square * before
        size = abs(g) if signed else g
        a = max(size - penalty, 0.0) / square if square > 0.0 else 0.0
        a = np.float64(atom.dtype.type(-a if g < 0.0 else a))  # residuals are those of codes as returned
        if a != before:
            code[j], change = a, a - before
            for i in range(r.size):
                r[i] -= change * np.float64(atom[i])
            moved = max(moved, abs(change) * square)
    return moved


@njit(nogil=True, error_model="numpy")
def _descend(n: int, steps: int, goal: Goal, atoms: Atoms, block: Block, alone: Block) -> tuple[float, int]:
    """Improve the code of an image by coordinate descent, until its gap is small enough.

    Each round sweeps over the active atoms and those that violate the optimality conditions. Returns the gap
    and the number of steps.
    """
    code, slope, x = np.zeros(atoms.gram.shape[0]), block.drive[n], block.image[n]
    chosen = np.empty(code.size, np.int64)
    for i in range(block.active[n]):
        code[block.at[n, i]] = np.float64(block.code[n, i])
    gap = _relative_gap(n, goal, block)
    while steps < goal.steps and gap > goal.gap and gap < np.inf:
        count = 0
        for j in range(code.size):
            g = np.float64(abs(slope[j]) if goal.signed else slope[j])
            if code[j] != 0.0 or g > goal.penalty:
                chosen[count] = j
                count += 1
        first = 0.0
        for _ in range(min(_SWEEPS, goal.steps - steps)):
            moved = _sweep(chosen, count, code, block.exact[n], goal.penalty, goal.signed, atoms, block.sums)
            steps += 1
            first = max(first, moved)
            if moved <= 0.1 * first * goal.gap:
                break
        if first == 0.0:
            break  # rounding allows for nothing better
        active = 0
        for j in range(code.size):
            if code[j] != 0.0:
                block.at[n, active], block.code[n, active] = j, x.dtype.type(code[j])
                active += 1
        block.active[n] = active
        _subtract(n, atoms.rows, block)
        alone.residual[0] = block.residual[n]
        drive(alone.residual, atoms.columns, alone.drive)
        slope[:] = alone.drive[0]
        gap = _relative_gap(n, goal, block)
    return gap, steps


def new_block(count: int, atoms: int, pixels: int, dtype: Any) -> Block:
    """Return arrays for `count` images."""
    image, residual = np.zeros((count, pixels), dtype), np.zeros((count, pixels), dtype)
    drives, code, top = (
        np.zeros((count, atoms), dtype),
        np.zeros((count, atoms), dtype),
        np.zeros(LANES, dtype),
    )
    at, active = np.zeros((count, atoms), np.int64), np.zeros(count, np.int64)
    return Block(image, residual, drives, np.zeros((count, pixels)), at, code, active, np.zeros(LANES), top)


@njit(nogil=True, error_model="numpy")
def _borrowed(b: Block) -> Block:
    """Return views that count no references; the caller keeps the arrays."""
    return Block(
        borrow(b.image), borrow(b.residual), borrow(b.drive), borrow(b.exact), borrow(b.at), borrow(b.code),
        borrow(b.active), borrow(b.sums), borrow(b.top),
    )  # fmt: skip


@njit(nogil=True, error_model="numpy")
def solve(
    images: Any, dictionary: Atoms, goal: Goal, own: Path, together: Block, single: Block, codes: Any,
    gaps: Any, steps: Any, active: Any,
) -> None:  # fmt: skip
    """Write codes `[n, atoms]`, which are zero before, of images `[n, pixels]`; these without padding.

    Writes the relative gap, the number of steps and that of active atoms of each image, `[n]`. `together` and
    `single` are blocks of `BLOCK` images and of `ABREAST`.
    """
    atoms = Atoms(borrow(dictionary.rows), borrow(dictionary.columns), borrow(dictionary.gram))
    path, block, alone = borrowed(own), _borrowed(together), _borrowed(single)
    for first in range(0, len(images), BLOCK):
        count = min(BLOCK, len(images) - first)
        block.image[:] = 0
        for n in range(count):
            for k in range(images.shape[1]):
                block.image[n, k] = images[first + n, k]
        drive(block.image, atoms.columns, block.drive)
        for n in range(BLOCK):
            found, taken = 0, 0
            if n < count:
                found, taken = follow(
                    block.drive[n], atoms.gram, goal.penalty, goal.signed, goal.capacity, goal.tiny,
                    goal.steps, path,
                )  # fmt: skip
                steps[first + n] = taken
            block.active[n] = found
            for i in range(found):
                block.at[n, i], block.code[n, i] = path.at[i], images.dtype.type(path.code[i])
            _subtract(n, atoms.rows, block)
        drive(block.residual, atoms.columns, block.drive)
        for n in range(count):
            gap, taken = _relative_gap(n, goal, block), steps[first + n]
            if gap > goal.gap:
                gap, taken = _descend(n, taken, goal, atoms, block, alone)
            nonzero = 0
            for i in range(block.active[n]):
                codes[first + n, block.at[n, i]] = block.code[n, i]
                nonzero += block.code[n, i] != 0
            gaps[first + n], steps[first + n], active[first + n] = gap, taken, nonzero
