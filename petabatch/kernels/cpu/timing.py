"""The kernels of a step one at a time, repeated, to learn what each of them costs."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from petabatch.kernels.cpu.convolution import add_patches, drive_units, join_strips, residual
from petabatch.kernels.cpu.layout import Dictionary, Scratch, Shape


@njit(nogil=True, error_model="numpy", cache=True)
def subtract(times: int, image: Any, recon: Any, s: Shape, work: Scratch) -> None:
    """Compute the error image."""
    for _ in range(times):
        residual(image, np.float32(1), recon, 0, s.height, s, work.error)


@njit(nogil=True, error_model="numpy", cache=True)
def drive(times: int, weights: Dictionary, s: Shape, work: Scratch) -> None:
    """Compute the drive of every unit."""
    for _ in range(times):
        for tile in range(work.strips.shape[0]):
            start = (s.origin + tile * s.tile * s.stride_y) * s.pitch
            begin, end = tile * s.tile * s.nx, min((tile + 1) * s.tile, s.ny) * s.nx
            for base in range(begin, end, s.chunk):
                count = min(s.chunk, end - base)
                places = work.places[base - begin : base - begin + count]
                drive_units(base, count, start, places, weights, s, work)


@njit(nogil=True, error_model="numpy", cache=True)
def reconstruct(times: int, code: Any, weights: Dictionary, s: Shape, work: Scratch, recon: Any) -> None:
    """List the active units of a code `[ny * nx * wide]` and add their patches up."""
    for _ in range(times):
        for tile in range(work.strips.shape[0]):
            strip = work.strips[tile]
            strip[:] = np.float32(0)
            begin, end = tile * s.tile * s.nx, min((tile + 1) * s.tile, s.ny) * s.nx
            for base in range(begin, end, s.chunk):
                count = min(s.chunk, end - base)
                places = work.places[base - begin : base - begin + count]
                units = code[base * s.wide : (base + count) * s.wide]
                add_patches(base, count, units, places, weights, s, work, strip)
        join_strips(work.strips, 0, s.height, s, recon)
