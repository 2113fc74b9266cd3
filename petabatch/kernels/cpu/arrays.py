"""Views and copies of arrays inside compiled functions, with less code than numba's own."""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from petabatch.kernels.cpu.jit import FAST, njit


def place_in(context: Any, builder: Any, kind: Any, array: Any, index: Any) -> Any:
    """Return the address of array[index], in code that is being generated."""
    return builder.gep(context.make_array(kind)(context, builder, array).data, [index])


@intrinsic
def borrow(typing: Any, array: Any) -> Any:
    """Return a view of an array that counts no references.

    Every slice of an array counts one, atomically: where threads take slices of the same table in each
    operation, they wait for each other. The caller keeps the array.
    """

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        view = context.make_array(array)(context, builder, args[0])
        view.meminfo = cgutils.get_null_value(view.meminfo.type)
        view.parent = cgutils.get_null_value(view.parent.type)
        return view._getvalue()

    return array(array), generate


@intrinsic
def bytes_of(typing: Any, array: Any) -> Any:
    """Return the bytes of a number of an array or type, as a constant, which `itemsize` is not."""
    count = array.dtype.bitwidth // 8
    return types.int64(array), lambda context, builder, signature, args: ir.Constant(ir.IntType(64), count)


@njit(nogil=True, error_model="numpy")
def copy(source: Any, out: Any) -> None:
    """Copy numbers, without the check of shapes and the test for overlap of a slice assignment."""
    for i in range(out.size):
        out[i] = source[i]


@njit(nogil=True, fastmath=FAST, error_model="numpy")
def add(source: Any, factor: Any, out: Any) -> None:
    """Add `factor` times other numbers to each."""
    for i in range(out.size):
        out[i] += factor * source[i]


@njit(nogil=True, fastmath=FAST, error_model="numpy")
def multiply(factor: Any, out: Any) -> None:
    """Multiply each number by a factor."""
    for i in range(out.size):
        out[i] *= factor
