"""Operations on several slices at once: weights that all slices share are read once for all of them.

Positions of all slices are to `project` what those of one slice are: each unit's sum runs over its patch in
the same order, whatever else is computed. So the bits of a slice depend on no other, nor on their number.
"""

from __future__ import annotations

from typing import Any

from petabatch.kernels.cpu.arrays import bytes_of, copy
from petabatch.kernels.cpu.convolution import project
from petabatch.kernels.cpu.layout import PANEL, Shape
from petabatch.kernels.cpu.program.records import operation
from petabatch.kernels.cpu.program.table import LEFT, STRIDE
from petabatch.kernels.cpu.program.team import ALL
from petabatch.kernels.cpu.program.transport import reconstruct, shape_of
from petabatch.kernels.cpu.program.views import address, floats, of_slice, slices_in, unsigned
from petabatch.kernels.operations.patches import Project, Synthesize

DENSE = 4
"""A layer of which one unit in `DENSE` is active is multiplied as a whole; the sum is the same."""


@operation(Project, together=True)
def _project_together(op: Any, arrays: Any, shapes: Any, step: int, places: Any, room: Any) -> None:
    """Project by shared patches in all slices; `places` and `room` are for their positions."""
    geometry, (number, lookback), n = shapes[op.geometry], op.source, 0
    seen = step - lookback
    s = shape_of(geometry)
    origin = address(of_slice(arrays, 0), number, seen)
    for w in range(slices_in(arrays)):
        start = (address(of_slice(arrays, w), number, seen) - origin) // bytes_of(room) + geometry[LEFT]
        for y in range(s.ny):
            for x in range(s.nx):
                places[n] = start + (s.origin + y * s.stride_y) * s.pitch + x * geometry[STRIDE]
                n += 1
    length = s.rows * s.row
    panels = floats(of_slice(arrays, 0), op.panels, 0).reshape((s.wide // PANEL, length, PANEL))
    project(floats(of_slice(arrays, 0), number, seen), 0, places[:n], panels, s, room)
    nf, positions = s.features, s.ny * s.nx
    for w in range(slices_in(arrays)):
        out = floats(of_slice(arrays, w), op.out, step)
        for m in range(positions):
            start = (w * positions + m) * s.wide
            copy(room[start : start + nf], out[m * nf : (m + 1) * nf])


@operation(Synthesize, together=True)
def _synthesize_together(op: Any, arrays: Any, shapes: Any, step: int, places: Any, room: Any) -> None:
    """Synthesize with panels in all slices: as a product where much of a slice is active."""
    (number, lookback), n = op.source, 0
    seen = step - lookback
    origin = address(of_slice(arrays, 0), number, seen)
    for w in range(slices_in(arrays)):
        code, count = floats(of_slice(arrays, w), number, seen), 0
        for i in range(code.size):
            count += code[i] != 0
        if DENSE * count >= code.size:
            places[n] = (address(of_slice(arrays, w), number, seen) - origin) // bytes_of(room)
            n += 1
    code, outputs = floats(of_slice(arrays, 0), number, seen), floats(of_slice(arrays, 0), op.out, step).size
    wide = -(-outputs // PANEL) * PANEL
    if n > 1:
        s = Shape(1, 1, outputs, 1, code.size, 0, 0, 0, 0, 0, code.size, 0, 1, 1, wide)
        panels = floats(of_slice(arrays, 0), op.turned, 0).reshape((wide // PANEL, code.size, PANEL))
        project(code, 0, places[:n], panels, s, room)
    m = 0
    for w in range(slices_in(arrays)):
        mine = of_slice(arrays, w)
        out = floats(mine, op.out, step)
        if n > 1 and m < n and places[m] == (address(mine, number, seen) - origin) // bytes_of(room):
            copy(room[m * wide : m * wide + outputs], out)
            m += 1
        else:
            code, groups = floats(mine, number, seen), floats(mine, op.groups, 0)
            own, none = floats(mine, op.own, 0), floats(mine, 0, 0)
            reconstruct(
                code, unsigned(mine, 0), groups, own, mine, shapes[op.geometry], out, none, 0, ALL
            )  # fmt: skip
