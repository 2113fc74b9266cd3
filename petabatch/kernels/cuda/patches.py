"""Patch operators on a GPU: patches are cut out, and added up, by one launch each."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from petabatch.geometry import Patches
from petabatch.kernels.array import ArrayKernels
from petabatch.kernels.cuda.device import Device, Kernel, load
from petabatch.kernels.cuda.fold import FOLD, places
from petabatch.variable import Array, Border

_THREADS = 256
_REAL = {"float32": "float", "float64": "double"}


@dataclass(frozen=True)
class GpuKernels(ArrayKernels):
    """Patch operators on the arrays of a device."""

    device: Any = None

    @classmethod
    def of(cls, device: Device) -> GpuKernels:
        """Return those of a device, with its product of matrices."""
        return cls(device.xp, device.multiply, device)

    @cached_property
    def _made(self) -> dict[tuple[str, str], Kernel]:
        return {}

    def _kernel(self, name: str, dtype: np.dtype) -> Kernel:
        """Return a kernel for numbers of a type, compiled when it is first needed."""
        if (name, dtype.name) not in self._made:
            made = self.device.compile(patches_source(_REAL[dtype.name]))
            self._made.update({(each, dtype.name): load(made, each, 0) for each in ("unfold", "fold")})
        return self._made[name, dtype.name]

    def windows(self, fine: Array, p: Patches, border: Border) -> Array:
        """Return the patches of a fine layer `[L, NY, NX, C]` as `[L, G, M, K]`."""
        whole = p.y.size == p.x.size == p.y.stride == p.x.stride == 1 and p.y.padded == p.y.fine
        if fine.dtype.name not in _REAL or (whole and p.x.padded == p.x.fine):
            return super().windows(fine, p, border)
        source, (top, left) = fine, (p.y.offset - p.y.before, p.x.offset - p.x.before)
        if not isinstance(border, str | float | int):  # the layer in the middle of an array
            source, border = border, "zero"
            top += (source.shape[1] - fine.shape[1]) // 2
            left += (source.shape[2] - fine.shape[2]) // 2
        if not source[0].flags.c_contiguous:
            source = self.xp.ascontiguousarray(source)
        rows, columns, channels = source.shape[1:]
        between = source.strides[0] // source.dtype.itemsize if len(source) > 1 else 0
        lines, row = p.positions * p.y.size, p.x.size * p.channels
        out = self.xp.empty((len(fine), p.groups, p.members, p.length), fine.dtype)
        beyond = float(border) if isinstance(border, float | int) else 0.0
        numbers = (lines, row, p.y.size, p.x.units, p.y.stride, p.x.stride * channels, top, left * channels)
        self._kernel("unfold", fine.dtype)(
            (-(-32 * lines // _THREADS), len(fine)),
            (_THREADS,),
            (
                *(source, np.int64(between), *map(np.int32, (rows, columns * channels, channels)), out),
                *(*map(np.int32, numbers), np.int32(border == "mirror"), fine.dtype.type(beyond)),
            ),
            shared_mem=0,
        )
        return out

    def overlap(self, columns: Array, p: Patches) -> Array:
        """Return the sum of patches `[L, units y, units x, rows, columns, C]` in their places."""
        if columns.dtype.name not in _REAL:
            return super().overlap(columns, p)
        columns, width = self.xp.ascontiguousarray(columns), p.x.fine * p.channels
        out = self.xp.empty((len(columns), p.y.fine, p.x.fine, p.channels), columns.dtype)
        self._kernel("fold", columns.dtype)(
            (-(-width // _THREADS), p.y.fine, len(columns)),
            (min(_THREADS, -(-width // 32) * 32),),
            (columns, out, *map(np.int32, (width, *places(p)))),
            shared_mem=0,
        )
        return out


def patches_source(real: str) -> str:
    """Return the source of the kernels for numbers of type "float" or "double"."""
    text = Path(__file__).with_name("patches.cu").read_text(encoding="utf-8")
    return f"using Real = {real};\n" + text.replace('#include "fold.cuh"\n', FOLD)
