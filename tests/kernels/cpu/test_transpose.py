"""Squares of float32 that are transposed in registers."""

from __future__ import annotations

import numpy as np
from numba import njit

from petabatch.kernels.cpu.transpose import SIDE, columns_to_rows, rows_to_columns


def test_rows_become_columns_and_columns_rows() -> None:
    @njit
    def there(at: np.ndarray, out: np.ndarray, i: int, pitch: int) -> None:
        rows_to_columns(at[0], at[1], at[2], at[3], at[4], at[5], at[6], at[7], out, i, pitch)

    @njit
    def back(at: np.ndarray, of: np.ndarray, i: int, pitch: int) -> None:
        columns_to_rows(at[0], at[1], at[2], at[3], at[4], at[5], at[6], at[7], of, i, pitch)

    rows = np.random.default_rng(0).normal(size=(SIDE, SIDE)).astype(np.float32)
    apart = [row.copy() for row in rows]
    at = np.array([row.ctypes.data for row in apart])
    out = np.zeros(200, np.float32)
    there(at, out, 3, 11)
    columns = np.lib.stride_tricks.as_strided(out[3:], (SIDE, SIDE), (44, 4))
    assert np.array_equal(columns, rows.T)
    assert np.count_nonzero(out) == SIDE**2
    for row in apart:
        row[:] = 0
    back(at, out, 3, 11)
    assert np.array_equal(np.stack(apart), rows)
