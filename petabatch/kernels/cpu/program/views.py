"""Arrays at an address, inside compiled functions: what lets one compilation serve any number of arrays."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import carray, types
from numba.extending import intrinsic

from petabatch.kernels.cpu.jit import njit

PLACE, SIZE, DEPTH = range(3)
"""Columns of the table of arrays `[arrays, 3]`: address, numbers in one place, places."""


@intrinsic
def pointer(typing: Any, address: Any) -> Any:
    """Return the pointer to an address."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.inttoptr(args[0], context.get_value_type(signature.return_type))

    return types.voidptr(types.int64), generate


@njit(nogil=True, error_model="numpy")
def address(arrays: Any, number: int, step: int) -> int:
    """Return where the float32 numbers of an array lie at a step: step t is in place t modulo the depth."""
    return arrays[number, PLACE] + 4 * arrays[number, SIZE] * (step % arrays[number, DEPTH])  # type: ignore[no-any-return]


@njit(nogil=True, error_model="numpy")
def floats(arrays: Any, number: int, step: int) -> Any:
    """Return the float32 numbers of an array at a step, `[size]`."""
    return carray(pointer(address(arrays, number, step)), (arrays[number, SIZE],), np.float32)


@njit(nogil=True, error_model="numpy")
def doubles(arrays: Any, number: int) -> Any:
    """Return the float64 numbers of an array."""
    return carray(pointer(arrays[number, PLACE]), (arrays[number, SIZE],), np.float64)


@njit(nogil=True, error_model="numpy")
def longs(arrays: Any, number: int) -> Any:
    """Return the int64 numbers of an array."""
    return carray(pointer(arrays[number, PLACE]), (arrays[number, SIZE],), np.int64)


@njit(nogil=True, error_model="numpy")
def unsigned(arrays: Any, number: int) -> Any:
    """Return the uint64 numbers of an array."""
    return carray(pointer(arrays[number, PLACE]), (arrays[number, SIZE],), np.uint64)


@njit(nogil=True, error_model="numpy")
def ints(arrays: Any, number: int) -> Any:
    """Return the int32 numbers of an array."""
    return carray(pointer(arrays[number, PLACE]), (arrays[number, SIZE],), np.int32)
