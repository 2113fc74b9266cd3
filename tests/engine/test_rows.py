"""The rows of all layers split over ranks, which are threads here: the same run to rounding."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from petabatch.connections import Conv
from petabatch.engine.engine import Engine
from petabatch.engine.row_split import RowSplit
from petabatch.kernels.cpu.sizes import tiling
from petabatch.layers import Linear
from petabatch.learning import Hebbian
from petabatch.network.build import build
from petabatch.network.plan import schedule
from petabatch.parallel.comm import Comm
from petabatch.parallel.grid import grid
from petabatch.spec.network import Network, Parallel
from petabatch.weights import Gaussian
from support.networks import images, lca_network, simulate
from support.rank_threads import on_threads


def with_rows(network: Network, rows: int) -> Network:
    return network.model_copy(update={"parallel": Parallel(rows=rows)})


def of_ranks(
    network: Network, rows: int, ranks: int | None = None, threads: int = 1
) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    """Return what was recorded, and the state at the end, of a run with tiles; for the first slices."""

    def one(comm: Comm) -> Any:
        place, plan = grid(comm, None, rows, "rows"), schedule(build(with_rows(network, rows)))
        engine = Engine(plan, place.batch, threads, features=RowSplit(plan, place))
        engine.start()
        found: dict[str, list[np.ndarray]] = {}
        for step in engine.run():
            if step % engine.plan.flush and step != engine.plan.length:
                continue
            for record in engine.features.records(engine.recorder.take(step)):
                found.setdefault(record.stream.path, []).append(record.values)
            engine.flushed()
        engine.collect()
        state = engine.features.whole(engine.state.saved())
        return {path: np.concatenate(values) for path, values in found.items()}, state

    return on_threads(ranks or rows, one)[0]  # type: ignore[no-any-return]


def assert_near(one: dict[str, np.ndarray], other: dict[str, np.ndarray], tolerance: float) -> None:
    assert one.keys() == other.keys()
    for key, array in one.items():
        scale = max(abs(array).max(), 1e-30) if array.size else 1
        assert array.shape == other[key].shape, key
        assert abs(array - other[key]).max(initial=0) <= tolerance * scale, key


@pytest.mark.parametrize("kernel", ["dense", "lazy"])
@pytest.mark.parametrize("rows", [2, 3])
def test_tiles_with_fixed_weights_are_those_of_one_rank(kernel: str, rows: int) -> None:
    network = lca_network(images(2, shape=(36, 24, 3)), learn=False, displays=2, kernel=kernel, record=5)
    engine, recorded = simulate(network)
    engine.collect()
    tiles, state = of_ranks(network, rows)
    assert_near(recorded, tiles, 1e-6)
    assert_near(dict(engine.state.saved()), state, 1e-6)


def test_learning_sums_the_tiles_of_all_slices() -> None:
    network = lca_network(images(2, items=10, shape=(36, 24, 3)), displays=20)
    _, recorded = simulate(network)
    grid_of_ranks, _ = of_ranks(network, 2, ranks=4)
    tiles, _ = of_ranks(network, 2, threads=2)
    total = "probes/energy/total"
    np.testing.assert_allclose(tiles[total], recorded[total], rtol=1e-3)
    weights = "connections/dictionary/weights"
    np.testing.assert_allclose(tiles[weights], recorded[weights], atol=1e-4)
    for key, array in grid_of_ranks.items():  # the first rank has the first slice
        here = tiles[key] if key == weights else tiles[key][:, :1]
        np.testing.assert_array_equal(array, here, err_msg=key)


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
    tiles, state = of_ranks(network, 3)
    engine.collect()
    assert_near(recorded, tiles, 1e-5)
    assert_near(dict(engine.state.saved()), state, 1e-5)


@pytest.mark.parametrize("border", ["mirror", 0.5])
def test_borders_of_the_image_are_at_its_edges_alone(border: Any) -> None:
    network = lca_network(images(1, shape=(36, 24, 3)), learn=False, displays=1)
    layers = {**network.layers, "error": network.layers["error"].model_copy(update={"border": border})}
    network = network.model_copy(update={"layers": layers})
    _, recorded = simulate(network)
    tiles, _ = of_ranks(network, 3)
    assert_near(recorded, tiles, 1e-6)


@pytest.mark.parametrize("kernel", ["dense", "lazy"])
def test_steps_have_the_bits_of_one_rank_where_tiles_are_whole_tiles_of_the_kernels(kernel: str) -> None:
    data = images(1, shape=(24, 256, 3))
    network = lca_network(data, patch=(4, 4), learn=False, displays=2, kernel=kernel, record=5)
    p = build(network).wirings["dictionary"].link.patches  # type: ignore[union-attr]
    assert tiling(p)[0] == 2  # each rank has four rows of the code
    engine, recorded = simulate(network)
    engine.collect()
    tiles, state = of_ranks(network, 3)
    for one, other in ((recorded, tiles), (engine.state.saved(), state)):
        for key, array in one.items():
            if not key.startswith("probes/"):
                np.testing.assert_array_equal(other[key], array, err_msg=key)
