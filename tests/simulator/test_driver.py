"""A loop of one's own: the public driver advances a simulator, with hooks, and changes no bit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import petabatch
from petabatch.engine.driver import At, always
from petabatch.errors import ArgumentError
from support.networks import assert_same, images, lca_network


class Noted(petabatch.Hook):
    """Notes the activity at multiples of a period."""

    def __init__(self, sim: petabatch.Simulator, period: int) -> None:
        self.sim, self.period, self.seen = sim, period, dict[int, np.ndarray]()

    def next(self, step: int) -> int:
        return step - step % self.period + self.period

    def due(self, step: int) -> bool:
        return step % self.period == 0

    def at(self, step: int) -> None:
        self.seen[step] = np.array(self.sim["V1"]["A"])


def test_a_hook_is_called_at_its_steps_and_sees_what_single_steps_give() -> None:
    network = lca_network(images(2))
    with petabatch.Simulator(network) as sim, petabatch.Simulator(network) as single:
        noted = Noted(sim, 7)
        made = list(petabatch.Driver(sim.engine, noted).advance(23))
        assert list(noted.seen) == [7, 14, 21]
        assert {7, 14, 21} <= set(made)
        assert made[-1] == sim.n_steps == 23
        for step in range(1, 24):
            single.step()
            if step in noted.seen:
                np.testing.assert_array_equal(noted.seen[step], single["V1"]["A"])
        assert_same(sim.save().arrays, single.save().arrays)


def test_within_a_loop_a_simulator_may_be_stepped_changed_and_left() -> None:
    with (
        petabatch.Simulator(lca_network(images(2))) as sim,
        petabatch.Simulator(lca_network(images(2))) as single,
    ):
        for step in petabatch.Driver(sim.engine, Noted(sim, 5)).advance(40):
            if step == 10:
                sim["V1"]["threshold"] = 0.2
                sim.step(3)
            if step == 20:
                break
        assert sim.n_steps == 20
        single.step(10)
        single["V1"]["threshold"] = 0.2
        single.step(10)
        assert_same(sim.save().arrays, single.save().arrays)


def test_callbacks_are_called_in_a_loop_of_ones_own_before_its_hooks() -> None:
    with petabatch.Simulator(lca_network(images(2))) as sim:
        said: list[tuple[str, int]] = []
        sim.callback(lambda one: said.append(("callback", one.n_steps)), every=4)
        hook = At(lambda step: step % 4 == 0, lambda step: said.append(("hook", step)))
        list(petabatch.Driver(sim.engine, Noted(sim, 6), hook).advance(12))
        assert [one for one in said if one[0] == "callback"] == [
            ("callback", 4),
            ("callback", 8),
            ("callback", 12),
        ]
        assert said.index(("callback", 12)) < said.index(("hook", 12))


def test_what_a_hook_raises_leaves_the_loop_after_whole_steps() -> None:
    def refuse(step: int) -> None:
        raise ZeroDivisionError

    with petabatch.Simulator(lca_network(images(2))) as sim:
        noted = Noted(sim, 5)
        with pytest.raises(ZeroDivisionError):
            list(petabatch.Driver(sim.engine, noted, At(lambda step: step == 10, refuse)).advance(30))
        assert sim.n_steps == 10
        sim.step()
        assert sim.n_steps == 11


def test_a_hook_without_steps_of_its_own_is_asked_at_the_sync_events_that_there_are() -> None:
    with petabatch.Simulator(lca_network(images(2))) as sim:
        asked: list[int] = []
        made = list(petabatch.Driver(sim.engine, At(always, asked.append)).advance(30))
        assert asked == made
        assert made[-1] == 30


class Stuck(petabatch.Hook):
    """Wants a step again that has been made, or one that is none."""

    def __init__(self, wanted: Any) -> None:
        self.wanted = wanted

    def next(self, step: int) -> Any:
        return self.wanted

    def due(self, step: int) -> bool:
        return False

    def at(self, step: int) -> None:
        raise AssertionError


@pytest.mark.parametrize("wanted", [3, 0, 12.5])
def test_a_hook_that_wants_no_later_step_is_an_error_and_no_loop_without_end(wanted: Any) -> None:
    with petabatch.Simulator(lca_network(images(2))) as sim:
        sim.step(3)
        with pytest.raises(ArgumentError, match=r"Stuck.next\(3\): .*\n    found:    " + str(wanted)):
            list(petabatch.Driver(sim.engine, Stuck(wanted)).advance(30))
        assert sim.n_steps == 3


def test_what_cannot_be_advanced_or_called_is_refused_at_once() -> None:
    with petabatch.Simulator(lca_network(images(2))) as sim:
        given: Any = sim
        with pytest.raises(ArgumentError, match="a simulator has it as `engine`"):
            petabatch.Driver(given)
        given = print
        with pytest.raises(ArgumentError, match="hooks: this is not a hook"):
            petabatch.Driver(sim.engine, given)
        given = "30"
        with pytest.raises(ArgumentError, match="until: the value has the wrong type"):
            petabatch.Driver(sim.engine).advance(given)
