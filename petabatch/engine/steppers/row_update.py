"""The update of a layer by its row function on a GPU, in all lanes of a window by one launch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from petabatch.engine.steppers.base import Binding
from petabatch.engine.steppers.joined import Part
from petabatch.kernels.cuda.device import Device
from petabatch.kernels.cuda.rows.kernel import RowKernel
from petabatch.network.gpu_rows import row_of, translated
from petabatch.spec.parts import StepContext
from petabatch.spec.rows import drawn_together
from petabatch.variable import Array


class RowUpdate:
    """A row function as a kernel, with the numbers and the random numbers of each part."""

    def __init__(self, device: Device, parts: Sequence[Part], dtype: str) -> None:
        self._parts, self._xp, self._dtype = parts, device.xp, dtype
        rows = [row_of(one.layer) for one in parts]
        numbers = [
            np.tile(row.numbers(one.ctx.dt), (len(one.ctx.slices), 1))
            for one, row in zip(parts, rows, strict=True)
            if row is not None and one.ctx is not None
        ]
        assert rows[0] is not None
        self._form = rows[0].form
        self._kernel = RowKernel(device, rows[0].function, self._form, np.concatenate(numbers), dtype)

    def __call__(
        self,
        ctx: StepContext,
        state: Mapping[str, Array],
        drive: Sequence[Array],
        previous: Array,
        activity: Array,
    ) -> None:
        """Make the update of the layer in all slices."""
        known = {
            **state,
            "A": self._xp.ascontiguousarray(previous),
        }  # that of the step before, not its history
        arrays = [*drive, *(known[name] for name in self._form.variables)]
        arrays += [self._drawn(ctx, name) for name in self._form.draws]
        self._kernel(arrays, previous, activity, ctx.step)

    def _drawn(self, ctx: StepContext, name: str) -> Array:
        found = [
            drawn_together(one.layer, replace(one.ctx, step=ctx.step), name)
            for one in self._parts
            if one.ctx is not None
        ]
        return self._xp.concatenate(found).astype(self._dtype)


def row_update(bindings: Sequence[Binding], parts: Sequence[Part], dtype: str) -> RowUpdate | None:
    """Return the kernel of a layer with a row function; None on the CPU, and where it calls `update`."""
    backend = bindings[0].backend
    if backend.peers(bindings[0].lanes) is None or translated(parts[0].layer, dtype) is None:
        return None
    return RowUpdate(backend.device, parts, dtype)
