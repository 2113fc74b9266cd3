"""State arrays: assignment copies, and refuses another shape or dtype."""

from __future__ import annotations

import numpy as np
import pytest

from petabatch.engine.arrays import FixedArrays
from petabatch.engine.engine import Engine
from petabatch.network.build import build
from petabatch.network.plan import schedule
from petabatch.parallel.comm import Serial
from support.networks import images, lca_network


def test_assigning_copies_into_the_array_that_views_look_at() -> None:
    arrays = FixedArrays({"a": np.zeros((2, 3), np.float32)})
    view = arrays["a"][1]
    arrays["a"] = np.ones((2, 3), np.float32)
    np.testing.assert_array_equal(view, 1)


@pytest.mark.parametrize(
    "value",
    [np.zeros((1, 3), np.float32), np.zeros(3, np.float32), np.zeros((2, 3)), np.zeros((2, 3), np.int32)],
    ids=["broadcast", "no batch", "float64", "int32"],
)
def test_another_shape_or_dtype_is_refused_by_name(value: np.ndarray) -> None:
    arrays = FixedArrays({"layers/V1/V": np.zeros((2, 3), np.float32)})
    with pytest.raises(ValueError, match=r"cannot assign .* to layers/V1/V, which is float32 \[2, 3\]"):
        arrays["layers/V1/V"] = value
    np.testing.assert_array_equal(arrays["layers/V1/V"], 0)


def test_a_checkpoint_of_another_batch_is_not_broadcast_into_the_state() -> None:
    plan = schedule(build(lca_network(images(3))))
    engine = Engine(plan, Serial(), 1)
    engine.start()
    saved = {key: array.copy() for key, array in engine.state.saved().items()}
    saved["layers/V1/V"] = saved["layers/V1/V"][:1]
    with pytest.raises(ValueError, match="cannot assign"):
        Engine(plan, Serial(), 1).resume(10, saved)


def test_a_lane_and_the_arrays_of_a_part_cannot_be_rebound() -> None:
    state = Engine(schedule(build(lca_network(images(3)))), Serial(), 1).state
    for mine in (state.lane(slice(0, 1)), state.owned("layers/V1")):
        key = next(iter(mine))
        with pytest.raises(TypeError, match="does not support item assignment"):
            mine[key] = mine[key]  # type: ignore[index]
