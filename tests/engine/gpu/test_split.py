"""Features and rows that are split over ranks, each with an emulated GPU of its own."""

from __future__ import annotations

import math

import pytest

from petabatch.spec.network import Parallel
from support.gpu_emulation import COMPILER, NO_COMPILER, EmulatedGpu
from support.gpu_runs import assert_near, network, on_gpu, split_state_of, state_of

pytestmark = pytest.mark.skipif(COMPILER is None, reason=NO_COMPILER)


@pytest.mark.parametrize(
    "parallel",
    [{"features": 2}, {"features": 3}, {"rows": 2}, {"rows": 2, "features": 2}],
    ids=lambda one: "_".join(f"{key}{value}" for key, value in one.items()),
)
def test_parts_of_slices_make_the_whole(parallel: dict[str, int]) -> None:
    split = network().model_copy(update={"parallel": Parallel(**parallel)})
    _, expected = state_of(network())
    assert expected["layers/V1/A"].any()
    kept = {key: array for key, array in expected.items() if not key.startswith("lazy/")}
    devices = [EmulatedGpu(uuid=f"GPU-{rank}") for rank in range(math.prod(parallel.values()))]
    assert_near(split_state_of(on_gpu(split), *devices), kept, 1e-4)
