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
