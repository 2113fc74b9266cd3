"""Atoms in their places in an image, compiled: those of active units alone, in float64.

`start` `[n]` says where in a flat image the first number of each atom `[rows * row]` is, `pitch` by how much
the next row is further.
"""

from __future__ import annotations

from typing import Any

from petabatch.kernels.cpu.arrays import borrow
from petabatch.kernels.cpu.jit import FAST, njit


@njit(nogil=True, fastmath=FAST, error_model="numpy")
def add_placed(code: Any, start: Any, feature: Any, atoms: Any, row: int, pitch: int, out: Any) -> None:
    """Add atoms `feature[n]` of `atoms`, times `code[n]`, to a flat image."""
    every, out = borrow(atoms), borrow(out)
    for n in range(code.size):
        a, atom = code[n], every[feature[n]]
        for y in range(atom.size // row):
            target, part = out[start[n] + y * pitch :][:row], atom[y * row :][:row]
            for i in range(row):
                target[i] += a * part[i]


@njit(nogil=True, fastmath=FAST, error_model="numpy")
def correlate_placed(
    image: Any, start: Any, feature: Any, atoms: Any, row: int, pitch: int, sums: Any, out: Any
) -> None:
    """Write the scalar product of each atom and the image under it. `sums` `[row]` is work space."""
    every, image = borrow(atoms), borrow(image)
    for n in range(out.size):
        atom = every[feature[n]]
        for i in range(row):
            sums[i] = 0.0
        for y in range(atom.size // row):
            source, part = image[start[n] + y * pitch :][:row], atom[y * row :][:row]
            for i in range(row):
                sums[i] += source[i] * part[i]
        total = 0.0
        for i in range(row):
            total += sums[i]
        out[n] = total


@njit(nogil=True, fastmath=FAST, error_model="numpy")
def gram_placed(y: Any, x: Any, feature: Any, atoms: Any, size: Any, bounds: Any, out: Any) -> None:
    """Write the scalar products of atoms in their places, `out` `[n, n]`, within the image.

    `y`, `x` say where each begins, `size` its rows, columns and channels, `bounds` the first row and that
    after the last, and the same of columns, of what counts.
    """
    every, out = borrow(atoms), borrow(out)
    rows, columns, channels = size
    top, bottom, left, right = bounds
    for i in range(y.size):
        one = every[feature[i]]
        for j in range(i + 1):
            first, last = max(y[i], y[j], top), min(y[i], y[j]) + rows
            begin, end = max(x[i], x[j], left), min(x[i], x[j]) + columns
            last, end, total = min(last, bottom), min(end, right), 0.0
            if last > first and end > begin:
                other, length = every[feature[j]], (end - begin) * channels
                for row in range(first, last):
                    a = one[((row - y[i]) * columns + begin - x[i]) * channels :][:length]
                    b = other[((row - y[j]) * columns + begin - x[j]) * channels :][:length]
                    for k in range(length):
                        total += a[k] * b[k]
            out[i, j] = out[j, i] = total


@njit(nogil=True, fastmath=FAST, error_model="numpy")
def solve_factored(lower: Any, x: Any) -> None:
    """Replace `x` `[n]` by the solution of lower lower^T y = x."""
    lower, x = borrow(lower), borrow(x)
    for i in range(x.size):
        total = 0.0
        for k in range(i):
            total += lower[i, k] * x[k]
        x[i] = (x[i] - total) / lower[i, i]
    for i in range(x.size - 1, -1, -1):
        x[i] /= lower[i, i]
        value = x[i]
        for k in range(i):
            x[k] -= value * lower[i, k]
