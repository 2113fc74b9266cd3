"""Timing of single kernels of a dense step: each repeated by itself, for `petabatch bench`."""

from __future__ import annotations

from typing import Any

import numpy as np

from petabatch.kernels.cpu.convolution import add_patches, drive_units, join_strips, residual
from petabatch.kernels.cpu.jit import njit
from petabatch.kernels.cpu.layout import Dictionary, Images, Scratch, Shape, chunk_places, tile_bounds


@njit(nogil=True, error_model="numpy")
def subtract(times: int, images: Images, s: Shape, work: Scratch) -> None:
    """Compute the error image."""
    for _ in range(times):
        residual(images, 0, s.height, s, work.error)


@njit(nogil=True, error_model="numpy")
def drive(times: int, weights: Dictionary, s: Shape, work: Scratch) -> None:
    """Compute the drive of every unit."""
    for _ in range(times):
        for tile in range(work.strips.shape[0]):
            start, begin, end = tile_bounds(tile, s)
            for base in range(begin, end, s.chunk):
                drive_units(base, start, chunk_places(base, begin, end, s, work), weights, s, work)


@njit(nogil=True, error_model="numpy")
def reconstruct(times: int, code: Any, weights: Dictionary, s: Shape, work: Scratch, recon: Any) -> None:
    """List the active units of a code `[ny * nx * wide]` and add their patches up."""
    for _ in range(times):
        for tile in range(work.strips.shape[0]):
            strip = work.strips[tile]
            strip[:] = np.float32(0)
            _, begin, end = tile_bounds(tile, s)
            for base in range(begin, end, s.chunk):
                places = chunk_places(base, begin, end, s, work)
                units = code[base * s.wide : (base + places.size) * s.wide]
                add_patches(base, places, units, weights, s, work, strip)
        join_strips(work.strips, 0, s.height, s, recon)
