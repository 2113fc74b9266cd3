"""Products of matrices by cuBLAS that CUDA graphs can capture: CuPy refuses its own during a capture."""

from __future__ import annotations

import ctypes
import math
import weakref
from collections.abc import Mapping, Sequence
from functools import cache
from itertools import pairwise
from typing import Any

from petabatch.variable import Array

_WORKSPACE = 32 * 2**20
"""Bytes for each stream, what cuBLAS takes on compute capability 9.0: then a product has the same bits
every time, whatever runs beside it."""
_REAL = {"float32": 0, "float64": 1}
"""`cudaDataType` of numbers."""
_COMPUTE = {"float32": 68, "tf32": 77, "float64": 70}
"""`cublasComputeType_t`."""
_DEFAULT_ALGORITHM = -1
_ROWS = 128
"""Rows of matrices from which products one by one are as fast as one of all rows, which is worth no copy."""


class Products:
    """Products on the current stream; each stream has a handle of its own."""

    def __init__(self, xp: Any, tf32: bool, library: Any = None) -> None:
        """Use `library`, by default the cuBLAS that CuPy has loaded; `tf32` rounds factors of float32."""
        self._xp, self._tf32 = xp, tf32
        self._library = library or _cublas()
        self._handles: dict[int, tuple[ctypes.c_void_p, Array]] = {}
        weakref.finalize(self, _destroy, self._library, self._handles).atexit = False

    def multiply(self, a: Array, b: Array) -> Array:
        """Return the products of `[..., m, k]` and `[..., k, n]`, whose leading axes are broadcast."""
        xp, lead = self._xp, (a.shape[:-2], b.shape[:-2])
        if math.prod(lead[1]) == 1 and a.shape[-2] >= _ROWS and not _follow(a):
            out = self._batch(a.reshape(-1, *a.shape[-2:]), b.reshape(1, *b.shape[-2:]))
            return out.reshape(*a.shape[:-1], b.shape[-1])
        if math.prod(lead[1]) == 1:  # one matrix for all: one large product
            flat = self._batch(
                a.reshape(1, math.prod(a.shape[:-1]), a.shape[-1]), b.reshape(1, *b.shape[-2:])
            )
            return flat.reshape(*a.shape[:-1], b.shape[-1])
        if lead[0] != lead[1] and lead[1][0] == 1 and lead[0][1:] == lead[1][1:]:
            # Slices that share a matrix for each position are rows of its product.
            joined = xp.moveaxis(a, 0, -3)
            rows = self.multiply(joined.reshape(*joined.shape[:-3], -1, a.shape[-1]), b[0])
            return xp.moveaxis(rows.reshape(*joined.shape[:-1], b.shape[-1]), -3, 0)
        if lead[0] != lead[1]:
            whole = _broadcast(*lead)
            a, b = (xp.broadcast_to(one, (*whole, *one.shape[-2:])) for one in (a, b))
        out = self._batch(a.reshape(-1, *a.shape[-2:]), b.reshape(-1, *b.shape[-2:]))
        return out.reshape(*a.shape[:-1], b.shape[-1])

    def _batch(self, a: Array, b: Array) -> Array:
        """Return the products `[batch, m, n]` of `[batch, m, k]` and `[batch or 1, k, n]`."""
        out = self._xp.empty((len(a), a.shape[1], b.shape[2]), a.dtype)
        if not out.size:
            return out
        if not a.shape[2]:
            out[...] = 0
            return out
        kind, number = _REAL[a.dtype.name], ctypes.c_float if a.dtype.name == "float32" else ctypes.c_double
        compute = _COMPUTE["tf32" if self._tf32 and a.dtype.name == "float32" else a.dtype.name]
        # cuBLAS has columns first: it computes the transposed product from the transposed factors.
        first, second = self._factor(b), self._factor(a)
        status = self._library.cublasGemmStridedBatchedEx(
            self._handle(), ctypes.c_int(first[1]), ctypes.c_int(second[1]),
            ctypes.c_int(b.shape[2]), ctypes.c_int(a.shape[1]), ctypes.c_int(a.shape[2]),
            ctypes.byref(number(1)),
            ctypes.c_void_p(first[0].data.ptr), ctypes.c_int(kind), ctypes.c_int(first[2]),
            ctypes.c_longlong(first[3] if len(b) == len(a) else 0),
            ctypes.c_void_p(second[0].data.ptr), ctypes.c_int(kind), ctypes.c_int(second[2]),
            ctypes.c_longlong(second[3]),
            ctypes.byref(number(0)),
            ctypes.c_void_p(out.data.ptr), ctypes.c_int(kind), ctypes.c_int(b.shape[2]),
            ctypes.c_longlong(a.shape[1] * b.shape[2]),
            ctypes.c_int(len(a)), ctypes.c_int(compute), ctypes.c_int(_DEFAULT_ALGORITHM),
        )  # fmt: skip
        _check(status, "cublasGemmStridedBatchedEx")
        return out

    def _factor(self, matrices: Array) -> tuple[Array, int, int, int]:
        """Return matrices `[batch, r, c]`, or a copy, and how cuBLAS reads them.

        That is whether their columns follow each other in memory, and how many numbers it is from one row (or
        column) to the next, and from one matrix to the next.
        """
        found = _layout(matrices)
        if found is None:
            matrices = self._xp.ascontiguousarray(matrices)
            found = _layout(matrices)
            assert found is not None
        return matrices, *found

    def _handle(self) -> ctypes.c_void_p:
        """Return the handle of the current stream, made when it is first needed: not during a capture."""
        stream = self._xp.cuda.get_current_stream().ptr
        if stream not in self._handles:
            handle, room = ctypes.c_void_p(), self._xp.empty(_WORKSPACE, "u1")
            _check(self._library.cublasCreate_v2(ctypes.byref(handle)), "cublasCreate")
            _check(self._library.cublasSetStream_v2(handle, ctypes.c_void_p(stream)), "cublasSetStream")
            status = self._library.cublasSetWorkspace_v2(
                handle, ctypes.c_void_p(room.data.ptr), ctypes.c_size_t(_WORKSPACE)
            )
            _check(status, "cublasSetWorkspace")
            self._handles[stream] = handle, room
        return self._handles[stream][0]


def _follow(matrices: Array) -> bool:
    """Return whether the rows of all matrices are at equal distances, so that they are those of one."""
    axes = [(length, stride) for length, stride in zip(matrices.shape, matrices.strides, strict=True)][:-1]
    axes = [one for one in axes if one[0] > 1]
    return all(outer[1] == inner[0] * inner[1] for outer, inner in pairwise(axes))


def _layout(matrices: Array) -> tuple[int, int, int] | None:
    """Return whether columns follow each other, and both strides in numbers; None if neither rows do."""
    (batch, rows, columns), size = matrices.shape, matrices.dtype.itemsize
    jump, down, across = (stride // size for stride in matrices.strides)
    jump = jump if batch > 1 else rows * columns
    if (across == 1 or columns == 1) and (down >= columns or rows == 1):
        return 0, max(down if rows > 1 else columns, columns), jump
    if (down == 1 or rows == 1) and (across >= rows or columns == 1):
        return 1, max(across if columns > 1 else rows, rows), jump
    return None


def _broadcast(one: Sequence[int], other: Sequence[int]) -> tuple[int, ...]:
    length = max(len(one), len(other))
    both = [(1,) * (length - len(shape)) + tuple(shape) for shape in (one, other)]
    return tuple(b if a == 1 else a for a, b in zip(*both, strict=True))


@cache
def _cublas() -> Any:
    """Return the library, which CuPy loads in the same way."""
    from cuda.pathfinder import load_nvidia_dynamic_lib

    return ctypes.CDLL(load_nvidia_dynamic_lib("cublas").abs_path)


def _destroy(library: Any, handles: Mapping[int, tuple[ctypes.c_void_p, Array]]) -> None:
    for handle, _ in handles.values():
        library.cublasDestroy_v2(handle)


def _check(status: int, what: str) -> None:
    if status:
        raise RuntimeError(f"{what} of cuBLAS has failed with status {status}")
