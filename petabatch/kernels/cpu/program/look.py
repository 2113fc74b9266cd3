"""The duality gap of a code, evaluated in the steps of a program, for `run.until`."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import carray

from petabatch.kernels.cpu.certificate import Looks, look
from petabatch.kernels.cpu.jit import njit
from petabatch.kernels.cpu.layout import PANEL, Dictionary, Images
from petabatch.kernels.cpu.program.records import operation
from petabatch.kernels.cpu.program.transport import scratch_of, shape_of
from petabatch.kernels.cpu.program.views import PLACE, pointer
from petabatch.kernels.cpu.program.whole import SIZES, norm
from petabatch.kernels.operations.look import Look

BLOCK, STOPPED, LOOKS = range(3)
"""Its array: where the next look begins; the step that met the target, 0 if none has; their number."""


@operation(Look)
def _look(op: Any, arrays: Any, step: int) -> None:
    """Evaluate the gap after `step` if that is due, and note whether it meets the target."""
    made = (step - 1) % op.display + 1  # `Clock.place`; when, as `network.until.next_look`
    if made % op.every != 0 and made != op.display:
        return
    s, work = shape_of(op.geometry), scratch_of(op.padded, arrays, op.geometry)
    image, recon = op.image.reshape((s.height, s.width)), op.reconstruction.reshape((s.height, s.width))
    length, panels, patches = s.rows * s.row, op.panels, op.own
    weights = Dictionary(
        panels.reshape((panels.size // (length * PANEL), length, PANEL)),
        patches.reshape((patches.size // (s.features * length), s.features, length)),
    )
    looks = Looks(op.target, op.coefficient, op.signed, op.out, op.state[:1])
    size, images = norm(op.code, SIZES), Images(image, image.dtype.type(1), recon)
    if look(made == op.display, size, op.code, images, looks, weights, s, work):
        op.state[STOPPED] = step


@njit(nogil=True, error_model="numpy")
def any_stopped(arrays: Any, number: int, step: int) -> bool:
    """Return whether a slice has met its target before `step`; array `number` is that of its `Look`."""
    for w in range(arrays.shape[0]):
        stopped = carray(pointer(arrays[w, number, PLACE]), (LOOKS,), np.int64)[STOPPED]
        if 0 < stopped < step:
            return True
    return False
