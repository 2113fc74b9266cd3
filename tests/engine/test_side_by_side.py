"""Threads that work on one slice together, where there are more than slices: the same bits."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, assume, given, settings
from hypothesis import strategies as st

from petabatch.connections import Pool
from petabatch.engine.engine import Engine
from petabatch.engine.steppers.program import ProgramStepper
from petabatch.engine.steppers.program.compiled import CompiledProgram
from petabatch.errors import NonFiniteError, ParamsError
from petabatch.layers import Linear
from petabatch.network import stages
from petabatch.network.build import build
from petabatch.network.plan import schedule
from petabatch.parallel.comm import Serial
from petabatch.spec.network import Network
from support.networks import GivenImages, collect, images, lca_network
from support.parts import of_ranks, split
from support.random_runs import finish, random_run, states
from support.recurrent import recurrent_network

some = settings(
    max_examples=25,
    deadline=None,
    suppress_health_check=list(HealthCheck),
    phases=(Phase.explicit, Phase.reuse, Phase.generate),  # seeds do not shrink
)


def shared(network: Network, each: int) -> tuple[Engine, dict[str, object]]:
    """Run with this number of threads for each slice, whether it is worth it or not."""
    engine = Engine(schedule(build(network)), Serial(), each * network.run.batch)
    for lane in engine.lanes:
        if isinstance(lane.stepper, ProgramStepper):
            lane.stepper.tables.worth_sharing = True
    engine.start()
    return engine, dict(collect(engine))


def assert_same_bits(network: Network, each: int) -> None:
    engine, recorded = finish(network)
    team, seen = shared(network, each)
    for key, array in states(engine).items():
        assert states(team)[key].tobytes() == array.tobytes(), key
    for path, values in recorded.items():
        assert seen[path].tobytes() == values.tobytes(), path  # type: ignore[attr-defined]


@some
@given(seed=st.integers(0, 2**32), each=st.integers(2, 3))
def test_threads_that_share_a_slice_change_no_bit(seed: int, each: int) -> None:
    try:
        network = random_run(seed)
        assume(schedule(build(network)).method.stepper == "program")
        finish(network)
    except (ParamsError, NonFiniteError):
        assume(False)
    assert_same_bits(network, each)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("parts", [{"rows": 3}, {"features": 2}, {"features": 2, "rows": 2}], ids=str)
@pytest.mark.parametrize("kernel", ["dense", "lazy"])
def test_threads_that_share_a_part_of_a_slice_change_no_bit(
    kernel: str, parts: dict[str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stages, "_WORTH", 1)
    data = images(1, shape=(24, 256, 3))  # whose code has tiles of two rows
    one = lca_network(data, patch=(4, 4), displays=2, display=10, kernel=kernel, record=5)
    network = split(one, **parts)
    alone, state = of_ranks(network)
    teams, advance = list[int](), CompiledProgram.advance

    def noted(self: CompiledProgram, *arguments: Any) -> None:
        team = arguments[2]
        teams.append(team.threads if team is not None else 1)
        advance(self, *arguments)

    monkeypatch.setattr(CompiledProgram, "advance", noted)
    shared, gathered = of_ranks(network, threads=3)
    assert max(teams) == 3
    for path, values in (alone | state).items():
        np.testing.assert_array_equal((shared | gathered)[path], values, err_msg=path)


def test_branches_of_one_geometry_have_scratch_of_their_own() -> None:
    one = lca_network(images(1, 1, (24, 24, 3)), features=32, display=60, learn=False, kernel="dense")
    layers, connections = dict(one.layers), dict(one.connections)
    for name, layer in one.layers.items():
        data = {"source": GivenImages(data=images(1, 1, (24, 24, 3), 1))} if name == "image" else {}
        layers[f"{name}2"] = layer.model_copy(update=data)
    for name, connection in one.connections.items():
        ends: dict[str, str] = {"pre": f"{connection.pre}2", "post": f"{connection.post}2"}
        if connection.borrows:
            ends["of"] = f"{connection.borrows}2"
        connections[f"{name}2"] = connection.model_copy(update=ends)
    network = one.model_copy(update={"layers": layers, "connections": connections})
    assert schedule(build(network)).method.stepper == "program"
    assert_same_bits(network, 2)


@pytest.mark.parametrize("seed", range(4))
def test_threads_that_share_a_slice_with_feedback_change_no_bit(seed: int) -> None:
    assert_same_bits(recurrent_network(seed, 1), 2)


@pytest.mark.parametrize(("features", "mode"), [(32, "extra_shared"), (9, "extra_shared"), (5, "non_shared")])
def test_row_tiles_change_no_bit(features: int, mode: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stages, "_WORTH", 1)
    base = lca_network(
        images(1, 1, (40, 38, 2)), features=features, patch=(5, 5), stride=1, display=12, displays=1,
        learn=False, mode=mode, kernel="dense",
    )  # fmt: skip
    layers = {**base.layers, "pooled": Linear(shape=(20, 19, features))}
    joined = {**base.connections, "pool": Pool(pre="V1", post="pooled", method="max")}
    network = base.model_copy(update={"layers": layers, "connections": joined})
    method = schedule(build(network)).method
    told = [label for labels in method.concurrent for label in labels]
    tiles = ("project drive in 6", "synthesize dictionary in 6", "pool pool in 2")
    assert told == [f"{what} row tiles" for what in tiles]
    for each in (2, 3):
        assert_same_bits(network, each)
