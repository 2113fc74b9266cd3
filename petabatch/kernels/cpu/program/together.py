"""Operations on several slices at once: weights that all slices share are read once for all of them.

Positions of all slices are to `project` what those of one slice are: each unit's sum runs over its patch in
the same order, whatever else is computed. So the bits of a slice depend on no other, nor on their number.
"""

from __future__ import annotations

from typing import Any

from petabatch.kernels.cpu.arrays import copy
from petabatch.kernels.cpu.convolution import project
from petabatch.kernels.cpu.jit import njit
from petabatch.kernels.cpu.layout import PANEL, Shape
from petabatch.kernels.cpu.program.table import IN, LEFT, LOOKBACK, OUT, STRIDE, A, B, C, D
from petabatch.kernels.cpu.program.team import ALL
from petabatch.kernels.cpu.program.transport import reconstruct, shape_of
from petabatch.kernels.cpu.program.views import address, floats, unsigned

DENSE = 4
"""A layer of which one unit in `DENSE` is active is multiplied as a whole; the sum is the same."""


@njit(nogil=True, error_model="numpy")
def project_together(row: Any, arrays: Any, shapes: Any, step: int, places: Any, room: Any) -> None:
    """Make a PROJECT by shared patches in all slices; `places` and `room` are for their positions."""
    geometry, seen, n = shapes[row[A]], step - row[LOOKBACK], 0
    s = shape_of(geometry)
    origin = address(arrays[0], row[IN], seen)
    for w in range(arrays.shape[0]):
        start = (address(arrays[w], row[IN], seen) - origin) // 4 + geometry[LEFT]
        for y in range(s.ny):
            for x in range(s.nx):
                places[n] = start + (s.origin + y * s.stride_y) * s.pitch + x * geometry[STRIDE]
                n += 1
    length = s.rows * s.row
    panels = floats(arrays[0], row[B], 0).reshape((s.wide // PANEL, length, PANEL))
    project(floats(arrays[0], row[IN], seen), 0, places[:n], panels, s, room)
    nf, positions = s.features, s.ny * s.nx
    for w in range(arrays.shape[0]):
        out = floats(arrays[w], row[OUT], step)
        for m in range(positions):
            start = (w * positions + m) * s.wide
            copy(room[start : start + nf], out[m * nf : (m + 1) * nf])


@njit(nogil=True, error_model="numpy")
def synthesize_together(row: Any, arrays: Any, shapes: Any, step: int, places: Any, room: Any) -> None:
    """Make a SYNTHESIZE with panels in all slices: as a product where much of a slice is active."""
    seen, n = step - row[LOOKBACK], 0
    origin = address(arrays[0], row[IN], seen)
    for w in range(arrays.shape[0]):
        code, count = floats(arrays[w], row[IN], seen), 0
        for i in range(code.size):
            count += code[i] != 0
        if DENSE * count >= code.size:
            places[n] = (address(arrays[w], row[IN], seen) - origin) // 4
            n += 1
    code, outputs = floats(arrays[0], row[IN], seen), floats(arrays[0], row[OUT], step).size
    wide = -(-outputs // PANEL) * PANEL
    if n > 1:
        s = Shape(1, 1, outputs, 1, code.size, 0, 0, 0, 0, 0, code.size, 0, 1, 1, wide)
        panels = floats(arrays[0], row[D], 0).reshape((wide // PANEL, code.size, PANEL))
        project(code, 0, places[:n], panels, s, room)
    m = 0
    for w in range(arrays.shape[0]):
        out = floats(arrays[w], row[OUT], step)
        if n > 1 and m < n and places[m] == (address(arrays[w], row[IN], seen) - origin) // 4:
            copy(room[m * wide : m * wide + outputs], out)
            m += 1
        else:
            code, groups = floats(arrays[w], row[IN], seen), floats(arrays[w], row[B], 0)
            own, none = floats(arrays[w], row[C], 0), floats(arrays[w], 0, 0)
            reconstruct(
                code, unsigned(arrays[w], 0), groups, own, arrays[w], shapes[row[A]], out, none, 0, ALL
            )
