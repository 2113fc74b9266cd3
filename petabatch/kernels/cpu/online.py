"""Online learning of a dictionary, compiled: statistics of codes, and atoms that fit them best.

Mairal, Bach, Ponce and Sapiro (2010), "Online learning for matrix factorization and sparse coding", with
A = sum of code code^T and B = sum of code item^T: algorithm 2 minimises 0.5 tr(D^T A D) - tr(D^T B) over one
atom after the other.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from petabatch.kernels.cpu.jit import FAST, njit


@njit(nogil=True, fastmath=FAST, error_model="numpy")
def accumulate(codes: Any, items: Any, a: Any, b: Any, active: Any) -> None:
    """Add the products of codes `[n, atoms]` to `a`, those of codes and items `[n, pixels]` to `b`.

    Sums are in float64, in the order of the items. `active` `[atoms]` is work space, int64.
    """
    for n in range(len(codes)):
        code, item, count = codes[n], items[n], 0
        for j in range(code.size):
            if code[j] != 0:
                active[count] = j
                count += 1
        for i in range(count):
            j = active[i]
            value, row, sums = np.float64(code[j]), a[j], b[j]
            for k in range(count):
                row[active[k]] += value * np.float64(code[active[k]])
            for k in range(item.size):
                sums[k] += value * np.float64(item[k])


@njit(nogil=True, fastmath=FAST, error_model="numpy")
def fit_atoms(a: Any, b: Any, atoms: Any, negative: bool, change: Any) -> None:
    """Move each atom of float64 `[atoms, pixels]` to its minimum with the others fixed, in the unit ball.

    Atoms that no code has used stay as they are. Without `negative`, no number of an atom is below zero.
    `change` `[pixels]` is work space.
    """
    for j in range(len(atoms)):
        square, own = a[j, j], atoms[j]
        if not square > 0.0:
            continue
        for k in range(own.size):
            change[k] = b[j, k]
        for i in range(len(atoms)):
            factor, other = a[j, i], atoms[i]
            if factor != 0.0:
                for k in range(own.size):
                    change[k] -= factor * other[k]
        length = 0.0
        for k in range(own.size):
            value = own[k] + change[k] / square
            own[k] = value if negative or value > 0.0 else 0.0
            length += own[k] * own[k]
        if length > 1.0:
            scale = 1.0 / np.sqrt(length)
            for k in range(own.size):
                own[k] *= scale
