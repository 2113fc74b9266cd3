"""Sums over arrays in an order that no compiler and no processor chooses: that of the code.

Four vectors of partial sums, then one, then number by number.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic, models, register_model

from petabatch.kernels.cpu.jit import njit
from petabatch.kernels.cpu.simd import operations, pair_operations

_LANES = 8
_STEP = 4 * _LANES
_zeros, _load, *_ = operations(_LANES)
_fma, _horizontal_sum, _, _add = pair_operations(_LANES)
_INT32, _WIDE = ir.IntType(32), ir.VectorType(ir.DoubleType(), _LANES)


class _Wide(types.Type):  # type: ignore[misc]
    """The type of a vector of float64."""

    def __init__(self) -> None:
        super().__init__(f"float64x{_LANES}")


@register_model(_Wide)
class _Model(models.PrimitiveModel):  # type: ignore[misc]
    def __init__(self, manager: Any, kind: _Wide) -> None:
        super().__init__(manager, kind, _WIDE)


def _widened(builder: Any, vector: Any) -> Any:
    return vector if vector.type == _WIDE else builder.fpext(vector, _WIDE)


@intrinsic
def _wide_zeros(typing: Any) -> Any:
    """Return [0, 0, ...]."""
    return _Wide()(), lambda context, builder, signature, args: ir.Constant(_WIDE, [0.0] * _LANES)


@intrinsic
def _wide_fma(typing: Any, total: Any, v: Any, w: Any) -> Any:
    """Return total + v * w, in float64."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        kind = ir.FunctionType(_WIDE, [_WIDE] * 3)
        fma = cgutils.get_or_insert_function(builder.module, kind, f"llvm.fmuladd.v{_LANES}f64")
        return builder.call(fma, [*(_widened(builder, one) for one in args[1:]), args[0]])

    return _Wide()(_Wide(), v, w), generate


@intrinsic
def _wide_add_size(typing: Any, total: Any, v: Any) -> Any:
    """Return total + |v|, in float64."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        kind = ir.FunctionType(_WIDE, [_WIDE])
        size = cgutils.get_or_insert_function(builder.module, kind, f"llvm.fabs.v{_LANES}f64")
        return builder.fadd(args[0], builder.call(size, [_widened(builder, args[1])]))

    return _Wide()(_Wide(), v), generate


@intrinsic
def _wide_add(typing: Any, total: Any, v: Any) -> Any:
    """Return total + v, in float64."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.fadd(args[0], _widened(builder, args[1]))

    return _Wide()(_Wide(), v), generate


@intrinsic
def _wide_number(typing: Any, total: Any, lane: Any) -> Any:
    """Return total[lane]."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.extract_element(args[0], builder.trunc(args[1], _INT32))

    return types.float64(_Wide(), types.intp), generate


@njit(nogil=True, error_model="numpy", inline="always")
def _wide_sum(total: Any) -> Any:
    n = _wide_number
    return ((n(total, 0) + n(total, 4)) + (n(total, 2) + n(total, 6))) + (
        (n(total, 1) + n(total, 5)) + (n(total, 3) + n(total, 7))
    )


@njit(nogil=True, error_model="numpy")
def dot(a: Any, b: Any) -> Any:
    """Return the sum of a b over `b.size` numbers, in their own precision."""
    s0, s1, s2, s3 = _zeros(a), _zeros(a), _zeros(a), _zeros(a)
    most, whole = b.size - b.size % _STEP, b.size - b.size % _LANES
    for k in range(0, most, _STEP):
        s0 = _fma(s0, _load(a, k), _load(b, k))
        s1 = _fma(s1, _load(a, k + _LANES), _load(b, k + _LANES))
        s2 = _fma(s2, _load(a, k + 2 * _LANES), _load(b, k + 2 * _LANES))
        s3 = _fma(s3, _load(a, k + 3 * _LANES), _load(b, k + 3 * _LANES))
    for k in range(most, whole, _LANES):
        s0 = _fma(s0, _load(a, k), _load(b, k))
    found = (_horizontal_sum(s0) + _horizontal_sum(s2)) + (_horizontal_sum(s1) + _horizontal_sum(s3))
    for k in range(whole, b.size):
        found += a[k] * b[k]
    return found


@njit(nogil=True, error_model="numpy")
def wide_dot(a: Any, b: Any) -> Any:
    """Return the sum of a b over `b.size` numbers, in float64."""
    s0, s1, s2, s3 = _wide_zeros(), _wide_zeros(), _wide_zeros(), _wide_zeros()
    most, whole = b.size - b.size % _STEP, b.size - b.size % _LANES
    for k in range(0, most, _STEP):
        s0 = _wide_fma(s0, _load(a, k), _load(b, k))
        s1 = _wide_fma(s1, _load(a, k + _LANES), _load(b, k + _LANES))
        s2 = _wide_fma(s2, _load(a, k + 2 * _LANES), _load(b, k + 2 * _LANES))
        s3 = _wide_fma(s3, _load(a, k + 3 * _LANES), _load(b, k + 3 * _LANES))
    for k in range(most, whole, _LANES):
        s0 = _wide_fma(s0, _load(a, k), _load(b, k))
    found = (_wide_sum(s0) + _wide_sum(s2)) + (_wide_sum(s1) + _wide_sum(s3))
    for k in range(whole, b.size):
        found += np.float64(a[k]) * np.float64(b[k])
    return found


@njit(nogil=True, error_model="numpy")
def wide_squares(a: Any) -> Any:
    """Return the sum of a^2, in float64."""
    s0, s1, s2, s3 = _wide_zeros(), _wide_zeros(), _wide_zeros(), _wide_zeros()
    most, whole = a.size - a.size % _STEP, a.size - a.size % _LANES
    for k in range(0, most, _STEP):
        v0, v1, v2, v3 = (
            _load(a, k), _load(a, k + _LANES), _load(a, k + 2 * _LANES), _load(a, k + 3 * _LANES),
        )  # fmt: skip
        s0, s1 = _wide_fma(s0, v0, v0), _wide_fma(s1, v1, v1)
        s2, s3 = _wide_fma(s2, v2, v2), _wide_fma(s3, v3, v3)
    for k in range(most, whole, _LANES):
        v0 = _load(a, k)
        s0 = _wide_fma(s0, v0, v0)
    found = (_wide_sum(s0) + _wide_sum(s2)) + (_wide_sum(s1) + _wide_sum(s3))
    for k in range(whole, a.size):
        found += np.float64(a[k]) ** 2
    return found


@njit(nogil=True, error_model="numpy")
def wide_total(a: Any) -> Any:
    """Return the sum of an array, in float64."""
    s0, s1, s2, s3 = _wide_zeros(), _wide_zeros(), _wide_zeros(), _wide_zeros()
    most, whole = a.size - a.size % _STEP, a.size - a.size % _LANES
    for k in range(0, most, _STEP):
        s0 = _wide_add(s0, _load(a, k))
        s1 = _wide_add(s1, _load(a, k + _LANES))
        s2 = _wide_add(s2, _load(a, k + 2 * _LANES))
        s3 = _wide_add(s3, _load(a, k + 3 * _LANES))
    for k in range(most, whole, _LANES):
        s0 = _wide_add(s0, _load(a, k))
    found = (_wide_sum(s0) + _wide_sum(s2)) + (_wide_sum(s1) + _wide_sum(s3))
    for k in range(whole, a.size):
        found += a[k]
    return found


@njit(nogil=True, error_model="numpy")
def wide_sizes(a: Any) -> Any:
    """Return the sum of |a|, in float64."""
    s0, s1, s2, s3 = _wide_zeros(), _wide_zeros(), _wide_zeros(), _wide_zeros()
    most, whole = a.size - a.size % _STEP, a.size - a.size % _LANES
    for k in range(0, most, _STEP):
        s0 = _wide_add_size(s0, _load(a, k))
        s1 = _wide_add_size(s1, _load(a, k + _LANES))
        s2 = _wide_add_size(s2, _load(a, k + 2 * _LANES))
        s3 = _wide_add_size(s3, _load(a, k + 3 * _LANES))
    for k in range(most, whole, _LANES):
        s0 = _wide_add_size(s0, _load(a, k))
    found = (_wide_sum(s0) + _wide_sum(s2)) + (_wide_sum(s1) + _wide_sum(s3))
    for k in range(whole, a.size):
        found += abs(np.float64(a[k]))
    return found


@njit(nogil=True, error_model="numpy")
def total(a: Any) -> Any:
    """Return the sum of an array, in its own precision."""
    sums, whole = _zeros(a), a.size - a.size % _LANES
    for k in range(0, whole, _LANES):
        sums = _add(sums, _load(a, k))
    found = _horizontal_sum(sums)
    for k in range(whole, a.size):
        found += a[k]
    return found
