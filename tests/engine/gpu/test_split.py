"""Features and rows that are split over ranks, each with an emulated GPU of its own."""

from __future__ import annotations

import math

import pytest

from petabatch.connections import Identity
from petabatch.layers import FISTA, GaussianNoise, Rescale
from petabatch.spec.network import Parallel
from support.gpu_emulation import COMPILER, NO_COMPILER, EmulatedGpu
from support.gpu_runs import assert_near, network, on_gpu, split_state_of, state_of

pytestmark = pytest.mark.skipif(COMPILER is None, reason=NO_COMPILER)


@pytest.mark.sampled(2)
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
    assert_near(split_state_of(on_gpu(split), *devices), kept, 1e-6)


def test_whole_layers_beside_tiles() -> None:
    one = network()
    more = {
        "noisy": GaussianNoise(shape=one.layers["V1"].shape, std=0.1),
        "scaled": Rescale(shape=one.layers["V1"].shape, method="length"),
        "F": FISTA(shape=one.layers["V1"].shape, threshold=0.1),
    }
    joined = {
        "a": Identity(pre="V1", post="noisy"),
        "b": Identity(pre="noisy", post="scaled"),
        "c": Identity(pre="scaled", post="V1", feedback=True),
        "d": Identity(pre="scaled", post="F"),
    }
    whole = one.model_copy(
        update={"layers": {**one.layers, **more}, "connections": {**one.connections, **joined}}
    )
    _, expected = state_of(whole)
    assert all(expected[f"layers/{name}/A"].any() for name in more)
    kept = {key: array for key, array in expected.items() if not key.startswith("lazy/")}
    split = whole.model_copy(update={"parallel": Parallel(rows=2)})
    devices = [EmulatedGpu(uuid=f"GPU-{rank}") for rank in range(2)]
    assert_near(split_state_of(on_gpu(split), *devices), kept, 1e-6)
