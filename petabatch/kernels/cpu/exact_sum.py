"""The two passes of the exact sum over an array of changes: compiled on the CPU, plain on a GPU.

Both give the same bits: nothing is rounded but by `rint`, and integers are added. On one core the plain ones
take four times as long.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from petabatch.kernels.cpu.jit import njit
from petabatch.variable import Array, module_of

_WORDS: dict[np.dtype[Any], type[np.unsignedinteger[Any]]] = {
    np.dtype(np.float32): np.uint32,
    np.dtype(np.float64): np.uint64,
}
_AT_ONCE = 2**24
"""Numbers that a GPU rounds in one go."""


def largest(flat: Array) -> Array:
    """Return the largest |x| of each row of `[slices, features, n]`; not finite where an x is not."""
    if not _readable(flat):
        return plain_largest(flat)
    # Without its sign a float compares as the whole number that its bits are: NaN above infinity above all.
    words = _WORDS[flat.dtype]
    found = np.zeros(flat.shape[:2], words)
    _largest(flat.view(words), words(np.iinfo(words).max >> 1), found)
    return found.view(flat.dtype)


def add_integers(flat: Array, scale: np.ndarray, bits: int, total: Array) -> None:
    """Add round(x * scale), kept below 2^bits in size, of all slices to `total`.

    `flat` is `[slices, features, n]`, `scale` float64 `[features, 1]` and `total` int64 `[features, n]`.
    No |x * scale| is above 2^bits.
    """
    if not _readable(flat):
        plain_add_integers(flat, scale, bits, total)
    elif bits < 53:
        _add_below(flat, scale, 2.0**bits - 1, total)
    else:
        _add(flat, scale, total)


def plain_largest(flat: Array) -> Array:
    """Do what `largest` does, where the array is."""
    return module_of(flat).maximum(flat.max(axis=2), -flat.min(axis=2))


def plain_add_integers(flat: Array, scale: np.ndarray, bits: int, total: Array) -> None:
    """Do what `add_integers` does, where the array is."""
    xp = module_of(flat)
    factor, several = xp.asarray(scale), max(1, _AT_ONCE // total.size)
    for start in range(0, len(flat), several):
        scaled = flat[start : start + several] * factor
        xp.rint(scaled, out=scaled)
        if bits < 53:
            xp.clip(scaled, 1 - 2.0**bits, 2.0**bits - 1, out=scaled)
        total += scaled.astype(np.int64).sum(axis=0)


def _readable(flat: Array) -> bool:
    return type(flat) is np.ndarray and flat.dtype in _WORDS and flat.flags.c_contiguous


@njit(nogil=True, error_model="numpy")
def _largest(words: Any, number: Any, found: Any) -> None:
    for slice_ in range(words.shape[0]):
        for f in range(words.shape[1]):
            top, row = found[slice_, f], words[slice_, f]
            for i in range(row.size):
                top = max(top, row[i] & number)
            found[slice_, f] = top


@njit(nogil=True, error_model="numpy")
def _add(flat: Any, scale: Any, total: Any) -> None:
    for f in range(flat.shape[1]):
        sums, factor = total[f], scale[f, 0]
        for slice_ in range(flat.shape[0]):
            row = flat[slice_, f]
            for i in range(row.size):
                sums[i] += np.int64(np.rint(np.float64(row[i]) * factor))


@njit(nogil=True, error_model="numpy")
def _add_below(flat: Any, scale: Any, most: float, total: Any) -> None:
    for f in range(flat.shape[1]):
        sums, factor = total[f], scale[f, 0]
        for slice_ in range(flat.shape[0]):
            row = flat[slice_, f]
            for i in range(row.size):
                sums[i] += np.int64(min(max(np.rint(np.float64(row[i]) * factor), -most), most))
