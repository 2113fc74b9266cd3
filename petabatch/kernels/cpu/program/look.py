"""The duality gap of a code, evaluated in the steps of a program, for `run.until`."""

from __future__ import annotations

from typing import Any

import numpy as np

from petabatch.kernels.cpu.certificate import Looks, look
from petabatch.kernels.cpu.jit import njit
from petabatch.kernels.cpu.layout import PANEL, Dictionary, Images
from petabatch.kernels.cpu.program.table import OUT, A, B, C, D, E, F, G, H
from petabatch.kernels.cpu.program.transport import scratch_of, shape_of
from petabatch.kernels.cpu.program.views import doubles, floats, longs
from petabatch.kernels.cpu.program.whole import SIZES, norm

TARGET, COEFFICIENT, SIGNED, EVERY, STEPS = range(5)
"""Numbers of a LOOK: the gap at which a slice stops; the coefficient of the LASSO; whether the code is
signed; steps between looks, and of a display."""
BLOCK, STOPPED, LOOKS = range(3)
"""Its array: where the next look begins; the step that met the target, 0 if none has; their number."""


@njit(nogil=True, error_model="numpy")
def look_at_gap(row: Any, own: Any, arrays: Any, shapes: Any, step: int) -> None:
    """Evaluate the gap after `step` if that is due, and note whether it meets the target."""
    every, display = int(own[EVERY]), int(own[STEPS])
    made = (step - 1) % display + 1  # `Clock.place`; when, as `network.until.next_look`
    if made % every != 0 and made != display:
        return
    s, activity = shape_of(shapes[row[A]]), floats(arrays, row[D], step)
    work, state = scratch_of(floats(arrays, row[G], 0), arrays, shapes[row[A]]), longs(arrays, row[H])
    image = floats(arrays, row[E], step).reshape((s.height, s.width))
    recon = floats(arrays, row[F], step).reshape((s.height, s.width))
    length, panels, patches = s.rows * s.row, floats(arrays, row[B], 0), floats(arrays, row[C], 0)
    weights = Dictionary(
        panels.reshape((panels.size // (length * PANEL), length, PANEL)),
        patches.reshape((patches.size // (s.features * length), s.features, length)),
    )
    looks = Looks(own[TARGET], own[COEFFICIENT], own[SIGNED] != 0, doubles(arrays, row[OUT]), state[:1])
    size, images = norm(activity, SIZES), Images(image, np.float32(1), recon)
    if look(made == display, size, activity, images, looks, weights, s, work):
        state[STOPPED] = step


@njit(nogil=True, error_model="numpy")
def any_stopped(arrays: Any, number: int, step: int) -> bool:
    """Return whether a slice has met its target before `step`; array `number` is that of its LOOK."""
    for w in range(arrays.shape[0]):
        stopped = longs(arrays[w], number)[STOPPED]
        if 0 < stopped < step:
            return True
    return False
