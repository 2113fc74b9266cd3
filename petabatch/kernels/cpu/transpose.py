"""Transposition of small squares of numbers in registers: rows of several arrays, columns of one."""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from petabatch.kernels.cpu.simd import Vector, place_of, vector_type

SIDE = 8
"""Rows and columns of a square."""
_INT32 = ir.IntType(32)
_STAGES = (
    (1, (0, 8, 1, 9, 4, 12, 5, 13), (2, 10, 3, 11, 6, 14, 7, 15)),
    (2, (0, 1, 8, 9, 4, 5, 12, 13), (2, 3, 10, 11, 6, 7, 14, 15)),
    (4, (0, 1, 2, 3, 8, 9, 10, 11), (4, 5, 6, 7, 12, 13, 14, 15)),
)
"""Distance of the rows of a pair, and which of their numbers the two new rows have."""


def _transposed(builder: Any, rows: list[Any]) -> list[Any]:
    for apart, low, high in _STAGES:
        found = list(rows)
        for first in range(SIDE):
            if first & apart:
                continue
            pair, second = (rows[first], rows[first | apart]), first | apart
            for to, which in ((first, low), (second, high)):
                order = ir.Constant(ir.VectorType(_INT32, SIDE), list(which))
                found[to] = builder.shuffle_vector(*pair, order)
        rows = found
    return [rows[n] for n in _ORDER]


def _order() -> list[int]:
    """Return which row of the result has each column, found out on numbers."""
    rows = [[(row, column) for column in range(SIDE)] for row in range(SIDE)]
    for apart, low, high in _STAGES:
        found = list(rows)
        for first in range(SIDE):
            if not first & apart:
                both = rows[first] + rows[first | apart]
                found[first], found[first | apart] = [both[n] for n in low], [both[n] for n in high]
        rows = found
    return [rows.index([(row, column) for row in range(SIDE)]) for column in range(SIDE)]


_ORDER = _order()


def _row(array: Any) -> tuple[Any, int]:
    """Return the type of a row of numbers of an array in generated code, and the bytes of a number."""
    return vector_type(Vector(SIDE, array.dtype)), array.dtype.bitwidth // 8


@intrinsic
def rows_to_columns(
    typing: Any, a: Any, b: Any, c: Any, d: Any, e: Any, f: Any, g: Any, h: Any, out: Any, i: Any, pitch: Any
) -> Any:
    """Write out[i + k * pitch + n] = number k at the n-th of eight addresses."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        *addresses, array, to, step = args
        row, align = _row(out)
        pointers = [builder.inttoptr(one, row.as_pointer()) for one in addresses]
        rows = [builder.load(one, align=align) for one in pointers]
        for column in _transposed(builder, rows):
            builder.store(column, place_of(context, builder, out, array, to, row), align=align)
            to = builder.add(to, step)
        return context.get_dummy_value()

    return types.none(*(types.intp,) * SIDE, out, types.intp, types.intp), generate


@intrinsic
def columns_to_rows(
    typing: Any, a: Any, b: Any, c: Any, d: Any, e: Any, f: Any, g: Any, h: Any, of: Any, i: Any, pitch: Any
) -> Any:
    """Write number k at the n-th of eight addresses = of[i + k * pitch + n]."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        *addresses, array, at, step = args
        row, align = _row(of)
        columns = []
        for _ in range(SIDE):
            columns.append(builder.load(place_of(context, builder, of, array, at, row), align=align))
            at = builder.add(at, step)
        for address, made in zip(addresses, _transposed(builder, columns), strict=True):
            builder.store(made, builder.inttoptr(address, row.as_pointer()), align=align)
        return context.get_dummy_value()

    return types.none(*(types.intp,) * SIDE, of, types.intp, types.intp), generate
