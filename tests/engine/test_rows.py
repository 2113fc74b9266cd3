"""The rows of all layers split over ranks, which are threads here: the same run to rounding."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from petabatch.connections import Conv, Identity
from petabatch.kernels.cpu.sizes import tiling
from petabatch.layers import Input, Linear
from petabatch.learning import Hebbian
from petabatch.network.build import build
from petabatch.spec.network import LayerOutput, Network, Output, Run
from petabatch.weights import Gaussian
from support.networks import GivenImages, images, lca_network, simulate
from support.parts import assert_near, of_ranks, split


@pytest.mark.sampled(3)
@pytest.mark.parametrize("kernel", ["dense", "lazy"])
@pytest.mark.parametrize(("rows", "patch"), [(2, (6, 6)), (3, (6, 6)), (3, (5, 7)), (6, (6, 6))])
def test_tiles_with_fixed_weights_are_those_of_one_rank(
    kernel: str, rows: int, patch: tuple[int, int]
) -> None:
    data = images(2, shape=(36, 24, 3))
    network = lca_network(data, patch=patch, learn=False, displays=2, kernel=kernel, record=5)
    engine, recorded = simulate(network)
    engine.collect()
    tiles, state = of_ranks(split(network, rows=rows))
    assert_near(recorded, tiles, 1e-6)
    assert_near(dict(engine.state.saved()), state, 1e-6)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("border", ["zero", "mirror", 0.5])
@pytest.mark.parametrize(
    ("run", "tolerance"), [({"kernel": "array"}, 1e-6), ({"precision": "float64"}, 1e-11)]
)
def test_layers_one_by_one_and_steps_in_float64_have_tiles_too(
    run: dict[str, Any], tolerance: float, border: Any
) -> None:
    network = lca_network(images(2, shape=(36, 24, 3)), displays=2, record=5, **run)
    layers = {**network.layers, "error": network.layers["error"].model_copy(update={"border": border})}
    network = network.model_copy(update={"layers": layers})
    _, recorded = simulate(network)
    tiles, _ = of_ranks(split(network, rows=3), threads=2)
    assert recorded["layers/V1/A"].any()
    assert_near(recorded, tiles, tolerance)


def test_learning_sums_the_tiles_of_all_slices() -> None:
    network = lca_network(images(2, items=10, shape=(36, 24, 3)), displays=20)
    _, recorded = simulate(network)
    grid_of_ranks, _ = of_ranks(split(network, rows=2), ranks=4)
    tiles, _ = of_ranks(split(network, rows=2), threads=2)
    total = "probes/energy/total"
    np.testing.assert_allclose(tiles[total], recorded[total], rtol=1e-3)
    weights = "connections/dictionary/weights"
    np.testing.assert_allclose(tiles[weights], recorded[weights], atol=1e-4)
    for key, array in grid_of_ranks.items():  # the first rank has the first slice
        here = tiles[key] if key == weights else tiles[key][:, :1]
        np.testing.assert_array_equal(array, here, err_msg=key)


def test_ranks_with_other_numbers_of_threads_exchange_rows_in_the_same_order() -> None:
    """Of two streams: several threads on a slice take the second exchange of the program first."""
    shape, wide = (48, 48, 3), Linear(shape=(48, 48, 16))
    streams = {"p": wide, "s": wide, "q": Linear(shape=shape), "r": wide}
    network = Network(
        run=Run(batch=1, display=4, displays=2),
        layers={"image": Input(shape=shape, source=GivenImages(data=images(1, shape=shape))), **streams},
        connections={
            "image_to_p": Conv(pre="image", post="p", patch=(5, 5), init=Gaussian()),
            "p_to_s": Conv(pre="p", post="s", patch=(5, 5), init=Gaussian()),
            "image_to_q": Identity(pre="image", post="q"),
            "q_to_r": Conv(pre="q", post="r", patch=(5, 5), init=Gaussian()),
        },
        output=Output(layers={"s": LayerOutput(), "r": LayerOutput()}),
    )
    _, recorded = simulate(network)
    tiles, _ = of_ranks(split(network, rows=2), threads=(1, 2))
    assert all(array.any() for array in recorded.values())
    assert_near(recorded, tiles, 1e-6)


def test_rules_that_count_and_layers_that_gather_learn_as_on_one_rank() -> None:
    data = images(1, shape=(36, 24, 3))
    network = lca_network(data, displays=3, display=5)
    gathering = Conv(
        pre="error",
        post="seen",
        patch=(3, 3),
        init=Gaussian(),
        learn=Hebbian(rate=0.01, average="active"),
    )
    network = network.model_copy(
        update={
            "layers": {**network.layers, "seen": Linear(shape=(18, 12, 4))},
            "connections": {**network.connections, "seen": gathering},
        }
    )
    engine, recorded = simulate(network)
    tiles, state = of_ranks(split(network, rows=3))
    engine.collect()
    assert_near(recorded, tiles, 1e-6)
    assert_near(dict(engine.state.saved()), state, 1e-6)


@pytest.mark.parametrize("border", ["mirror", 0.5])
def test_borders_of_the_image_are_at_its_edges_alone(border: Any) -> None:
    network = lca_network(images(1, shape=(36, 24, 3)), learn=False, displays=1)
    layers = {**network.layers, "error": network.layers["error"].model_copy(update={"border": border})}
    network = network.model_copy(update={"layers": layers})
    _, recorded = simulate(network)
    tiles, _ = of_ranks(split(network, rows=3))
    assert_near(recorded, tiles, 1e-6)


@pytest.mark.parametrize("kernel", ["dense", "lazy"])
def test_steps_have_the_bits_of_one_rank_where_tiles_are_whole_tiles_of_the_kernels(kernel: str) -> None:
    data = images(1, shape=(24, 256, 3))
    network = lca_network(data, patch=(4, 4), learn=False, displays=2, kernel=kernel, record=5)
    p = build(network).wirings["dictionary"].link.patches  # type: ignore[union-attr]
    assert tiling(p)[0] == 2  # each rank has four rows of the code
    engine, recorded = simulate(network)
    engine.collect()
    tiles, state = of_ranks(split(network, rows=3))
    for one, other in ((recorded, tiles), (engine.state.saved(), state)):
        for key, array in one.items():
            if not key.startswith("probes/"):
                np.testing.assert_array_equal(other[key], array, err_msg=key)
