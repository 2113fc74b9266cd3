"""Rows of small float64 matrices, compiled: too short for the compiler's own loops of vectors.

These begin with several vectors at a time, and go on number by number.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from petabatch.kernels.cpu.arrays import place_in
from petabatch.kernels.cpu.jit import njit

WIDE = 8
"""Numbers of a vector."""
_VECTOR = ir.VectorType(ir.DoubleType(), WIDE)


@intrinsic
def _add_vector(typing: Any, total: Any, factor: Any, row: Any, begin: Any) -> Any:
    """Add factor * row[begin : begin + WIDE] to those of `total`."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        def place(index: int) -> Any:
            pointer = place_in(context, builder, signature.args[index], args[index], args[3])
            return builder.bitcast(pointer, _VECTOR.as_pointer())

        number = builder.insert_element(ir.Constant(_VECTOR, ir.Undefined), args[1], ir.IntType(32)(0))
        order = ir.Constant(ir.VectorType(ir.IntType(32), WIDE), [0] * WIDE)
        factors = builder.shuffle_vector(number, ir.Constant(_VECTOR, ir.Undefined), order)
        kind = ir.FunctionType(_VECTOR, [_VECTOR] * 3)
        fma = cgutils.get_or_insert_function(builder.module, kind, f"llvm.fmuladd.v{WIDE}f64")
        terms = [factors, builder.load(place(2), align=8), builder.load(place(0), align=8)]
        builder.store(builder.call(fma, terms), place(0), align=8)
        return context.get_dummy_value()

    return types.none(total, types.float64, row, types.intp), generate


@njit(nogil=True, error_model="numpy")
def add(total: Any, factor: float, row: Any, count: int) -> None:
    """Add factor times a row to `total`: the first `count` numbers, and those that complete a vector."""
    for begin in range(0, count, WIDE):
        _add_vector(total, factor, row, begin)
