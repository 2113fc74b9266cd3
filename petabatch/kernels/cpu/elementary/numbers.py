"""Numbers as bits, and fused multiply-adds, inside compiled functions."""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

OPTIONS = {"nogil": True, "error_model": "numpy", "fastmath": False, "forceinline": True}
"""Of all elementary functions: inlined, so that the loops that call them become vectors."""
NAN, INF = np.float32(np.nan), np.float32(np.inf)
ROUND = np.float32(1.5 * 2**23)
"""A number that rounds to an integer what it is added to, and has that in its last bits."""
ROUND64 = np.float64(1.5 * 2**52)


@intrinsic
def fma(typing: Any, a: Any, b: Any, c: Any) -> Any:
    """Return a b + c, rounded once."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.fma(*args)

    return a(a, a, a), generate


def _reinterpreted(source: Any, result: Any, to: ir.Type) -> Any:
    """Return the function that takes the bits of a number as those of another."""

    @intrinsic
    def reinterpret(typing: Any, x: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            return builder.bitcast(args[0], to)

        return result(source), generate

    return reinterpret


bits32 = _reinterpreted(types.float32, types.int32, ir.IntType(32))
of_bits32 = _reinterpreted(types.int32, types.float32, ir.FloatType())
bits64 = _reinterpreted(types.float64, types.int64, ir.IntType(64))
of_bits64 = _reinterpreted(types.int64, types.float64, ir.DoubleType())
