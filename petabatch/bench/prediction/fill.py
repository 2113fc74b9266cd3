"""How many slices fill a GPU: as many blocks of threads as its multiprocessors have room for."""

from __future__ import annotations

from petabatch.kernels.cuda import source
from petabatch.kernels.cuda.device import Limits
from petabatch.network.method import Method

_TILE = 128
"""Rows and columns of a matrix product that cuBLAS gives to a block of threads, where there are enough."""
H100 = Limits(multiprocessors=132, shared=228 << 10, shared_block=227 << 10)


def slices_to_fill(method: Method, limits: Limits) -> int:
    """Return the smallest number of slices; 1 for layers one by one, whose kernels are not ours."""
    if method.stepper != "cuda":
        return 1
    patches = method.loop.patches
    if method.kernel == "display":  # a block for each slice
        display = source.display(patches, limits)
        assert display is not None
        return int(display.constants["RESIDENT"]) * limits.multiprocessors
    tiles = -(-patches.positions // _TILE) * -(-patches.features // _TILE)
    return -(-limits.multiprocessors // tiles)
