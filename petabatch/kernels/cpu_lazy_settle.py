"""The potentials of all units of the lazy loop at once, as a dense product: before its weights change."""

from __future__ import annotations

from typing import Any

from numba import njit

from petabatch.kernels.cpu import paste, project
from petabatch.kernels.cpu_layout import Scratch, Shape


@njit(nogil=True, error_model="numpy", cache=True)
def settle(
    filtered: Any, history: Any, fade: Any, panels: Any, s: Shape, work: Scratch, V: Any
) -> None:  # fmt: skip
    """Write V = w . (patch of F) + fade G of all units; see `cpu_lazy`.

    `filtered` is F, `[NY, NX * C]`. Several times as fast as `cpu_lazy.potentials`, and equal to it up to
    rounding: products of many units are summed side by side, each in the order of its patch.
    """
    paste(filtered, s, work.error)
    nf, wide, drive = s.features, s.wide, work.drive
    for tile in range(work.strips.shape[0]):
        start = (s.origin + tile * s.tile * s.stride_y) * s.pitch
        begin, end = tile * s.tile * s.nx, min((tile + 1) * s.tile, s.ny) * s.nx
        for base in range(begin, end, s.chunk):
            count = min(s.chunk, end - base)
            project(work.error, start, work.places[base - begin :], count, panels, s, drive)
            for m in range(count):
                i = (base + m) * nf
                for f in range(nf):
                    V[i + f] = drive[m * wide + f] + history[i + f] * fade
