"""Connections and weights of layers whose rows are split, of every kind: the run of one rank to rounding."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from petabatch.connections import Conv, Identity, Largest, Pool, Transpose
from petabatch.layers import LCA, Bins, Linear, Mask
from petabatch.learning import Hebbian
from petabatch.spec.parts import Connection
from petabatch.weights import L2, Constant, Gaussian, WeightArray
from support.parts import agrees, assert_near, loop_with, of_ranks, split

PARTS = [{"rows": 2}, {"rows": 3}, {"features": 2, "rows": 2}]
KERNELS = ["dense", pytest.param("array", marks=pytest.mark.long)]


@pytest.mark.sampled(3)
@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("parts", PARTS, ids=str)
@pytest.mark.parametrize("method", ["max", "sum", "average"])
def test_windows_of_pools_see_rows_of_the_next_tile(method: Any, parts: dict[str, int], kernel: str) -> None:
    layers = {
        "pooled": Linear(shape=(18, 12, 3)),
        "windows": Linear(shape=(18, 12, 3)),
        "here": Linear(shape=(36, 24, 3)),
        "spread": Linear(shape=(36, 24, 12)),
    }
    connections: dict[str, Connection] = {
        "blocks": Pool(pre="image", post="pooled", method=method),
        "larger": Pool(pre="error", post="windows", method=method, window=(6, 6)),
        "same": Pool(pre="error", post="here", method=method, window=(3, 3)),
        "back": Pool(pre="V1", post="spread", method=method, window=None if method == "max" else (4, 4)),
    }
    found = agrees(loop_with(kernel, layers, connections), parts)
    for name in layers:
        assert found[f"layers/{name}/A"][-1].any(), name


def own_weights(**keys: Any) -> dict[str, Any]:
    weights = Conv(pre="V2", post="made", patch=(4, 4), init=Gaussian(), **keys)
    return {
        "layers": {"V2": LCA(shape=(18, 12, 6), tau=20.0, threshold=0.05), "made": Linear(shape=(36, 24, 3))},
        "connections": {"own": weights, "drive": Transpose(pre="error", post="V2", of="own")},
    }


RULE = Hebbian(error="error", rate=0.1, momentum=0.5)


@pytest.mark.sampled(5)
@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("parts", PARTS, ids=str)
@pytest.mark.parametrize(
    "keys",
    [
        {"mode": "extra_non_shared"},
        {"mode": "extra_non_shared", "normalize": L2(), "learn": RULE},
        {"mode": "non_shared", "normalize": L2(), "learn": RULE},
        {"mode": "non_shared", "normalize": L2(by="post"), "learn": RULE},
        {"mode": "shared", "normalize": L2(), "learn": RULE},
    ],
    ids=["fixed", "extra_non_shared", "non_shared", "normalised over positions", "shared"],
)
def test_weights_of_positions_and_of_slices(keys: dict[str, Any], parts: dict[str, int], kernel: str) -> None:
    found = agrees(loop_with(kernel, **own_weights(**keys)), parts, 2e-6)
    assert found["layers/made/A"][-1].any()
    if "learn" in keys:
        learned = found["connections/own/weights"]
        assert not np.array_equal(learned[0], learned[-1])


@pytest.mark.parametrize("mode", ["non_shared", "extra_non_shared"])
def test_weights_of_a_tile_of_one_position_keep_its_axes(mode: Any) -> None:
    layers = {"column": Linear(shape=(2, 1, 7)), "made": Linear(shape=(2, 1, 3))}
    connections: dict[str, Connection] = {
        "down": Conv(pre="image", post="column", patch=(1, 1), init=Gaussian()),
        "own": Conv(
            pre="column", post="made", patch=(1, 1), mode=mode, init=Gaussian(),
            learn=Hebbian(error="made", rate=0.1),
        ),
    }  # fmt: skip
    found = agrees(loop_with("dense", layers, connections), {"rows": 2})
    batch = (2,) if mode == "non_shared" else ()
    assert found["connections/own/weights"].shape[1:] == (*batch, 2, 1, 7, 1, 1, 3)


@pytest.mark.parametrize("parts", PARTS, ids=str)
def test_each_slice_has_given_weights_of_its_own_at_each_position(parts: dict[str, int]) -> None:
    given = np.random.default_rng(0).normal(size=(2, 18, 12, 12, 4, 4, 3))
    init = WeightArray(data=given, per_slice=True)
    connections: dict[str, Connection] = {
        "own": Conv(pre="V1", post="made", patch=(4, 4), mode="non_shared", init=init)
    }
    found = agrees(loop_with("dense", {"made": Linear(shape=(36, 24, 3))}, connections), parts)
    np.testing.assert_array_equal(found["connections/own/weights"][0], given.astype(np.float32))


@pytest.mark.parametrize("mode", ["shared", "extra_non_shared"])
@pytest.mark.parametrize("ends", ["rows", "columns"])
def test_even_patches_along_a_one_to_one_axis_beside_a_many_to_one_axis(ends: str, mode: Any) -> None:
    shape = (36, 12, 4) if ends == "rows" else (18, 24, 4)
    layers = {"down": Linear(shape=shape), "up": Linear(shape=(36, 24, 3))}
    connections: dict[str, Connection] = {
        "own": Conv(
            pre="image", post="down", patch=(4, 2), mode=mode, init=Gaussian(), normalize=L2(),
            learn=Hebbian(error="down", rate=0.1),
        ),
        "back": Transpose(pre="down", post="up", of="own"),
    }  # fmt: skip
    found = {
        kernel: agrees(loop_with(kernel, layers, connections), {"rows": 2}) for kernel in ("dense", "array")
    }
    assert_near(found["array"], found["dense"], 1e-5)
    assert found["array"]["layers/up/A"][-1].any()


@pytest.mark.parametrize("reduce", ["exact", "overlapped"])
def test_several_updates_of_weights_of_positions_and_of_all(reduce: Any) -> None:
    tables = own_weights(mode="extra_non_shared", normalize=L2(), learn=RULE)
    tables["connections"]["shared"] = Conv(
        pre="V2", post="made", patch=(2, 2), init=Gaussian(), normalize=L2(), learn=RULE
    )
    one = loop_with("dense", **tables)
    whole = one.model_copy(update={"run": one.run.model_copy(update={"displays": 4, "reduce": reduce})})
    agrees(whole, {"rows": 2})
    first, _ = of_ranks(split(whole, rows=2))
    again, _ = of_ranks(split(whole, rows=2), ranks=4)
    for key in ("connections/own/weights", "connections/shared/weights"):
        np.testing.assert_array_equal(first[key], again[key])


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("parts", PARTS, ids=str)
def test_the_largest_feature_of_a_position(parts: dict[str, int], kernel: str) -> None:
    most = {"most": Linear(shape=(18, 12, 1))}
    found = agrees(loop_with(kernel, most, {"largest": Largest(pre="V1", post="most")}), parts)
    assert found["layers/most/A"][-1].any()


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("parts", PARTS, ids=str)
def test_the_number_of_the_largest_feature(parts: dict[str, int], kernel: str) -> None:
    most = {"most": Linear(shape=(18, 12, 1))}
    found = agrees(loop_with(kernel, most, {"largest": Largest(pre="V1", post="most", number=True)}), parts)
    np.testing.assert_array_equal(
        found["layers/most/A"][-1], found["layers/V1/A"][-1].argmax(axis=-1)[..., None]
    )


@pytest.mark.parametrize("kernel", KERNELS)
def test_masks_and_bins_of_each_position(kernel: str) -> None:
    layers = {
        "some": Mask(shape=(36, 24, 3), features=(0, 2)),
        "masked": Mask(shape=(36, 24, 3)),
        "mean": Linear(shape=(36, 24, 1)),
        "bins": Bins(shape=(36, 24, 4), low=-1.0, high=1.0, width=0.5),
    }
    connections: dict[str, Connection] = {
        "a": Identity(pre="error", post="some"),
        "b": Identity(pre="error", post="masked"),
        "c": Identity(pre="some", post="masked", channel="mask"),
        "d": Largest(pre="image", post="mean"),
        "e": Conv(pre="mean", post="bins", patch=(1, 1), init=Constant(value=1.0)),
    }
    found = agrees(loop_with(kernel, layers, connections), {"rows": 3})
    for name in layers:
        assert found[f"layers/{name}/A"][-1].any(), name
