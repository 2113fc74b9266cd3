"""Arrays at an address, inside compiled functions: what lets one compilation serve any number of arrays."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import carray, types
from numba.extending import intrinsic

from petabatch.kernels.cpu.arrays import bytes_of
from petabatch.kernels.cpu.jit import njit

PLACE, SIZE, DEPTH = range(3)
"""Columns of the table of arrays `[arrays, 3]`: address, numbers in one place, places."""


class Arrays(NamedTuple):
    """The table of arrays of a slice `[n, 3]`, or of several `[slices, n, 3]`, in a run of a precision."""

    table: Any
    real: Any
    """The type of the numbers of the run, which kernels are compiled for."""


@intrinsic
def pointer(typing: Any, address: Any) -> Any:
    """Return the pointer to an address."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.inttoptr(args[0], context.get_value_type(signature.return_type))

    return types.voidptr(types.int64), generate


@njit(nogil=True, error_model="numpy")
def address(arrays: Any, number: int, step: int) -> int:
    """Return where the numbers of an array lie at a step: step t is in place t modulo the depth."""
    table = arrays.table
    later = table[number, SIZE] * (step % table[number, DEPTH])
    return table[number, PLACE] + bytes_of(arrays.real) * later  # type: ignore[no-any-return]


@njit(nogil=True, error_model="numpy")
def floats(arrays: Any, number: int, step: int) -> Any:
    """Return the numbers of an array of the precision of the run at a step, `[size]`."""
    return carray(pointer(address(arrays, number, step)), (arrays.table[number, SIZE],), arrays.real)


@njit(nogil=True, error_model="numpy")
def floats_of_all_steps(arrays: Any, number: int) -> Any:
    """Return the same of all places, one after the other."""
    size = arrays.table[number, SIZE] * arrays.table[number, DEPTH]
    return carray(pointer(arrays.table[number, PLACE]), (size,), arrays.real)


@njit(nogil=True, error_model="numpy")
def floats_at(arrays: Any, place: int, size: int) -> Any:
    """Return numbers of the precision of the run at an address."""
    return carray(pointer(place), (size,), arrays.real)


@njit(nogil=True, error_model="numpy")
def doubles(arrays: Any, number: int) -> Any:
    """Return the float64 numbers of an array."""
    return carray(pointer(arrays.table[number, PLACE]), (arrays.table[number, SIZE],), np.float64)


@njit(nogil=True, error_model="numpy")
def longs(arrays: Any, number: int) -> Any:
    """Return the int64 numbers of an array."""
    return carray(pointer(arrays.table[number, PLACE]), (arrays.table[number, SIZE],), np.int64)


@njit(nogil=True, error_model="numpy")
def unsigned(arrays: Any, number: int) -> Any:
    """Return the uint64 numbers of an array."""
    return carray(pointer(arrays.table[number, PLACE]), (arrays.table[number, SIZE],), np.uint64)


@njit(nogil=True, error_model="numpy")
def ints(arrays: Any, number: int) -> Any:
    """Return the int32 numbers of an array."""
    return carray(pointer(arrays.table[number, PLACE]), (arrays.table[number, SIZE],), np.int32)


@njit(nogil=True, error_model="numpy")
def size_of(arrays: Any, number: int) -> int:
    """Return how many numbers an array has at a step."""
    return arrays.table[number, SIZE]  # type: ignore[no-any-return]


@njit(nogil=True, error_model="numpy")
def depth_of(arrays: Any, number: int) -> int:
    """Return for how many steps an array has places."""
    return arrays.table[number, DEPTH]  # type: ignore[no-any-return]


@njit(nogil=True, error_model="numpy")
def slices_in(arrays: Any) -> int:
    """Return how many slices there are."""
    return arrays.table.shape[0]  # type: ignore[no-any-return]


@njit(nogil=True, error_model="numpy")
def of_slice(arrays: Any, w: int) -> Arrays:
    """Return the arrays of one of several slices."""
    return Arrays(arrays.table[w], arrays.real)


@njit(nogil=True, error_model="numpy")
def of_slices(arrays: Any, begin: int, end: int) -> Arrays:
    """Return the arrays of some slices."""
    return Arrays(arrays.table[begin:end], arrays.real)


@njit(nogil=True, error_model="numpy")
def alone(arrays: Any) -> Arrays:
    """Return the arrays of a slice as those of several."""
    return Arrays(arrays.table.reshape((1, *arrays.table.shape)), arrays.real)
