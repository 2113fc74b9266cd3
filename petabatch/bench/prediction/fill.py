"""How many slices fill a GPU: as many blocks of threads as its multiprocessors have room for."""

from __future__ import annotations

from petabatch.kernels.cuda import source, tiling
from petabatch.kernels.cuda.device import Limits
from petabatch.network.method import Method

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
    step = tiling.step(patches, limits, 1)  # in the smallest tiles
    assert step is not None
    tiles, features = step.update
    return -(-tiling.RESIDENT * limits.multiprocessors // (tiles * features))
