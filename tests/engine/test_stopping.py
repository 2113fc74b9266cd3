"""Stopping before the end: one hook and one text of messages, whoever makes the steps."""

from __future__ import annotations

import ast
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

import petabatch
from petabatch import in_memory, results, simulation
from petabatch.engine.stopping import Stop, Stops, stopped_early
from petabatch.errors import StoppedEarly
from petabatch.spec.network import Network, Run
from petabatch.stop_signals import StopFlag
from support.networks import assert_same, images, lca_network

PACKAGE = Path(petabatch.__file__).parent
KEY, FROZEN = "layers.V1.threshold", "connections.dictionary.learn.every='never'"


def limited() -> Network:
    network = lca_network(images(2), learn=False)
    return network.model_copy(update={"run": network.run.model_copy(update={"wall_limit": "1s"})})


@pytest.fixture
def over(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    """Let the limit be over when it has been looked at so many times."""

    def after(looks: int) -> None:
        seen: Iterator[int] = iter(range(10**9))
        monkeypatch.setattr(Stop, "__call__", lambda self: next(seen) >= looks)

    return after


def test_a_process_stops_on_a_signal_or_when_its_time_is_over() -> None:
    flag, run = StopFlag(), Run(steps=1, wall_limit="1h")
    assert not Stop(run, flag)()
    assert not Stop(Run(steps=1))()
    assert Stop(run, flag, began=time.monotonic() - 3601)()
    flag.received = 15
    assert Stop(run, flag)()


def test_no_loop_is_left_after_its_last_step() -> None:
    left: list[int] = []
    hook = Stops(lambda: True, 10, left.append)
    assert [step for step in (9, 10) if hook.due(step)] == [9]
    hook.at(9)
    assert left == [9]


def test_a_simulator_stops_after_a_whole_step_and_goes_on_from_there(over: Callable[[int], None]) -> None:
    with petabatch.Simulator(limited()) as sim, petabatch.Simulator(limited()) as whole:
        over(2)
        with pytest.raises(StoppedEarly) as stopped:
            sim.run(quiet=True)
        assert 0 < sim.n_steps < 80
        assert str(stopped.value).startswith(f"stopped at step {sim.n_steps} of 80\n    hint:     `run` of")
        over(10**9)
        sim.run(quiet=True)
        assert sim.n_steps == 80
        whole.run(quiet=True)
        assert_same(sim.save().arrays, whole.save().arrays)


def test_single_steps_of_a_simulator_have_no_limit(over: Callable[[int], None]) -> None:
    over(0)
    with petabatch.Simulator(limited()) as sim:
        sim.step(60)
        assert sim.n_steps == 60


def test_a_run_in_memory_stops_at_one_limit_for_all_of_its_steps(over: Callable[[int], None]) -> None:
    over(0)
    with pytest.raises(StoppedEarly, match="nothing of a run in memory is kept"):
        in_memory.run(limited(), at=[20, 40])


def test_a_sweep_in_memory_yields_the_points_before_the_limit(
    over: Callable[[int], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    network = limited()
    points = {KEY: [0.2, 0.3, 0.4]}
    whole = [point.recorded for point in petabatch.sweep(network, points, wave=1, quiet=True)]
    looks = 0
    asked = Stop.__call__

    def counted(self: Stop) -> bool:
        nonlocal looks
        looks += 1
        return asked(self)

    monkeypatch.setattr(Stop, "__call__", counted)
    first = next(petabatch.sweep(network, points, wave=1, quiet=True))
    assert not first.failed
    over(looks)
    coming = petabatch.sweep(network, points, wave=1, quiet=True)
    assert_same(next(coming).recorded, whole[0])
    with pytest.raises(StoppedEarly, match=r"^stopped with 1 of 3 points finished\n    hint:     raise run"):
        next(coming)


@pytest.mark.parametrize("how", ["run", "waves", "pool"])
def test_what_is_on_disk_stops_at_its_limit_and_is_resumed(
    how: str, small: Path, over: Callable[[int], None]
) -> None:
    settings = {
        "run": [],
        "waves": [f"sweep.{KEY}=[0.2, 0.3, 0.4]", "sweep.wave=1", FROZEN],
        "pool": ["run.pool=true", FROZEN, "run.batch=7"],
    }[how]
    settings = [*settings, "run.wall_limit=1s"]
    out = small.parent / how
    over(3)
    with pytest.raises(StoppedEarly, match=f"^stopped (at|with) .*\n    hint:     petabatch resume {out}$"):
        simulation.run(simulation.read(small, settings), out, mpi=False, quiet=True, threads=1)
    with results.open(out) as run:
        assert run.status == "stopped"
    over(10**9)
    again = simulation.resume(out, mpi=False, quiet=True)
    whole = simulation.run(simulation.read(small, settings), small.parent / "whole", mpi=False, quiet=True)
    assert again.status == whole.status == "done"
    for name in whole.names():
        np.testing.assert_array_equal(again[name][...], whole[name][...])


def test_messages_of_a_stop_are_made_in_one_place() -> None:
    error = stopped_early("at step 3 of 5", "petabatch resume there", 1)
    assert (str(error), error.rank) == ("stopped at step 3 of 5\n    hint:     petabatch resume there", 1)
    found = set()
    for path in sorted(PACKAGE.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            name = getattr(getattr(node, "func", None), "id", "") if isinstance(node, ast.Call) else ""
            limit = isinstance(node, ast.Attribute) and node.attr == "wall_limit"
            if name == "StoppedEarly" or limit:
                found.add(path.relative_to(PACKAGE).as_posix())
    assert found == {"engine/stopping.py", "simulator/simulator.py"}
