"""Errors on which ranks that share slices agree, and points that fail alone on them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from petabatch.engine.agreement import agreed, agreeing
from petabatch.engine.assembly import Assembly
from petabatch.engine.driver import drive
from petabatch.engine.failure import Failure
from petabatch.errors import (
    ArgumentError,
    InputError,
    InputFileError,
    NonFiniteError,
    PartError,
    PetabatchError,
    Problem,
)
from petabatch.network.plan import Plan
from petabatch.parallel.comm import Comm, Serial
from petabatch.spec.network import Network
from petabatch.spec.sweep import Sweep
from support.networks import images, lca_network
from support.parts import split
from support.rank_threads import on_threads

STRENGTH = "connections.recon_to_error.strength"
ERRORS = (
    NonFiniteError("V1 is no longer finite", "layer V1", 40),
    InputFileError([Problem("layers.image.source", "there is no such file", "found")], "file.toml"),
    ArgumentError("name", "cannot be used", 3),
    PartError("its update"),
)


def test_all_ranks_have_the_error_of_the_earliest_step_of_the_first_that_has_one() -> None:
    late = NonFiniteError("layer V2")
    steps = {0: 9, 2: 4}

    def one(comm: Comm) -> Any:
        own: list[PetabatchError | None] = [None, None, *[None] * len(ERRORS)]
        if comm.rank == 1:
            own[1:] = [InputError("the second"), *ERRORS]
        if comm.rank == 2:
            own[1] = late
        if comm.rank in steps:
            own[0] = PartError(f"rank {comm.rank}")
            own[0].step = steps[comm.rank]
        return agreed(own, comm, 7)

    for found in on_threads(3, one):
        assert Failure.of(found[0], 20) == Failure("rank 2", 4)
        assert str(found[1]) == "the second"
        for error, expected in zip(found[2:], ERRORS, strict=True):
            assert type(error) is type(expected)
            assert error.in_group
            assert str(error) == str(expected)
            assert Failure.of(error, 3) == Failure.of(expected, 3)
        assert found[3].problems == ERRORS[1].problems  # type: ignore[attr-defined]


def test_no_rank_goes_on_where_another_has_raised() -> None:
    def one(comm: Comm) -> Any:
        with agreeing(comm, 0):
            if comm.rank == 1:
                raise InputError("the camera is off")
        return "went on"

    with pytest.raises(InputError, match="the camera is off"):
        on_threads(2, one)

    def caught(comm: Comm) -> Any:
        try:
            return one(comm)
        except InputError as error:
            return str(error)

    assert on_threads(2, caught) == ["the camera is off"] * 2


def swept(broken: int, values: list[float], key: str = STRENGTH, **parts: int) -> Network:
    """Return points, of whose images one of a slice has rows without numbers, in the last tile alone.

    It is shown for a step, in which these reach no other tile.
    """
    data = images(2)
    if broken:
        data[1, broken, -2:] = np.nan
    net = lca_network(data, learn=False, displays=3, display=1 if broken else 20)
    return split(net.model_copy(update={"sweep": Sweep(table={key: np.array(values)})}), **parts)


def failures(network: Network, ranks: int) -> list[tuple[dict[int, Failure], dict[str, np.ndarray]]]:
    """Return on each rank which slices fail, and the state at the end."""

    def one(comm: Comm) -> Any:
        engine = Assembly.of(network, comm, 2).planned(tolerant=True).engine()
        engine.start()
        for step in drive(engine):
            engine.recorder.take(step)
            if step % engine.plan.flush == 0:
                engine.flushed()
        engine.collect()
        return engine.failures, engine.features.everywhere(engine.state.saved())

    return on_threads(ranks, one)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("parts", [{"rows": 2}, {"features": 2}, {"rows": 2, "features": 2}])
@pytest.mark.parametrize("values", [[1.0, -500.0, 0.5], [1.0, 0.9, 0.5]], ids=["gains", "images"])
def test_slices_fail_alone_and_alike_on_the_ranks_that_share_them(
    values: list[float], parts: dict[str, int]
) -> None:
    broken = 1 if values[1] > 0 else 0
    ((expected, state),) = failures(swept(broken, values), 1)
    assert {number: one.step for number, one in expected.items()} == (
        {1: 2, 3: 2, 5: 2} if broken else {2: 40, 3: 40}
    )
    found = failures(swept(broken, values, **parts), 2 * len(parts))
    for mine, whole in found:
        assert mine == found[0][0]
        assert {n: one.step for n, one in mine.items()} == {n: one.step for n, one in expected.items()}
        for key, array in state.items():
            np.testing.assert_allclose(whole[key], array, rtol=1e-3, atol=1e-3, err_msg=key)


def test_a_slice_without_a_first_image_fails_on_all_ranks() -> None:
    data = images(3)
    data[1, 0, -2:] = np.nan
    net = lca_network(data, learn=False)
    net = split(net.model_copy(update={"sweep": Sweep(table={STRENGTH: np.array([1.0])})}), rows=2)
    for mine, _ in failures(net, 2):
        assert {number: one.step for number, one in mine.items()} == {1: 0}


def test_without_points_all_ranks_raise_the_error_of_one() -> None:
    data = images(2)
    data[1, 1, -2:] = np.nan
    net = split(lca_network(data, learn=False), rows=2)

    def one(comm: Comm) -> Any:
        engine = Assembly.of(net, comm, 1).engine()
        engine.start()
        with pytest.raises(NonFiniteError) as raised:
            for _ in drive(engine):
                pass
        return str(raised.value)

    first, second = on_threads(2, one)
    assert first == second
    assert "slice 1 is no longer finite at step 40" in first


def test_a_plan_of_a_part_has_what_was_planned_of_the_whole() -> None:
    net = split(lca_network(images(2)), rows=2)

    def one(comm: Comm) -> Plan:
        planned = Assembly.of(net, comm, 1).planned(tolerant=True, length=7, checkpoint=3)
        return planned.features.plan

    for plan in on_threads(2, one):
        assert (plan.tolerant, plan.length, plan.checkpoint) == (True, 7, 3)
        assert "last_finite/layers/V1/V" in plan.variables


def test_a_single_rank_sends_nothing() -> None:
    error = InputError("no")
    assert agreed([None, error], Serial(), 0) == [None, error]
    assert not error.in_group
