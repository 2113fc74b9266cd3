"""Features that are split over ranks, each with an emulated GPU of its own."""

from __future__ import annotations

import pytest

from petabatch.spec.network import Parallel
from support.gpu_emulation import COMPILER, NO_COMPILER, EmulatedGpu
from support.gpu_runs import assert_near, network, on_gpu, split_state_of, state_of

pytestmark = pytest.mark.skipif(COMPILER is None, reason=NO_COMPILER)


@pytest.mark.parametrize("features", [2, 3])
def test_sums_over_features_are_those_of_all_ranks(features: int) -> None:
    split = network().model_copy(update={"parallel": Parallel(features=features)})
    _, expected = state_of(network())
    assert expected["layers/V1/A"].any()
    kept = {key: array for key, array in expected.items() if not key.startswith("lazy/")}
    devices = [EmulatedGpu(uuid=f"GPU-{rank}") for rank in range(features)]
    assert_near(split_state_of(on_gpu(split), *devices), kept, 1e-4)
